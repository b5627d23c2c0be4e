// Sockets through which datagrams leave the emulated fabric: from the sender's advertised address and its own source
// port, so that the receiver sees the flow as on a real network. That takes one socket per (host, plane, source port);
// each is opened on first use, and the least recently used one is closed when there are too many.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "netsim/emulate/payloads.hpp"
#include "netsim/emulate/udp.hpp"

namespace openmrc::netsim {

struct EgressCounters {
  std::uint64_t datagrams = 0, bytes = 0, calls = 0;
  std::uint64_t send_failed = 0;  // refused by the kernel, in datagrams
  std::uint64_t bind_failed = 0;  // no socket for the source port, in datagrams
  std::uint64_t sockets_opened = 0, sockets_closed = 0;
};

struct Departure {
  std::uint32_t payload = 0;
  std::uint32_t bytes = 0;  // may be less than the slot holds after trimming
  std::uint8_t traffic_class_octet = 0;
  std::uint16_t source_port = 0;
  const Address* source = nullptr;  // advertised address of the sender
  std::uint32_t source_slot = 0;    // its number: plane * hosts + host
  const SocketAddress* destination = nullptr;
};

class Egress {
 public:
  Egress(Payloads& payloads, std::size_t sockets_max);

  // Lends a socket of the fabric: datagrams from this source and port leave through it.
  void lend(std::uint32_t source_slot, std::uint16_t port, int fd);

  // Queues the datagram; flush() sends. Within one iteration, datagrams of equal size from one socket to one
  // destination leave in one call (UDP_SEGMENT). Takes ownership of the payload.
  void queue(const Departure& departure);
  void flush();
  void close_all();

  const EgressCounters& counters() const { return counters_; }
  std::size_t sockets_open() const { return sockets_.size(); }

 private:
  static constexpr std::size_t kGroupDatagrams = 32;
  static constexpr std::size_t kGroupBytes = 60'000;

  struct Socket {
    Fd own;
    int fd = -1;
    std::uint64_t used = 0;      // number of the latest flush that used it
    std::size_t open_group = 0;  // its last group there
  };
  struct Group {
    int fd = -1;
    const SocketAddress* destination = nullptr;
    std::uint8_t traffic_class_octet = 0;
    bool closed = false;
    std::uint32_t segment = 0;
    std::uint32_t bytes = 0;
    std::uint32_t count = 0;
    std::array<std::uint32_t, kGroupDatagrams> payloads;
    std::array<std::uint32_t, kGroupDatagrams> lengths;
  };

  Socket* socket_for(const Departure& departure);
  void close_longest_unused();
  bool join(Group& group, const Departure& departure);
  void send(const Group& group);

  Payloads& payloads_;
  std::size_t sockets_max_;
  std::unordered_map<std::uint64_t, Socket> sockets_;
  std::vector<Group> groups_;  // reused; the first group_count_ are in use
  std::size_t group_count_ = 0;
  std::uint64_t flushes_ = 1;
  EgressCounters counters_;
};

}  // namespace openmrc::netsim
