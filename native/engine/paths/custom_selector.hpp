// EV selectors from outside: plain C functions over a block of 64-bit words, one block per QP.
//
// The functions run in the packet loop, in the thread that drives the QP, and several QPs may be driven at a time: they
// access their block only. openmrc.policies compiles them from Python.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/name_registry.hpp"
#include "engine/base/rng.hpp"
#include "engine/paths/ev_set.hpp"

namespace openmrc {

extern "C" {
// The block is zeroed except for its first word, `seed` (never 0), which a generator can use as its initial state.
using CustomSelectorInit = void (*)(std::uint64_t* state, std::uint64_t seed);
// Position to try next, as EvSelector::next; taken modulo `position_count`, so any number is valid.
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

// Registers `name` for make_ev_selector. The functions must remain valid for the life of the process. Call before the
// runs that use the name, from one thread at a time.
RegisterResult register_ev_selector(std::string_view name, const CustomSelectorFunctions& functions);

std::unique_ptr<EvSelector> make_custom_selector(const CustomSelectorFunctions& functions, Rng rng);

}  // namespace openmrc
