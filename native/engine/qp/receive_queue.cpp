#include "engine/qp/receive_queue.hpp"

#include <algorithm>
#include <cstring>

namespace openmrc {
namespace {

const Region* writable(MemoryTable& memory, DomainId domain, const Sge& sge) {
  const Region* region = memory.find(sge.lkey);
  const bool granted = region != nullptr && region->domain == domain && (region->access & kLocalWrite) != 0 &&
                       region->contains(sge.address, sge.length_bytes);
  return granted ? region : nullptr;
}

}  // namespace

TakenReceive::Outcome TakenReceive::place(MemoryTable& memory, std::uint64_t offset, const std::uint8_t* data,
                                          std::uint64_t bytes) const {
  std::uint64_t capacity = 0;
  for (const Sge& sge : sges) capacity += sge.length_bytes;
  if (offset > capacity || bytes > capacity - offset) return Outcome::kTooLong;
  for (const bool write : {false, true}) {
    std::uint64_t skip = offset, left = bytes, done = 0;
    for (const Sge& sge : sges) {
      if (left == 0) break;
      if (skip >= sge.length_bytes) {
        skip -= sge.length_bytes;
        continue;
      }
      const std::uint64_t piece = std::min(left, sge.length_bytes - skip);
      const Region* region = writable(memory, domain, sge);
      if (region == nullptr) return Outcome::kNoAccess;
      std::uint8_t* target = region->at(sge.address + skip);
      if (write && target != nullptr && data != nullptr) std::memcpy(target, data + done, piece);
      left -= piece;
      done += piece;
      skip = 0;
    }
  }
  return Outcome::kPlaced;
}

Status check_writable(MemoryTable& memory, DomainId domain, std::span<const Sge> sges) {
  if (sges.size() > kSgesMax) return Status::kLimit;
  std::uint64_t bytes = 0;
  for (const Sge& sge : sges) {
    if (sge.length_bytes > kMessageBytesMax) return Status::kLimit;
    if (sge.length_bytes > 0 && writable(memory, domain, sge) == nullptr) {
      return memory.find(sge.lkey) == nullptr ? Status::kNotFound : Status::kInvalidArgument;
    }
    bytes += sge.length_bytes;
  }
  return bytes > kMessageBytesMax ? Status::kLimit : Status::kOk;
}

Status ReceiveQueue::post(MemoryTable& memory, std::uint64_t wr_id, std::span<const Sge> sges) {
  if (posted_.size() >= capacity_) return Status::kQueueFull;
  if (const Status status = check_writable(memory, domain_, sges); status != Status::kOk) return status;
  posted_.push_back({wr_id, static_cast<std::uint32_t>(sges.size())});
  for (const Sge& sge : sges) sges_.push_back(sge);
  return Status::kOk;
}

bool ReceiveQueue::set_limit(std::uint32_t limit) {
  if (limit > capacity_) return false;
  limit_ = limit;
  return true;
}

bool ReceiveQueue::resize(std::uint32_t capacity, std::uint32_t limit) {
  if (capacity == 0 || capacity < size() || limit > capacity) return false;
  capacity_ = capacity;
  limit_ = limit;
  return true;
}

bool ReceiveQueue::take_limit() {
  if (posted_.size() >= limit_) return false;
  limit_ = 0;
  return true;
}

void ReceiveQueue::take(TakenReceive& taken) {
  const Posted posted = posted_.front();
  posted_.pop_front();
  taken.wr_id = posted.wr_id;
  taken.domain = domain_;
  taken.sges.clear();
  for (std::uint32_t i = 0; i < posted.sge_count; ++i) {
    taken.sges.push_back(sges_.front());
    sges_.pop_front();
  }
}

std::uint64_t ReceiveQueue::take_id() {
  const Posted posted = posted_.front();
  posted_.pop_front();
  for (std::uint32_t i = 0; i < posted.sge_count; ++i) sges_.pop_front();
  return posted.wr_id;
}

}  // namespace openmrc
