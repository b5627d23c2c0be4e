// Peer NICs by address: what they told us of their ports.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "engine/engine.hpp"

namespace openmrc {

struct Peer {
  PeerId id = 0;
  std::uint16_t udp_port = 4791;
  std::vector<Address> ports;
  PortMask ports_up = 0;
  PortMask ports_announced = 0;  // as the event stream knows them
};

class PeerTable {
 public:
  Status add(const PeerConfig& config, std::size_t port_count, PeerId& id);
  Peer* find(PeerId id) { return id < peers_.size() ? &peers_[id] : nullptr; }
  const Peer* find(PeerId id) const { return id < peers_.size() ? &peers_[id] : nullptr; }
  // The peer that owns `address` on `port`; nullptr when none does.
  Peer* by_address(PortId port, const Address& address);
  std::deque<Peer>& all() { return peers_; }

 private:
  struct AddressHash {
    std::size_t operator()(const Address& address) const;
  };
  std::deque<Peer> peers_;  // stable addresses: QPs point into it
  std::unordered_multimap<Address, PeerId, AddressHash> by_address_;
};

}  // namespace openmrc
