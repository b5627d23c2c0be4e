#include "netsim/emulate/emulator.hpp"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <ctime>
#include <optional>
#include <system_error>
#include <utility>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {
namespace {

constexpr std::uint32_t kWakeTag = ~std::uint32_t{0};
constexpr int kReceiveBufferBytes = 8 << 20;
constexpr std::uint64_t kSpareFiles = 128;  // descriptors reserved for the rest of the process
constexpr int kReadsPerSocket = 8;
constexpr std::size_t kNoticesKept = 1U << 16;

std::int64_t clock_ns(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

std::uint64_t key_of(std::uint32_t plane, const Address& address) {
  std::uint64_t key = 0xcbf29ce484222325ULL ^ plane;
  for (const std::uint8_t byte : address.bytes) key = (key ^ byte) * 0x100000001b3ULL;
  return key;
}

[[noreturn]] void fail(const std::string& what) { throw std::system_error(errno, std::generic_category(), what); }

std::optional<std::uint32_t> known(std::uint32_t place) {
  return place == kAnywhere ? std::nullopt : std::optional(place);
}

LinkStatistics statistics_of(std::uint32_t plane, const PlaneModel& model, const LinkEnds& ends, LinkId link) {
  const LinkCounters& counters = model.counters(link);
  const auto drops = [&](DropCause cause) { return counters.drops[static_cast<std::size_t>(cause)]; };
  return {.plane = plane,
          .kind = name_of(ends.kind),
          .host = known(ends.host),
          .t0 = known(ends.t0),
          .t1 = known(ends.t1),
          .packets = counters.packets,
          .bytes = counters.bytes,
          .marks = counters.marks,
          .trims = counters.trims,
          .corrupted = counters.corrupted,
          .duplicated = counters.duplicated,
          .reordered = counters.reordered,
          .drop_queue = drops(DropCause::kQueueFull),
          .drop_control_queue = drops(DropCause::kControlQueueFull),
          .drop_down = drops(DropCause::kDown),
          .drop_blackhole = drops(DropCause::kBlackhole),
          .drop_loss = drops(DropCause::kLoss),
          .drop_crowded = drops(DropCause::kCrowded),
          .queue_peak_bytes = model.queue_peak_bytes(link)};
}

}  // namespace

Emulator::Emulator(const EmulatorConfig& config)
    : config_(config), fabric_(config.fabric), payloads_(config.payloads_max), batch_(new ReceiveBatch) {
  const std::size_t slots = std::size_t{config.fabric.shape.planes} * config.fabric.shape.hosts;
  MRC_ASSERT(config.local.size() == slots && config.advertised.size() == slots && config.tick > 0);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const auto plane = static_cast<std::uint32_t>(slot / config.fabric.shape.hosts);
    const auto host = static_cast<std::uint32_t>(slot % config.fabric.shape.hosts);
    const bool inserted = host_of_address_.emplace(key_of(plane, config.local[slot]), host).second;
    MRC_ASSERT(inserted);
    destinations_.push_back(socket_address(config.local[slot], config.udp_port));
  }
  overflow_seen_.resize(slots);
  open_sockets();
}

Emulator::~Emulator() { stop(); }

void Emulator::open_sockets() {
  const std::uint64_t files = raise_open_files_limit();
  epoll_ = Fd(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_.open() || !wake_.open()) fail("epoll");
  const auto watch = [this](int fd, std::uint32_t tag) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = tag;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
  };
  watch(wake_.get(), kWakeTag);
  const std::size_t slots = config_.advertised.size();
  const std::uint64_t left = files > slots + kSpareFiles ? files - slots - kSpareFiles : 1;
  egress_ = std::make_unique<Egress>(payloads_, slots + left);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const Address& address = config_.advertised[slot];
    Fd socket = bound_udp_socket(address, config_.udp_port);
    if (!socket.open()) fail("cannot bind " + text_of(address, config_.udp_port));
    prepare_for_receiving(socket, address.family, kReceiveBufferBytes);
    watch(socket.get(), static_cast<std::uint32_t>(slot));
    egress_->lend(static_cast<std::uint32_t>(slot), config_.udp_port, socket.get());
    sockets_.push_back(std::move(socket));
  }
}

void Emulator::start() {
  MRC_ASSERT(!thread_.joinable() && !stopping_);
  monotonic_start_ns_ = clock_ns(CLOCK_MONOTONIC);
  thread_ = std::thread([this] { run(); });
  running_ = true;
}

void Emulator::stop() {
  stopping_ = true;
  wake();
  running_ = false;
  if (thread_.joinable()) thread_.join();
  {
    const std::lock_guard lock(mutex_);
    egress_->close_all();  // here and not in the destructor: the addresses may be needed again
    sockets_.clear();
  }
  noticed_.notify_all();
}

void Emulator::wake() {
  const std::uint64_t one = 1;
  if (::write(wake_.get(), &one, sizeof(one)) < 0) return;  // a full counter: it is awake already
}

TimePs Emulator::now() const {
  if (monotonic_start_ns_ == 0) return 0;
  return (clock_ns(CLOCK_MONOTONIC) - monotonic_start_ns_) * kPsPerNs;
}

