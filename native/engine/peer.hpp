// Peer NICs by address, with reference counts: an entry lives as long as a QP or a handle of the driver refers to it.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "engine/base/budget.hpp"
#include "engine/config.hpp"
#include "engine/types.hpp"

namespace openmrc {

struct QpContext;

struct Peer {
  PeerId id = 0;
  std::uint16_t udp_port = 4791;
  std::vector<Address> ports;
  PortMask ports_up = 0;
  PortMask ports_announced = 0;   // as last published in the event stream
  std::vector<QpContext*> users;  // QPs from RTR on
  std::uint32_t handles = 0;      // calls of add() not yet matched by release()
  std::uint16_t status_id = 0;    // of the latest port status, if `status_seen`
  bool status_seen = false;
  bool answered = false;  // until then its address is an unverified claim of the handshake
  Budget answers;         // for our responses to its probes

  PortMask existing_ports() const { return ports.size() >= 32 ? ~PortMask{0} : (PortMask{1} << ports.size()) - 1; }
  bool in_use() const { return handles > 0 || !users.empty(); }
};

class PeerTable {
 public:
  // Returns the entry of these addresses, creating it if necessary, and adds a handle.
  Status add(const PeerConfig& config, std::size_t port_count, PeerId& id);
  // Releases a handle.
  Status release(PeerId id);
  // Frees the entry if nothing refers to it any more, and returns true in that case.
  bool remove_unused(PeerId id);

  Peer* find(PeerId id) {
    const std::size_t slot = id & (kPeersMax - 1);
    return slot < peers_.size() && peers_[slot].in_use() && peers_[slot].id == id ? &peers_[slot] : nullptr;
  }
  const Peer* find(PeerId id) const { return const_cast<PeerTable*>(this)->find(id); }
  // The peer with `address` on `port` that receives on `udp_port`; nullptr if there is none.
  Peer* by_address(PortId port, const Address& address, std::uint16_t udp_port);
  std::size_t size() const { return count_; }

  template <typename Visit>
  void for_each(Visit&& visit) {
    for (Peer& peer : peers_) {
      if (peer.in_use()) visit(peer);
    }
  }

 private:
  struct AddressHash {
    std::size_t operator()(const Address& address) const;
  };

  static PortMask first_status(const PeerConfig& config);

  std::deque<Peer> peers_;  // stable addresses: QPs point into it
  std::vector<PeerId> free_;
  std::unordered_multimap<Address, PeerId, AddressHash> by_address_;
  std::size_t count_ = 0;  // entries in use
};

}  // namespace openmrc
