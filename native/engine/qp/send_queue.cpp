#include "engine/qp/send_queue.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"

namespace openmrc {

Status SendQueue::post(const SendWr& wr) {
  if (wqes_.size() >= context_.init.send_wr_max) return Status::kQueueFull;
  if (wr.length_bytes > kMessageBytesMax) return Status::kLimit;
  Wqe wqe;
  wqe.wr = wr;
  if (wr.length_bytes > 0) {
    Region* region = context_.services.memory.find(wr.lkey);
    if (region == nullptr || region->domain != context_.init.domain) return Status::kNotFound;
    if (!region->contains(wr.local_address, wr.length_bytes)) return Status::kInvalidArgument;
    wqe.local = region->at(wr.local_address);
    wqe.region = region;
    ++region->posted_sends;
  }
  const std::uint64_t mtu = context_.payload_mtu;
  wqe.first_psn = next_psn_;
  wqe.packet_count = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (wr.length_bytes + mtu - 1) / mtu));
  wqe.msn = static_cast<std::uint16_t>(posted_++);
  wqe.rqmsn = static_cast<std::uint16_t>(posted_imm_);
  if (wr.opcode == WrOpcode::kWriteImm) ++posted_imm_;
  next_psn_ = wqe.end_psn();
  wqes_.push_back(wqe);
  return Status::kOk;
}

const Wqe& SendQueue::at(Psn psn) const {
  MRC_ASSERT(!wqes_.empty() && psn >= wqes_.front().first_psn && psn < next_psn_);
  if (latest_ >= completed_ && latest_ - completed_ < wqes_.size()) {
    const Wqe& wqe = wqes_[latest_ - completed_];
    if (psn >= wqe.first_psn && psn < wqe.end_psn()) return wqe;
  }
  const auto after = std::upper_bound(wqes_.begin(), wqes_.end(), psn,
                                      [](Psn wanted, const Wqe& wqe) { return wanted < wqe.first_psn; });
  latest_ = completed_ + static_cast<std::uint64_t>(after - wqes_.begin()) - 1;
  return *(after - 1);
}

void SendQueue::complete_front() {
  context_.stats.completed_messages += 1;
  context_.stats.completed_bytes += wqes_.front().wr.length_bytes;
  finish(WcStatus::kSuccess);
}

// A.8.6: sends complete in order.
void SendQueue::fail_all(WcStatus status) {
  while (!wqes_.empty()) {
    finish(status);
    status = WcStatus::kFlushed;
  }
}

void SendQueue::discard_all() {
  for (const Wqe& wqe : wqes_) {
    if (wqe.region != nullptr) --wqe.region->posted_sends;
  }
  wqes_.clear();
}

void SendQueue::finish(WcStatus status) {
  const Wqe& wqe = wqes_.front();
  if (wqe.region != nullptr) --wqe.region->posted_sends;
  if (wqe.wr.signaled || status != WcStatus::kSuccess) {
    const Completion completion{.wr_id = wqe.wr.wr_id,
                                .bytes = wqe.wr.length_bytes,
                                .qp = context_.qpn,
                                .status = status,
                                .opcode = WcOpcode::kWrite};
    if (!context_.send_cq->push(completion)) context_.fail(QpErrorCause::kCqOverrun);
  }
  wqes_.pop_front();
  ++completed_;
}

}  // namespace openmrc
