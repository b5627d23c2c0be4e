// One port (plane) of the software NIC: the interface between a device and the carrier of its datagrams. `SocketPort`
// uses UDP sockets; the tests have a port that stays within the process. native/tests/nic_port_test.cpp checks both
// against the same rules.
//
// A port never blocks, and never throws while packets flow: packets that it cannot accept stay with the caller or are
// counted.
//
// Threads. The sending and the receiving half may be used by two threads at a time, but each half by one thread at a
// time, which `Lane` ensures.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/datagram.hpp"
#include "engine/paths/ev_set.hpp"
#include "nic/clock.hpp"
#include "nic/generated/settings.hpp"
#include "nic/generated/statistics.hpp"
#include "nic/receive_buffers.hpp"

namespace openmrc::nic {

// Receives trains in the order of their arrival. Their bytes are valid during the call.
class TrainSink {
 public:
  virtual void take(std::span<Train> trains) = 0;

 protected:
  ~TrainSink() = default;
};

// Result of one read; no datagrams: nothing was pending.
struct Received {
  std::uint32_t datagrams = 0;
  std::uint64_t bytes = 0;
  bool refused = false;  // although datagrams may be pending: an immediate retry is useless
  bool more = false;     // the read reached its limit: more may be pending
};

class Port {
 public:
  virtual ~Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // --- the sending half

  // Sends packets of the sealed burst from number `first` on, in order. Returns the number of the first packet not
  // sent. Less than burst.count: the port is blocked, continue from there when blocked_fd() is writable.
  virtual std::uint32_t send(const TxBurst& burst, std::uint32_t first) = 0;
  // Descriptor for the latest send() that was blocked; -1: nothing announces the end, for example of a lack of memory.
  virtual int blocked_fd() const = 0;
  // Counts datagrams that the caller dropped.
  virtual void drop(std::uint32_t datagrams) = 0;

  // --- the receiving half

  // Reads once, and passes everything found to `sink`.
  virtual Received receive(ReceiveBuffers& buffers, TrainSink& sink) = 0;
  // The same for endpoint operations if they have a socket of their own, within their share.
  virtual Received receive_endpoint(ReceiveBuffers& buffers, TrainSink& sink) = 0;
  // End of the rest after their share was used up: none are received until then. 0: no rest.
  virtual TimeNs endpoint_rests_until() const = 0;
  // Readable while receive() would find datagrams.
  virtual int receive_fd() const = 0;
  // -1: endpoint operations arrive with everything else.
  virtual int endpoint_fd() const = 0;

  // --- both halves at rest

  // True if the interface of the port is gone. A new interface of the same name is a different one.
  virtual bool interface_gone() const = 0;
  // Binds to the current interface of that name, with the same addresses; receive_fd() changes. Returns 0 or the errno;
  // on failure the port is unchanged.
  virtual int rebind() = 0;
  // Releases sockets and other resources. Only stats() and evs() may follow.
  virtual void close() = 0;
  virtual SocketStats stats() const = 0;

  // --- at any time

  // The smallest MTU on the paths to a peer. Throws NicError if there is no path.
  virtual std::uint32_t path_mtu(const Address& peer, std::uint16_t udp_port) const = 0;
  virtual const std::vector<Ev>& evs() const = 0;
  // errno of the first refusal since a packet last passed; 0: none since the previous call.
  int take_fault() { return fault_.load(std::memory_order_relaxed) == 0 ? 0 : fault_.exchange(0); }
  bool has_fault() const { return fault_.load(std::memory_order_relaxed) != 0; }

 protected:
  Port() = default;

  std::atomic<int> fault_{0};
};

// Creates port number `id` of a device. The search for free source ports starts at `next_source_port` and advances it,
// so that no two ports of a device share an EV value. `device` outlives the port. Throws NicError.
using PortFactory =
    std::function<std::unique_ptr<Port>(PortId id, const Settings& device, std::uint32_t& next_source_port)>;

}  // namespace openmrc::nic
