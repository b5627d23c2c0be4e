// A software MRC NIC: N ports, one engine, I/O threads, registered memory, completion queues.
//
// Threads. Every method may be called from any thread. One lock covers the engine; sockets are read and written, and ICRCs
// computed, without it, so that ports keep several processors busy. Posting transmits at once from the posting thread. The
// first I/O thread receives and keeps the timers; more of them share the ports while it cannot keep up (see IoScaling).
// While some thread calls progress(), that one does all of this, and the I/O threads stay asleep until nobody has polled
// for a millisecond.
//
// Locks are taken in this order: turns_, polling_, Lane::receiving, Lane::sending, lock_. No burst is sent under lock_.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/engine.hpp"
#include "nic/clock.hpp"
#include "nic/error.hpp"
#include "nic/fork.hpp"
#include "nic/generated/settings.hpp"
#include "nic/io_scaling.hpp"
#include "nic/io_thread.hpp"
#include "nic/lane.hpp"
#include "nic/link_watch.hpp"
#include "nic/port.hpp"
#include "nic/waits.hpp"

namespace openmrc::nic {

// A lock of a device. The I/O threads, which take it again and again, let others go first. In a forked child, where the
// engine's sockets and thread are missing, it cannot be taken: lock() throws ForkedError.
class DeviceLock {
 public:
  void lock() {
    check();
    waiting_.fetch_add(1, std::memory_order_relaxed);
    mutex_.lock();
    waiting_.fetch_sub(1, std::memory_order_relaxed);
  }
  bool try_lock() {
    check();
    return mutex_.try_lock();
  }
  void unlock() { mutex_.unlock(); }
  void check() const { ownership_.check(); }
  bool contended() const { return waiting_.load(std::memory_order_relaxed) > 0; }
  bool lost() const { return ownership_.lost(); }
  void lose() { ownership_.lose(); }

 private:
  Ownership ownership_;
  std::mutex mutex_;
  std::atomic<int> waiting_{0};
};

// An event of the engine with its time as CLOCK_MONOTONIC has it: the engine's own is set back now and then.
struct TimedEvent {
  TimeNs time_ns = 0;
  Event event;
};

class Device {
 public:
  explicit Device(const Settings& settings);                       // on UDP sockets; throws NicError
  Device(const Settings& settings, const PortFactory& make_port);  // throws what that throws
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Stops the thread and closes the sockets. Later calls answer kInvalidState or do nothing. Idempotent.
  // In a forked child a device is closed, and every other call throws ForkedError.
  void close();
  bool closed() const { return closed_.load(); }

  // A command of the engine under the lock, followed by whatever it now wants to send.
  template <typename Command>
  auto command(Command&& run) {
    const Turn mine(*this);
    std::unique_lock guard(lock_);
    auto answer = run(*engine_, enter());
    after_command(guard);
    return answer;
  }
  // A look at the engine under the lock, without side effects.
  template <typename Look>
  auto look(Look&& run) {
    std::unique_lock guard(lock_);
    return run(static_cast<const Engine&>(*engine_));
  }

  Status create_cq(std::uint32_t capacity, CqId& cq);
  Status destroy_cq(CqId cq);
  std::size_t poll_cq(CqId cq, std::span<Completion> out);
  // Waits until there are completions, at most `timeout_ns` (negative: for ever). Wakes early, with 0, on a signal.
  std::size_t wait_cq(CqId cq, std::span<Completion> out, std::int64_t timeout_ns);
  // eventfd that becomes readable at the next completion after arm_cq(); -1: no such CQ. True from arm_cq(): there are
  // completions already, do not wait.
  int cq_fd(CqId cq);
  bool arm_cq(CqId cq);
  // The same for a reader that leaves stale rings to be read by itself, and the way back: without system calls.
  bool listen_cq(CqId cq);
  void unlisten_cq(CqId cq);

  // Draws a key nobody can guess. QPs of `domain` alone may use it.
  Status register_memory(std::uint8_t* base, std::uint64_t length_bytes, std::uint8_t access, std::uint32_t& key,
                         DomainId domain = 0);
  Status deregister_memory(std::uint32_t key);

