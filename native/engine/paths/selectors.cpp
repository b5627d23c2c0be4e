// The built-in EV selectors, and the registry of all selectors.
#include <array>

#include "engine/base/name_registry.hpp"
#include "engine/paths/custom_selector.hpp"
#include "engine/paths/ev_set.hpp"
#include "engine/paths/reps.hpp"
#include "engine/paths/rotation.hpp"

namespace openmrc {
namespace {

// Base of selectors that leave all reactions to the EV states.
class StatelessFeedback : public EvSelector {
 public:
  void on_feedback(TimePs, std::uint32_t, EvFeedback) override {}
};

// Pseudo-random rotation, redrawn at each wrap so that QPs do not synchronise (A.11.2).
class MrcRotation final : public StatelessFeedback {
 public:
  explicit MrcRotation(Rng rng) : rotation_(rng) {}

  std::uint32_t next(std::uint32_t position_count) override { return rotation_.next(position_count); }

 private:
  Rotation rotation_;
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

// One path for as long as it can carry data, like a flow hashed by ECMP: the baseline for comparison with spraying.
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

// Factory of a selector; custom ones are built from the functions in `custom`.
struct Entry {
  std::unique_ptr<EvSelector> (*make)(const Entry& self, Rng rng) = nullptr;
  CustomSelectorFunctions custom;
};

template <typename Selector>
std::unique_ptr<EvSelector> make(const Entry&, Rng rng) {
  return std::make_unique<Selector>(rng);
}

template <>
std::unique_ptr<EvSelector> make<RoundRobin>(const Entry&, Rng) {
  return std::make_unique<RoundRobin>();
}

std::unique_ptr<EvSelector> make_custom(const Entry& self, Rng rng) { return make_custom_selector(self.custom, rng); }

constexpr std::size_t kBuiltIn = 5;

constinit NameRegistry<Entry, kBuiltIn> registry(std::array<std::string_view, kBuiltIn>{"mrc", "random", "reps",
                                                                                        "round_robin", "single"},
                                                 std::array<Entry, kBuiltIn>{
                                                     Entry{.make = make<MrcRotation>, .custom = {}},
                                                     Entry{.make = make<RandomSpray>, .custom = {}},
                                                     Entry{.make = make<Reps>, .custom = {}},
                                                     Entry{.make = make<RoundRobin>, .custom = {}},
                                                     Entry{.make = make<SinglePath>, .custom = {}},
                                                 });

}  // namespace

std::unique_ptr<EvSelector> make_ev_selector(std::string_view name, Rng rng) {
  const Entry* entry = registry.find(name);
  return entry == nullptr ? nullptr : entry->make(*entry, rng);
}

std::span<const std::string_view> ev_selector_names() { return registry.names(); }

RegisterResult register_ev_selector(std::string_view name, const CustomSelectorFunctions& functions) {
  if (functions.next == nullptr || functions.state_words == 0 || functions.state_words > kPolicyStateWordsMax) {
    return RegisterResult::kFunctionsInvalid;
  }
  return registry.add(name, {.make = make_custom, .custom = functions});
}

}  // namespace openmrc
