// Messages of the connection manager, which two ends exchange over one TCP connection. Nothing else here: the parser
// sees every byte that a peer sends.
//
//   client                         server
//     | ------- kRequest ----------> |   parameters and private data of the client
//     | <------ kReply, kReject ---- |   parameters and private data of the server; or a reason
//     | ------- kReady, kReject ---> |   the QP of the client is connected
//     | <------ kDisconnect -------> |   either end; the other one answers with its own
//
// Header: "MRCM", version, type, length of the body (2 bytes). All numbers are big-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace openmrc::rdmacm {

inline constexpr std::uint8_t kProtocolVersion = 1;
inline constexpr std::size_t kHeaderBytes = 8;
inline constexpr std::size_t kParameterBytes = 36;
inline constexpr std::size_t kRejectBytes = 4;
// Of private data, as the manual pages have them.
inline constexpr std::size_t kRequestDataMax = 56;
inline constexpr std::size_t kReplyDataMax = 196;
inline constexpr std::size_t kRejectDataMax = 148;
inline constexpr std::size_t kMessageBytesMax = kHeaderBytes + kParameterBytes + kReplyDataMax;
inline constexpr std::uint32_t kNumbers = 1U << 24;  // of QPs and packets
inline constexpr std::uint8_t kPlanesMax = 32;

enum class MessageType : std::uint8_t { kRequest = 1, kReply, kReady, kReject, kDisconnect };

// The numbers of InfiniBand, since programs find them as the status of an event.
enum class Reject : std::uint16_t {
  kNoResources = 3,
  kTimeout = 4,
  kPlanes = 5,      // "unsupported request"
  kNoListener = 8,  // "invalid service ID"
  kKind = 9,        // "invalid transport service type"
  kGid = 12,
  kMtu = 26,
  kConsumer = 28,
  kVersion = 31,
};

// QPs of type RC are made of these; both ends need the same.
enum class QpKind : std::uint8_t { kPair, kMrc, kRc };

struct Parameters {
  std::array<std::uint8_t, 16> gid{};
  std::uint32_t qp_number = 0;
  std::uint32_t psn = 0;  // of the first packet that this end sends
  std::uint8_t mtu = 0;   // as ibv_mtu
  std::uint8_t planes = 0;
  QpKind kind = QpKind::kPair;
  bool published = false;  // MRC without extensions
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry_count = 0;
  bool flow_control = false;
  bool srq = false;
};

struct Message {
  MessageType type = MessageType::kRequest;
  Parameters parameters{};           // kRequest, kReply
  Reject reason = Reject::kTimeout;  // kReject
  std::vector<std::uint8_t> data{};  // private data of the program
};

enum class ParseResult : std::uint8_t {
  kMessage,
  kIncomplete,
  kNotOurs,  // another protocol
  kWrongVersion,
  kMalformed,
};

// Parses the first message of `bytes`, and stores its length in `used`. A rejection is understood in any version: the
// answer to a wrong version carries the version of the other end.
ParseResult parse(std::span<const std::uint8_t> bytes, Message& message, std::size_t& used);

std::vector<std::uint8_t> encode(const Message& message);

}  // namespace openmrc::rdmacm
