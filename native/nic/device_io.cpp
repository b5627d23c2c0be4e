// Sending and receiving: the I/O threads, threads that poll, and the planning of bursts under the engine's lock.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <string>

#include "engine/seal.hpp"
#include "nic/device.hpp"
#include "nic/poll_source.hpp"

namespace openmrc::nic {
namespace {

constexpr std::uint32_t kBurstsPerTurn = 64;      // before the receive sockets are read again
constexpr std::uint32_t kBurstsPerCommand = 256;  // before the I/O thread takes over
constexpr std::size_t kEndpointResultsMax = 1U << 12;
// Acknowledgements to a thread that exchanges small messages without pause merge until there are this many arrivals,
// for at most this long. Fewer than the WRITE_IMMs that a peer may have in flight: it must not wait for them.
constexpr std::size_t kDeferredTrainsMax = 24;
constexpr TimeNs kDeferredMax = 4 * Device::kDeferMax;
constexpr TimeNs kDeferredGap = Device::kDeferMax / 2;  // the exchange has paused: the peer may wait for them
// More datagrams per read indicate a stream, or a long message whose sender waits for its end: acknowledge at once.
constexpr std::uint32_t kBulkDatagrams = 4;
constexpr std::uint64_t kBulkBytes = 1024;
constexpr TimeNs kExitWait = 10 * kNsPerMs;  // for the lock, at the end of the process
constexpr TimeNs kSleepMax = 10 * kNsPerSecond;
constexpr TimeNs kEndpointLook = 200 * kNsPerUs;  // between reads of endpoint operations by a polling thread
constexpr TimeNs kQuietMax = kNsPerMs;            // between looks of a polling thread at an engine that owes nothing
constexpr TimeNs kBusyMax = 50 * kNsPerUs;        // the same while every poll finds datagrams
constexpr TimeNs kPause = kNsPerMs;               // after a refusal whose end nothing announces
constexpr TimeNs kLinkLook = kNsPerSecond;        // while an interface is gone

bool is_bulk(const Received& received) { return received.datagrams > kBulkDatagrams || received.bytes > kBulkBytes; }

}  // namespace

// Checks trains, and passes them to the engine.
class Device::Arrivals final : public TrainSink {
 public:
  Arrivals(Device& device, Receiver& receiver) : device_(device), receiver_(receiver) {}

  void take(std::span<Train> trains) override {
    for (Train& train : trains) check(train);
    const Guard guard(device_.lock_);
    // Of the same moment as the read, if that found one short datagram.
    const bool at_once = trains.size() == 1 && trains.front().arrived == 0;
    for (Train& train : trains) hand_over(train, at_once ? train.read : now_ns());
    device_.note_placed();
    device_.collect();
    device_.defer_answers(trains.size());
    device_.quiet_until_.store(0, std::memory_order_relaxed);
    may_reply_ = device_.engine_->may_have_data();
  }
  // Plans the data that the arrivals allow. Only after the last port has been read: the reports of one plane must not
  // wait for data that those of another one have allowed.
  void reply() {
    if (!may_reply_) return;
    const Guard guard(device_.lock_);
    std::uint32_t bursts_max = kBurstsPerTurn;
    device_.plan(Outgoing::kDataOnly, bursts_max, device_.engine_now());
    if (bursts_max == 0) device_.looked_.store(0, std::memory_order_relaxed);  // there is more to send
    device_.collect();
  }
  Receiver& receiver() { return receiver_; }
  // Wait of the latest larger train until it reached the engine; kNeverNs: none arrived.
  TimeNs waited() const { return waited_; }
  // True if that train was not the end of a message.
  bool message_open() const { return message_open_; }

 private:
  // A train with a damaged datagram is checked again by the engine, datagram by datagram. For trimmed packets only the
  // engine can tell whether they have an ICRC.
  void check(Train& train) {
    RxDatagram& datagram = train.datagram;
    const Settings& settings = device_.settings_;
    datagram.checked = !is_trimmed(datagram.traffic_class) &&
                       intact(datagram, train.datagram_bytes, settings.ports[datagram.port].advertise,
                              settings.udp_port, receiver_.icrc);
  }