  Status post_send(std::uint32_t qp, const SendWr& wr);
  Status post_sends(std::uint32_t qp, std::span<const SendWr> wrs, std::size_t& posted);
  Status post_recv(std::uint32_t qp, std::uint64_t wr_id);
  // So many, all with this id; `posted` counts those that were taken.
  Status post_recvs(std::uint32_t qp, std::uint64_t wr_id, std::uint32_t count, std::uint32_t& posted);

  // Drives sockets and timers from the calling thread; returns the datagrams received.
  std::uint32_t progress();
  // The same, asleep until something arrives or a timer is due, at most `longest`. Where threads outnumber processors
  // this is quicker than polling: who sleeps goes first when it wakes, and takes nothing from whom it waits for.
  // `also`: a descriptor that ends the sleep, too, when it is readable; -1: none.
  std::uint32_t await_progress(TimeNs longest, int also = -1);
  // progress() is about to come: the I/O thread keeps out of the way.
  void begin_polling();
  // No more progress() for now: the I/O thread takes over at once.
  void rest_polling();

  void set_port_state(PortId port, bool up);
  std::size_t poll_events(std::span<TimedEvent> out);
  int event_fd() const { return event_waker_.fd.get(); }
  bool arm_events();  // as arm_cq
  bool poll_endpoint_result(EndpointResult& result);

  std::vector<Ev> evs();  // the universe: every EV of every port
  // See Port::path_mtu. Throws NicError.
  std::uint32_t path_mtu(PortId port, const Address& peer, std::uint16_t udp_port);
  std::vector<SocketStats> socket_stats();
  DeviceStats stats();
  WaitStats wait_stats() const { return waits_.stats(); }
  const Settings& settings() const { return settings_; }

 private:
  // An eventfd that rings once after it was armed. Everything but the descriptor is under the lock.
  struct Waker {
    FileDescriptor fd;
    bool armed = false;
    bool pending = false;  // there is something that nobody has fetched
    void signal(Waits& waits);
  };

  // Ports by socket that may have something to read.
  struct Readable {
    PortMask data = 0, endpoint = 0;
  };

  class Arrivals;

  // Sends or receives alone while one I/O thread suffices: threads that take turns at single bursts and acknowledgements
  // were slower on two processors than one that does many of them at a time.
  class Turn {
   public:
    explicit Turn(Device& device) : guard_(device.turns_, std::defer_lock) {
      if (device.threads_.load(std::memory_order_relaxed) > 1 || guard_.try_lock()) return;
      const TimeNs asked = now_ns();
      guard_.lock();
      waited_ = now_ns() - asked;
    }
    TimeNs waited() const { return waited_; }

   private:
    std::unique_lock<DeviceLock> guard_;
    TimeNs waited_ = 0;
  };

  // --- without the lock

  void run(IoThread& io);
  void turn(IoThread& io, Readable readable);
  void rest(IoThread& io, TimeNs span);
  Readable everything() const { return {all_ports_, all_ports_}; }
  Readable sleep(const FileDescriptor& epoll, const FileDescriptor* wake, TimeNs span);
  PortMask ports_of(const IoThread& io) const;
  void measure(IoThread& io, TimeNs now);
  std::uint32_t poll(Readable readable);
  Received receive(Readable readable, Arrivals& arrivals);
  Received receive_from(PortId id, Readable readable, Arrivals& arrivals);
  bool send_out();        // sends the bursts that were planned; true: stopped at a limit
  bool has_room_again();  // in lanes that were full when there may have been more to plan
  void retry_blocked();
  void block(PortId id);
  // Takes down the ports whose interface is gone, and up again those whose interface is back.
  void check_interfaces();
  void attach(PortId id);
  void detach(PortId id);
  bool link_check_due() const {
    return link_notice_.load() || (attached_ != all_ports_ && now_ns() >= next_link_check_);
  }
  void handle_fork(ForkStage stage);
  void leave_to_parent();  // in a forked child

  // --- under the lock

  using Guard = std::unique_lock<DeviceLock>;

