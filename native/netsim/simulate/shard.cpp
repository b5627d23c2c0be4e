#include "netsim/simulate/shard.hpp"

#include <algorithm>

namespace openmrc::netsim {
namespace {

constexpr std::size_t kLine = Prefetch::kLine;
// Prefetching more of one NIC would evict the data of the current one.
constexpr std::size_t kRangesMax = 40;
constexpr std::uint32_t kLinesMax = 40;

}  // namespace

Shard::Shard(std::uint32_t first_host, std::uint32_t hosts)
    : first_host_(first_host), nics_(hosts), wakes_(hosts, 0), begins_(std::size_t{hosts} + 1) {}

// Sorts by host, and for each host by time and plane: a counting sort, since the mail of every plane is in order of
// time.
void Shard::sort_mail(TimePs end, std::uint32_t planes, const ShardMap& shards) {
  std::fill(begins_.begin(), begins_.end(), 0U);
  kept_ = 0;
  for (std::uint32_t plane = 0; plane < planes; ++plane) {
    for (const Mail& mail : mail_[plane]) {
      if (mail.time < end) {
        ++begins_[mail.packet.destination_host - first_host_ + 1];
      } else {
        ++kept_;
      }
    }
  }
  for (std::size_t host = 1; host < begins_.size(); ++host) begins_[host] += begins_[host - 1];
  sorted_.resize(begins_.back());
  for (std::uint32_t plane = 0; plane < planes; ++plane) {
    for (const Mail& mail : mail_[plane]) {
      if (mail.time >= end) continue;
      const Packet& packet = mail.packet;
      const bool pause = packet.link == kPauseOn || packet.link == kPauseOff;
      const TransportPart* part = pause ? nullptr : &shards.of(packet.source_host).parts(plane).at(packet.payload);
      sorted_[begins_[packet.destination_host - first_host_]++] = {
          .time = mail.time, .plane = plane, .packet = &packet, .part = part};
    }
  }
  // begins_[h] now points behind the part of h: the part of h begins where that of h - 1 ends.
}

void Shard::run(TimePs end, std::uint32_t planes, Workload& work, const ShardMap& shards) {
  sort_mail(end, planes, shards);
  TimePs next = kNever;
  std::uint32_t begin = 0;
  for (std::uint32_t i = 0; i < nics_.size(); ++i) {
    const std::uint32_t stop = begins_[i];
    if (begin != stop || wakes_[i] < end) {
      Inbound* first = sorted_.data() + begin;
      Inbound* last = sorted_.data() + stop;
      if (last - first > 1) {
        std::sort(first, last, [](const Inbound& a, const Inbound& b) {
          if (a.time != b.time) return a.time < b.time;
          return a.plane != b.plane ? a.plane < b.plane : a.packet < b.packet;
        });
      }
      const std::uint64_t finished_before = nics_[i]->work().finished();
      nics_[i]->run(end, {first, last}, work, outbox_, lines_of(i + 1));
      finished_ += nics_[i]->work().finished() - finished_before;
      give_back({first, last}, shards);
      wakes_[i] = nics_[i]->wake();
      begin = stop;
    }
    next = std::min(next, wakes_[i]);
  }
  for (std::uint32_t plane = 0; plane < planes; ++plane) {
    if (kept_ == 0) {
      mail_[plane].clear();
      continue;
    }
    std::erase_if(mail_[plane], [end](const Mail& mail) { return mail.time < end; });
    for (const Mail& mail : mail_[plane]) next = std::min(next, mail.time);
  }
  next_time_ = next;
}

void Shard::note_memory() {
  HotMemory memory;
  lines_begin_.assign(1, 0);
  for (const auto& nic : nics_) {
    memory.clear();
    nic->hot_memory(memory);
    for (std::size_t i = 0; i < std::min(memory.size(), kRangesMax); ++i) {
      if (memory[i].empty()) continue;
      const auto address = reinterpret_cast<std::uintptr_t>(memory[i].data());
      const std::uintptr_t first = address / kLine * kLine;
      const auto count = static_cast<std::uint32_t>((address + memory[i].size() - first + kLine - 1) / kLine);
      lines_.push_back({reinterpret_cast<const char*>(first), std::min(count, kLinesMax)});
    }
    lines_begin_.push_back(static_cast<std::uint32_t>(lines_.size()));
  }
}

// Memory that a NIC will touch: between two of its turns all the others have gone through the cache.
Prefetch Shard::lines_of(std::uint32_t nic) const {
  if (nic >= nics_.size()) return Prefetch({});
  return Prefetch(std::span(lines_).subspan(lines_begin_[nic], lines_begin_[nic + 1] - lines_begin_[nic]));
}

void Shard::give_back(std::span<const Inbound> read, const ShardMap& shards) {
  for (const Inbound& inbound : read) {
    if (inbound.part == nullptr) continue;
    returns_[inbound.plane].push_back({shards.index_of(inbound.packet->source_host), inbound.packet->payload});
  }
}

std::uint64_t Shard::memory_bytes() const {
  std::uint64_t bytes = sorted_.capacity() * sizeof(Inbound) + nics_.size() * sizeof(Nic);
  for (std::size_t plane = 0; plane < kPortCountMax; ++plane) {
    bytes +=
        outbox_.parts[plane].memory_bytes() + returns_[plane].capacity() * sizeof(Return) +
        (outbox_.mail[plane].capacity() + mail_[plane].capacity() + arriving_[plane].mail.capacity()) * sizeof(Mail);
  }
  return bytes;
}

void Shard::turn(std::uint32_t planes) {
  for (std::uint32_t plane = 0; plane < planes; ++plane) {
    Inbox& arriving = arriving_[plane];
    if (arriving.mail.empty()) continue;
    if (mail_[plane].empty()) {
      mail_[plane].swap(arriving.mail);
    } else {
      mail_[plane].insert(mail_[plane].end(), arriving.mail.begin(), arriving.mail.end());
      arriving.mail.clear();
    }
    next_time_ = std::min(next_time_, arriving.first);
    arriving.first = kNever;
  }
}

void Shard::refresh_next_time() {
  next_time_ = kNever;
  for (std::uint32_t i = 0; i < nics_.size(); ++i) {
    wakes_[i] = nics_[i]->wake();
    next_time_ = std::min(next_time_, wakes_[i]);
  }
  for (const auto& mail : mail_) {
    for (const Mail& letter : mail) next_time_ = std::min(next_time_, letter.time);
  }
}

}  // namespace openmrc::netsim
