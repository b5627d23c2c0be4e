#include "nccl/comm.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>

#include "nccl/line_placer.hpp"
#include "nccl/live.hpp"

namespace openmrc::nccl {
namespace {

constexpr std::uint32_t kSendsMax = 1024;  // WRITEs: messages, and chunks of long ones
constexpr std::uint32_t kReceivesMax = kSlots * kGroupMax;
constexpr std::uint32_t kCompletionsMax = kSendsMax + kReceivesMax;
static_assert(kMessageSizeMax / kChunkBytes < kSendsMax);
static_assert(kPayloadMtuMin % kLineBytes == 0 && kPayloadMtuMax % kLineBytes == 0 && kChunkBytes % kLineBytes == 0);

// Acknowledgements leave at once: NCCL may not call again for long, and its next message rarely is an answer.
constexpr nic::TimeNs kAnswerWithin = 0;

// As `openmrc.connection` watches its peers.
constexpr nic::TimeNs kLook = nic::kNsPerMs;
constexpr nic::TimeNs kQuiet = nic::kNsPerSecond;
constexpr std::uint32_t kQuestionsQuiet = 20;
constexpr nic::TimeNs kAskCut = 10 * nic::kNsPerMs;
constexpr nic::TimeNs kSilenceCut = 60 * nic::kNsPerMs;
constexpr std::uint32_t kQuestionsCut = 5;

[[noreturn]] void refuse(const std::string& what, Status status) {
  throw Failure{ncclSystemError, what + ": status " + std::to_string(static_cast<int>(status))};
}

const char* cause_of(WcStatus status) {
  switch (status) {
    case WcStatus::kLocalProtection:
      return "the memory of a request is not registered any more";
    case WcStatus::kRetryExceeded:
    case WcStatus::kRnrRetryExceeded:
      return "the peer does not answer on any plane";
    case WcStatus::kRemoteAccess:
      return "the peer refuses access to the memory that it announced";
    default:
      return "the connection failed";
  }
}

}  // namespace

bool Region::holds(const void* data, std::size_t bytes) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(base);
  const auto at = reinterpret_cast<std::uintptr_t>(data);
  return at >= begin && at - begin <= size_bytes && bytes <= size_bytes - (at - begin);
}

Comm::Comm(std::shared_ptr<Adapter> adapter, std::uint8_t access)
    : adapter_(std::move(adapter)), own_(adapter_->description()), domain_(adapter_->next_domain()), access_(access) {
  own_.payload_room = kPayloadMtuMax;
  own_.psn = random_number() & (kPsnSpace - 1);
  create_queues();
}

void Comm::create_queues() {
  nic::Device& device = adapter_->device();
  Status status = device.create_cq(kCompletionsMax, cq_);
  if (status != Status::kOk) refuse("a completion queue cannot be created", status);
  QpInitAttributes attributes;
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.send_wr_max = kSendsMax;
  attributes.recv_wr_max = kReceivesMax;
  attributes.domain = domain_;
  status = device.command([&](Engine& engine, TimePs) { return engine.create_qp(attributes, own_.qp); });
  if (status == Status::kOk) return;
  device.destroy_cq(cq_);
  refuse("a QP cannot be created", status);
}

void Comm::tear_down() {
  if (std::exchange(torn_down_, true)) return;
  try {
    nic::Device& device = adapter_->device();
    device.command([&](Engine& engine, TimePs now) { return engine.destroy_qp(now, own_.qp); });
    device.destroy_cq(cq_);
    for (const Region* region : regions_) device.deregister_memory(region->key);
  } catch (const nic::ForkedError&) {  // the parent's objects live on in the parent
  }
  for (const Request* request : requests_) {
    remove_live(request, Kind::kRequest);
    delete request;
  }
  for (const Region* region : regions_) {
    remove_live(region, Kind::kRegion);
    delete region;
  }
}

