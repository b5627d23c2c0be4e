#include "rdmacm/message.hpp"

#include <algorithm>

namespace openmrc::rdmacm {
namespace {

constexpr std::array<std::uint8_t, 4> kMagic{'M', 'R', 'C', 'M'};
constexpr std::size_t kVersionAt = 4;
constexpr std::size_t kTypeAt = 5;
constexpr std::size_t kLengthAt = 6;
constexpr std::uint8_t kMtuMax = 5;
constexpr std::uint8_t kRetriesMax = 7;

class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  std::uint8_t byte() { return bytes_[at_++]; }
  std::uint32_t number(std::size_t bytes) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < bytes; ++i) value = value << 8 | byte();
    return value;
  }
  // A byte that is 0 or 1; anything else fails.
  bool flag() {
    const std::uint8_t value = byte();
    failed_ |= value > 1;
    return value == 1;
  }
  void fail_unless(bool allowed) { failed_ |= !allowed; }
  bool failed() const { return failed_; }
  std::span<const std::uint8_t> rest() const { return bytes_.subspan(at_); }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  bool failed_ = false;
};

std::size_t fixed_bytes(MessageType type) {
  switch (type) {
    case MessageType::kRequest:
    case MessageType::kReply:
      return kParameterBytes;
    case MessageType::kReject:
      return kRejectBytes;
    case MessageType::kReady:
    case MessageType::kDisconnect:
      break;
  }
  return 0;
}

std::size_t data_max(MessageType type) {
  switch (type) {
    case MessageType::kRequest:
      return kRequestDataMax;
    case MessageType::kReply:
      return kReplyDataMax;
    case MessageType::kReject:
      return kRejectDataMax;
    case MessageType::kReady:
    case MessageType::kDisconnect:
      break;
  }
  return 0;
}

// Followed by the private data.
void read_data(Reader& reader, std::size_t length, Message& message) {
  reader.fail_unless(length == reader.rest().size());
  message.data.assign(reader.rest().begin(), reader.rest().end());
}

void read_parameters(Reader& reader, Message& message) {
  Parameters& to = message.parameters;
  for (std::uint8_t& byte : to.gid) byte = reader.byte();
  to.qp_number = reader.number(4);
  to.psn = reader.number(4);
  to.mtu = reader.byte();
  to.planes = reader.byte();
  const std::uint8_t kind = reader.byte();
  to.kind = static_cast<QpKind>(kind);
  to.published = reader.flag();
  to.responder_resources = reader.byte();
  to.initiator_depth = reader.byte();
  to.retry_count = reader.byte();
  to.rnr_retry_count = reader.byte();
  to.flow_control = reader.flag();
  to.srq = reader.flag();
  const std::uint8_t length = reader.byte();
  reader.fail_unless(reader.byte() == 0);
  reader.fail_unless(to.qp_number > 0 && to.qp_number < kNumbers && to.psn < kNumbers);
  reader.fail_unless(to.mtu >= 1 && to.mtu <= kMtuMax && to.planes >= 1 && to.planes <= kPlanesMax);
  reader.fail_unless(kind <= static_cast<std::uint8_t>(QpKind::kRc));
  reader.fail_unless(to.retry_count <= kRetriesMax && to.rnr_retry_count <= kRetriesMax);
  read_data(reader, length, message);
}

void read_reject(Reader& reader, Message& message) {
  message.reason = static_cast<Reject>(reader.number(2));
  const std::uint8_t length = reader.byte();
  reader.fail_unless(reader.byte() == 0);
  read_data(reader, length, message);
}

void put(std::vector<std::uint8_t>& to, std::uint32_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) to.push_back(static_cast<std::uint8_t>(value >> 8 * i & 0xFF));
}

void put_parameters(std::vector<std::uint8_t>& to, const Parameters& from, std::size_t data_bytes) {
  to.insert(to.end(), from.gid.begin(), from.gid.end());
  put(to, from.qp_number, 4);
  put(to, from.psn, 4);
  to.push_back(from.mtu);
  to.push_back(from.planes);
  to.push_back(static_cast<std::uint8_t>(from.kind));
  to.push_back(from.published ? 1 : 0);
  to.push_back(from.responder_resources);
  to.push_back(from.initiator_depth);
  to.push_back(from.retry_count);
  to.push_back(from.rnr_retry_count);
  to.push_back(from.flow_control ? 1 : 0);
  to.push_back(from.srq ? 1 : 0);
  put(to, static_cast<std::uint32_t>(data_bytes), 1);
  to.push_back(0);
}

}  // namespace

ParseResult parse(std::span<const std::uint8_t> bytes, Message& message, std::size_t& used) {
  const std::size_t known = std::min(bytes.size(), kMagic.size());
  if (!std::equal(kMagic.begin(), kMagic.begin() + known, bytes.begin())) return ParseResult::kNotOurs;
  if (bytes.size() < kHeaderBytes) return ParseResult::kIncomplete;
  const std::uint8_t type = bytes[kTypeAt];
  const bool rejects = type == static_cast<std::uint8_t>(MessageType::kReject);
  if (bytes[kVersionAt] != kProtocolVersion && !rejects) return ParseResult::kWrongVersion;
  if (type < static_cast<std::uint8_t>(MessageType::kRequest)) return ParseResult::kMalformed;
  if (type > static_cast<std::uint8_t>(MessageType::kDisconnect)) return ParseResult::kMalformed;
  message.type = static_cast<MessageType>(type);
  const std::size_t length = std::size_t{bytes[kLengthAt]} << 8 | bytes[kLengthAt + 1];
  const std::size_t fixed = fixed_bytes(message.type);
  if (length < fixed || length > fixed + data_max(message.type)) return ParseResult::kMalformed;
  if (bytes.size() < kHeaderBytes + length) return ParseResult::kIncomplete;
  used = kHeaderBytes + length;
  Reader reader(bytes.subspan(kHeaderBytes, length));
  message.data.clear();
  if (rejects) {
    read_reject(reader, message);
  } else if (fixed == kParameterBytes) {
    read_parameters(reader, message);
  }
  return reader.failed() ? ParseResult::kMalformed : ParseResult::kMessage;
}

std::vector<std::uint8_t> encode(const Message& message) {
  std::vector<std::uint8_t> bytes(kMagic.begin(), kMagic.end());
  bytes.push_back(kProtocolVersion);
  bytes.push_back(static_cast<std::uint8_t>(message.type));
  const std::size_t data = std::min(message.data.size(), data_max(message.type));
  const std::size_t fixed = fixed_bytes(message.type);
  put(bytes, static_cast<std::uint32_t>(fixed + data), 2);
  if (fixed == kParameterBytes) {
    put_parameters(bytes, message.parameters, data);
  } else if (fixed == kRejectBytes) {
    put(bytes, static_cast<std::uint32_t>(message.reason), 2);
    put(bytes, static_cast<std::uint32_t>(data), 1);
    bytes.push_back(0);
  }
  bytes.insert(bytes.end(), message.data.begin(), message.data.begin() + static_cast<std::ptrdiff_t>(data));
  return bytes;
}

}  // namespace openmrc::rdmacm
