// The emulated fabric: netsim's links and faults, paced by the wall clock, between UDP sockets of ordinary processes.
//
// On plane p, host h has a local address L, to which its NIC binds, and an advertised address V, to which its peers
// send and which the fabric binds. A datagram from L(a,p):s to V(b,p):port leaves as V(a,p):s to L(b,p):port, after the
// queues and wires of plane p, with DSCP, ECN and source port as on a real network. Neither end can detect the
// difference.
//
// One thread does everything. Packets carry the kernel's arrival time and links run in that time, so a late wake-up
// delays packets slightly but costs no link capacity.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "netsim/emulate/egress.hpp"
#include "netsim/emulate/ingress.hpp"
#include "netsim/emulate/payloads.hpp"
#include "netsim/emulate/udp.hpp"
#include "netsim/fabric.hpp"

namespace openmrc::netsim {

struct EmulatorConfig {
  FabricConfig fabric;
  std::vector<Address> local;       // by plane * hosts + host
  std::vector<Address> advertised;  // same order
  std::uint16_t udp_port = 4791;
  std::uint32_t header_bytes = 28;  // IP and UDP headers and framing: bytes on the wire beyond the datagram
  TimePs tick = 100 * kPsPerUs;     // interval of the loop while packets are inside
  std::uint32_t payloads_max = 1U << 15;
};

// Of one instant.
struct EmulatorStatistics {
  EmulatorCounters fabric;
  std::vector<LinkStatistics> links;  // plane by plane
};

// Set up by the constructor, runs from start() to stop(). Every method may be called from any thread.
class Emulator final : private Edge {
 public:
  // Throws std::system_error if an address cannot be bound; the text contains the address.
  explicit Emulator(const EmulatorConfig& config);
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  void start();
  void stop();  // idempotent; releases the addresses; packets inside the fabric are lost

  // Time since start().
  TimePs now() const;

  // `spec.start` counts from start(); a time in the past means at once.
  std::uint32_t add_fault(FaultSpec spec);
  bool repair(std::uint32_t fault);
  std::uint32_t repair_all(const FaultTarget& target);
  void add_repair(TimePs when, std::uint32_t fault, const FaultTarget& target);

  // Waits up to timeout_ms for notices; empty if none came or the fabric stopped.
  std::vector<Notice> wait_notices(int timeout_ms);

  EmulatorStatistics statistics();
  // Calls `visit(fabric)` with the fabric paused.
  template <class Visit>
  auto inspect(Visit&& visit) {
    const std::lock_guard lock(mutex_);
    return visit(static_cast<const Fabric&>(fabric_));
  }

 private:
  void deliver(TimePs now, std::uint32_t plane, const Packet& packet) override;
  void share(const Packet& packet) override { payloads_.share(packet.payload); }
  void release(const Packet& packet) override { payloads_.release(packet.payload); }

  void open_sockets();
  void run();
  void wait_for_work();
  void iterate();
  bool take_in(std::size_t slot);
  void take_in_message(std::size_t slot, const Received& received);
  void enter(std::size_t slot, std::uint32_t source_host, const Received& received, std::uint32_t offset,
             std::uint32_t bytes);
  TimePs arrival_time(std::int64_t stamp_ns) const;
  void corrupt(Departure& departure, std::uint32_t random);
  void collect_notices();
  void wake();
  TimePs cpu_time();
  std::vector<LinkStatistics> link_statistics() const;

  EmulatorConfig config_;
  Fabric fabric_;
  Payloads payloads_;
  std::unordered_map<std::uint64_t, std::uint32_t> host_of_address_;  // hash of plane and local address
  std::vector<SocketAddress> destinations_;                           // by plane * hosts + host: local address
  std::vector<Fd> sockets_;                                           // same order: bound to the advertised address
  std::vector<std::uint32_t> overflow_seen_;
  Fd epoll_, wake_;
  std::unique_ptr<ReceiveBatch> batch_;
  std::unique_ptr<Egress> egress_;

  std::mutex mutex_;  // for everything above and below; held by the loop except while it waits
  std::condition_variable noticed_;
  std::deque<Notice> notices_;
  EmulatorCounters counters_;                 // those that the loop counts
  std::int64_t monotonic_start_ns_ = 0;       // set once, before the thread starts
  std::int64_t real_minus_monotonic_ns_ = 0;  // refreshed every iteration, since the wall clock may be set
  TimePs reached_ = 0;                        // the fabric has run up to here
  TimePs horizon_ = 0;                        // end of this iteration's run
  std::atomic<bool> stopping_{false};
  std::atomic<bool> running_{false};
  std::thread thread_;
};

}  // namespace openmrc::netsim
