#include "engine/seal.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/assert.hpp"
#include "engine/wire/packet.hpp"

namespace openmrc {
namespace {

bool intact_packet(std::span<const std::uint8_t> packet, wire::FlowIcrc& icrc) {
  return wire::lacks_icrc(packet) || icrc.matches(packet);
}

}  // namespace

void seal(TxBurst& burst, const Address& source) {
  wire::FlowIcrc icrc;
  seal(burst, source, icrc);
}

void seal(TxBurst& burst, const Address& source, wire::FlowIcrc& icrc) {
  MRC_ASSERT(burst.count <= kBurstPacketsMax);
  icrc.set_flow(source, burst.destination, burst.fields.source_port, burst.destination_port);
  const TxPacket* before = nullptr;
  for (std::uint32_t i = 0; i < burst.count; ++i) {
    TxPacket& packet = burst.packets[i];
    if (before != nullptr) {
      const std::size_t bytes = before->trailer_bytes;
      std::memcpy(packet.seam.data() + packet.seam.size() - bytes, before->trailer.data(), bytes);
    }
    before = &packet;
    if (!burst.has_icrc) continue;  // the trailer is zero
    const auto pad = static_cast<std::uint8_t>(packet.trailer_bytes - wire::kIcrcBytes);
    const std::uint32_t crc =
        icrc({packet.headers.data(), packet.header_bytes}, {packet.payload, packet.payload_bytes}, pad);
    for (std::size_t byte = 0; byte < wire::kIcrcBytes; ++byte) {
      packet.trailer[pad + byte] = static_cast<std::uint8_t>(crc >> (8 * byte));
    }
  }
}

bool intact(const RxDatagram& train, std::size_t datagram_bytes, const Address& destination,
            std::uint16_t destination_port, wire::FlowIcrc& icrc) {
  MRC_ASSERT(datagram_bytes > 0);
  icrc.set_flow(train.source, destination, train.fields.source_port, destination_port);
  for (std::size_t at = 0; at < train.bytes.size(); at += datagram_bytes) {
    const auto datagram = train.bytes.subspan(at, std::min(datagram_bytes, train.bytes.size() - at));
    const std::size_t first = wire::first_packet_bytes(datagram);
    if (!intact_packet(datagram.first(first), icrc)) return false;
    if (first < datagram.size() && !intact_packet(datagram.subspan(first), icrc)) return false;  // X.4.9
  }
  return true;
}

}  // namespace openmrc