  void hand_over(Train& train, TimeNs at) {
    RxDatagram& datagram = train.datagram;
    const TimePs now = device_.enter(at);
    if (train.arrived != 0) {
      datagram.waited = std::max<TimePs>(now - device_.clock_.engine_time(train.arrived), 0);
      waited_ = datagram.waited / kPsPerNs;
    }
    if (datagram.bytes.size() <= train.datagram_bytes) {
      device_.engine_->handle_datagram(now, datagram);
    } else {
      device_.engine_->handle_train(now, datagram, train.datagram_bytes);
    }
    if (train.arrived != 0) message_open_ = device_.engine_->message_open();
  }

  Device& device_;
  Receiver& receiver_;
  bool may_reply_ = false;
  TimeNs waited_ = kNeverNs;
  bool message_open_ = false;
};

// --- I/O threads

void Device::run(IoThread& io) {
  // The default slack of 50 us would be added to every retransmission timer.
  ::prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  const std::string name = "openmrc-io" + (io.index == 0 ? std::string() : std::to_string(io.index));
  ::prctl(PR_SET_NAME, name.c_str(), 0UL, 0UL, 0UL);
  Readable readable{ports_of(io), ports_of(io)};
  while (!stop_.load()) {
    const TimeNs now = now_ns();
    const TimeNs busy_until = busy_until_.load(std::memory_order_relaxed);
    if (busy_until > now || ports_of(io) == 0) {
      stand_back(io, now, busy_until);
      io.load.slept(now_ns() - now);
      readable = {ports_of(io), ports_of(io)};
      continue;
    }
    measure(io, now);
    {
      const Turn mine(*this);
      io.load.relieved(mine.waited());
      turn(io, readable);
    }
    for (int i = 0; i < 64 && (lock_.contended() || turns_.contended()); ++i) waits_.yield();
    const TimeNs asleep = now_ns();
    TimeNs span = io.more ? 0 : std::clamp<TimeNs>(io.deadline - asleep, 0, kSleepMax);
    if (io.index == 0 && (paused_ || resting_ != 0)) span = std::min(span, kPause);
    if (io.index == 0 && attached_ != all_ports_) span = std::min(span, kLinkLook);
    if (io.refused) rest(io, kPause);  // a socket that refuses reads stays readable
    if (io.pause > 0 && span > 0) {
      const TimeNs pause = std::min(span, io.pause);
      pollfd wait{io.wake.get(), POLLIN, 0};
      waits_.poll(std::span(&wait, 1), pause);
      span -= pause;
    }
    readable = sleep(io.epoll, &io.wake, io.refused ? 0 : span);
    io.sleeping_until.store(0);
    io.load.slept(now_ns() - asleep);
  }
}

PortMask Device::ports_of(const IoThread& io) const {
  const std::uint32_t threads = threads_.load(std::memory_order_relaxed);
  PortMask mine = 0;
  for (PortId id = 0; id < lanes_.size(); ++id) {
    if (id % threads == io.index) mine |= PortMask{1} << id;
  }
  return mine;
}

void Device::measure(IoThread& io, TimeNs now) {
  IoScaling::Load load;
  if (io_.size() == 1 || settings_.io_threads != 0 || !io.load.take(now, load)) return;
  const Guard guard(lock_);
  std::uint64_t moved_bytes = 0;
  for (PortId id = 0; id < lanes_.size(); ++id) {
    moved_bytes += engine_->port_stats(id).sent_bytes + engine_->port_stats(id).received_bytes;
  }
  if (io.index < threads_) assign_ports(scaling_.update(now, io.index, load, moved_bytes));
}

// While another thread polls, or the ports belong to other threads.
void Device::stand_back(IoThread& io, TimeNs now, TimeNs busy_until) {
  const bool polled = busy_until > now;
  const bool timed = io.index == 0 && polled && waits_.set(takeover_, busy_until);
  TimeNs span = polled && !timed ? busy_until - now : kSleepMax;
  if (io.index == 0 && attached_ != all_ports_) span = std::min(span, kLinkLook);
  rest(io, span, timed ? takeover_.fd() : -1);
  if (timed) waits_.clear(takeover_);
}

// Sleeps, except to handle interfaces that appear or vanish. `timer`: a descriptor that ends the sleep, too; -1: none.
void Device::rest(IoThread& io, TimeNs span, int timer) {
  std::array<pollfd, 3> wait{
      {{io.wake.get(), POLLIN, 0}, {io.index == 0 ? links_.fd() : -1, POLLIN, 0}, {timer, POLLIN, 0}}};
  if (waits_.poll_coarsely(wait, span) < 0) return;
  if (wait[0].revents != 0) waits_.clear(io.wake);
  if (wait[1].revents != 0 && links_.drain()) link_notice_.store(true);
  if (io.index != 0 || !link_check_due()) return;
  check_interfaces();
  Guard guard(lock_);
  enter();
  finish(guard, kBurstsPerTurn, Outgoing::kEverything);
}

Device::Readable Device::sleep(const FileDescriptor& epoll, const FileDescriptor* wake, TimeNs span) {
  std::array<epoll_event, 3 * kPortCountMax + 2> events;
  const int count = waits_.poll(epoll, events, span);
  if (count < 0 && errno != EINTR) {  // a sandbox without epoll: read everything at intervals
    waits_.poll_coarsely({}, kPause);
    return everything();
  }
  Readable readable{.told = true};
  for (int i = 0; i < count; ++i) {
    const std::uint64_t data = events[static_cast<std::size_t>(i)].data.u64;
    if (data == tag(Source::kWake)) waits_.clear(*wake);
    if (data == tag(Source::kLinks) && links_.drain()) link_notice_.store(true);
    const PortMask port = PortMask{1} << (data & (kPortCountMax - 1));
    if (data >> 32 == static_cast<std::uint32_t>(Source::kReceive)) readable.data |= port;
    if (data >> 32 == static_cast<std::uint32_t>(Source::kEndpoint)) readable.endpoint |= port;
  }
  return readable;
}

void Device::turn(IoThread& io, Readable readable) {
  const bool first = io.index == 0;
  if (first && link_check_due()) check_interfaces();
  if (first) {
    retry_blocked();
    readable.endpoint |= resting_;
  }
  Arrivals arrivals(*this, io.receiver);
  const Received received = receive(readable, arrivals);
  io.refused = received.refused;
  Guard guard(lock_);
  ++stats_.turns;
  for (const std::shared_ptr<Waker>& waker : takeover_wakers_) {
    if (waker->at_takeover.exchange(false, std::memory_order_relaxed)) waits_.ring(waker->fd);
  }
  run_timer(enter());
  io.more = flush(guard, kBurstsPerTurn, Outgoing::kEverything);
  collect();
  if (received.refused) note_faults();
  const TimePs patience = engine_->patience();
  const Moderation::Look look{now_ns(),          received.datagrams,      received.bytes,
                              arrivals.waited(), arrivals.message_open(), received.more};
  io.pause = io.moderation.pause(look, patience == kNever ? kNeverNs : patience / kPsPerNs);
  stats_.pauses += io.pause > 0 ? 1 : 0;
  io.deadline = first ? next_timer() : kNeverNs;
  if (first && !io.more && io.deadline > look.now) io.sleeping_until.store(io.deadline);
  if (!first) wake_for_timers(/*more=*/false);
}

// --- polling threads

void Device::begin_polling(TimeNs grace) { begin_polling(now_ns(), grace); }

void Device::begin_polling(TimeNs now, TimeNs grace) {
  if (busy_until_.load(std::memory_order_relaxed) < now + grace / 2) expect_polls(now + grace);
}

// The timer first: an I/O thread that sees the new time sets it for no earlier one.
void Device::expect_polls(TimeNs until) {
  waits_.set(takeover_, until);
  busy_until_.store(until, std::memory_order_relaxed);
}

void Device::rest_polling() {
  busy_until_.store(0, std::memory_order_relaxed);
  const std::uint32_t threads = threads_;
  for (std::uint32_t i = 0; i < threads; ++i) waits_.ring(io_[i]->wake);
}

std::uint32_t Device::progress(TimeNs answer_within, TimeNs now) {
  begin_polling(now, kBusyGrace);
  return poll(everything(), now, answer_within);
}

std::uint32_t Device::await_progress(TimeNs longest, int also, TimeNs answer_within) {
  const TimeNs asked = now_ns();
  const TimeNs rested = asked + longest + kBusyGrace / 2;
  if (busy_until_.load(std::memory_order_relaxed) < rested) expect_polls(rested + kBusyGrace / 2);
  TimeNs until = asked + longest;
  {
    const Guard guard(lock_);
    if (closed()) return 0;
    until = std::min(until, next_timer());
    until = std::min(until, answers_due(answer_within));
  }
  if (paused_ || resting_ != 0) until = std::min(until, asked + kPause);
  const bool refused = poll_refused_;
  TimeNs span = std::max<TimeNs>(until - asked, 0);
  if (also >= 0) {
    std::array<pollfd, 2> either{{{epoll_.get(), POLLIN, 0}, {also, POLLIN, 0}}};
    waits_.poll(either, span);
    span = 0;
  }
  if (refused) waits_.poll_coarsely({}, kPause);
  Readable readable = sleep(epoll_, nullptr, refused ? 0 : span);
  const std::uint32_t datagrams = poll(readable, now_ns(), answer_within);
  const Guard guard(lock_);
  wake_for_timers(deferred_since_.load(std::memory_order_relaxed) != 0);
  return datagrams;
}

std::uint32_t Device::poll(Readable readable, TimeNs now, TimeNs answer_within) {
  lock_.check();
  const Turn mine(*this);
  if (mine.waited() > 0) now = now_ns();
  const bool soon = answer_within < kDeferMax;
  if (answers_soon_.load(std::memory_order_relaxed) != soon) answers_soon_.store(soon, std::memory_order_relaxed);
  Received received;
  {
    const std::lock_guard polling(polling_);
    if (closed()) return 0;
    if (!readable.told && now - endpoint_look_ < kEndpointLook) {
      readable.endpoint = 0;
    } else {
      endpoint_look_ = now;
      readable.endpoint |= resting_;
    }
    const bool retried = retry_blocked();
    Arrivals arrivals(*this, poll_receiver_);
    received = receive(readable, arrivals);
    arrivals.reply();
    if (poll_refused_ != received.refused) poll_refused_ = received.refused;
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    if (!retried && quiet(received, now, answer_within)) {
      if (received.datagrams == 0 || (!send_out() && !has_room_again())) return received.datagrams;
    }
  }
  Guard guard(lock_);
  const bool timer = run_timer(enter(now));
  if (received.refused) note_faults();
  answer_polled(guard, received, timer, answer_within);
  return received.datagrams;
}

// True if the engine owes nothing now, so that the poll needs no lock. Data that arrivals have made ready is already
// planned; timers of a QP that was idle before them can wait for the next poll.
bool Device::quiet(const Received& received, TimeNs now, TimeNs answer_within) const {
  if (received.refused || now > answers_due(answer_within)) return false;
  if (received.datagrams == 0) return now < quiet_until_.load(std::memory_order_relaxed);
  return !is_bulk(received) && now - looked_.load(std::memory_order_relaxed) < kBusyMax &&
         io_.front()->sleeping_until.load(std::memory_order_relaxed) == 0;
}

void Device::defer_answers(std::size_t trains) {
  const bool first = deferred_since_.load(std::memory_order_relaxed) == 0;
  if (first) deferred_since_.store(entered_, std::memory_order_relaxed);
  deferred_latest_.store(entered_, std::memory_order_relaxed);
  const std::size_t before = first ? 0 : deferred_trains_.load(std::memory_order_relaxed);
  deferred_trains_.store(before + trains, std::memory_order_relaxed);
}

// While small messages come without pause, nobody waits for acknowledgements, and one for many of them is cheaper.
TimeNs Device::answers_due(TimeNs answer_within) const {
  const TimeNs since = deferred_since_.load(std::memory_order_relaxed);
  if (since == 0) return kNeverNs;
  const TimeNs first = since + answer_within;
  if (answer_within < kDeferMax || deferred_trains_.load(std::memory_order_relaxed) >= kDeferredTrainsMax) return first;
  const TimeNs paused = deferred_latest_.load(std::memory_order_relaxed) + kDeferredGap;
  return std::max(first, std::min(paused, since + kDeferredMax));
}

// The caller may react to its memory with a reply, which then leaves before our acknowledgements. These wait for a
// moment, in which they merge, unless many datagrams arrive at a time.
void Device::answer_polled(Guard& guard, const Received& received, bool timer, TimeNs answer_within) {
  const TimeNs answers = answers_due(answer_within);
  const bool due = is_bulk(received) || (answers != kNeverNs ? entered_ > answers : timer);
  if (due) deferred_since_.store(0, std::memory_order_relaxed);
  looked_.store(entered_, std::memory_order_relaxed);
  finish(guard, kBurstsPerTurn, due ? Outgoing::kEverything : Outgoing::kDataOnly, /*idle=*/received.datagrams == 0);
}

// --- receiving

// Starts at another port each time, so that no port always waits behind the others.
Received Device::receive(Readable readable, Arrivals& arrivals) {
  Received all;
  std::size_t& first = arrivals.receiver().first_port;
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const auto id = static_cast<PortId>((first + i) % lanes_.size());
    if (((readable.data | readable.endpoint) >> id & 1U) == 0) continue;
    const Received received = receive_from(id, readable, arrivals);
    all.refused = all.refused || received.refused;
    all.more = all.more || received.more;
    all.datagrams += received.datagrams;
    all.bytes += received.bytes;
  }
  if (++first >= lanes_.size()) first = 0;
  return all;
}

