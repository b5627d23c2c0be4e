// EV selectors from outside: plain C functions over a block of 64-bit words, one block per QP.
//
// The functions run in the packet loop, in whichever thread drives the QP, and several QPs may be driven at a time: they
// touch their block and nothing else. openmrc.policies compiles them from Python.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/name_registry.hpp"
#include "engine/base/rng.hpp"
#include "engine/paths/ev_set.hpp"

namespace openmrc {

extern "C" {
// The block is zero but for its first word, which is `seed` (never 0): a generator's state as it stands.
using CustomSelectorInit = void (*)(std::uint64_t* state, std::uint64_t seed);
// Position to try next, as EvSelector::next; any number will do, it is taken modulo `position_count`.
using CustomSelectorNext = std::uint32_t (*)(std::uint64_t* state, std::uint32_t position_count);
// `feedback` is an EvFeedback.
using CustomSelectorFeedback = void (*)(std::uint64_t* state, std::uint32_t position, std::uint32_t feedback,
                                        std::int64_t now_ps);
}

struct CustomSelectorFunctions {
  CustomSelectorInit init = nullptr;  // may be null
  CustomSelectorNext next = nullptr;
  CustomSelectorFeedback on_feedback = nullptr;  // may be null
  std::uint32_t state_words = 1;                 // 1 .. kPolicyStateWordsMax
};

// Makes `name` known to make_ev_selector. The functions must stay where they are for as long as the process runs. Called
// before the runs that use the name, by one thread at a time.
RegisterResult register_ev_selector(std::string_view name, const CustomSelectorFunctions& functions);

std::unique_ptr<EvSelector> make_custom_selector(const CustomSelectorFunctions& functions, Rng rng);

}  // namespace openmrc
