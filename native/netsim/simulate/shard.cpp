#include "netsim/simulate/shard.hpp"

#include <algorithm>

namespace openmrc::netsim {

Shard::Shard(std::uint32_t first_host, std::uint32_t hosts)
    : first_host_(first_host), nics_(hosts), wakes_(hosts, 0), begins_(std::size_t{hosts} + 1) {}

// By host, and for each host by time and plane: a counting sort, since mail comes in order of time from every plane.
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
      sorted_[begins_[packet.destination_host - first_host_]++] = {mail.time, plane, &packet, part};
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
      if (i + 1 < nics_.size()) prefetch(i + 1, stop);
      const std::uint64_t finished_before = nics_[i]->work().finished();
      nics_[i]->run(end, {first, last}, work, outbox_);
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

// What the next NIC will read first: its mail lies all over the memory.
void Shard::prefetch(std::uint32_t nic, std::uint32_t begin) const {
  nics_[nic]->prefetch();
  for (std::uint32_t at = begin; at < begins_[nic]; ++at) {
    __builtin_prefetch(sorted_[at].packet);
    if (sorted_[at].part != nullptr) __builtin_prefetch(sorted_[at].part);
  }
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
