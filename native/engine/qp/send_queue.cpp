#include "engine/qp/send_queue.hpp"

#include <algorithm>
#include <cstring>

#include "engine/base/assert.hpp"

namespace openmrc {
namespace {

WcOpcode completed_as(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::kWrite:
    case WrOpcode::kWriteImm:
      break;
    case WrOpcode::kSend:
    case WrOpcode::kSendImm:
      return WcOpcode::kSend;
    case WrOpcode::kRead:
      return WcOpcode::kRead;
    case WrOpcode::kCompareSwap:
      return WcOpcode::kCompareSwap;
    case WrOpcode::kFetchAdd:
      return WcOpcode::kFetchAdd;
  }
  return WcOpcode::kWrite;
}

}  // namespace

const std::uint8_t* Gather::at(std::uint64_t offset) const {
  const auto piece = std::upper_bound(pieces.begin(), pieces.end(), offset,
                                      [](std::uint64_t wanted, const Piece& one) { return wanted < one.end; });
  if (piece == pieces.end() || piece->bytes == nullptr) return nullptr;
  return piece->bytes + (offset - (piece == pieces.begin() ? 0 : (piece - 1)->end));
}

Status SendQueue::prepare(const SendWr& wr, Wqe& wqe) {
  // A.1.1: MRC has no other operations.
  if (context_.init.transport == Transport::kMrc && wr.opcode > WrOpcode::kWriteImm) return Status::kInvalidArgument;
  if (wr.opcode > WrOpcode::kFetchAdd) return Status::kInvalidArgument;
  wqe.payload_mtu = context_.payload.payload();
  return bind(wr, wqe);
}

Status SendQueue::check(const SendWr& wr) {
  Wqe wqe{.wr = wr};
  const Status status = prepare(wr, wqe);
  if (status == Status::kOk) release(wqe);
  return status;
}

Status SendQueue::post(const SendWr& wr) {
  if (wqes_.size() >= context_.init.send_wr_max) return Status::kQueueFull;
  Wqe wqe{.wr = wr};
  const Status status = prepare(wr, wqe);
  if (status != Status::kOk) return status;
  const std::uint64_t mtu = wqe.payload_mtu;
  wqe.first_psn = next_psn_;
  wqe.packet_count = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, (wqe.wr.length_bytes + mtu - 1) / mtu));
  wqe.msn = static_cast<std::uint16_t>(posted_++);
  wqe.rqmsn = static_cast<std::uint16_t>(posted_imm_);
  if (wr.opcode == WrOpcode::kWriteImm) ++posted_imm_;
  if (wr.fence) wqe.fence_psn = results_end_;
  next_psn_ = wqe.end_psn();
  if (wqe.result != nullptr) results_end_ = next_psn_;
  wqes_.push_back(std::move(wqe));
  return Status::kOk;
}

// Looks its memory up, so that a valid message needs nothing more from the application.
Status SendQueue::bind(const SendWr& wr, Wqe& wqe) {
  if (wr.sges.size() > kSgesMax) return Status::kLimit;
  const Sge one{wr.local_address, wr.length_bytes, wr.lkey};
  const std::span<const Sge> sges = wr.sges.empty() ? std::span<const Sge>(&one, 1) : wr.sges;
  wqe.wr.sges = {};
  wqe.wr.length_bytes = 0;
  for (const Sge& sge : sges) {
    if (sge.length_bytes > kMessageBytesMax) return Status::kLimit;
    wqe.wr.length_bytes += sge.length_bytes;
  }
  if (wqe.wr.length_bytes > (wr.inline_data ? kInlineBytesMax : kMessageBytesMax)) return Status::kLimit;
  if (wr.opcode >= WrOpcode::kRead) return bind_result(wr, sges, wqe);
  if (wqe.wr.length_bytes == 0) return Status::kOk;
  if (sges.size() == 1 && !wr.inline_data) return bind_one(sges.front(), wqe);
  wqe.gather = std::make_unique<Gather>();
  if (wr.inline_data) {
    stage_inline(sges, wqe);
    return Status::kOk;
  }
  const Status status = bind_list(sges, wqe.payload_mtu, *wqe.gather);
  if (status != Status::kOk) release(wqe);
  return status;
}

Status SendQueue::bind_result(const SendWr& wr, std::span<const Sge> sges, Wqe& wqe) {
  const bool atomic = wr.opcode != WrOpcode::kRead;
  if (wr.inline_data || (atomic && wqe.wr.length_bytes != kAtomicBytes)) return Status::kInvalidArgument;
  const Status status = check_writable(context_.services.memory, context_.init.domain, sges);
  if (status != Status::kOk) return status;
  wqe.result = std::make_unique<TakenReceive>();
  wqe.result->domain = context_.init.domain;
  wqe.result->sges.assign(sges.begin(), sges.end());
  return Status::kOk;
}

Region* SendQueue::find(const Sge& sge, Status& status) {
  Region* region = context_.services.memory.find(sge.lkey);
  if (region == nullptr || region->domain != context_.init.domain) {
    status = Status::kNotFound;
  } else if (!region->contains(sge.address, sge.length_bytes)) {
    status = Status::kInvalidArgument;
  } else {
    return region;
  }
  return nullptr;
}

