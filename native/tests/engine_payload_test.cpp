// Payloads that grow once padded probes as large as full packets have been answered over every plane.
#include <map>

#include "engine/base/rng.hpp"
#include "tests/pair.hpp"

namespace openmrc::test {
namespace {

constexpr std::uint32_t kSmall = 1024, kLarge = 1428;
constexpr std::uint64_t kBytes = 20'000;
constexpr std::uint64_t kTarget = 500'000;

PairOptions growing() {
  PairOptions options;
  options.mtu = kSmall;
  options.mtu_max = {kLarge, kLarge};
  options.path_signal = PathSignal::kDelay;
  options.capabilities.plane_sacks = options.capabilities.sack_transit = true;
  return options;
}

bool is_probe(const wire::Packet& packet) { return packet.bth.opcode == wire::Opcode::kEndpointRequest; }

// Full packets of end 0: the payload of every transmission of each PSN.
struct Seen {
  void note(int from, const wire::Packet& packet) {
    if (from != 0) return;
    if (is_probe(packet)) ++probes;
    if (!wire::is_data(packet.bth.opcode)) return;
    largest = std::max<std::uint32_t>(largest, packet.payload_bytes);
    const auto first = payloads.emplace(packet.bth.psn, packet.payload_bytes).first;
    if (first->second != packet.payload_bytes) ++changed;
    if (packet.bth.rtx) ++repeated;
  }

  std::map<std::uint32_t, std::uint32_t> payloads;  // by PSN
  std::uint32_t largest = 0, probes = 0, changed = 0, repeated = 0;
};

// Writes `count` messages of end 0 one after the other.
bool write_all(Pair& pair, std::uint64_t count) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::size_t before = pair.sends[0].size();
    if (pair.write(0, i, kBytes, kTarget + i % 8 * kBytes) != Status::kOk) return false;
    if (!pair.run_until_sends(0, before + 1)) return false;
    if (pair.sends[0].back().status != WcStatus::kSuccess) return false;
  }
  return pair.landed(0, kBytes, kTarget);
}

}  // namespace

// proves X.3.2
TEST_CASE(payload_grows_for_messages_posted_after_the_answers) {
  Pair pair(growing());
  pair.connect();
  Seen seen;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    seen.note(from, packet);
    return Fate::kPass;
  };
  CHECK(write_all(pair, 1));
  CHECK(seen.largest == kSmall);
  CHECK(seen.probes == 4);
  CHECK(write_all(pair, 4));
  CHECK(seen.largest == kLarge);
  CHECK(seen.probes == 4);
  CHECK(pair.stats(1).received_bytes == 5 * kBytes);
}

TEST_CASE(payload_changes_under_loss_and_repeated_packets_keep_theirs) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    PairOptions options = growing();
    options.timeout_exponent = 9;
    Pair pair(options);
    pair.connect();
    Seen seen;
    Rng dice(seed);
    pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
      seen.note(from, packet);
      if (dice.below(8) == 0) flying.arrival += static_cast<TimePs>(dice.below(200)) * kPsPerUs;
      return dice.below(20) == 0 ? Fate::kDrop : Fate::kPass;
    };
    std::uint64_t posted = 0;
    for (; posted < 16; ++posted) CHECK(pair.write(0, posted, kBytes, kTarget + posted * kBytes) == Status::kOk);
    // Two thirds of each window is under way when the next message is posted.
    for (; posted < 400; ++posted) {
      CHECK(pair.run_until_sends(0, posted - 10, 10 * kPsPerSecond));
      CHECK(pair.write(0, posted, kBytes, kTarget + posted % 16 * kBytes) == Status::kOk);
    }
    CHECK(pair.run_until_sends(0, posted, 10 * kPsPerSecond));
    for (const Completion& done : pair.sends[0]) CHECK(done.status == WcStatus::kSuccess);
    for (std::uint64_t i = 0; i < 16; ++i) CHECK(pair.landed(0, kBytes, kTarget + i * kBytes));
    CHECK(seen.largest == kLarge);
    CHECK(seen.repeated > 100);
    CHECK(seen.changed == 0);
  }
}

// A switch with a smaller MTU than the interfaces, on one plane.
// proves X.3.2
TEST_CASE(payload_stays_if_one_plane_drops_large_packets) {
  Pair pair(growing());
  pair.connect();
  Seen seen;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    seen.note(from, packet);
    return flying.port == 2 && flying.bytes.size() > kSmall + 100 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(write_all(pair, 200));
  CHECK(seen.largest == kSmall);
  CHECK(pair.stats(0).retransmitted_packets == 0);
}

TEST_CASE(payload_stays_if_answers_do_not_arrive) {
  Pair pair(growing());
  pair.connect();
  Seen seen;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    seen.note(from, packet);
    return packet.bth.opcode == wire::Opcode::kEndpointResponse ? Fate::kDrop : Fate::kPass;
  };
  const TimePs begin = pair.now;
  while (pair.now - begin < 20 * kPsPerSecond) {
    CHECK(write_all(pair, 1));
    pair.run_for(10 * kPsPerMs);
  }
  CHECK(seen.largest == kSmall);
  // 10 ms, and twice as long each time, up to 2.56 s: eight probes in 2.55 s, then one in 2.56 s.
  CHECK(seen.probes <= 4 * 16);
  // At rest nothing is asked.
  const std::uint32_t before = seen.probes;
  pair.run_for(10 * kPsPerSecond);
  CHECK(seen.probes == before);
}

