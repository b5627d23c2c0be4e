// A port with the bursts that wait for it, and the locks of its two halves.
//
// Threads. Bursts are pushed under the engine's lock and sent without it, by whichever thread comes first: who pushes a
// burst while another thread sends leaves it to that one. So bursts leave in the order in which they were pushed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "nic/port.hpp"

namespace openmrc::nic {

class Lane {
 public:
  // `local`: the port's address as peers see it, which the ICRC covers.
  Lane(std::unique_ptr<Port> port, const Address& local);

  Port& port() { return *port_; }
  const Port& port() const { return *port_; }

  // --- under the engine's lock

  bool has_room() const { return open() && bursts() < kBursts; }
  bool full() const { return open() && bursts() == kBursts; }
  // Takes the burst, and leaves an empty one in its place. The lane had room; meanwhile it may have been blocked or closed.
  void push(std::unique_ptr<TxBurst>& burst);

  // --- without it

  enum class Sent : std::uint8_t {
    kAll,      // nothing is left to this thread
    kBlocked,  // the port takes no more just now: retry() when it does
    kLimit,    // this thread has sent its share, and bursts are left
  };
  // Sends, at most `bursts_max`, which it counts down.
  Sent send(std::uint32_t& bursts_max);
  bool blocked() const { return blocked_.load(std::memory_order_relaxed); }
  bool waiting() const { return open() && !empty(); }
  // After kBlocked.
  Sent retry(std::uint32_t& bursts_max);
  // Gives up every burst that waits, or those that point into this memory.
  void drop_all();
  void drop_reading(const std::uint8_t* base, std::uint64_t length_bytes);

  // These wait until both halves are at rest.
  void close();
  int rebind();
  SocketStats stats();
  bool closed() const { return closed_.load(std::memory_order_relaxed); }
  std::mutex& receiving() { return receiving_; }
  std::mutex& sending() { return sending_; }

 private:
  // One being sent and one to follow it: what waits here has its path, and is late when that turns out to be a slow one.
  static constexpr std::uint32_t kBursts = 2;

  struct Slot {
    std::unique_ptr<TxBurst> burst = std::make_unique<TxBurst>();
    std::uint32_t next = 0;  // packet to be sent
    bool sealed = false;
  };

  bool open() const { return !blocked() && !closed(); }
  std::uint32_t bursts() const {
    return pushed_.load(std::memory_order_relaxed) - sent_.load(std::memory_order_acquire);
  }
  Slot& slot(std::uint32_t number) { return slots_[number % kBursts]; }
  bool empty() const { return pushed_.load(std::memory_order_acquire) == sent_.load(std::memory_order_relaxed); }
  bool send_front();  // false: the port is blocked
  void give_up(Slot& slot);

  std::unique_ptr<Port> port_;
  Address local_;
  std::array<Slot, kBursts> slots_;
  std::atomic<std::uint32_t> pushed_{0}, sent_{0};  // bursts since the beginning
  std::atomic<std::uint32_t> order_{0};             // of threads that come and go
  std::atomic<bool> blocked_{false}, closed_{false};
  std::mutex receiving_, sending_;
};

}  // namespace openmrc::nic
