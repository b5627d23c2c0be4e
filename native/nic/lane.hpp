// A port with the bursts that wait for it, and the locks of its two halves.
//
// Threads. Bursts are pushed under the engine's lock and sent without it, by the first thread that is free: a thread
// that pushes a burst while another one sends leaves it to that one. Bursts therefore leave in the order in which they
// were pushed.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "engine/wire/icrc.hpp"
#include "nic/port.hpp"

namespace openmrc::nic {

class Lane {
 public:
  // `local`: the port's address as seen by peers, which the ICRC covers.
  Lane(std::unique_ptr<Port> port, const Address& local);

  Port& port() { return *port_; }
  const Port& port() const { return *port_; }

  // --- under the engine's lock

  bool has_room() const { return open() && bursts() < kBursts; }
  bool full() const { return open() && bursts() == kBursts; }
  // Takes the burst, and leaves an empty one in its place. The lane had room; it may have been blocked or closed since.
  void push(std::unique_ptr<TxBurst>& burst);

  // --- without it

  enum class Sent : std::uint8_t {
    kAll,      // nothing is left for this thread
    kBlocked,  // the port accepts no more now: call retry() when it does
    kLimit,    // this thread has sent its share, and bursts are left
  };
  // Sends at most `bursts_max` bursts, and reduces that number accordingly.
  Sent send(std::uint32_t& bursts_max);
  bool blocked() const { return blocked_.load(std::memory_order_relaxed); }
  bool waiting() const { return open() && !empty(); }
  // Continues after kBlocked.
  Sent retry(std::uint32_t& bursts_max);
  // Drops all waiting bursts, or those that point into this memory.
  void drop_all();
  void drop_reading(const std::uint8_t* base, std::uint64_t length_bytes);
  // Drops those of a QP; the caller holds sending().
  void drop_of(std::uint32_t qp);

  // These wait until both halves are idle.
  void close();
  int rebind();
  SocketStats stats();
  bool closed() const { return closed_.load(std::memory_order_relaxed); }
  std::mutex& receiving() { return receiving_; }
  std::mutex& sending() { return sending_; }

 private:
  // One being sent and one to follow: a waiting burst has its path already, and is late if that path turns out to be
  // slow.
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
  template <typename Condition>
  void drop_if(Condition condition);

  std::unique_ptr<Port> port_;
  Address local_;
  wire::FlowIcrc icrc_;  // of the latest burst
  std::array<Slot, kBursts> slots_;
  std::atomic<std::uint32_t> pushed_{0}, sent_{0};  // bursts since the start
  std::atomic<std::uint32_t> order_{0};             // counts threads that enter and leave
  std::atomic<bool> blocked_{false}, closed_{false};
  std::mutex receiving_, sending_;
};

}  // namespace openmrc::nic
