// RC on several planes: without the extension a QP keeps to one of them, with it the QP leaves a dead one.
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;

constexpr std::uint64_t kTarget = 512 * 1024;

PairOptions rc(bool moves) {
  PairOptions options;
  options.transport = Transport::kRc;
  options.rc_plane_move = moves;
  options.linear_retries = 3;
  options.exponential_retries = 0;
  return options;
}

// Operations of every kind across the death of plane 0, in both directions or in one.
void cross_a_dead_plane(int dead_from) {
  Pair pair(rc(true));
  pair.connect(4);
  bool dead = false;
  pair.filter = [&](int from, const wire::Packet&, Flying& flying) {
    return dead && flying.port == 0 && (dead_from == 2 || from == dead_from) ? Fate::kDrop : Fate::kPass;
  };
  CHECK(pair.write(0, 0, 20'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  dead = true;
  CHECK(pair.write_imm(0, 1, 20'000, kTarget, 1) == Status::kOk);
  CHECK(pair.read(0, 2, 30'000, 2 * 100'000) == Status::kOk);
  CHECK(pair.fetch_add(0, 3, 64, 1, 2 * 150'000) == Status::kOk);
  CHECK(pair.run_until_sends(0, 4));
  for (const Completion& done : pair.sends[0]) CHECK(done.status == WcStatus::kSuccess);
  CHECK(pair.recvs[1].size() == 1 && pair.landed(0, 20'000, kTarget));
  CHECK(pair.stats(0).plane_moves == 1);
}

// proves X.8.11
TEST_CASE(rc_planes_01_leaves_a_silent_plane_before_the_retries_run_out) {
  for (const int dead_from : {0, 1, 2}) cross_a_dead_plane(dead_from);
}

// proves X.8.1
TEST_CASE(rc_planes_02_without_the_extension_the_retries_run_out) {
  Pair pair(rc(false));
  pair.connect();
  pair.filter = [](int, const wire::Packet&, Flying& flying) {
    CHECK(flying.port == 0);
    return Fate::kDrop;
  };
  CHECK(pair.write(0, 1, 20'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kRetryExceeded && pair.stats(0).plane_moves == 0);
}

// proves X.8.11
TEST_CASE(rc_planes_03_a_port_that_goes_down_is_left_at_once) {
  Pair pair(rc(true));
  pair.connect();
  CHECK(pair.write(0, 1, 50'000, kTarget) == Status::kOk);
  pair.run_for(7 * kPsPerUs);
  pair.engine(0).handle_port_state(pair.now, 0, false);
  pair.filter = [](int, const wire::Packet& packet, Flying& flying) {
    CHECK(flying.port != 0 || packet.bth.destination_qp == kEndpointQp);
    return Fate::kPass;
  };
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, 50'000, kTarget) && pair.stats(0).timeouts == 0 && pair.stats(0).plane_moves == 1);
}

// proves X.8.11
TEST_CASE(rc_planes_04_moves_on_before_a_single_retry_is_spent) {
  PairOptions options = rc(true);
  options.linear_retries = 1;
  Pair pair(options);
  pair.connect();
  pair.filter = [](int, const wire::Packet&, Flying& flying) { return flying.port == 0 ? Fate::kDrop : Fate::kPass; };
  CHECK(pair.write(0, 1, 5000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kSuccess);
}

}  // namespace
