// A software MRC NIC: N ports, one engine, I/O threads, registered memory, completion queues.
//
// Threads. Every method may be called from any thread. One lock covers the engine; sockets are read and written, and
// ICRCs computed, without it, so that ports keep several processors busy. Posting transmits at once from the posting
// thread. The first I/O thread receives and runs the timers; more of them share the ports while it cannot keep up (see
// IoScaling). While a thread calls progress(), that thread does all of this, and the I/O threads sleep until nobody has
// polled for a millisecond.
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
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/base/bounded_queue.hpp"
#include "engine/engine.hpp"
#include "nic/clock.hpp"
#include "nic/error.hpp"
#include "nic/fork.hpp"
#include "nic/generated/settings.hpp"
#include "nic/interface_watch.hpp"
#include "nic/io_scaling.hpp"
#include "nic/io_thread.hpp"
#include "nic/lane.hpp"
#include "nic/port.hpp"
#include "nic/takeover_timer.hpp"
#include "nic/waits.hpp"

namespace openmrc::nic {

// A lock of a device. The I/O threads, which take it again and again, yield to other threads. In a forked child, which
// lacks the engine's sockets and threads, lock() throws ForkedError.
class DeviceLock {
 public:
  void lock() {
    if (try_lock()) return;
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

// An event of the engine with its time by CLOCK_MONOTONIC, since the engine's own clock is set back now and then.
struct TimedEvent {
  TimeNs time_ns = 0;
  Event event;
};

class Device {
 public:
  // Limit on the wait of acknowledgements of a polling thread; longer while small messages come without pause.
  static constexpr TimeNs kDeferMax = 500 * kNsPerUs;
  static constexpr TimeNs kBusyGrace = kNsPerMs;  // the I/O threads take over after this long without progress()

  explicit Device(const Settings& settings);                       // on UDP sockets; throws NicError
  Device(const Settings& settings, const PortFactory& make_port);  // throws the exceptions of `make_port`
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Stops the threads and closes the sockets. Later calls return kInvalidState or do nothing. Idempotent. In a forked
  // child a device is closed, and every other call throws ForkedError.
  void close();
  bool closed() const { return closed_.load(); }
  // Throws ForkedError in a forked child: for callers with locks of their own, which another thread may have held.
  void check_process() const { lock_.check(); }

  // Runs a command of the engine under the lock, then sends the packets that became ready.
  template <typename Command>
  auto command(Command&& run) {
    const Turn mine(*this);
    std::unique_lock guard(lock_);
    auto answer = run(*engine_, enter());
    after_command(guard);
    return answer;
  }
  // The same for a command that resets or destroys these QPs (0: no QP): none of their packets leaves afterwards. A
  // packet that waited in a lane would be sent with the bytes that another QP has since stored in its memory.
  template <typename Command>
  auto end_qps(std::span<const std::uint32_t> qps, Command&& run) {
    const Turn mine(*this);
    SendingLocks sending(lanes_);
    std::unique_lock guard(lock_);
    auto answer = run(*engine_, enter());
    for (const std::unique_ptr<Lane>& lane : lanes_) {
      for (const std::uint32_t qp : qps) {
        if (qp != 0) lane->drop_of(qp);
      }
    }
    sending.unlock();
    after_command(guard);  // also sends the bursts that other threads have left to the holder of the lanes' locks
    return answer;
  }
  // Reads the engine under the lock, without side effects.
  template <typename Look>
  auto look(Look&& run) {
    std::unique_lock guard(lock_);
    return run(static_cast<const Engine&>(*engine_));
  }

  Status create_cq(std::uint32_t capacity, CqId& cq);
  Status destroy_cq(CqId cq);
  std::size_t poll_cq(CqId cq, std::span<Completion> out);
  // An eventfd that signals once each time it is armed, for waiters of a CQ or of events. Everything but the descriptor is
  // under the lock.
  struct Waker {
    FileDescriptor fd;
    bool armed = false;
    // Something exists that nobody has fetched. Written under the lock, read by polling threads without it.
    std::atomic<bool> pending{false};
    std::atomic<bool> at_takeover{false};
    CompletionQueue* queue = nullptr;  // of a CQ, until it is destroyed
    void signal(Waits& waits);
  };
  // For frequent polls: a CQ that need not be looked up. Valid beyond the CQ; nullptr: no such CQ.
  std::shared_ptr<Waker> cq_handle(CqId cq);
  std::size_t poll_cq(Waker& cq, std::span<Completion> out);
  // False while poll_cq() would find nothing: for polling threads, without a lock.
  static bool filled(const Waker& cq) { return cq.pending.load(std::memory_order_acquire); }
  // Waits for completions, at most `timeout_ns` (negative: for ever). Returns early, with 0, on a signal.
  std::size_t wait_cq(CqId cq, std::span<Completion> out, std::int64_t timeout_ns);
  // eventfd that becomes readable at the next completion after arm_cq(); -1: no such CQ. True from arm_cq():
  // completions are already available, do not wait.
  int cq_fd(CqId cq);
  bool arm_cq(CqId cq);
  // The same without system calls, for a reader that leaves stale wake-ups in the descriptor; and the way back.
  bool listen_cq(CqId cq);
  void unlisten_cq(CqId cq);

  // Registers memory under a random, unguessable key. Only QPs of `domain` may use it. Work requests address it from
  // `virtual_address` on, by default by its own address. `placer` takes what peers write to it, under the device's lock.
  Status register_memory(std::uint8_t* base, std::uint64_t length_bytes, std::uint8_t access, std::uint32_t& key,
                         DomainId domain = 0, std::optional<std::uint64_t> virtual_address = {},
                         std::shared_ptr<Placer> placer = nullptr);
  Status deregister_memory(std::uint32_t key);

  Status post_send(std::uint32_t qp, const SendWr& wr);
  Status post_sends(std::uint32_t qp, std::span<const SendWr> wrs, std::size_t& posted);
  // The same for a thread that calls progress() whenever it finds no completion. While a stream of the QP is under way
  // and such calls are announced, less than the packets of a burst leave with the next one, or by an I/O thread
  // afterwards.
  Status post_stream(std::uint32_t qp, std::span<const SendWr> wrs, std::size_t& posted);
  Status post_recv(std::uint32_t qp, std::uint64_t wr_id, std::span<const Sge> sges = {});
  Status post_srq_recv(SrqId srq, std::uint64_t wr_id, std::span<const Sge> sges = {});
  // Posts `count` receives, all with this id; `posted` is the number accepted.
  Status post_recvs(std::uint32_t qp, std::uint64_t wr_id, std::uint32_t count, std::uint32_t& posted);

  // Runs sockets and timers from the calling thread; returns the number of datagrams received. Acknowledgements of few
  // and small datagrams wait for `answer_within`, in which the caller may send a reply that then leaves first.
  std::uint32_t progress(TimeNs answer_within = kDeferMax) { return progress(answer_within, now_ns()); }
  // The same for a caller that has just read the clock.
  std::uint32_t progress(TimeNs answer_within, TimeNs now);
  // The same, asleep until a datagram arrives or a timer is due, at most for `longest`. If threads outnumber processors
  // this is quicker than polling: a sleeping thread takes no processor time from the one it waits for, and is scheduled
  // first when it wakes. `also`: a descriptor that ends the sleep, too, when readable; -1: none.
  std::uint32_t await_progress(TimeNs longest, int also = -1, TimeNs answer_within = kDeferMax);
  // Sends acknowledgements that wait, for a process that is about to end. Gives up when the lock is not free for a while:
  // the calling thread itself may hold it, as exit() in a signal handler would.
  void answer_before_exit();
  // Announces calls of progress() with breaks shorter than half of `grace`: the I/O threads stand back.
  void begin_polling(TimeNs grace = kBusyGrace);
  bool polled() const { return busy_until_.load(std::memory_order_relaxed) > now_ns(); }
  // Set it, and the descriptor of the CQ becomes readable, once, when an I/O thread works again after polling threads.
  // Valid beyond the CQ; nullptr: no such CQ.
  std::shared_ptr<std::atomic<bool>> cq_takeover(CqId cq);
  // Ends the calls of progress(): the I/O threads take over at once.
  void rest_polling();
  // Packets of peers' WRITEs and SENDs placed in memory so far, and when the latest of them was. Without a lock, so the
  // two may belong to different packets.
  std::uint64_t placed_packets() const { return placed_packets_.load(std::memory_order_acquire); }
  TimeNs placed_at() const { return placed_at_.load(std::memory_order_relaxed); }

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
  // Ports by socket that may be readable.
  struct Readable {
    PortMask data = 0, endpoint = 0;
    bool told = false;  // by the kernel
  };

  class Arrivals;

  // The sending halves of all lanes.
  class SendingLocks {
   public:
    explicit SendingLocks(std::span<const std::unique_ptr<Lane>> lanes) {
      for (std::size_t i = 0; i < lanes.size(); ++i) locks_[i] = std::unique_lock(lanes[i]->sending());
    }
    void unlock() {
      for (std::unique_lock<std::mutex>& lock : locks_) {
        if (lock.owns_lock()) lock.unlock();
      }
    }

   private:
    std::array<std::unique_lock<std::mutex>, kPortCountMax> locks_;
  };

  // Gives one thread sole use of sending or receiving while one I/O thread suffices: threads that alternate at single
  // bursts and acknowledgements were slower on two processors than one that handles many of them at a time.
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
  void rest(IoThread& io, TimeNs span, int timer = -1);
  Readable everything() const { return {all_ports_, all_ports_}; }
  Readable sleep(const FileDescriptor& epoll, const FileDescriptor* wake, TimeNs span);
  PortMask ports_of(const IoThread& io) const;
  void measure(IoThread& io, TimeNs now);
  void begin_polling(TimeNs now, TimeNs grace);
  void expect_polls(TimeNs until);
  void stand_back(IoThread& io, TimeNs now, TimeNs busy_until);
  std::uint32_t poll(Readable readable, TimeNs now, TimeNs answer_within);
  bool quiet(const Received& received, TimeNs now, TimeNs answer_within) const;
  // Time at which deferred acknowledgements have to leave; kNeverNs: there are none.
  TimeNs answers_due(TimeNs answer_within) const;
  Received receive(Readable readable, Arrivals& arrivals);
  Received receive_from(PortId id, Readable readable, Arrivals& arrivals);
  bool send_out();        // sends the planned bursts; true: stopped at a limit
  bool has_room_again();  // in lanes that were full while more bursts could be planned
  bool retry_blocked();   // false: there were none
  void block(PortId id);
  // Takes down ports whose interface is gone, and brings them up again when it is back.
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

  // The engine's time, at the beginning of a locked section; sets the clock back if that is due.
  TimePs enter() { return enter(now_ns()); }
  TimePs enter(TimeNs now);
  TimePs engine_now() const { return clock_.engine_time(entered_); }  // of the latest entry
  TimeNs next_timer() const { return clock_.monotonic(engine_->next_timer()); }
  PortMask free_ports() const;
  PortMask full_ports() const;
  // Fills the lanes with bursts, at most `bursts_max`, and reduces that number accordingly.
  void plan(Outgoing what, std::uint32_t& bursts_max, TimePs now);
  // Plans bursts, and sends them with the lock released. True: stopped at the limit.
  bool flush(Guard& guard, std::uint32_t bursts_max, Outgoing what);
  // The same as the last step of a call that has entered, and releases the lock. `idle`: of a poll without result.
  void finish(Guard& guard, std::uint32_t bursts_max, Outgoing what, bool idle = false);
  void after_command(Guard& guard);
  void defer_answers(std::size_t trains);
  void answer_polled(Guard& guard, const Received& received, bool timer, TimeNs answer_within);
  void update_state(PortId id);
  void assign_ports(std::uint32_t threads);
  void prepare(IoThread& io);
  void start(IoThread& io);
  bool watch_receiving(PortId id, int operation);
  bool watch_endpoint(PortId id, int operation);
  void note_rest(PortId id, bool rests);
  void note_faults();  // publishes faults of the ports
  void report_fault(PortId id, int error);
  void publish(const TimedEvent& event);
  bool run_timer(TimePs now);  // false: none was due
  void note_placed();
  void wake_for_timers(bool more);
  void collect();  // completions and events: wakes their waiters
  static std::size_t take_completions(Waker& waker, std::span<Completion> out);
  bool arm(Waker& waker);

  Settings settings_;
  DeviceLock turns_, lock_;
  std::vector<std::unique_ptr<Lane>> lanes_;
  std::unique_ptr<Engine> engine_;
  EngineClock clock_{now_ns()};
  std::unique_ptr<TxBurst> spare_ = std::make_unique<TxBurst>();  // holds the next burst while it is planned
  // Lanes that were full while more bursts could be planned; the thread that sends from them plans again.
  std::atomic<PortMask> starved_{0};
  TimeNs entered_ = 0;  // the latest entry into a locked section
  // Written under the lock, read by polling threads without it.
  std::atomic<TimeNs> deferred_since_{0};   // since when acknowledgements wait for a polling thread's answer; 0: none
  std::atomic<TimeNs> deferred_latest_{0};  // the latest arrival for which they wait
  std::atomic<std::size_t> deferred_trains_{0};  // number of these arrivals
  std::atomic<TimeNs> quiet_until_{0};           // until when a poll without datagrams has nothing to do
  std::atomic<TimeNs> looked_{0};                // the latest poll that ran timers
  std::atomic<bool> answers_soon_{false};        // a polling thread asked that answers wait for less than kDeferMax
  PortMask all_ports_ = 0;
  PortMask carriers_ = 0;                  // ports that set_port_state reports up
  std::atomic<PortMask> attached_{0};      // ports whose sockets are bound to an interface that exists
  std::atomic<bool> paused_{false};        // after a refusal by the operating system: retry in a moment, not at once
  std::atomic<PortMask> resting_{0};       // ports whose endpoint operations have used up their share
  std::atomic<bool> poll_refused_{false};  // to a polling thread, which could not read pending datagrams
  InterfaceWatch links_;
  std::atomic<bool> link_notice_{false};
  TimeNs next_link_check_ = 0;  // of the first I/O thread
  std::array<TimeNs, kPortCountMax> fault_reported_{};
  std::map<CqId, std::shared_ptr<Waker>> cq_wakers_;
  std::vector<std::shared_ptr<Waker>> takeover_wakers_;
  std::unordered_map<std::uint32_t, std::span<const std::uint8_t>> regions_;  // by key
  std::array<Event, 64> polled_events_;  // reused: constructing it at every call cost a tenth of a short message
  BoundedQueue<TimedEvent> events_{1U << 16};
  Waker event_waker_;
  std::deque<EndpointResult> endpoint_results_;
  DeviceStats stats_;
  Waits waits_;
  std::vector<SocketStats> final_socket_stats_;  // of a closed device

  // State of polling threads.
  std::mutex polling_;
  Receiver poll_receiver_;
  std::atomic<std::uint64_t> polls_{0};
  TimeNs endpoint_look_ = 0;  // latest read of the sockets for endpoint operations
  FileDescriptor epoll_;      // for await_progress(); separate, so that it takes no wake-ups from the I/O threads
  std::atomic<TimeNs> busy_until_{0};
  TakeoverTimer takeover_;
  std::atomic<TimeNs> placed_at_{0};
  std::atomic<std::uint64_t> placed_packets_{0};

  IoScaling scaling_;
  std::atomic<std::uint32_t> threads_{1};  // I/O threads at work
  std::vector<std::unique_ptr<IoThread>> io_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> closed_{false};
  std::mutex close_mutex_;
  std::size_t forking_lanes_ = 0;  // whose locks a fork holds
  ForkHook fork_hook_{ForkOrder::kDevice, [this](ForkStage stage) { handle_fork(stage); }};
};

}  // namespace openmrc::nic
