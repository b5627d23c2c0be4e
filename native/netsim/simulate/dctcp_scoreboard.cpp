#include "netsim/simulate/dctcp_scoreboard.hpp"

#include <algorithm>

namespace openmrc::netsim {

void DctcpScoreboard::sent(TimePs now) {
  slots_.push_back({.sent = now, .transmission = log_first_ + log_.size()});
  log_.push_back(next() - 1);
  ++in_flight_;
}

void DctcpScoreboard::retransmitted(TimePs now, std::uint64_t sequence) {
  Slot& again = slot(sequence);
  MRC_ASSERT(again.state != State::kArrived);
  if (again.state == State::kLost) ++in_flight_;
  again = {.sent = now, .transmission = log_first_ + log_.size(), .retransmitted = true};
  log_.push_back(sequence);
}

bool DctcpScoreboard::arrive(Slot& slot, TimePs sent_at) {
  if (slot.state == State::kArrived) return false;
  if (slot.state == State::kInFlight) --in_flight_;
  slot.state = State::kArrived;
  // The arrival may be of an earlier copy than the last one sent, which then proves nothing about its neighbours.
  if (!slot.retransmitted || sent_at >= slot.sent) newest_ = std::max(newest_, slot.transmission + 1);
  return true;
}

std::uint64_t DctcpScoreboard::acknowledge(std::uint64_t next_expected, TimePs sent_at) {
  MRC_ASSERT(next_expected <= next());
  std::uint64_t news = 0;
  while (acknowledged_ < next_expected) {
    if (arrive(slots_.front(), sent_at)) ++news;
    slots_.pop_front();
    ++acknowledged_;
  }
  if (slots_.empty()) {
    log_first_ += log_.size();
    log_.clear();
    lost_.clear();
  }
  return news;
}

std::uint64_t DctcpScoreboard::sack(std::uint64_t start, std::uint64_t end, TimePs sent_at) {
  std::uint64_t news = 0;
  for (std::uint64_t sequence = std::max(start, acknowledged_); sequence < std::min(end, next()); ++sequence) {
    if (arrive(slot(sequence), sent_at)) ++news;
  }
  return news;
}

void DctcpScoreboard::lose(std::uint64_t sequence) {
  slot(sequence).state = State::kLost;
  --in_flight_;
  lost_.push_back(sequence);
}

std::uint64_t DctcpScoreboard::find_losses(std::uint32_t reordering_packets) {
  std::uint64_t found = 0;
  while (!log_.empty() && log_first_ + reordering_packets < newest_) {
    const std::uint64_t sequence = log_.front();
    if (sequence != kNoPacket && sequence >= acknowledged_) {
      const Slot& sent = slot(sequence);
      if (sent.state == State::kInFlight && sent.transmission == log_first_) {
        lose(sequence);
        ++found;
      }
    }
    log_.pop_front();
    ++log_first_;
  }
  return found;
}

std::uint64_t DctcpScoreboard::lose_all() {
  std::uint64_t found = 0;
  lost_.clear();
  for (std::uint64_t sequence = acknowledged_; sequence < next(); ++sequence) {
    Slot& old = slot(sequence);
    if (old.state == State::kArrived) continue;
    if (old.state == State::kInFlight) ++found, --in_flight_;
    old.state = State::kLost;
    lost_.push_back(sequence);
  }
  log_first_ += log_.size();
  log_.clear();
  return found;
}

void DctcpScoreboard::age(std::uint32_t reordering_packets) {
  for (std::uint32_t i = 0; i < reordering_packets; ++i) log_.push_back(kNoPacket);
}

bool DctcpScoreboard::has_lost() {
  while (!lost_.empty()) {
    const std::uint64_t sequence = lost_.front();
    if (sequence >= acknowledged_ && slot(sequence).state == State::kLost) return true;
    lost_.pop_front();
  }
  return false;
}

std::uint64_t DctcpScoreboard::last_missing() {
  std::uint64_t sequence = next() - 1;
  while (slot(sequence).state == State::kArrived) --sequence;  // the first one is always missing
  return sequence;
}

std::uint64_t DctcpScoreboard::first_lost() const { return lost_.front(); }

}  // namespace openmrc::netsim
