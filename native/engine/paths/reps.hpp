// REPS, "recycled entropies": a path that just delivered without a mark is the best guess for the next packet.
//
// Positions whose packets came back unmarked enter a small ring and are used again, oldest first, each once. While the
// ring is empty, a rotation explores. After a timeout the selector freezes: for a period it sends only on positions
// whose packets have come back, used entries of the ring included, and then explores one whole rotation. A loss
// inferred from later arrivals does not freeze: the EV set removes that one path, and freezing would cost more than it
// saves. Source: the REPS paper and its artifact (ring of 8, freezing timeout 10 ms, frozen by timeouts). The EV states
// apply as for any selector.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/rng.hpp"
#include "engine/base/time.hpp"
#include "engine/paths/ev_set.hpp"
#include "engine/paths/rotation.hpp"

namespace openmrc {

class Reps final : public EvSelector {
 public:
  static constexpr std::uint32_t kRingSize = 8;
  static constexpr TimePs kFreezingTimeout = 10 * kPsPerMs;

  explicit Reps(Rng rng);

  void on_feedback(TimePs now, std::uint32_t position, EvFeedback feedback) override;
  std::uint32_t next(std::uint32_t position_count) override;

  void rebase(TimePs by) override { thaws_at_ = rebased(thaws_at_, by); }

  bool frozen() const { return frozen_; }

 private:
  static constexpr std::uint16_t kEmpty = 0xFFFF;

  void keep(std::uint32_t position);
  void forget(std::uint32_t position);
  void suspect(TimePs now);
  void thaw(TimePs now);
  std::uint32_t take_fresh();
  std::uint32_t take_used();

  Rotation rotation_;
  TimePs thaws_at_ = 0;
  std::uint32_t explore_left_ = 0;  // packets that explore regardless of the ring
  std::uint32_t position_count_ = 0;
  std::array<std::uint16_t, kRingSize> ring_;
  std::uint8_t fresh_ = 0;   // bit i: ring_[i] has come back since its last use
  std::uint8_t write_ = 0;   // the oldest entry, overwritten next
  std::uint8_t cursor_ = 0;  // next used entry to repeat while frozen
  bool frozen_ = false;
};

}  // namespace openmrc
