// Replacement of the QPs between ranks on one host: for each traffic class a ring and cells for small messages in each
// direction, in memory that the reader made, and the peer's doorbells.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/shared_cells.hpp"
#include "collectives/shared_memory.hpp"
#include "collectives/shared_ring.hpp"

namespace openmrc::collectives {

// Who may sleep at one side, each with a doorbell.
enum class Sleeper : std::uint8_t { kWaiter = 0, kThread = 1 };
inline constexpr std::size_t kSleepers = 2;

// What a peer needs to know: where it can open the rings that it shall write to, and what to ring.
struct SharedOffer {
  ProcessFile memory;
  std::array<ProcessFile, kSleepers> doorbells;
};

class SharedLink {
 public:
  explicit SharedLink(std::uint32_t lanes);  // throws NicError

  ProcessFile memory() const { return incoming_.file(); }
  // The peer's side. False: out of reach.
  bool open(const SharedOffer& offer);
  // Nobody else opens our side from now on.
  void hide() { incoming_.hide(); }

  // As RingWriter::put(), or in a cell where one is free; wakes who sleeps.
  RingAnswer put(std::uint32_t lane, const RingHead& head, const void* data);
  RingReader& reader(std::uint32_t lane) { return readers_[lane]; }
  CellReader& cells(std::uint32_t lane) { return cell_readers_[lane]; }
  // A message was taken; wakes who sleeps at the other side if it has waited for room.
  void pop(std::uint32_t lane);
  // Asks the peer to ring when it writes or makes room. True: there is something already.
  bool sleep(Sleeper sleeper);
  void stay_awake(Sleeper sleeper);

 private:
  void ring(std::uint32_t sleepers);

  std::uint32_t lanes_;
  SharedMemory incoming_, outgoing_;
  std::vector<RingReader> readers_;
  std::vector<RingWriter> writers_;
  std::vector<CellReader> cell_readers_;
  std::vector<CellWriter> cell_writers_;
  std::array<RemoteDoorbell, kSleepers> doorbells_;
};

}  // namespace openmrc::collectives
