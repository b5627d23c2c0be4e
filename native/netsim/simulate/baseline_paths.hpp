// The path of a single-path connection: a port of the NIC and a UDP source port that the fabric hashes.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

class HashedPaths {
 public:
  // `component` selects the random stream ("roce", "dctcp"); with `failover` a connection leaves a port that is down.
  HashedPaths(const Surroundings& surroundings, std::string_view component, std::uint32_t host, bool failover);

  // Sending connections take the planes in turn, from a random first plane per host: the best that a host can do with a
  // hash per connection, and the same number of connections on each plane.
  std::uint32_t open(const ConnectionEnd& end);
  void connect(std::uint32_t connection, std::uint32_t peer_number);

  std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size()); }
  std::uint32_t peer_number(std::uint32_t connection) const { return ends_[connection].peer_number; }

  // The connection's own port, or with failover the next one that is up and, according to routing, leads to the peer.
  PortId port_of(std::uint32_t connection) const;
  bool up(PortId port) const { return (up_ >> port) & 1; }
  PortMask up_ports() const { return up_; }
  void set_port(PortId port, bool port_up);
  // The port for the response to a packet that arrived on `port`.
  PortId reply_port(PortId port) const { return up(port) ? port : nearest_up(port); }

  // Fills in destination and path of the packet.
  void address(std::uint32_t connection, HostPacket& packet) const;

  std::uint64_t memory_bytes() const { return ends_.capacity() * sizeof(End); }

 private:
  struct End {
    std::uint32_t peer_host = 0;
    std::uint32_t peer_number = 0;
    std::uint16_t source_port = 0;
    PortId home = 0;
  };

  PortId nearest_up(PortId port) const;
  bool leads(std::uint32_t connection, PortId port) const {
    return routing_ == nullptr || !routing_->avoids(port) ||
           routing_->reaches(port, host_, ends_[connection].peer_host);
  }

  std::string_view component_;
  std::uint64_t seed_;
  std::uint32_t host_;
  std::uint32_t planes_;
  std::uint32_t next_plane_;
  PortMask up_;
  bool failover_;
  const RoutingTables* routing_;
  std::vector<End> ends_;
};

// Connections that wait for their turn on a port: one FIFO per port. A connection is in at most one of them. The links
// live in one vector, so that a thousand idle connections cost four bytes each and no search time.
class PortQueues {
 public:
  explicit PortQueues(std::uint32_t ports) : queues_(ports) {}

  bool contains(std::uint32_t connection) const { return connection < next_.size() && next_[connection] != kAbsent; }
  void push(PortId port, std::uint32_t connection);
  std::uint32_t pop(PortId port);  // the port's bit must be set in ports()
  void clear();
  PortMask ports() const { return ports_; }  // ports with a waiting connection
  std::uint64_t memory_bytes() const;

 private:
  static constexpr std::uint32_t kAbsent = 0;  // zero, so that new elements are absent
  static constexpr std::uint32_t kLast = ~std::uint32_t{0};

  struct Queue {
    std::uint32_t head = 0, tail = 0;  // valid while the port's bit is set
  };

  std::vector<Queue> queues_;
  std::vector<std::uint32_t> next_;  // connection plus 1, kLast or kAbsent
  PortMask ports_ = 0;
};

}  // namespace openmrc::netsim