void Comm::close() {
  const std::lock_guard guard(mutex_);
  if (!socket_.valid()) return;
  drain();
  std::array<std::uint8_t, kCloseBytes> bytes{};
  write_close(bytes, completed());
  (void)::send(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  socket_.reset();
}

EndDescription Comm::description() const { return own_; }

void Comm::establish(const EndDescription& theirs, std::uint32_t payload) {
  adapter_->connect_qp(own_, theirs, payload);
  their_slots_ = theirs.slots_address;
  their_key_ = theirs.slots_key;
  if (receives_posted() > 0) post_receives(receives_posted());
}

// Does not touch the memory: mappings of device drivers, such as pinned memory of CUDA, cannot be probed.
Region* Comm::register_memory(void* data, std::size_t size_bytes, std::uint8_t access) {
  auto region = std::make_unique<Region>();
  region->base = static_cast<std::uint8_t*>(data);
  region->size_bytes = size_bytes;
  const std::lock_guard guard(mutex_);
  const auto placer = (access & kRemoteWrite) != 0
                          ? std::make_shared<LinePlacer>(region->base, needs_lines_in_order(std::getenv("NCCL_PROTO")))
                          : nullptr;
  const Status status =
      adapter_->device().register_memory(region->base, size_bytes, access, region->key, domain_, {}, placer);
  if (status != Status::kOk) refuse("memory of " + std::to_string(size_bytes) + " bytes cannot be registered", status);
  regions_.insert(region.get());
  add_live(region.get(), Kind::kRegion);
  return region.release();
}

void Comm::deregister_memory(const Region* region) {
  check_process();
  const std::lock_guard guard(mutex_);
  if (!regions_.contains(region)) throw Failure{ncclInternalError, "deregMr: no memory of this connection"};
  const Status status = adapter_->device().deregister_memory(region->key);
  if (status == Status::kBusy) throw Failure{ncclInternalError, "deregMr: a request still uses the memory"};
  regions_.erase(region);
  remove_live(region, Kind::kRegion);
  delete region;
}

bool Comm::test(Request* request, int* sizes) {
  check_process();
  const std::lock_guard guard(mutex_);
  if (!request->done) poll();
  if (!request->done) {
    check();
    return false;
  }
  for (std::uint32_t i = 0; sizes != nullptr && i < request->count; ++i) {
    sizes[i] = static_cast<int>(std::min<std::uint64_t>(request->sizes[i], INT_MAX));
  }
  drop(request);
  return true;
}

void Comm::drop(const Request* request) {
  requests_.erase(request);
  remove_live(request, Kind::kRequest);
  delete request;
}

Request* Comm::new_request(std::uint32_t count) {
  auto request = std::make_unique<Request>();
  request->comm = this;
  request->count = count;
  requests_.insert(request.get());
  add_live(request.get(), Kind::kRequest);
  return request.release();
}

void Comm::check() const {
  if (failed_ != ncclSuccess) throw Failure{failed_, reason_};
}

void Comm::fail(ncclResult_t result, std::string reason) {
  if (failed_ != ncclSuccess) return;
  failed_ = result;
  reason_ = std::move(reason);
  stop();
}

// Ends repetitions to a peer that is gone.
void Comm::stop() {
  adapter_->device().command([&](Engine& engine, TimePs now) { return engine.move_to_error(now, own_.qp); });
}

const Region& Comm::region_of(const void* mhandle) const {
  const auto* region = static_cast<const Region*>(mhandle);
  if (!regions_.contains(region)) throw Failure{ncclInternalError, "the memory handle is none of this connection"};
  return *region;
}

Status Comm::post(std::span<const SendWr> work) {
  std::size_t posted = 0;
  const Status status = adapter_->device().post_sends(own_.qp, work, posted);
  if (status != Status::kOk && posted > 0) refuse("a message was posted in part", status);
  return status;
}

void Comm::post_receives(std::uint32_t count) {
  std::uint32_t posted = 0;
  const Status status = adapter_->device().post_recvs(own_.qp, 0, count, posted);
  if (status == Status::kOk && posted == count) return;
  poll();  // the reason, if the QP has failed
  check();
  refuse("receives cannot be posted", status);
}

// --- completions

// NCCL's thread comes back at once and must not be blocked, so it runs the NIC itself, and the I/O threads stand back.
// Two threads that dispute a device spend more time in waits for its lock than a second processor saves.
void Comm::poll() {
  bool found = drain();
  if (!found && adapter_->device().progress(kAnswerWithin) > 0) found = drain();
  if (!found && failed_ == ncclSuccess) watch();
}

bool Comm::drain() {
  bool found = false;
  while (true) {
    const std::size_t count = adapter_->device().poll_cq(cq_, batch_);
    for (std::size_t i = 0; i < count; ++i) handle(batch_[i]);
    found = found || count > 0;
    if (count < batch_.size()) return found;
  }
}

void Comm::handle(const Completion& completion) {
  if (failed_ != ncclSuccess) return;  // flushed work
  if (completion.status != WcStatus::kSuccess) {
    const bool local = completion.status == WcStatus::kLocalProtection;
    fail(local ? ncclInternalError : ncclRemoteError, cause_of(completion.status));
  } else if (completion.opcode == WcOpcode::kRecvWriteImm) {
    handle_arrival(completion);
  } else {
    handle_written();
  }
}

// --- the peer's life

void Comm::watch() {
  const nic::TimeNs now = nic::now_ns();
  if (now < next_look_) return;
  next_look_ = now + kLook;
  if (socket_.valid()) read_socket(now);
  if (failed_ == ncclSuccess && now >= next_question_) question_peer(now);
}

// The end of the TCP connection alone is no evidence: MRC does not need it. Timeouts of TCP and failures of its network
// are even less.
void Comm::read_socket(nic::TimeNs now) {
  const ssize_t got =
      ::recv(socket_.get(), closing_.data() + closing_bytes_, kCloseBytes - closing_bytes_, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got > 0) {
    closing_bytes_ += static_cast<std::size_t>(got);
    if (closing_bytes_ < kCloseBytes) return;
    std::uint64_t completed = 0;
    socket_.reset();
    if (!read_close(closing_, completed)) {
      fail(ncclRemoteError, "the peer sent something else than a goodbye");
      return;
    }
    drain();  // messages that arrived before the goodbye
    handle_goodbye(completed);
    fail(ncclRemoteError, "the peer has closed the connection");
    return;
  }
  if (got == 0 || errno == ECONNRESET || errno == EPIPE) {
    cut_since_ = now;
    questions_ = 0;
    next_question_ = now;
  }
  socket_.reset();
}

void Comm::question_peer(nic::TimeNs now) {
  const Silence since = silence();
  if (cut_since_ != 0 && since.answered_ns < now - cut_since_) cut_since_ = 0;  // only TCP has ended
  const bool cut = cut_since_ != 0;
  if (!cut && since.heard_ns < kQuiet) {
    questions_ = 0;
    next_question_ = now + kQuiet - since.heard_ns;
    return;
  }
  const bool silent = !cut || std::min(since.heard_ns, now - cut_since_) >= kSilenceCut;
  if (silent && questions_ >= (cut ? kQuestionsCut : kQuestionsQuiet)) {
    drain();
    fail(ncclRemoteError, cut ? "the peer has ended without a goodbye" : "the peer has been silent for too long");
    return;
  }
  ++questions_;
  next_question_ = now + (cut ? kAskCut : kQuiet);
  adapter_->device().command([&](Engine& engine, TimePs) { return engine.ask_peer(own_.qp); });
}

Comm::Silence Comm::silence() {
  return adapter_->device().command([&](Engine& engine, TimePs now) {
    return Silence{(now - engine.qp_heard(own_.qp)) / kPsPerNs, (now - engine.qp_answered(own_.qp)) / kPsPerNs};
  });
}

}  // namespace openmrc::nccl
