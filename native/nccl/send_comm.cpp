// The sending end: messages go to the receives that the peer announces.
#include <algorithm>

#include "nccl/comm.hpp"

namespace openmrc::nccl {
namespace {

constexpr std::uint32_t kWorksMax = 1024;  // the send queue

std::uint32_t chunks_of(std::size_t size_bytes) {
  return size_bytes == 0 ? 1 : static_cast<std::uint32_t>((size_bytes + kChunkBytes - 1) / kChunkBytes);
}

}  // namespace

SendComm::SendComm(std::shared_ptr<Adapter> adapter)
    : Comm(std::move(adapter), kLocalRead),
      slots_region_(Comm::register_memory(slots_.get(), sizeof(Slots), kLocalWrite | kRemoteWrite)) {}

EndDescription SendComm::description() const {
  EndDescription end = Comm::description();
  end.slots_address = reinterpret_cast<std::uintptr_t>(slots_.get());
  end.slots_key = slots_region_->key;
  return end;
}

Request* SendComm::send(const void* data, std::size_t size_bytes, int tag, const void* mhandle) {
  check_process();
  const std::lock_guard guard(mutex_);
  poll();
  check();
  if (groups_.empty()) return nullptr;
  Group& group = groups_.front();
  const AnnouncedGroup& announced = group.announced;
  std::uint32_t index = 0;
  while (index < announced.count && ((group.used >> index & 1U) != 0 || announced.receives[index].tag != tag)) ++index;
  if (index == announced.count) return nullptr;
  const Announced& to = announced.receives[index];
  if (size_bytes > to.size_bytes) {
    throw Failure{ncclInvalidUsage, "a message of " + std::to_string(size_bytes) + " bytes with tag " +
                                        std::to_string(tag) + " is longer than its receive of " +
                                        std::to_string(to.size_bytes)};
  }
  std::uint32_t key = 0;
  if (size_bytes > 0) {
    const Region& region = region_of(mhandle);
    if (!region.holds(data, size_bytes)) {
      throw Failure{ncclInvalidUsage, "a message of " + std::to_string(size_bytes) + " bytes exceeds its memory"};
    }
    key = region.key;
  }
  const std::uint32_t works = chunks_of(size_bytes);
  if (works_ + works > kWorksMax) return nullptr;
  Request* request = new_request(1);
  request->sizes[0] = size_bytes;
  const Arrival place{static_cast<std::uint32_t>(announced.sequence % kSlots), index, works - 1};
  pending_.push_back({request, works});
  const Status status = post_message(to, place, data, size_bytes, key);
  if (status != Status::kOk) {
    pending_.pop_back();
    drop(request);
    poll();
    check();
    throw Failure{ncclSystemError, "a message cannot be posted: status " + std::to_string(static_cast<int>(status))};
  }
  works_ += works;
  ++sent_;
  group.used |= 1U << index;
  if (group.used == (1U << announced.count) - 1) groups_.pop_front();
  return request;
}

Status SendComm::post_message(const Announced& to, const Arrival& place, const void* data, std::size_t size_bytes,
                              std::uint32_t key) {
  std::vector<SendWr> work(place.chunks + 1);
  std::uint64_t at = 0;
  for (SendWr& one : work) {
    one.length_bytes = std::min<std::uint64_t>(size_bytes - at, kChunkBytes);
    one.local_address = reinterpret_cast<std::uintptr_t>(data) + at;
    one.lkey = key;
    one.remote_address = to.address + at;
    one.rkey = to.key;
    one.signaled = false;
    at += one.length_bytes;
  }
  work.back().opcode = WrOpcode::kWriteImm;
  work.back().immediate = immediate_of(place);
  work.back().signaled = true;
  return post(work);
}

// A group of receives has been announced.
void SendComm::handle_arrival(const Completion& completion) {
  const std::uint64_t slot = announced_ % kSlots;
  Group group;
  const bool valid = completion.immediate == slot && completion.bytes <= kSlotBytes && groups_.size() < kSlots &&
                     read_group(std::span(slots_->bytes[slot]).first(completion.bytes), group.announced) &&
                     group.announced.sequence == announced_;
  if (!valid) {
    fail(ncclRemoteError, "the peer announced receives against the rules");
    return;
  }
  ++announced_;
  groups_.push_back(group);
  post_receives(1);
}

void SendComm::handle_written() {
  const Pending done = pending_.front();
  pending_.pop_front();
  works_ -= done.works;
  done.request->done = true;
}

// Messages that the peer has may lack their acknowledgement.
void SendComm::handle_goodbye(std::uint64_t completed) {
  while (!pending_.empty() && sent_ - pending_.size() < completed) handle_written();
}

}  // namespace openmrc::nccl
