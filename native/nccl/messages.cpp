#include "nccl/messages.hpp"

#include <algorithm>

#include "nccl/line_placer.hpp"

namespace openmrc::nccl {
namespace {

constexpr std::uint32_t kMagic = 0x6F6D'6E63;  // "omnc"
constexpr std::uint16_t kVersion = 1;
enum class Kind : std::uint16_t { kHandle = 1, kHello, kOffer, kReady, kClose };
constexpr std::uint32_t kExtensions = 1;  // flag

class Writer {
 public:
  explicit Writer(Bytes out) : out_(out) {}
  template <typename Unsigned>
  void number(Unsigned value) {
    for (std::size_t byte = sizeof value; byte-- > 0;) out_[at_++] = static_cast<std::uint8_t>(value >> (8 * byte));
  }
  template <std::size_t N>
  void bytes(const std::array<std::uint8_t, N>& from) {
    std::copy(from.begin(), from.end(), out_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ += N;
  }
  void head(Kind kind) {
    number(kMagic);
    number(kVersion);
    number(static_cast<std::uint16_t>(kind));
  }
  void rest() { std::fill(out_.begin() + static_cast<std::ptrdiff_t>(at_), out_.end(), std::uint8_t{0}); }

 private:
  Bytes out_;
  std::size_t at_ = 0;
};

class Reader {
 public:
  explicit Reader(ConstBytes in) : in_(in) {}
  template <typename Unsigned>
  void number(Unsigned& value) {
    value = 0;
    for (std::size_t byte = 0; byte < sizeof value; ++byte) value = static_cast<Unsigned>(value << 8 | in_[at_++]);
  }
  template <std::size_t N>
  void bytes(std::array<std::uint8_t, N>& to) {
    std::copy_n(in_.begin() + static_cast<std::ptrdiff_t>(at_), N, to.begin());
    at_ += N;
  }
  bool head(Kind expected) {
    std::uint32_t magic = 0;
    std::uint16_t version = 0, kind = 0;
    number(magic);
    number(version);
    number(kind);
    return magic == kMagic && version == kVersion && kind == static_cast<std::uint16_t>(expected);
  }
  bool rest_is_zero() const {
    return std::all_of(in_.begin() + static_cast<std::ptrdiff_t>(at_), in_.end(), [](auto b) { return b == 0; });
  }

 private:
  ConstBytes in_;
  std::size_t at_ = 0;
};

bool is_zero(std::span<const std::uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b == 0; });
}

bool is_unicast(const Address& address) {
  const auto& bytes = address.bytes;
  if (address.family == AddressFamily::kIpv4) {
    return bytes[0] != 0 && bytes[0] < 224 && is_zero(std::span(bytes).subspan(4));
  }
  return address.family == AddressFamily::kIpv6 && !is_zero(bytes) && bytes[0] != 0xFF;
}

bool read_family(std::uint8_t number, AddressFamily& family) {
  family = static_cast<AddressFamily>(number);
  return family == AddressFamily::kIpv4 || family == AddressFamily::kIpv6;
}

void write_end(Writer& out, const EndDescription& end) {
  out.number(end.qp);
  out.number(end.psn);
  out.number(end.payload_room);
  out.number(end.receive_buffer_bytes);
  out.number(end.extensions ? kExtensions : 0U);
  out.number(end.slots_address);
  out.number(end.slots_key);
  out.number(end.ports.udp_port);
  out.number(static_cast<std::uint8_t>(end.ports.ports.size()));
  out.number(static_cast<std::uint8_t>(end.ports.ports.front().family));
  for (const Address& port : end.ports.ports) out.bytes(port.bytes);
  out.rest();
}

bool read_end(Reader& in, EndDescription& end) {
  std::uint32_t flags = 0;
  std::uint8_t ports = 0, family_number = 0;
  AddressFamily family{};
  in.number(end.qp);
  in.number(end.psn);
  in.number(end.payload_room);
  in.number(end.receive_buffer_bytes);
  in.number(flags);
  in.number(end.slots_address);
  in.number(end.slots_key);
  in.number(end.ports.udp_port);
  in.number(ports);
  in.number(family_number);
  const bool numbers = end.qp >= kQpNumberMin && end.qp < kPsnSpace && end.psn < kPsnSpace &&
                       end.payload_room >= kPayloadMtuMin && end.payload_room <= kPayloadMtuMax &&
                       end.payload_room % kLineBytes == 0 && end.receive_buffer_bytes <= 1ULL << 40 &&
                       flags <= kExtensions && end.ports.udp_port != 0;
  if (!numbers || ports == 0 || ports > kPortCountMax || !read_family(family_number, family)) return false;
  end.extensions = flags == kExtensions;
  end.ports.ports.resize(ports);
  for (Address& port : end.ports.ports) {
    port.family = family;
    in.bytes(port.bytes);
    if (!is_unicast(port)) return false;
  }
  return in.rest_is_zero();
}

}  // namespace

