// Another rank of the group, as the runner of plans sees it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collectives/early_messages.hpp"
#include "collectives/steps.hpp"
#include "collectives/transport.hpp"

namespace openmrc::collectives {

struct RemoteRank {
  // One traffic class.
  struct Lane {
    std::uint8_t number = 0;
    std::deque<ReadyStep> held;  // sends without room at the peer
    // Announcements without room, before everything else that is held.
    std::deque<std::pair<MessageHead, std::vector<std::uint8_t>>> held_messages;
    // The message that arrives in parts.
    struct Arriving {
      std::uint64_t key = 0;
      std::uint32_t pair_index = 0;
      std::uint64_t bytes = 0;  // so far
      bool reducing = false;    // where it arrives, in place of being copied first
    } arriving;
  };

  std::uint16_t number = 0;
  Transport* transport = nullptr;
  std::vector<Lane> lanes;
  EarlyMessages early;
  bool failed = false;
  bool faulty = false;  // failed by its own messages
  std::string reason;
  int culprit = kNobody;  // the rank that failures report
};

using RemoteRanks = std::vector<std::unique_ptr<RemoteRank>>;  // by number, with the own one

}  // namespace openmrc::collectives
