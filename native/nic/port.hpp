// One port (plane) of the software NIC: the seam between a device and what carries its datagrams. `SocketPort` carries them
// by UDP sockets; the tests have a port that stays within the process. native/tests/nic_port_test.cpp holds both to the same
// rules.
//
// A port never blocks, and never throws while packets flow: what it cannot take is left with the caller or counted.
//
// Threads. The sending and the receiving half may be used by two threads at a time; each of them is for one thread at a
// time, which `Lane` sees to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "engine/engine.hpp"
#include "nic/clock.hpp"
#include "nic/generated/settings.hpp"
#include "nic/generated/statistics.hpp"
#include "nic/receive_buffers.hpp"

namespace openmrc::nic {

// Takes trains in the order of their arrival. Their bytes are valid during the call.
class TrainSink {
 public:
  virtual void take(std::span<Train> trains) = 0;

 protected:
  ~TrainSink() = default;
};

// What came at a look; no datagrams: nothing was there.
struct Received {
  std::uint32_t datagrams = 0;
  std::uint64_t bytes = 0;
  bool refused = false;  // though something may be there: looking again at once is no use
};

class Port {
 public:
  virtual ~Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  // --- the sending half

  // Takes packets of the sealed burst from number `first` on, in their order. Returns the number of the first packet that
  // it did not take; less than burst.count: the port is blocked, try again from there when blocked_fd() is writable.
  virtual std::uint32_t send(const TxBurst& burst, std::uint32_t first) = 0;
  // Of the latest send() that was blocked; -1: nothing announces the end, such as of a lack of memory.
  virtual int blocked_fd() const = 0;
  // Counts datagrams that the caller gave up.
  virtual void drop(std::uint32_t datagrams) = 0;

  // --- the receiving half

  // Looks once, and hands everything found to `sink`.
  virtual Received receive(ReceiveBuffers& buffers, TrainSink& sink) = 0;
  // The same for endpoint operations where these arrive by themselves, as far as their share allows.
  virtual Received receive_endpoint(ReceiveBuffers& buffers, TrainSink& sink) = 0;
  // Their share is used up: none are received until then. 0: it is not.
  virtual TimeNs endpoint_rests_until() const = 0;
  // Readable while receive() would find something.
  virtual int receive_fd() const = 0;
  // -1: endpoint operations come with everything else.
  virtual int endpoint_fd() const = 0;

  // --- both halves at rest

  // Whether the interface that the port is bound to is gone. One of the same name is another one.
  virtual bool interface_gone() const = 0;
  // Binds to the interface that has the name now, with the same addresses; receive_fd() changes. 0 or the errno: then the
  // port is as it was.
  virtual int rebind() = 0;
  // Gives up sockets and the like. Only stats() and evs() may follow.
  virtual void close() = 0;
  virtual SocketStats stats() const = 0;

  // --- at any time

  // The smallest MTU on the ways to a peer. Throws NicError when there is no way.
  virtual std::uint32_t path_mtu(const Address& peer, std::uint16_t udp_port) const = 0;
  virtual const std::vector<Ev>& evs() const = 0;
  // errno of the first refusal after something was last taken or given; 0: none since the last call.
  int take_fault() { return fault_.load(std::memory_order_relaxed) == 0 ? 0 : fault_.exchange(0); }
  bool has_fault() const { return fault_.load(std::memory_order_relaxed) != 0; }

 protected:
  Port() = default;

  std::atomic<int> fault_{0};
};

// Makes port number `id` of a device. `next_source_port` is where to look for free source ports and moves on, so that no two
// ports of a device share an EV value. `device` outlives the port. Throws NicError.
using PortFactory =
    std::function<std::unique_ptr<Port>(PortId id, const Settings& device, std::uint32_t& next_source_port)>;

}  // namespace openmrc::nic
