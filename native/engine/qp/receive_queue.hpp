// Posted receives, consumed in order, and the message that is being placed into one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/base/ring.hpp"
#include "engine/memory.hpp"
#include "engine/types.hpp"

namespace openmrc {

// kOk if every part lies in a region of `domain` that may be written locally.
Status check_writable(MemoryTable& memory, DomainId domain, std::span<const Sge> sges);

// Memory of a receive that was taken from its queue, or of a READ's result. It is looked up again for each packet: regions
// may be deregistered in the meantime.
struct TakenReceive {
  enum class Outcome : std::uint8_t { kPlaced, kTooLong, kNoAccess };

  // Places bytes of a message at `offset`; nothing is written unless all of them fit. `data` is nullptr for bytes that
  // only the simulator counts.
  Outcome place(MemoryTable& memory, std::uint64_t offset, const std::uint8_t* data, std::uint64_t bytes) const;

  std::uint64_t wr_id = 0;
  DomainId domain = 0;
  std::vector<Sge> sges;
};

class ReceiveQueue {
 public:
  ReceiveQueue(DomainId domain, std::uint32_t capacity) : domain_(domain), capacity_(capacity) {}

  // Bytes outside a region, or in one that receives may not write to, are refused.
  Status post(MemoryTable& memory, std::uint64_t wr_id, std::span<const Sge> sges);

  bool empty() const { return posted_.empty(); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(posted_.size()); }

  // A shared queue announces once that it holds fewer receives than `limit`; 0: never.
  bool set_limit(std::uint32_t limit);
  bool resize(std::uint32_t capacity, std::uint32_t limit);
  std::uint32_t limit() const { return limit_; }
  // True, and the limit is off, if it was reached.
  bool take_limit();

  // Removes the oldest receive.
  void take(TakenReceive& taken);
  // The same for a message that brings its own address; returns the receive's wr_id.
  std::uint64_t take_id();

 private:
  struct Posted {
    std::uint64_t wr_id = 0;
    std::uint32_t sge_count = 0;
  };

  Ring<Posted> posted_;
  Ring<Sge> sges_;  // of all posted receives, in their order
  DomainId domain_;
  std::uint32_t capacity_;
  std::uint32_t limit_ = 0;
};

// Receives of several QPs (X.8.10).
struct SharedReceives {
  SharedReceives(SrqId number, DomainId domain, std::uint32_t capacity) : id(number), queue(domain, capacity) {}

  SrqId id;
  ReceiveQueue queue;
  std::uint32_t users = 0;
};

}  // namespace openmrc
