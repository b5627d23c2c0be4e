// Combines what peers write into scratch memory with its other operand as it arrives, packet by packet. The bytes are in the
// processor's cache then; a copy to scratch memory, from which a reduction reads them later, costs two more passes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "collectives/operation.hpp"
#include "engine/placer.hpp"

namespace openmrc::collectives {

// Largest element that can be combined on arrival: payloads are multiples of this size, so that they cut none in two.
inline constexpr std::size_t kCombinedBytesMax = 4;

class ReducingPlacer final : public Placer {
 public:
  // For the messages of more than `longer_than` bytes of an operation that begins. nullptr: none can be combined.
  static std::shared_ptr<ReducingPlacer> of(const Operation& op, std::uint64_t longer_than);

  bool reduces(std::uint32_t receive) const;
  bool place(std::uint64_t offset, std::span<const std::uint8_t> payload) override;

 private:
  struct Range {
    std::uint64_t begin = 0, end = 0;  // of the message in scratch memory
    std::uint32_t receive = 0;
    std::uint8_t* into = nullptr;
    bool reversed = false;
  };

  std::uint8_t* scratch_ = nullptr;
  ElementType type_{};
  ReduceOp op_{};
  std::uint64_t element_bytes_ = 1;
  std::vector<Range> ranges_;  // ascending
};

}  // namespace openmrc::collectives
