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
#include "collectives/sleeper.hpp"

namespace openmrc::collectives {

// Data for the peer: the files of the rings that it writes to, of the doorbells, and of the board that it reads; all 0:
// there is no board.
struct SharedOffer {
  ProcessFile memory;
  std::array<ProcessFile, kSleepers> doorbells;
  ProcessFile board = {};
};

class SharedLink {
 public:
  explicit SharedLink(std::uint32_t lanes);  // throws NicError

  ProcessFile memory() const { return incoming_.file(); }
  // Opens the peer's side. False: unreachable.
  bool open(const SharedOffer& offer);
  // Prevents other processes from opening our side from now on.
  void hide() { incoming_.hide(); }

  // As RingWriter::put(), or in a cell if one is free; wakes sleepers.
  RingAnswer put(std::uint32_t lane, const RingHead& head, const void* data);
  RingReader& reader(std::uint32_t lane) { return readers_[lane]; }
  CellReader& cells(std::uint32_t lane) { return cell_readers_[lane]; }
  // Wakes the peer if it sleeps, after a write to memory that it reads.
  void wake(std::uint32_t lane) { ring(writers_[lane].sleepers()); }
  // Frees a taken message; wakes a writer that has waited for room.
  void pop(std::uint32_t lane);
  // Asks the peer to ring when it writes or makes room. True: a message is pending already.
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
