// Plan of one rank in a collective operation: steps with dependencies. A plan depends on ranks, sizes and the algorithm
// alone, never on data or timing; so it can be reused, and the result is the same bit for bit for any order of arrival.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collectives/call.hpp"
#include "collectives/reduce.hpp"

namespace openmrc::collectives {

enum class StepKind : std::uint8_t {
  kSend,     // bytes of an own buffer to a peer's buffer
  kReceive,  // the matching end: done when the bytes have arrived
  kReduce,   // into = into op from (with `reversed`: from op into)
  kCopy,     // into = from
  kScale,    // into = into * factor
  kDivide,   // into = into / divisor
};

// Offsets and lengths in bytes. The n-th send of rank a to rank b is the n-th receive of b from a, with the same length
// and position in b's buffers.
struct Step {
  StepKind kind{};
  bool reversed = false;
  std::uint8_t from_buffer = 0, into_buffer = 0;
  std::uint16_t peer = 0;
  std::uint64_t from_offset = 0, into_offset = 0, bytes = 0;
};

inline constexpr std::uint8_t kPlanBuffersMax = 4;

// Steps depend on earlier steps only: `waits[i]` are pairs (step, dependency).
struct PlanConfig {
  std::uint32_t ranks = 1;
  std::vector<Step> steps;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> waits;
  std::vector<std::uint64_t> buffer_bytes;  // sizes of the caller's buffers by number, then of scratch
  // Position in `shifted_buffer` of a sender's offset 0, for operations whose senders do not know the receiver's
  // layout. By rank; empty: 0 for all.
  std::vector<std::uint64_t> shifts;
  std::uint8_t shifted_buffer = 0;
  bool offered = false;  // large sends announce themselves to the peer, which may choose among senders
  bool fence = false;    // begins when all operations of its group that were submitted before have ended
  bool circle = false;   // at every rank: the same message to each other one of its group, and one from each
  std::uint8_t scratch_buffer = kPlanBuffersMax;  // contents are undefined afterwards; beyond the last one: none
  ElementType type = ElementType::kUint8;
  ReduceOp op = ReduceOp::kSum;
  double factor = 1;
  std::uint32_t divisor = 1;
  Call call{};  // the call that the plan is for
};

inline constexpr std::size_t kPlanStepsMax = 1U << 20;
inline constexpr std::uint32_t kNoStep = ~0U;
inline constexpr std::uint32_t kPlanPairsMax = 1U << 16;  // sends to one peer, and receives from it

// Shared with Python by one reference count: releasing a plan never takes Python's lock, which a fork holds while it
// waits for the executor's.
class Plan : public std::enable_shared_from_this<Plan> {
 public:
  // Throws std::invalid_argument naming the step that does not fit.
  explicit Plan(PlanConfig config);
  // The same with another rank, for a plan that communicates with a single rank.
  Plan with_peer(std::uint16_t rank) const;

  const PlanConfig& config() const { return config_; }
  std::uint64_t shift(std::uint32_t rank, std::size_t buffer) const {
    return config_.shifts.empty() || buffer != config_.shifted_buffer ? 0 : config_.shifts[rank];
  }
  const Step& step(std::uint32_t index) const { return config_.steps[index]; }
  std::uint32_t step_count() const { return static_cast<std::uint32_t>(config_.steps.size()); }
  std::span<const std::uint32_t> after(std::uint32_t step) const;  // steps that wait for this one
  const std::vector<std::uint32_t>& wait_counts() const { return wait_counts_; }
  std::uint32_t pair_index(std::uint32_t step) const { return pair_index_[step]; }
  // For a receive into scratch memory that only one reduction reads: that reduction, which can take its operand from
  // the arrival buffer. kNoStep: none.
  std::uint32_t reduction_of(std::uint32_t receive) const { return reduction_of_[receive]; }
  // Receives from a rank in order, as steps.
  std::span<const std::uint32_t> receives(std::uint32_t peer) const { return receives_[peer]; }
  std::uint64_t largest_receive(std::uint32_t peer) const { return largest_receive_[peer]; }
  bool talks_to(std::uint32_t peer) const { return talks_to_[peer]; }
  // The other ranks of a circle, in ascending order; empty if there is none, or its messages are large.
  std::span<const std::uint16_t> circle() const { return circle_; }
  bool sends_more_than(std::uint64_t bytes) const { return largest_send_ > bytes; }
  bool reads(std::size_t buffer) const { return reads_[buffer]; }
  bool writes(std::size_t buffer) const { return writes_[buffer]; }
  bool receives_more_than(std::uint64_t bytes) const;
  std::uint64_t largest_receive_into(std::size_t buffer) const { return largest_receive_into_[buffer]; }

 private:
  void check(std::uint32_t index) const;
  void order_waits();
  void pair_up();
  void note_access();
  void find_reductions();
  void find_circle();

  PlanConfig config_;
  std::vector<std::uint32_t> wait_counts_, after_first_, after_;
  std::vector<std::uint32_t> pair_index_, reduction_of_;
  std::vector<std::vector<std::uint32_t>> receives_;
  std::vector<std::uint64_t> largest_receive_;
  std::array<std::uint64_t, kPlanBuffersMax> largest_receive_into_{};
  std::vector<bool> talks_to_;
  std::array<bool, kPlanBuffersMax> reads_{}, writes_{};
  std::uint64_t largest_send_ = 0;
  std::vector<std::uint16_t> circle_;
};

}  // namespace openmrc::collectives
