// Bytes -> values -> bytes: the encoding of every packet that parse accepts parses to the same values. Input: one byte
// for the extent, then the datagram.
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/base/limits.hpp"
#include "engine/wire/packet.hpp"
#include "tests/wire_values.hpp"

namespace {

using openmrc::wire::Extent;
using openmrc::wire::Opcode;
using openmrc::wire::Packet;
using openmrc::wire::ParseError;

// Headers as encoded from `packet`, followed by payload and pad of the lengths in it.
std::vector<std::uint8_t> encode(const Packet& packet) {
  std::vector<std::uint8_t> bytes(openmrc::kHeaderBytesMax);
  bytes.resize(openmrc::wire::encode_headers(packet, bytes));
  bytes.resize(bytes.size() + packet.payload_bytes + packet.bth.pad_bytes + openmrc::wire::kIcrcBytes);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const Extent extent = (data[0] & 1U) != 0 ? Extent::kTrimmed : Extent::kWhole;
  const std::vector<std::uint8_t> datagram(data + 1, data + size);
  const std::size_t first = openmrc::wire::first_packet_bytes(datagram);
  MRC_ASSERT(first <= datagram.size() && (first > 0 || datagram.empty()));
  MRC_ASSERT(first == datagram.size() || first + openmrc::wire::kAckBytes == datagram.size());
  Packet packet;
  if (openmrc::wire::parse(datagram, extent, packet) != ParseError::kNone) return 0;
  MRC_ASSERT(std::size_t{packet.header_bytes} + packet.payload_bytes <= datagram.size());
  const bool whole = packet.bth.opcode == Opcode::kEndpointRequest || packet.bth.opcode == Opcode::kEndpointResponse ||
                     openmrc::wire::is_rc_read_response(packet.bth.opcode);
  MRC_ASSERT(extent == Extent::kWhole || packet.payload_bytes == 0 || whole);  // these are never trimmed

  if (extent == Extent::kTrimmed && openmrc::wire::is_rc_data(packet.bth.opcode)) packet.bth.pad_bytes = 0;
  const std::vector<std::uint8_t> again = encode(packet);
  Packet second;
  MRC_ASSERT(openmrc::wire::parse(again, Extent::kWhole, second) == ParseError::kNone);
  MRC_ASSERT(openmrc::test::same_headers(packet, second));
  MRC_ASSERT(second.payload_bytes == packet.payload_bytes);
  if (extent == Extent::kWhole) MRC_ASSERT(again.size() == datagram.size());
  MRC_ASSERT(encode(second) == again);
  return 0;
}
