// The EV selectors that come with the engine, and their registry.
#include <array>
#include <numeric>

#include "engine/base/assert.hpp"
#include "engine/paths/ev_set.hpp"

namespace openmrc {
namespace {

// Base of selectors that leave all steering to the EV states.
class StatelessFeedback : public EvSelector {
 public:
  void on_feedback(EvIndex, EvFeedback) override {}
};

// Pseudo-random rotation, redrawn at each wrap so that QPs do not synchronise (A.11). One wrap visits every position
// exactly once: index XOR a random value where the count is a power of two, else a walk with a random start and a random
// stride that has no divisor in common with the count. Ports alternate by position, and both walks keep that: any aligned
// group of as many steps as there are ports visits every port once.
class MrcRotation final : public StatelessFeedback {
 public:
  explicit MrcRotation(Rng rng) : rng_(rng) {}

  std::uint32_t next(std::uint32_t position_count) override {
    if (step_ >= count_ || position_count != count_) [[unlikely]]
      redraw(position_count);
    const std::uint32_t step = step_++;
    if (stride_ == 0) return step ^ offset_;
    const std::uint32_t position = offset_;
    offset_ += stride_;
    if (offset_ >= count_) offset_ -= count_;
    return position;
  }

 private:
  void redraw(std::uint32_t position_count) {
    MRC_ASSERT(position_count != 0);
    count_ = position_count;
    step_ = 0;
    offset_ = static_cast<std::uint32_t>(rng_.below(count_));
    stride_ = 0;
    if ((count_ & (count_ - 1)) == 0) return;
    // Ends: the stride 1 always qualifies.
    do {
      stride_ = 1 + static_cast<std::uint32_t>(rng_.below(count_ - 1));
    } while (std::gcd(stride_, count_) != 1);
  }

  Rng rng_;
  std::uint32_t count_ = 0;
  std::uint32_t step_ = 0;
  std::uint32_t offset_ = 0;  // XOR value, or the position of the next step
  std::uint32_t stride_ = 0;  // 0: XOR
};

class RoundRobin final : public StatelessFeedback {
 public:
  std::uint32_t next(std::uint32_t position_count) override {
    if (cursor_ >= position_count) cursor_ = 0;
    return cursor_++;
  }

 private:
  std::uint32_t cursor_ = 0;
};

// Oblivious spraying: every packet draws anew.
class RandomSpray final : public StatelessFeedback {
 public:
  explicit RandomSpray(Rng rng) : rng_(rng) {}

  std::uint32_t next(std::uint32_t position_count) override {
    return static_cast<std::uint32_t>(rng_.below(position_count));
  }

 private:
  Rng rng_;
};

// One path for as long as it can carry data, as a flow hashed by ECMP has: the baseline that spraying is compared with.
class SinglePath final : public StatelessFeedback {
 public:
  explicit SinglePath(Rng rng) : rng_(rng) {}

  std::uint32_t next(std::uint32_t position_count) override {
    if (!drawn_) {
      position_ = static_cast<std::uint32_t>(rng_.below(position_count));
      drawn_ = true;
    }
    if (position_ >= position_count) position_ = 0;
    return position_;
  }

  bool pins() const override { return true; }
  void leave(std::uint32_t position) override {
    if (position == position_) ++position_;
  }

 private:
  Rng rng_;
  std::uint32_t position_ = 0;
  bool drawn_ = false;
};

using SelectorFactory = std::unique_ptr<EvSelector> (*)(Rng rng);

constexpr std::array<std::string_view, 4> kNames = {"mrc", "random", "round_robin", "single"};
constexpr std::array<SelectorFactory, kNames.size()> kFactories = {
    [](Rng rng) -> std::unique_ptr<EvSelector> { return std::make_unique<MrcRotation>(rng); },
    [](Rng rng) -> std::unique_ptr<EvSelector> { return std::make_unique<RandomSpray>(rng); },
    [](Rng) -> std::unique_ptr<EvSelector> { return std::make_unique<RoundRobin>(); },
    [](Rng rng) -> std::unique_ptr<EvSelector> { return std::make_unique<SinglePath>(rng); },
};

}  // namespace

std::unique_ptr<EvSelector> make_ev_selector(std::string_view name, Rng rng) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return kFactories[i](rng);
  }
  return nullptr;
}

std::span<const std::string_view> ev_selector_names() { return kNames; }

}  // namespace openmrc