// While the socket for endpoint operations rests, arrivals on it wake no thread.
Received Device::receive_from(PortId id, Readable readable, Arrivals& arrivals) {
  Lane& lane = *lanes_[id];
  Received received;
  bool rests = false;
  {
    const std::unique_lock guard(lane.receiving(), std::try_to_lock);
    if (!guard.owns_lock() || lane.closed()) return {};  // another thread is receiving
    ReceiveBuffers& buffers = arrivals.receiver().buffers;
    if ((readable.data >> id & 1U) != 0) received = lane.port().receive(buffers, arrivals);
    if ((readable.endpoint >> id & 1U) != 0) {
      const Received operations = lane.port().receive_endpoint(buffers, arrivals);
      received.datagrams += operations.datagrams;
      received.bytes += operations.bytes;
      received.refused = received.refused || operations.refused;
    }
    rests = lane.port().endpoint_rests_until() != 0;
  }
  if (rests != ((resting_ >> id & 1U) != 0)) {
    const Guard guard(lock_);
    note_rest(id, rests);
  }
  return received;
}

void Device::note_rest(PortId id, bool rests) {
  const PortMask bit = PortMask{1} << id;
  if (rests == ((resting_ & bit) != 0)) return;
  if (watch_endpoint(id, rests ? EPOLL_CTL_DEL : EPOLL_CTL_ADD)) resting_ ^= bit;
}

