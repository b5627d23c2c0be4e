#include "netsim/simulate/baseline_paths.hpp"

#include <bit>

#include "engine/base/assert.hpp"
#include "engine/base/rng.hpp"

namespace openmrc::netsim {

namespace {

constexpr std::uint16_t kDynamicPorts = 0xC000;  // both RoCEv2 and TCP choose a port within 49152..65535
constexpr std::uint64_t kDynamicPortCount = 0x4000;

}  // namespace

HashedPaths::HashedPaths(const Surroundings& surroundings, std::string_view component, std::uint32_t host,
                         bool failover)
    : component_(component),
      seed_(surroundings.seed),
      host_(host),
      planes_(surroundings.shape.planes),
      next_plane_(
          static_cast<std::uint32_t>(Rng::for_component(seed_, component, host).below(surroundings.shape.planes))),
      up_((PortMask{1} << surroundings.shape.planes) - 1),
      failover_(failover),
      routing_(surroundings.routing) {}

std::uint32_t HashedPaths::open(const ConnectionEnd& end) {
  const std::uint32_t connection = size();
  // Distinct from the index of the stream that drew the first plane, which is below 2^32.
  Rng rng = Rng::for_component(seed_, component_, (std::uint64_t{host_} + 1) << 32 | connection);
  const auto source_port = static_cast<std::uint16_t>(kDynamicPorts | rng.below(kDynamicPortCount));
  ends_.push_back({.peer_host = end.peer_host, .source_port = source_port, .home = static_cast<PortId>(next_plane_)});
  if (end.bytes_out > 0 || end.messages_out > 0) next_plane_ = (next_plane_ + 1) % planes_;
  return connection;
}

void HashedPaths::connect(std::uint32_t connection, std::uint32_t peer_number) {
  MRC_ASSERT(connection < ends_.size());
  ends_[connection].peer_number = peer_number;
}

PortId HashedPaths::port_of(std::uint32_t connection) const {
  const PortId home = ends_[connection].home;
  if (!failover_) return home;
  for (std::uint32_t step = 0; step < planes_; ++step) {
    const auto port = static_cast<PortId>((home + step) % planes_);
    if (up(port) && leads(connection, port)) return port;
  }
  return nearest_up(home);
}

PortId HashedPaths::nearest_up(PortId port) const {
  for (std::uint32_t step = 0; step < planes_; ++step) {
    const auto candidate = static_cast<PortId>((port + step) % planes_);
    if (up(candidate)) return candidate;
  }
  return port;
}

void HashedPaths::set_port(PortId port, bool port_up) {
  const PortMask bit = PortMask{1} << port;
  up_ = port_up ? up_ | bit : up_ & ~bit;
}

void HashedPaths::address(std::uint32_t connection, HostPacket& packet) const {
  packet.destination_host = ends_[connection].peer_host;
  packet.ev = ends_[connection].source_port;
}

void PortQueues::push(PortId port, std::uint32_t connection) {
  MRC_ASSERT(!contains(connection));
  if (connection >= next_.size()) next_.resize(connection + 1U, kAbsent);
  Queue& queue = queues_[port];
  if ((ports_ >> port) & 1) {
    next_[queue.tail] = connection + 1;
  } else {
    queue.head = connection;
    ports_ |= PortMask{1} << port;
  }
  queue.tail = connection;
  next_[connection] = kLast;
}

std::uint32_t PortQueues::pop(PortId port) {
  MRC_ASSERT((ports_ >> port) & 1);
  Queue& queue = queues_[port];
  const std::uint32_t connection = queue.head;
  if (next_[connection] == kLast) {
    ports_ &= ~(PortMask{1} << port);
  } else {
    queue.head = next_[connection] - 1;
  }
  next_[connection] = kAbsent;
  return connection;
}

void PortQueues::clear() {
  while (ports_ != 0) (void)pop(static_cast<PortId>(std::countr_zero(ports_)));
}

std::uint64_t PortQueues::memory_bytes() const {
  return queues_.capacity() * sizeof(Queue) + next_.capacity() * sizeof(std::uint32_t);
}

}  // namespace openmrc::netsim