  // The engine's time, at the beginning of what is done under one lock: sets its clock back when that is due.
  TimePs enter();
  TimePs engine_now() const { return clock_.engine_time(now_ns()); }
  TimeNs next_timer() const { return clock_.monotonic(engine_->next_timer()); }
  PortMask free_ports() const;
  PortMask full_ports() const;
  // Fills the lanes with bursts, at most `bursts_max`, which it counts down.
  void plan(Outgoing what, std::uint32_t& bursts_max, TimePs now);
  // Plans, and sends without the lock in between. True: stopped at the limit.
  bool flush(Guard& guard, std::uint32_t bursts_max, Outgoing what);
  // The same as the last step of a call, which gives the lock back.
  void finish(Guard& guard, std::uint32_t bursts_max, Outgoing what);
  void after_command(Guard& guard);
  void answer_polled(Guard& guard, const Received& received, bool timer, TimePs now);
  void update_state(PortId id);
  void assign_ports(std::uint32_t threads);
  void prepare(IoThread& io);
  void start(IoThread& io);
  bool watch_receiving(PortId id, int operation);
  bool watch_endpoint(PortId id, int operation);
  void note_rest(PortId id, bool rests);
  void note_faults();  // that the ports met, if any
  void report_fault(PortId id, int error);
  void publish(const TimedEvent& event);
  bool run_timer(TimePs now);  // false: none was due
  void wake_for_timers(bool more);
  void collect();  // completions and events: wakes those who wait for them
  std::size_t take_completions(CqId cq, std::span<Completion> out, Waker& waker);
  bool arm(Waker& waker);

  Settings settings_;
  DeviceLock turns_, lock_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<Engine> engine_;
  EngineClock clock_{now_ns()};
  std::unique_ptr<TxBurst> spare_ = std::make_unique<TxBurst>();  // that the next burst is planned in
  // Lanes that were full when there may have been more to plan: whoever sends from them looks for it.
  std::atomic<PortMask> starved_{0};
  TimeNs deferred_since_ = 0;  // acknowledgements wait for a polling thread's answer; 0: none do
  PortMask all_ports_ = 0;
  PortMask carriers_ = 0;                  // ports that set_port_state reports up
  std::atomic<PortMask> attached_{0};      // ports whose sockets are bound to an interface that exists
  std::atomic<bool> paused_{false};        // the operating system refuses: look again in a moment, not at once
  std::atomic<PortMask> resting_{0};       // ports whose endpoint operations have used up their share
  std::atomic<bool> poll_refused_{false};  // to a polling thread, which could not read what is there
  LinkWatch links_;
  std::atomic<bool> link_notice_{false};
  TimeNs next_link_check_ = 0;  // of the first I/O thread
  std::array<TimeNs, kPortCountMax> fault_reported_{};
  std::map<CqId, std::shared_ptr<Waker>> cq_wakers_;
  std::unordered_map<std::uint32_t, std::span<const std::uint8_t>> regions_;  // by key
  std::array<Event, 64> polled_events_;  // kept: to construct it at every look cost a tenth of a short message
  std::deque<TimedEvent> events_;
  Waker event_waker_;
  std::deque<EndpointResult> endpoint_results_;
  DeviceStats stats_;
  Waits waits_;
  std::vector<SocketStats> final_socket_stats_;  // of a closed device

  // Of threads that poll.
  std::mutex polling_;
  Receiver poll_receiver_;
  TimeNs endpoint_look_ = 0;  // at the sockets for endpoint operations: the latest
  FileDescriptor epoll_;      // of await_progress(); what wakes an I/O thread is for nobody else to take
  std::atomic<TimeNs> busy_until_{0};

  IoScaling scaling_;
  std::atomic<std::uint32_t> threads_{1};  // I/O threads at work
  std::vector<std::unique_ptr<IoThread>> io_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> closed_{false};
  std::mutex close_mutex_;
  ForkHook fork_hook_{ForkOrder::kDevice, [this](ForkStage stage) { handle_fork(stage); }};
};

}  // namespace openmrc::nic