TEST_CASE(payload_probes_go_on_while_a_message_waits) {
  Pair pair(growing());
  pair.connect();
  Seen seen;
  bool silent = true;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    seen.note(from, packet);
    const bool probe = is_probe(packet) || packet.bth.opcode == wire::Opcode::kEndpointResponse;
    return silent && probe && flying.port == 1 ? Fate::kDrop : Fate::kPass;
  };
  for (std::uint64_t i = 0; i < 100; ++i) CHECK(pair.write(0, i, 100'000, kTarget) == Status::kOk);
  for (int i = 0; i < 50; ++i) {
    pair.run_for(kPsPerMs);
    if (pair.sends[0].size() < 90) continue;
    CHECK(pair.write(0, 100, 100'000, kTarget) == Status::kOk);
    pair.sends[0].clear();
  }
  CHECK(seen.largest == kSmall);
  silent = false;
  pair.run_for(kPsPerSecond);
  CHECK(write_all(pair, 40));
  pair.run_for(kPsPerSecond);
  CHECK(write_all(pair, 2));
  CHECK(seen.largest == kLarge);
}

TEST_CASE(payload_that_has_grown_is_repeated_on_other_planes_when_one_dies) {
  PairOptions options = growing();
  options.timeout_exponent = 9;
  Pair pair(options);
  pair.connect();
  Seen seen;
  bool dead = false;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    seen.note(from, packet);
    return dead && flying.port == 3 ? Fate::kDrop : Fate::kPass;
  };
  CHECK(write_all(pair, 20));
  CHECK(seen.largest == kLarge);
  dead = true;
  CHECK(write_all(pair, 100));
  CHECK(seen.changed == 0);
  CHECK(seen.repeated > 0);
}

// The peer's interfaces have less room, so it accepts larger packets without sending any.
TEST_CASE(payload_grows_at_one_end_alone) {
  PairOptions options = growing();
  options.mtu_max = {kLarge, kSmall};
  Pair pair(options);
  pair.connect();
  std::array<std::uint32_t, 2> largest{};
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (wire::is_data(packet.bth.opcode))
      largest[Pair::at(from)] = std::max<std::uint32_t>(largest[Pair::at(from)], packet.payload_bytes);
    return Fate::kPass;
  };
  for (int end = 0; end < 2; ++end) {
    for (std::uint64_t i = 0; i < 3; ++i) {
      CHECK(pair.write(end, i, kBytes, kTarget) == Status::kOk);
      CHECK(pair.run_until_sends(end, i + 1));
    }
  }
  CHECK(largest[0] == kLarge);
  CHECK(largest[1] == kSmall);
}

// The memory of a list is staged by the payload of its message.
TEST_CASE(payload_of_gathered_messages_grows) {
  Pair pair(growing());
  pair.connect();
  for (std::uint64_t i = 0; i < 4; ++i) {
    SendWr wr = pair.work(i, 0, kTarget);
    const std::array<Sge, 3> parts{{{0, 1300, Pair::kKey}, {1300, 8'001, Pair::kKey}, {9'301, 2'000, Pair::kKey}}};
    wr.sges = parts;
    CHECK(pair.post(0, wr) == Status::kOk);
    CHECK(pair.run_until_sends(0, i + 1));
    CHECK(pair.landed(0, 11'301, kTarget));
    std::fill_n(pair.memory[1].data() + kTarget, 12'000, std::uint8_t{0});
  }
  CHECK(pair.sends[0].back().status == WcStatus::kSuccess);
}

TEST_CASE(payload_beyond_the_agreed_one_is_refused_unless_both_ends_search) {
  for (const bool searches : {false, true}) {
    PairOptions options = growing();
    options.mtu_max = {kLarge, searches ? kSmall : 0};
    Pair pair(options);
    pair.connect();
    for (std::uint64_t i = 0; i < 3 && pair.state(0) == QpState::kRts; ++i) {
      CHECK(pair.write(0, i, kBytes, kTarget) == Status::kOk);
      CHECK(pair.run_until_sends(0, i + 1));
    }
    CHECK((pair.state(1) == QpState::kRts) == searches);
  }
}

TEST_CASE(payload_limits_are_checked) {
  Pair pair(growing());
  CHECK(pair.engine(0).modify_qp(pair.now, pair.qp[0], pair.to_init()) == Status::kOk);
  QpToRtr rtr = pair.to_rtr(0);
  rtr.payload_mtu_max = kSmall - 4;
  CHECK(pair.engine(0).modify_qp(pair.now, pair.qp[0], rtr) == Status::kInvalidArgument);
  PairOptions rc;
  rc.transport = Transport::kRc;
  Pair fallback(rc);
  CHECK(fallback.engine(0).modify_qp(fallback.now, fallback.qp[0], fallback.to_init()) == Status::kOk);
  rtr = fallback.to_rtr(0);
  rtr.payload_mtu_max = 8192;
  CHECK(fallback.engine(0).modify_qp(fallback.now, fallback.qp[0], rtr) == Status::kInvalidArgument);
}

}  // namespace openmrc::test