// Sleeps on the sockets while the fabric is empty. With packets inside it polls once per tick instead: arrivals in
// between carry the kernel's arrival time and have a link's delay ahead of them, so nothing is late.
void Emulator::run() {
  (void)::prctl(PR_SET_TIMERSLACK, 1UL);
  while (!stopping_) {
    wait_for_work();
    const std::lock_guard lock(mutex_);
    iterate();
  }
  const std::lock_guard lock(mutex_);
  counters_.cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) * kPsPerNs;
}

void Emulator::wait_for_work() {
  TimePs next = kNever;
  {
    const std::lock_guard lock(mutex_);
    next = fabric_.next_event();
  }
  const TimePs time = now();
  if (next == kNever || next - time > 2 * kPsPerMs + config_.tick) {
    const TimePs wait = next == kNever ? kPsPerSecond : std::min(next - time - config_.tick, kPsPerSecond);
    epoll_event event{};
    (void)::epoll_wait(epoll_.get(), &event, 1, static_cast<int>(wait / kPsPerMs));
    return;
  }
  timespec pause{};
  pause.tv_nsec = static_cast<long>(config_.tick / kPsPerNs);
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
}

void Emulator::iterate() {
  ++counters_.wakeups;
  real_minus_monotonic_ns_ = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
  // Later arrivals may be read in this iteration or the next, so the fabric runs only up to here.
  horizon_ = now();
  std::array<epoll_event, 256> ready{};
  const int count = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint32_t tag = ready[static_cast<std::size_t>(i)].data.u32;
    if (tag == kWakeTag) {
      std::uint64_t wakes = 0;
      (void)!::read(wake_.get(), &wakes, sizeof(wakes));
      continue;
    }
    for (int reads = 0; reads < kReadsPerSocket && take_in(tag); ++reads) {
    }
  }
  fabric_.run_until(horizon_, *this);
  reached_ = horizon_;
  egress_->flush();
  collect_notices();
}

// Returns true if the socket may hold more.
bool Emulator::take_in(std::size_t slot) {
  const std::size_t count = batch_->read(sockets_[slot].get());
  for (std::size_t i = 0; i < count; ++i) take_in_message(slot, batch_->message(i));
  return batch_->full(count);
}

void Emulator::take_in_message(std::size_t slot, const Received& received) {
  if (received.overflow > overflow_seen_[slot]) {
    counters_.socket_overflow += received.overflow - overflow_seen_[slot];
    overflow_seen_[slot] = received.overflow;
  }
  const auto plane = static_cast<std::uint32_t>(slot / fabric_.shape().hosts);
  const Address source = address_of(received.source);
  const auto host = host_of_address_.find(key_of(plane, source));
  const std::uint32_t segment = received.segment == 0 ? received.length : received.segment;
  const std::uint32_t datagrams = segment == 0 ? 1 : (received.length + segment - 1) / segment;
  counters_.received += datagrams;
  if (host == host_of_address_.end() || !(config_.local[plane * fabric_.shape().hosts + host->second] == source)) {
    counters_.unknown_source += datagrams;
    return;
  }
  if (received.truncated || segment > kDatagramBytesMax) {
    counters_.oversized += datagrams;
    return;
  }
  for (std::uint32_t n = 0; n < datagrams; ++n) {
    const std::uint32_t offset = n * segment;
    enter(slot, host->second, received, offset, std::min(segment, received.length - offset));
  }
}

void Emulator::enter(std::size_t slot, std::uint32_t source_host, const Received& received, std::uint32_t offset,
                     std::uint32_t bytes) {
  if (payloads_.empty()) {
    ++counters_.payloads_full;
    return;
  }
  const std::uint32_t index = payloads_.take();
  std::memcpy(payloads_.data(index), received.bytes + offset, bytes);
  Payloads::Slot& payload = payloads_.slot(index);
  payload.source_port = port_of(received.source);
  payload.dscp = received.traffic_class_octet >> 2;

  Packet packet;
  packet.source_host = source_host;
  packet.destination_host = static_cast<std::uint32_t>(slot % fabric_.shape().hosts);
  packet.ev = payload.source_port;
  packet.bytes = bytes + config_.header_bytes;
  packet.payload = index;
  packet.traffic_class = traffic_class_of(payload.dscp);
  packet.ecn = static_cast<Ecn>(received.traffic_class_octet & 3U);
  fabric_.enter(arrival_time(received.stamp_ns), static_cast<std::uint32_t>(slot / fabric_.shape().hosts), packet,
                *this);
}

TimePs Emulator::arrival_time(std::int64_t stamp_ns) const {
  if (stamp_ns == 0) return horizon_;
  // Compared before conversion: if the wall clock jumps by months, picoseconds overflow.
  const std::int64_t time_ns = stamp_ns - real_minus_monotonic_ns_ - monotonic_start_ns_;
  if (time_ns < reached_ / kPsPerNs) return reached_;
  const TimePs latest = std::max(reached_, horizon_ + kPsPerMs);
  return time_ns >= latest / kPsPerNs ? latest : std::max(reached_, time_ns * kPsPerNs);
}