// --- sending

PortMask Device::free_ports() const {
  PortMask free = 0;
  for (PortId id = 0; id < lanes_.size(); ++id) {
    if (lanes_[id]->has_room()) free |= PortMask{1} << id;
  }
  return free;
}

PortMask Device::full_ports() const {
  PortMask full = 0;
  for (PortId id = 0; id < lanes_.size(); ++id) {
    if (lanes_[id]->full()) full |= PortMask{1} << id;
  }
  return full;
}

void Device::plan(Outgoing what, std::uint32_t& bursts_max, TimePs now) {
  quiet_until_.store(0, std::memory_order_relaxed);
  const bool only_data = what != Outgoing::kEverything;
  while (bursts_max > 0) {
    const PortMask free = free_ports();
    const bool look = free != 0 && (!only_data || engine_->may_have_data());
    if (look && engine_->poll_transmit(now, free, settings_.burst_packets, *spare_, what)) {
      const PortId port = spare_->port;
      lanes_[port]->push(spare_);
      --bursts_max;
      continue;
    }
    // A lane that is full now may gain room before this check; then this thread has to continue.
    const PortMask full = full_ports();
    if (full != 0 || starved_.load(std::memory_order_relaxed) != 0) starved_.exchange(full);
    if (full == 0 || (free_ports() & full) == 0) return;
  }
}

