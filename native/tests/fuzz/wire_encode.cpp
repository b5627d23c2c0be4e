// Values -> bytes -> values: any packet with fields in range survives, with any payload and cut at any place. Input:
// opcode number, payload length, place of the cut, then the bytes that fill the fields.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/base/limits.hpp"
#include "engine/wire/icrc.hpp"
#include "engine/wire/packet.hpp"
#include "tests/wire_values.hpp"

namespace {

using openmrc::wire::Extent;
using openmrc::wire::Packet;
using openmrc::wire::ParseError;

// Reads the input eight bytes at a time; zeros behind its end.
class Source {
 public:
  Source(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  std::uint64_t next() {
    std::uint64_t value = 0;
    const std::size_t count = left_ < sizeof value ? left_ : sizeof value;
    if (count > 0) std::memcpy(&value, data_, count);
    data_ += count;
    left_ -= count;
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

void check_trimmed(const Packet& sent, std::vector<std::uint8_t> datagram, std::size_t length) {
  datagram.resize(length < datagram.size() ? length : datagram.size());
  Packet received;
  if (openmrc::wire::parse(datagram, Extent::kTrimmed, received) != ParseError::kNone) return;
  MRC_ASSERT(received.bth == sent.bth);
  MRC_ASSERT(received.header_bytes <= datagram.size() && received.payload_bytes == 0);
  if (openmrc::wire::is_data(sent.bth.opcode)) MRC_ASSERT(received.meth == sent.meth);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const auto opcode = openmrc::test::kAllOpcodes[data[0] % openmrc::test::kAllOpcodes.size()];
  const bool carries_payload = openmrc::test::carries_payload(opcode);
  const std::size_t payload_bytes = carries_payload ? data[1] : 0;
  Source source(data + 3, size - 3);
  const Packet sent = openmrc::test::draw_packet(opcode, [&source] { return source.next(); });

  std::vector<std::uint8_t> datagram(openmrc::kHeaderBytesMax);
  const std::size_t header_bytes = openmrc::wire::encode_headers(sent, datagram);
  MRC_ASSERT(header_bytes <= openmrc::kHeaderBytesMax);
  datagram.resize(header_bytes);
  datagram.resize(header_bytes + payload_bytes, 0xA5);
  datagram.resize(datagram.size() + sent.bth.pad_bytes, 0);

  openmrc::wire::Flow flow;
  flow.source.family = flow.destination.family =
      (data[2] & 1U) != 0 ? openmrc::AddressFamily::kIpv4 : openmrc::AddressFamily::kIpv6;
  const std::span<const std::uint8_t> bytes = datagram;
  const std::uint32_t crc = openmrc::wire::icrc(flow, bytes.first(header_bytes),
                                                bytes.subspan(header_bytes, payload_bytes), sent.bth.pad_bytes);
  for (unsigned shift = 0; shift < 32; shift += 8) datagram.push_back(static_cast<std::uint8_t>(crc >> shift));
  MRC_ASSERT(openmrc::wire::icrc_matches(flow, datagram));

  Packet received;
  MRC_ASSERT(openmrc::wire::parse(datagram, Extent::kWhole, received) == ParseError::kNone);
  MRC_ASSERT(openmrc::test::same_headers(sent, received));
  MRC_ASSERT(received.header_bytes == header_bytes && received.payload_bytes == payload_bytes);
  if (!openmrc::wire::is_rc_read_response(opcode)) check_trimmed(sent, datagram, data[2]);  // never trimmed
  return 0;
}
