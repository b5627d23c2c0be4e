#include "engine/peer.hpp"

#include <cstring>

#include "engine/base/assert.hpp"

namespace openmrc {

std::size_t PeerTable::AddressHash::operator()(const Address& address) const {
  std::uint64_t words[2];
  std::memcpy(words, address.bytes.data(), sizeof words);
  return static_cast<std::size_t>((words[0] * 0x9e3779b97f4a7c15ULL) ^ (words[1] + (words[0] >> 31)));
}

Status PeerTable::add(const PeerConfig& config, std::size_t port_count, PeerId& id) {
  if (config.ports.empty() || config.ports.size() > port_count) return Status::kInvalidArgument;
  for (auto [at, end] = by_address_.equal_range(config.ports[0]); at != end; ++at) {
    Peer& known = *find(at->second);
    if (known.ports != config.ports || known.udp_port != config.udp_port) continue;
    // A claim from a new user must not disable ports that connections use.
    if (known.users.empty()) known.ports_up = known.ports_announced = first_status(config);
    ++known.handles;
    id = known.id;
    return Status::kOk;
  }
  if (free_.empty()) {
    if (peers_.size() == kPeersMax) return Status::kLimit;
    free_.push_back(static_cast<PeerId>(peers_.size()));
    peers_.emplace_back();
  }
  id = free_.back();
  free_.pop_back();
  Peer& peer = peers_[id & (kPeersMax - 1)];
  peer = Peer{};
  peer.id = id;
  peer.udp_port = config.udp_port;
  peer.ports = config.ports;
  peer.ports_up = peer.ports_announced = first_status(config);
  peer.handles = 1;
  ++count_;
  for (const Address& address : config.ports) by_address_.emplace(address, id);
  return Status::kOk;
}

// A peer without any port would be unreachable, so such a claim is ignored.
PortMask PeerTable::first_status(const PeerConfig& config) {
  const PortMask existing = config.ports.size() >= 32 ? ~PortMask{0} : (PortMask{1} << config.ports.size()) - 1;
  const PortMask up = config.ports_up & existing;
  return up == 0 ? existing : up;
}

Status PeerTable::release(PeerId id) {
  Peer* peer = find(id);
  if (peer == nullptr || peer->handles == 0) return Status::kNotFound;
  --peer->handles;
  return Status::kOk;
}

bool PeerTable::remove_unused(PeerId id) {
  Peer& peer = peers_[id & (kPeersMax - 1)];
  MRC_ASSERT(peer.id == id);
  if (peer.in_use()) return false;
  for (const Address& address : peer.ports) {
    for (auto [at, end] = by_address_.equal_range(address); at != end; ++at) {
      if (at->second != id) continue;
      by_address_.erase(at);
      break;
    }
  }
  peer.ports.clear();
  --count_;
  // The next user of the slot gets another number, since the old one may still be in use.
  free_.push_back(id + kPeersMax);
  return true;
}

Peer* PeerTable::by_address(PortId port, const Address& address, std::uint16_t udp_port) {
  for (auto [at, end] = by_address_.equal_range(address); at != end; ++at) {
    Peer& peer = *find(at->second);
    if (peer.udp_port == udp_port && port < peer.ports.size() && peer.ports[port] == address) return &peer;
  }
  return nullptr;
}

}  // namespace openmrc