bool Device::send_out() {
  bool limit = false;
  bool fault = false;
  for (PortId id = 0; id < lanes_.size(); ++id) {
    Lane& lane = *lanes_[id];
    if (!lane.waiting()) continue;
    std::uint32_t bursts_max = kBurstsPerTurn;
    const Lane::Sent sent = lane.send(bursts_max);
    if (sent == Lane::Sent::kBlocked) block(id);
    limit = limit || sent == Lane::Sent::kLimit;
    fault = fault || lane.port().has_fault();
  }
  if (fault) {
    const Guard guard(lock_);
    note_faults();
  }
  return limit;
}

// Planning that found a lane full either comes before this check, which sees it, or after it and then finds the room.
bool Device::has_room_again() { return (starved_.fetch_or(0) & free_ports()) != 0; }

bool Device::flush(Guard& guard, std::uint32_t bursts_max, Outgoing what) {
  while (bursts_max > 0) {
    const std::uint32_t before = bursts_max;
    plan(what, bursts_max, enter());
    if (bursts_max == before) return false;
    guard.unlock();
    const bool limit = send_out();
    guard.lock();
    if (limit) return true;
  }
  return true;
}

void Device::finish(Guard& guard, std::uint32_t bursts_max, Outgoing what, bool idle) {
  const std::uint32_t bursts = bursts_max;
  for (TimePs now = engine_now();; now = enter()) {
    plan(what, bursts_max, now);
    collect();
    wake_for_timers(/*more=*/bursts_max == 0);
    // After anything else the next poll looks again; while it waits that costs nothing.
    if (idle && bursts_max == bursts) quiet_until_.store(std::min(next_timer(), entered_ + kQuietMax));
    guard.unlock();
    const bool limit = send_out();
    const bool again = !limit && bursts_max > 0 && has_room_again();
    if (!again && !limit) return;
    guard.lock();
    if (limit) return wake_for_timers(/*more=*/true);
  }
}

