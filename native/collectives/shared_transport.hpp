// Transport between ranks on one host: the same messages as over QPs, through rings in memory that both map. What the peer
// writes is not trusted.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/executor_settings.hpp"
#include "collectives/rank_placement.hpp"
#include "collectives/shared_link.hpp"
#include "collectives/transport.hpp"

namespace openmrc::collectives {

inline constexpr const char* kUnreadable = "it wrote into shared memory what cannot be read";

class SharedTransport final : public Transport {
 public:
  explicit SharedTransport(const ExecutorSettings& settings);  // throws NicError
  ~SharedTransport() override;

  // Before anything is sent to a rank: makes memory, tells where; opens the peer's; and when both know that both have
  // opened it, uses it, or lets it go. No offer: the system refuses the memory.
  std::optional<SharedOffer> offer(std::uint16_t rank);
  bool open(std::uint16_t rank, const SharedOffer& offer);
  void use(std::uint16_t rank, bool agreed);

  bool put(std::uint16_t rank, std::uint8_t lane, const MessageHead& head, const void* data, bool urgent) override;
  // Messages go through the board, where all of the ranks can read it.
  Circle* circle(std::uint64_t group, std::span<const std::uint16_t> others) override;
  Sending send(std::uint16_t rank, std::uint8_t lane, const LargeMessage& message) override;
  Arrivals poll() override;
  // At most one small message of each peer and lane: messages for the next operation then stay in their cells until it
  // has begun, and need not be held.
  bool look() override;
  bool arm(Sleeper sleeper) override;
  void disarm(Sleeper sleeper) override;
  int descriptor(Sleeper sleeper) const override;
  void clear(Sleeper sleeper) override;
  std::uint32_t await(nic::TimeNs longest, int also) override;
  void stop(std::uint16_t rank) override;
  void leave_to_parent() override;
  void add_to(ExecutorStats& stats) const override;

 private:
  // The message that leaves in parts.
  struct Leaving {
    OpId op = 0;
    std::uint32_t step = 0;
    std::uint64_t bytes = 0;  // gone so far
  };
  struct Peer {
    std::uint16_t rank = 0;
    bool used = false, failed = false;
    bool reads = false;  // the own board
    std::unique_ptr<SharedLink> link;
    SharedMemory board;            // its own; invalid: none
    std::vector<Leaving> leaving;  // by lane
  };
  class BoardCircle;

  void make_board();
  // Tells the others where the calling thread runs, and moves it now and then; `large`: for a message in parts.
  void place(bool large);
  void take(std::size_t cells);
  void take_lane(Peer& peer, std::uint8_t lane, std::size_t cells);
  void take_cells(Peer& peer, std::uint8_t lane, std::size_t cells);
  bool put(Peer& peer, std::uint8_t lane, const RingHead& head, const void* data);
  void count(const MessageHead& head);

  std::uint16_t rank_;
  std::uint8_t lanes_;
  std::vector<Peer> peers_;
  std::vector<Peer*> used_;
  std::array<Doorbell, kSleepers> doorbells_;
  SharedMemory board_;      // made with the first offer; invalid: the system refuses it
  ProcessFile board_file_;  // while peers may open it
  std::map<std::uint64_t, std::unique_ptr<BoardCircle>> circles_;  // by group
  int processor_ = -1;                                             // as the own board reports it
  RankPlacement placement_;
  std::uint64_t bytes_ = 0;  // that have come in
};

}  // namespace openmrc::collectives
