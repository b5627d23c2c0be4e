// A packet on its way through the fabric, and the pool that packets live in.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/base/traffic.hpp"

namespace openmrc::netsim {

using PacketId = std::uint32_t;
using LinkId = std::uint32_t;

inline constexpr PacketId kNoPacket = ~PacketId{0};
inline constexpr std::uint32_t kNoPayload = ~std::uint32_t{0};
inline constexpr std::uint32_t kNotCorrupted = ~std::uint32_t{0};

struct Packet {
  std::uint32_t source_host = 0;
  std::uint32_t destination_host = 0;
  std::uint32_t ev = 0;
  LinkId link = 0;                           // the link it travels over
  std::uint32_t bytes = 0;                   // on the wire, framing included; smaller after trimming
  std::uint32_t payload = kNoPayload;        // what the edge keeps for it; the fabric never looks inside
  std::uint32_t corruption = kNotCorrupted;  // random number that says which bit of the datagram flipped
  std::uint16_t destination_port = 0;
  TrafficClass traffic_class = TrafficClass::kNoTrim;
  Ecn ecn = Ecn::kNotEct;
};

// Fixed number of packets, allocated once; the most recently freed is reused first, so that the working set stays small.
class PacketPool {
 public:
  explicit PacketPool(std::uint32_t capacity) : packets_(capacity), free_(capacity) {
    for (std::uint32_t i = 0; i < capacity; ++i) free_[i] = capacity - 1 - i;
  }

  // kNoPacket when all are in use.
  PacketId take(const Packet& packet) {
    if (free_.empty()) return kNoPacket;
    const PacketId id = free_.back();
    free_.pop_back();
    packets_[id] = packet;
    return id;
  }

  void give_back(PacketId id) {
    MRC_ASSERT(id < packets_.size() && free_.size() < packets_.size());
    free_.push_back(id);  // never reallocates: at most `capacity` ids exist
  }

  Packet& operator[](PacketId id) { return packets_[id]; }
  std::uint32_t in_use() const { return static_cast<std::uint32_t>(packets_.size() - free_.size()); }

 private:
  std::vector<Packet> packets_;
  std::vector<PacketId> free_;
};

}  // namespace openmrc::netsim
