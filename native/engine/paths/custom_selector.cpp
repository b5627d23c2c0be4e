#include "engine/paths/custom_selector.hpp"

#include <algorithm>
#include <vector>

#include "engine/base/assert.hpp"
#include "engine/base/policy_clock.hpp"

namespace openmrc {
namespace {

class CustomSelector final : public EvSelector {
 public:
  CustomSelector(const CustomSelectorFunctions& functions, Rng rng)
      : functions_(functions), state_(functions.state_words) {
    MRC_ASSERT(functions.next != nullptr && !state_.empty());
    const std::uint64_t seed = std::max<std::uint64_t>(rng.next(), 1);
    state_.front() = seed;
    if (functions_.init != nullptr) functions_.init(state_.data(), seed);
  }

  void on_feedback(TimePs now, std::uint32_t position, EvFeedback feedback) override {
    if (functions_.on_feedback == nullptr) return;
    functions_.on_feedback(state_.data(), position, static_cast<std::uint32_t>(feedback), clock_.policy_time(now));
  }

  void rebase(TimePs by) override { clock_.rebase(by); }

  std::uint32_t next(std::uint32_t position_count) override {
    const std::uint32_t position = functions_.next(state_.data(), position_count);
    return position < position_count ? position : position % position_count;
  }

 private:
  CustomSelectorFunctions functions_;
  PolicyClock clock_;
  std::vector<std::uint64_t> state_;
};

}  // namespace

std::unique_ptr<EvSelector> make_custom_selector(const CustomSelectorFunctions& functions, Rng rng) {
  return std::make_unique<CustomSelector>(functions, rng);
}

}  // namespace openmrc
