// A contiguous range of NICs that one thread runs for one window of time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "netsim/simulate/nic.hpp"

namespace openmrc::netsim {

// What planes deliver to the NICs of one shard.
struct Inbox {
  std::vector<Mail> mail;
  TimePs first = kNever;  // the earliest

  void put(TimePs time, const Packet& packet) {
    mail.push_back({time, packet});
    first = std::min(first, time);
  }
};

class Shard {
 public:
  Shard(std::uint32_t first_host, std::uint32_t hosts);

  std::uint32_t first_host() const { return first_host_; }
  std::uint32_t hosts() const { return static_cast<std::uint32_t>(nics_.size()); }
  void set_nic(std::uint32_t host, std::unique_ptr<Nic> nic) { nics_[host - first_host_] = std::move(nic); }
  Nic& nic(std::uint32_t host) { return *nics_[host - first_host_]; }

  // Where planes put what reaches its NICs from the next window on.
  Inbox& inbox(std::uint32_t plane) { return arriving_[plane]; }
  // What its NICs sent, by plane; the planes take it.
  Outbox& outbox() { return outbox_; }

  // Runs every NIC that something happens to before `end`, host by host.
  void run(TimePs end, std::uint32_t planes, Workload& work);
  // Between windows: what the planes delivered becomes the mail of the next window.
  void turn(std::uint32_t planes);
  // When it has something to do: mail or a NIC's own wish.
  TimePs next_time() const { return next_time_; }
  void refresh_next_time();
  std::uint64_t finished() const { return finished_; }  // ops

 private:
  void sort_mail(TimePs end, std::uint32_t planes);

  std::uint32_t first_host_;
  std::vector<std::unique_ptr<Nic>> nics_;
  std::vector<TimePs> wakes_;
  std::array<Inbox, kPortCountMax> arriving_;          // written by the planes in this window
  std::array<std::vector<Mail>, kPortCountMax> mail_;  // read in this window
  Outbox outbox_;
  std::vector<std::uint32_t> begins_;  // of each NIC's part of sorted_
  std::vector<Inbound> sorted_;
  std::size_t kept_ = 0;  // mail for later windows
  std::uint64_t finished_ = 0;
  TimePs next_time_ = 0;
};

}  // namespace openmrc::netsim