void Emulator::deliver(TimePs at, std::uint32_t plane, const Packet& packet) {
  counters_.late_max = std::max(counters_.late_max, horizon_ - at);
  const std::uint32_t hosts = fabric_.shape().hosts;
  const Payloads::Slot& payload = payloads_.slot(packet.payload);
  Departure departure;
  departure.payload = packet.payload;
  departure.bytes = packet.bytes - config_.header_bytes;
  departure.source_port = payload.source_port;
  // An unknown class keeps its DSCP; a trimmed packet gets the DSCP of its new class.
  const std::uint8_t dscp = is_trimmed(packet.traffic_class) ? dscp_of(packet.traffic_class) : payload.dscp;
  departure.traffic_class_octet = static_cast<std::uint8_t>((dscp << 2) | static_cast<std::uint8_t>(packet.ecn));
  departure.source_slot = plane * hosts + packet.source_host;
  departure.source = &config_.advertised[departure.source_slot];
  departure.destination = &destinations_[plane * hosts + packet.destination_host];
  if (packet.corruption != kNotCorrupted && departure.bytes > 0)
    corrupt(departure, packet.corruption * 2654435761U);  // scattered over long datagrams, too
  egress_->queue(departure);
}

void Emulator::corrupt(Departure& departure, std::uint32_t random) {
  const bool shared = payloads_.slot(departure.payload).references > 1;
  if (shared && !payloads_.empty()) {  // its duplicate stays intact
    const std::uint32_t copy = payloads_.take();
    std::memcpy(payloads_.data(copy), payloads_.data(departure.payload), departure.bytes);
    payloads_.release(departure.payload);
    departure.payload = copy;
  }
  const std::uint32_t bit = random % (departure.bytes * 8);
  payloads_.data(departure.payload)[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
}

void Emulator::collect_notices() {
  Notice notice;
  bool any = false;
  while (fabric_.poll_notice(notice)) {
    if (notices_.size() == kNoticesKept) notices_.pop_front();
    notices_.push_back(notice);
    any = true;
  }
  if (any) noticed_.notify_all();
}

std::vector<Notice> Emulator::wait_notices(int timeout_ms) {
  std::unique_lock lock(mutex_);
  noticed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [this] { return !notices_.empty() || stopping_; });
  std::vector<Notice> taken(notices_.begin(), notices_.end());
  notices_.clear();
  return taken;
}

std::uint32_t Emulator::add_fault(FaultSpec spec) {
  const std::lock_guard lock(mutex_);
  spec.start = std::max(spec.start, reached_);
  const std::uint32_t id = fabric_.add_fault(spec);
  wake();
  return id;
}

bool Emulator::repair(std::uint32_t fault) {
  const std::lock_guard lock(mutex_);
  const bool known = fabric_.repair(reached_, fault);
  wake();
  return known;
}

std::uint32_t Emulator::repair_all(const FaultTarget& target) {
  const std::lock_guard lock(mutex_);
  const std::uint32_t repaired = fabric_.repair_all(reached_, target);
  wake();
  return repaired;
}

void Emulator::add_repair(TimePs when, std::uint32_t fault, const FaultTarget& target) {
  const std::lock_guard lock(mutex_);
  fabric_.add_repair(std::max(when, reached_), fault, target);
  wake();
}

EmulatorStatistics Emulator::statistics() {
  const std::lock_guard lock(mutex_);
  EmulatorCounters all = counters_;
  all.time = now();
  all.cpu = cpu_time();
  all.inside = fabric_.packets_inside();
  all.active_faults = fabric_.active_faults();
  const EgressCounters& egress = egress_->counters();
  all.delivered = egress.datagrams;
  all.delivered_bytes = egress.bytes;
  all.send_calls = egress.calls;
  all.send_failed = egress.send_failed;
  all.bind_failed = egress.bind_failed;
  all.sockets_open = egress_->sockets_open();
  all.sockets_opened = egress.sockets_opened;
  all.sockets_closed = egress.sockets_closed;
  return {std::move(all), link_statistics()};
}

TimePs Emulator::cpu_time() {
  clockid_t clock{};
  timespec cpu{};
  const bool runs = running_ && ::pthread_getcpuclockid(thread_.native_handle(), &clock) == 0;
  if (!runs || ::clock_gettime(clock, &cpu) != 0) return counters_.cpu;
  return cpu.tv_sec * kPsPerSecond + cpu.tv_nsec * kPsPerNs;
}

std::vector<LinkStatistics> Emulator::link_statistics() const {
  const ClosShape& shape = fabric_.shape();
  std::vector<LinkStatistics> all;
  all.reserve(std::size_t{shape.planes} * shape.links_per_plane());
  for (std::uint32_t plane = 0; plane < shape.planes; ++plane) {
    for (LinkId link = 0; link < shape.links_per_plane(); ++link) {
      all.push_back(statistics_of(plane, fabric_.plane(plane), ends_of(shape, link), link));
    }
  }
  return all;
}

}  // namespace openmrc::netsim
