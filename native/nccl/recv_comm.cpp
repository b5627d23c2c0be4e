// The receiving end: announces receives, and waits for the messages.
#include "nccl/comm.hpp"

namespace openmrc::nccl {
namespace {

constexpr std::uint32_t kAnnouncingMax = 4 * kSlots;  // whose acknowledgements are missing

}  // namespace

RecvComm::RecvComm(std::shared_ptr<Adapter> adapter) : Comm(std::move(adapter), kLocalWrite | kRemoteWrite) {}

Request* RecvComm::receive(std::span<void* const> data, std::span<const std::size_t> sizes, std::span<const int> tags,
                           std::span<void* const> mhandles) {
  check_process();
  const std::lock_guard guard(mutex_);
  poll();
  check();
  if (groups_.size() == kSlots || announcing_ == kAnnouncingMax) return nullptr;
  AnnouncedGroup announced;
  announced.sequence = next_;
  announced.count = static_cast<std::uint32_t>(data.size());
  Group group;
  for (std::size_t i = 0; i < data.size(); ++i) {
    group.room_bytes[i] = sizes[i];
    announced.receives[i] = {reinterpret_cast<std::uintptr_t>(data[i]), sizes[i], 0, tags[i]};
    if (sizes[i] == 0) continue;
    const Region& region = region_of(mhandles[i]);
    if (sizes[i] > kMessageSizeMax || !region.holds(data[i], sizes[i])) {
      throw Failure{ncclInvalidUsage, "a receive of " + std::to_string(sizes[i]) + " bytes exceeds its memory"};
    }
    announced.receives[i].key = region.key;
  }
  post_receives(announced.count);
  std::array<std::uint8_t, group_bytes(kGroupMax)> bytes{};
  write_group(bytes, announced);
  SendWr work;
  work.opcode = WrOpcode::kWriteImm;
  work.local_address = reinterpret_cast<std::uintptr_t>(bytes.data());
  work.length_bytes = group_bytes(announced.count);
  work.inline_data = true;
  work.remote_address = slot_address(next_ % kSlots);
  work.rkey = slots_key();
  work.immediate = static_cast<std::uint32_t>(next_ % kSlots);
  const Status status = post({&work, 1});
  if (status != Status::kOk) {
    poll();
    check();
    throw Failure{ncclSystemError, "receives cannot be announced: status " + std::to_string(static_cast<int>(status))};
  }
  ++announcing_;
  ++next_;
  group.request = new_request(announced.count);
  group.count = announced.count;
  groups_.push_back(group);
  return group.request;
}

void RecvComm::handle_arrival(const Completion& completion) {
  const Arrival arrival = arrival_of(completion.immediate);
  const std::uint64_t first = next_ - groups_.size();
  const std::uint64_t place = (arrival.slot + kSlots - first % kSlots) % kSlots;
  const std::uint64_t size_bytes = arrival.chunks * kChunkBytes + completion.bytes;
  const bool known = place < groups_.size() && arrival.index < groups_[place].count &&
                     (groups_[place].arrived >> arrival.index & 1U) == 0;
  if (!known || size_bytes > groups_[place].room_bytes[arrival.index]) {
    fail(ncclRemoteError, known ? "the peer sent a message longer than its receive" : "the peer sent to no receive");
    return;
  }
  Group& group = groups_[place];
  group.request->sizes[arrival.index] = size_bytes;
  group.arrived |= 1U << arrival.index;
  ++received_;
  if (group.arrived == (1U << group.count) - 1) {
    group.request->done = true;
    group.request = nullptr;
  }
  while (!groups_.empty() && groups_.front().request == nullptr) groups_.pop_front();
}

}  // namespace openmrc::nccl
