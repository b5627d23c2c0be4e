// Policies from outside: plain functions under a name, run by the EV set and by the QP like built-in ones.
#include <algorithm>
#include <string>

#include "engine/cc/custom_controller.hpp"
#include "engine/paths/custom_selector.hpp"
#include "tests/check.hpp"
#include "tests/ev_set_fixture.hpp"
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using namespace openmrc::test;

extern "C" {

// Word 0: the seed. Words 1 to 4: packets, last position, last feedback, its time.
std::uint32_t count_up(std::uint64_t* state, std::uint32_t) { return static_cast<std::uint32_t>(state[1]++); }
void remember(std::uint64_t* state, std::uint32_t position, std::uint32_t feedback, std::int64_t now_ps) {
  state[2] = position;
  state[3] = feedback;
  state[4] = static_cast<std::uint64_t>(now_ps);
}
std::uint32_t tell_remembered(std::uint64_t* state, std::uint32_t) {
  return static_cast<std::uint32_t>(state[2] * 100 + state[3] * 10 + state[4]);
}
std::uint32_t tell_seed(std::uint64_t* state, std::uint32_t) { return static_cast<std::uint32_t>(state[0] >> 32); }
void init_doubles(std::uint64_t* state, std::uint64_t seed) { state[1] = state[0] == seed ? 20 : 0; }

// Window: mtu at first, plus acknowledged bytes, 1 after a loss, 2^60 after a trim.
void cc_init(std::uint64_t* state, std::uint32_t mtu_bytes, std::uint64_t rate, std::int64_t base_rtt, std::uint64_t,
             std::uint32_t trimming) {
  state[0] = mtu_bytes;
  state[1] = rate;
  state[2] = static_cast<std::uint64_t>(base_rtt) + trimming;
}
void cc_sent(std::uint64_t* state, std::int64_t, std::uint64_t bytes) { state[3] += bytes; }
void cc_ack(std::uint64_t* state, std::int64_t, std::uint64_t new_bytes, std::uint64_t, std::int64_t,
            std::uint32_t marked, std::uint32_t, std::uint32_t) {
  if (marked == 0) state[0] += new_bytes;
}
void cc_trim(std::uint64_t* state, std::int64_t, std::uint64_t, std::uint64_t, std::uint32_t) {
  state[0] = std::uint64_t{1} << 60;
}
void cc_loss(std::uint64_t* state, std::int64_t, std::uint64_t, std::uint64_t) { state[0] = 1; }
std::uint64_t cc_window(const std::uint64_t* state) { return state[0]; }
}

constexpr CustomControllerFunctions kController = {.init = cc_init,
                                                   .on_sent = cc_sent,
                                                   .on_ack = cc_ack,
                                                   .on_trim = cc_trim,
                                                   .on_loss = cc_loss,
                                                   .window_bytes = cc_window,
                                                   .state_words = 4};

TEST_CASE(custom_selector_is_found_by_name_and_listed) {
  const std::size_t before = ev_selector_names().size();
  CHECK(register_ev_selector("test_count", {.next = count_up, .state_words = 2}) == RegisterResult::kOk);
  CHECK(ev_selector_names().size() == before + 1);
  CHECK(ev_selector_names().back() == "test_count");
  const auto selector = make_ev_selector("test_count", Rng(1));
  for (std::uint32_t i = 0; i < 20; ++i) CHECK(selector->next(8) == i % 8);  // any number is taken modulo the count
}

TEST_CASE(custom_selector_names_are_refused_when_taken_or_unfit) {
  const CustomSelectorFunctions functions = {.next = count_up, .state_words = 2};
  CHECK(register_ev_selector("test_once", functions) == RegisterResult::kOk);
  CHECK(register_ev_selector("test_once", functions) == RegisterResult::kNameTaken);
  CHECK(register_ev_selector("mrc", functions) == RegisterResult::kNameTaken);
  CHECK(register_ev_selector("", functions) == RegisterResult::kNameInvalid);
  CHECK(register_ev_selector("two words", functions) == RegisterResult::kNameInvalid);
  CHECK(register_ev_selector("1st", functions) == RegisterResult::kNameInvalid);
  CHECK(register_ev_selector(std::string(31, 'a'), functions) == RegisterResult::kOk);
  CHECK(register_ev_selector(std::string(32, 'a'), functions) == RegisterResult::kNameInvalid);
  CHECK(register_ev_selector("test_null", {}) == RegisterResult::kFunctionsInvalid);
  CHECK(register_ev_selector("test_small", {.next = count_up, .state_words = 0}) == RegisterResult::kFunctionsInvalid);
  CHECK(register_ev_selector("test_large", {.next = count_up, .state_words = kPolicyStateWordsMax + 1}) ==
        RegisterResult::kFunctionsInvalid);
}

