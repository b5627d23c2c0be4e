#include "engine/peer.hpp"

#include <cstring>

namespace openmrc {

std::size_t PeerTable::AddressHash::operator()(const Address& address) const {
  std::uint64_t words[2];
  std::memcpy(words, address.bytes.data(), sizeof words);
  return static_cast<std::size_t>((words[0] * 0x9e3779b97f4a7c15ULL) ^ (words[1] + (words[0] >> 31)));
}

Status PeerTable::add(const PeerConfig& config, std::size_t port_count, PeerId& id) {
  if (config.ports.empty() || config.ports.size() > port_count) return Status::kInvalidArgument;
  const PortMask existing = config.ports.size() >= 32 ? ~PortMask{0} : (PortMask{1} << config.ports.size()) - 1;
  for (auto [at, end] = by_address_.equal_range(config.ports[0]); at != end; ++at) {
    Peer& known = peers_[at->second];
    if (known.ports != config.ports || known.udp_port != config.udp_port) continue;
    known.ports_up = config.ports_up & existing;
    id = known.id;
    return Status::kOk;
  }
  id = static_cast<PeerId>(peers_.size());
  peers_.push_back({id, config.udp_port, config.ports, config.ports_up & existing, config.ports_up & existing});
  for (const Address& address : config.ports) by_address_.emplace(address, id);
  return Status::kOk;
}

Peer* PeerTable::by_address(PortId port, const Address& address) {
  for (auto [at, end] = by_address_.equal_range(address); at != end; ++at) {
    Peer& peer = peers_[at->second];
    if (port < peer.ports.size() && peer.ports[port] == address) return &peer;
  }
  return nullptr;
}

}  // namespace openmrc
