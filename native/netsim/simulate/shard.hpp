// A contiguous range of NICs that one thread runs for one window of time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "netsim/simulate/nic.hpp"

namespace openmrc::netsim {

// Deliveries of planes to the NICs of one shard.
struct Inbox {
  std::vector<Mail> mail;
  TimePs first = kNever;  // the earliest

  void put(TimePs time, const Packet& packet) {
    mail.push_back({time, packet});
    first = std::min(first, time);
  }
};

class Shard;

// Mapping from hosts to shards.
struct ShardMap {
  std::vector<std::unique_ptr<Shard>> shards;
  std::uint32_t hosts_per_shard = 1;

  std::uint32_t index_of(std::uint32_t host) const { return host / hosts_per_shard; }
  Shard& of(std::uint32_t host) const { return *shards[index_of(host)]; }
};

class Shard {
 public:
  Shard(std::uint32_t first_host, std::uint32_t hosts);

  std::uint32_t first_host() const { return first_host_; }
  std::uint32_t hosts() const { return static_cast<std::uint32_t>(nics_.size()); }
  void set_nic(std::uint32_t host, std::unique_ptr<Nic> nic) { nics_[host - first_host_] = std::move(nic); }
  Nic& nic(std::uint32_t host) { return *nics_[host - first_host_]; }

  // Deliveries of a plane to its NICs from the next window on.
  Inbox& inbox(std::uint32_t plane) { return arriving_[plane]; }
  // Packets sent by its NICs, by plane; taken by the planes.
  Outbox& outbox() { return outbox_; }

  // Runs every NIC with an event before `end`, host by host. `shards` have the parts of the arrivals.
  void run(TimePs end, std::uint32_t planes, Workload& work, const ShardMap& shards);
  // Parts of the packets of one plane that its NICs have received, for return to their owners.
  std::vector<Return>& returns(std::uint32_t plane) { return returns_[plane]; }
  const Parts& parts(std::uint32_t plane) const { return outbox_.parts[plane]; }
  std::uint64_t memory_bytes() const;
  // Between windows: the planes' deliveries become the mail of the next window.
  void turn(std::uint32_t planes);
  // Time of its next activity: mail or a NIC's timer.
  TimePs next_time() const { return next_time_; }
  void refresh_next_time();
  // Records the memory of the NICs, after they have their connections.
  void note_memory();
  std::uint64_t finished() const { return finished_; }  // ops

 private:
  void sort_mail(TimePs end, std::uint32_t planes, const ShardMap& shards);
  Prefetch lines_of(std::uint32_t nic) const;
  void give_back(std::span<const Inbound> read, const ShardMap& shards);

  std::uint32_t first_host_;
  std::vector<std::unique_ptr<Nic>> nics_;
  std::vector<TimePs> wakes_;
  std::array<Inbox, kPortCountMax> arriving_;          // written by the planes in this window
  std::array<std::vector<Mail>, kPortCountMax> mail_;  // read in this window
  Outbox outbox_;
  std::array<std::vector<Return>, kPortCountMax> returns_;
  std::vector<std::uint32_t> begins_;  // of each NIC's part of sorted_
  std::vector<Inbound> sorted_;
  std::vector<Lines> lines_;                // of the NICs' state
  std::vector<std::uint32_t> lines_begin_;  // of each NIC's part of lines_
  std::size_t kept_ = 0;                    // mail for later windows
  std::uint64_t finished_ = 0;
  TimePs next_time_ = 0;
};

}  // namespace openmrc::netsim