TEST_CASE(custom_selector_state_is_seeded_and_each_qp_has_its_own) {
  CHECK(register_ev_selector("test_seed", {.next = tell_seed}) == RegisterResult::kOk);
  const std::uint32_t count = 0xFFFF'FFFF;
  CHECK(make_ev_selector("test_seed", Rng(1))->next(count) == make_ev_selector("test_seed", Rng(1))->next(count));
  CHECK(make_ev_selector("test_seed", Rng(1))->next(count) != make_ev_selector("test_seed", Rng(2))->next(count));
  CHECK(register_ev_selector("test_init", {.init = init_doubles, .next = count_up, .state_words = 2}) ==
        RegisterResult::kOk);
  const auto first = make_ev_selector("test_init", Rng(1));
  const auto second = make_ev_selector("test_init", Rng(1));
  CHECK(first->next(100) == 20 && first->next(100) == 21 && second->next(100) == 20);
}

TEST_CASE(custom_selector_is_told_position_feedback_and_time) {
  const auto selector =
      make_custom_selector({.next = tell_remembered, .on_feedback = remember, .state_words = 5}, Rng(1));
  selector->on_feedback(7, 3, EvFeedback::kTrimmed);
  CHECK(selector->next(1000) == 3 * 100 + 3 * 10 + 7);
}

TEST_CASE(custom_selector_drives_an_ev_set) {
  CHECK(register_ev_selector("test_set", {.next = count_up, .state_words = 2}) == RegisterResult::kOk);
  EvSetFixture custom(universe_of(4, 8), {.active_per_port = 8}, "test_set");
  EvSetFixture built_in(universe_of(4, 8), {.active_per_port = 8}, "round_robin");
  for (int i = 0; i < 100; ++i) CHECK(custom.next() == built_in.next());
}

TEST_CASE(custom_controller_is_found_by_name_and_told_its_surroundings) {
  CHECK(register_controller("test_cc", kController) == RegisterResult::kOk);
  CHECK(register_controller("test_cc", kController) == RegisterResult::kNameTaken);
  CHECK(register_controller("nscc", kController) == RegisterResult::kNameTaken);
  CHECK(register_controller("test_cc_null", {}) == RegisterResult::kFunctionsInvalid);
  CustomControllerFunctions without = kController;
  without.on_loss = nullptr;
  CHECK(register_controller("test_cc_null", without) == RegisterResult::kFunctionsInvalid);
  const auto names = controller_names();
  CHECK(std::find(names.begin(), names.end(), "test_cc") != names.end());
  CHECK(make_controller("test_cc_null", {}) == nullptr);

  const auto cc = make_controller("test_cc", {.mtu_bytes = 4000});
  CHECK(cc->window_bytes() == 4000);
  cc->on_ack(1, {.new_bytes = 4000, .rtt = 5});
  cc->on_ack(2, {.new_bytes = 4000, .rtt = 4, .marked = true});
  CHECK(cc->window_bytes() == 8000);
  CHECK(cc->stats().base_rtt == 4 && cc->stats().window_bytes == 8000);
}

TEST_CASE(custom_controller_window_stays_where_a_qp_can_work) {
  const auto cc = make_custom_controller(kController, {.mtu_bytes = 4000, .max_cwnd_bytes = 50'000});
  cc->on_loss(1, 4000, 8000);
  CHECK(cc->window_bytes() == 4000);  // a smaller window would stop the QP for good
  cc->on_trim(2, 4000, 8000, false);
  CHECK(cc->window_bytes() == 50'000);
  CHECK(cc->stats().trims == 1 && cc->stats().losses == 1);
  const auto unlimited = make_custom_controller(kController, {.mtu_bytes = 4000});
  unlimited->on_trim(2, 4000, 8000, false);
  CHECK(unlimited->window_bytes() < std::uint64_t{1} << 55);
}

TEST_CASE(custom_policies_carry_a_message_over_lossy_paths) {
  CHECK(register_ev_selector("test_qp", {.next = count_up, .on_feedback = remember, .state_words = 5}) ==
        RegisterResult::kOk);
  CHECK(register_controller("test_qp_cc", kController) == RegisterResult::kOk);
  PairOptions options;
  options.selector = "test_qp";
  options.controller = "test_qp_cc";
  Pair pair(options);
  int packets = 0;
  pair.filter = [&packets](int, const wire::Packet&, Flying&) {
    return ++packets % 40 == 0 ? Fate::kDrop : Fate::kPass;
  };
  pair.connect();
  CHECK(pair.write(0, 1, 500'000, 500'000) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kSuccess);
  CHECK(pair.landed(0, 500'000, 500'000));
  CHECK(pair.stats(0).losses_inferred > 0);
}

}  // namespace