Status SendQueue::bind_one(const Sge& sge, Wqe& wqe) {
  Status status = Status::kOk;
  Region* region = find(sge, status);
  if (region == nullptr) return status;
  wqe.local = region->at(sge.address);
  wqe.region = region;
  ++region->posted_sends;
  return Status::kOk;
}

void SendQueue::stage_inline(std::span<const Sge> sges, Wqe& wqe) {
  Gather& gather = *wqe.gather;
  gather.staged_bytes = wqe.wr.length_bytes;
  gather.staged = context_.services.staging.take(gather.staged_bytes);
  std::uint8_t* at = gather.staged;
  for (const Sge& sge : sges) {
    if (sge.length_bytes == 0) continue;  // its address may be null
    std::memcpy(at, reinterpret_cast<const void*>(static_cast<std::uintptr_t>(sge.address)), sge.length_bytes);
    at += sge.length_bytes;
  }
  gather.pieces.push_back({gather.staged_bytes, gather.staged});
}

// X.8.2
Status SendQueue::bind_list(std::span<const Sge> sges, std::uint64_t mtu, Gather& gather) {
  gather.staged_bytes = sges.size() * mtu;
  gather.staged = context_.services.staging.take(gather.staged_bytes);
  std::uint8_t* packet = gather.staged;  // the staged packet under way
  std::uint64_t offset = 0, filled = 0;  // of the message; of that packet
  for (const Sge& sge : sges) {
    if (sge.length_bytes == 0) continue;
    Status status = Status::kOk;
    Region* region = find(sge, status);
    if (region == nullptr) return status;
    ++region->posted_sends;
    gather.regions.push_back(region);
    const std::uint8_t* bytes = region->at(sge.address);
    const auto stage = [&](std::uint64_t from, std::uint64_t count) {
      if (bytes != nullptr) std::memcpy(packet + filled, bytes + from, count);
      offset += count;
      filled += count;
      if (filled < mtu) return;
      gather.pieces.push_back({offset, packet});
      packet += mtu;
      filled = 0;
    };
    std::uint64_t used = filled > 0 ? std::min(mtu - filled, sge.length_bytes) : 0;
    if (used > 0) stage(0, used);
    const std::uint64_t whole = (sge.length_bytes - used) / mtu * mtu;
    if (whole > 0) {
      offset += whole;
      gather.pieces.push_back({offset, bytes == nullptr ? nullptr : bytes + used});
      used += whole;
    }
    if (used < sge.length_bytes) stage(used, sge.length_bytes - used);
  }
  if (filled > 0) gather.pieces.push_back({offset, packet});
  return Status::kOk;
}

const Wqe& SendQueue::at(Psn psn) const {
  MRC_ASSERT(!wqes_.empty() && psn >= wqes_.front().first_psn && psn < next_psn_);
  if (latest_ >= completed_ && latest_ - completed_ < wqes_.size()) {
    const Wqe& wqe = wqes_[latest_ - completed_];
    if (psn >= wqe.first_psn && psn < wqe.end_psn()) return wqe;
  }
  if (psn >= wqes_.back().first_psn) {  // posted alone, behind messages that wait for their acknowledgement
    latest_ = completed_ + wqes_.size() - 1;
    return wqes_.back();
  }
  std::size_t index = 0;
  for (std::size_t beyond = wqes_.size(); beyond - index > 1;) {
    const std::size_t middle = index + (beyond - index) / 2;
    (wqes_[middle].first_psn > psn ? beyond : index) = middle;
  }
  latest_ = completed_ + index;
  return wqes_[index];
}

void SendQueue::complete_front() {
  context_.stats.completed_messages += 1;
  context_.stats.completed_bytes += wqes_.front().wr.length_bytes;
  finish(WcStatus::kSuccess);
}

// A.8.6: sends complete in order.
void SendQueue::fail_all(WcStatus status) {
  while (!wqes_.empty()) {
    std::unique_ptr<Gather>& gather = wqes_.front().gather;
    if (gather != nullptr) {
      for (Region* region : gather->regions) --region->posted_sends;
      gather->regions.clear();
      failed_.push_back(std::move(gather));
    }
    finish(status);
    status = WcStatus::kFlushed;
  }
}

void SendQueue::discard_all() {
  for (std::size_t i = 0; i < wqes_.size(); ++i) release(wqes_[i]);
  wqes_.clear();
  for (const std::unique_ptr<Gather>& gather : failed_) release(*gather);
  failed_.clear();
}

void SendQueue::release(const Wqe& wqe) {
  if (wqe.region != nullptr) --wqe.region->posted_sends;
  if (wqe.gather != nullptr) release(*wqe.gather);
}

void SendQueue::release(const Gather& gather) {
  for (Region* region : gather.regions) --region->posted_sends;
  if (gather.staged != nullptr) context_.services.staging.give(gather.staged, gather.staged_bytes);
}

void SendQueue::finish(WcStatus status) {
  const Wqe& wqe = wqes_.front();
  release(wqe);
  if (wqe.wr.signaled || status != WcStatus::kSuccess) {
    const Completion completion{.wr_id = wqe.wr.wr_id,
                                .bytes = wqe.wr.length_bytes,
                                .qp = context_.qpn,
                                .status = status,
                                .opcode = completed_as(wqe.wr.opcode)};
    if (!context_.send_cq->push(completion)) context_.fail(QpErrorCause::kCqOverrun);
  }
  wqes_.pop_front();
  ++completed_;
}

}  // namespace openmrc