void write_handle(Bytes out, const Handle& handle) {
  Writer writer(out);
  writer.head(Kind::kHandle);
  writer.number(handle.tcp_port);
  writer.number(static_cast<std::uint8_t>(handle.address.family));
  writer.bytes(handle.address.bytes);
  writer.bytes(handle.secret);
  writer.rest();
}

bool read_handle(ConstBytes in, Handle& handle) {
  Reader reader(in.first(kHandleBytes));
  std::uint8_t family = 0;
  if (!reader.head(Kind::kHandle)) return false;
  reader.number(handle.tcp_port);
  reader.number(family);
  if (handle.tcp_port == 0 || !read_family(family, handle.address.family)) return false;
  reader.bytes(handle.address.bytes);
  reader.bytes(handle.secret);
  return is_unicast(handle.address) && reader.rest_is_zero();
}

void write_hello(Bytes out, const Secret& secret, const EndDescription& end) {
  Writer writer(out);
  writer.head(Kind::kHello);
  writer.bytes(secret);
  write_end(writer, end);
}

bool read_hello(ConstBytes in, const Secret& expected, bool& known, EndDescription& end) {
  Reader reader(in);
  Secret secret{};
  const bool head = reader.head(Kind::kHello);
  reader.bytes(secret);
  unsigned difference = 0;  // in constant time
  for (std::size_t i = 0; i < secret.size(); ++i) difference |= static_cast<unsigned>(secret[i] ^ expected[i]);
  known = head && difference == 0;
  return known && read_end(reader, end);
}

void write_offer(Bytes out, const EndDescription& end) {
  Writer writer(out);
  writer.head(Kind::kOffer);
  write_end(writer, end);
}

bool read_offer(ConstBytes in, EndDescription& end) {
  Reader reader(in);
  return reader.head(Kind::kOffer) && read_end(reader, end);
}

void write_ready(Bytes out, std::uint32_t payload) {
  Writer writer(out);
  writer.head(Kind::kReady);
  writer.number(payload);
  writer.rest();
}

bool read_ready(ConstBytes in, std::uint32_t& payload) {
  Reader reader(in);
  if (!reader.head(Kind::kReady)) return false;
  reader.number(payload);
  return payload >= kPayloadMtuMin && payload <= kPayloadMtuMax && payload % 4 == 0 && reader.rest_is_zero();
}

void write_close(Bytes out, std::uint64_t completed) {
  Writer writer(out);
  writer.head(Kind::kClose);
  writer.number(completed);
}

bool read_close(ConstBytes in, std::uint64_t& completed) {
  Reader reader(in);
  if (!reader.head(Kind::kClose)) return false;
  reader.number(completed);
  return true;
}

void write_group(Bytes out, const AnnouncedGroup& group) {
  Writer writer(out);
  writer.number(group.sequence);
  writer.number(std::uint64_t{group.count});
  for (std::uint32_t i = 0; i < group.count; ++i) {
    const Announced& receive = group.receives[i];
    writer.number(receive.address);
    writer.number(receive.size_bytes);
    writer.number(receive.key);
    writer.number(static_cast<std::uint32_t>(receive.tag));
  }
}

bool read_group(ConstBytes in, AnnouncedGroup& group) {
  if (in.size() < group_bytes(1)) return false;
  Reader reader(in);
  std::uint64_t count = 0;
  reader.number(group.sequence);
  reader.number(count);
  if (count == 0 || count > kGroupMax || in.size() != group_bytes(static_cast<std::uint32_t>(count))) return false;
  group.count = static_cast<std::uint32_t>(count);
  for (std::uint32_t i = 0; i < group.count; ++i) {
    Announced& receive = group.receives[i];
    std::uint32_t tag = 0;
    reader.number(receive.address);
    reader.number(receive.size_bytes);
    reader.number(receive.key);
    reader.number(tag);
    receive.tag = static_cast<std::int32_t>(tag);
    if (receive.size_bytes > kMessageSizeMax) return false;
  }
  return true;
}

}  // namespace openmrc::nccl