void Device::after_command(Guard& guard) {
  const bool polled = busy_until_.load(std::memory_order_relaxed) > entered_;
  const bool replied =
      answers_soon_.load(std::memory_order_relaxed) && deferred_since_.load(std::memory_order_relaxed) != 0;
  finish(guard, kBurstsPerCommand,
         !polled   ? Outgoing::kEverything
         : replied ? Outgoing::kDataWithAcks
                   : Outgoing::kDataOnly);
  if (!polled || !answers_soon_) return;
  // This was the reply for which acknowledgements waited: they follow it at once, as the peer may wait for both.
  guard.lock();
  if (deferred_since_.load(std::memory_order_relaxed) == 0) return;
  deferred_since_.store(0, std::memory_order_relaxed);
  enter();
  finish(guard, kBurstsPerCommand, Outgoing::kEverything);
}

void Device::answer_before_exit() {
  if (lock_.lost() || closed()) return;
  const TimeNs until = now_ns() + kExitWait;
  while (!lock_.try_lock()) {
    if (now_ns() > until) return;
    std::this_thread::yield();
  }
  Guard guard(lock_, std::adopt_lock);
  if (closed()) return;
  deferred_since_.store(0, std::memory_order_relaxed);
  enter();
  finish(guard, kBurstsPerCommand, Outgoing::kEverything);
}

// The first I/O thread may sleep past the next timer, or while packets are ready to be sent.
void Device::wake_for_timers(bool more) {
  IoThread& io = *io_.front();
  const TimeNs sleeping_until = io.sleeping_until.load();
  if (sleeping_until == 0 || (!more && !paused_ && next_timer() >= sleeping_until)) return;
  io.sleeping_until.store(0);  // one ring is enough
  waits_.ring(io.wake);
}

void Device::block(PortId id) {
  constexpr std::uint32_t kOnce = EPOLLOUT | EPOLLONESHOT;
  const std::uint64_t data = tag(Source::kBlocked, id);
  const int fd = lanes_[id]->port().blocked_fd();
  for (const FileDescriptor* epoll : {&epoll_, &io_.front()->epoll}) {
    const bool announced =
        fd >= 0 && (watch(*epoll, EPOLL_CTL_MOD, fd, kOnce, data) || watch(*epoll, EPOLL_CTL_ADD, fd, kOnce, data));
    if (!announced) paused_ = true;
  }
  if (!paused_) return;
  const Guard guard(lock_);
  wake_for_timers(/*more=*/true);
}

bool Device::retry_blocked() {
  bool retried = paused_;
  if (retried) paused_ = false;  // for polling threads a store is more expensive than a load
  for (PortId id = 0; id < lanes_.size(); ++id) {
    if (!lanes_[id]->blocked()) continue;
    retried = true;
    std::uint32_t bursts_max = kBurstsPerTurn;
    if (lanes_[id]->retry(bursts_max) == Lane::Sent::kBlocked) block(id);
  }
  return retried;
}

// --- under the lock

void Device::note_placed() {
  const std::uint64_t placed = engine_->placed_packets();
  if (placed == placed_packets_.load(std::memory_order_relaxed)) return;
  placed_at_.store(entered_, std::memory_order_relaxed);
  placed_packets_.store(placed, std::memory_order_release);
}

TimePs Device::enter(TimeNs now) {
  entered_ = std::max(entered_, now);
  while (clock_.rebase_due(entered_)) {
    clock_.rebase();
    engine_->handle_clock_rebase(kClockRebase);
    ++stats_.clock_rebases;
  }
  return clock_.engine_time(entered_);
}

bool Device::run_timer(TimePs now) {
  if (engine_->next_timer() > now) return false;
  ++stats_.timer_runs;
  engine_->handle_timer(now);
  return true;
}

void Device::collect() {
  if (!engine_->has_reports()) return;
  CqId cq = 0;
  while (engine_->poll_signaled_cq(cq)) {
    const auto found = cq_wakers_.find(cq);
    if (found != cq_wakers_.end()) found->second->signal(waits_);
  }
  while (const std::size_t count = engine_->poll_events(polled_events_)) {
    for (const Event& event : std::span(polled_events_).first(count)) publish({clock_.monotonic(event.time), event});
  }
  EndpointResult result;
  while (engine_->poll_endpoint_result(result)) {
    if (endpoint_results_.size() == kEndpointResultsMax) endpoint_results_.pop_front();
    endpoint_results_.push_back(result);
  }
}

void Device::publish(const TimedEvent& event) {
  events_.push(event);
  event_waker_.signal(waits_);
}

}  // namespace openmrc::nic
