// The window's data structures against plain models, and SACKs against actual arrivals: random histories, each
// identified by its seed.
#include <map>
#include <set>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/qp/bit_ring.hpp"
#include "engine/qp/send_window.hpp"
#include "tests/check.hpp"
#include "tests/pair.hpp"

namespace openmrc {
namespace {

constexpr std::uint64_t kSeeds = 50;

TEST_CASE(bit_ring_agrees_with_a_set_of_psns) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Rng rng(seed);
    const auto bits = static_cast<std::uint32_t>(64U << rng.below(4));
    BitRing ring(bits);
    std::set<Psn> model;
    Psn low = first_psn(static_cast<std::uint32_t>(rng.below(kPsnSpace)));
    for (int step = 0; step < 400; ++step) {
      const Psn psn = low + rng.below(bits);
      switch (rng.below(4)) {
        case 0:
        case 1:
          ring.set(psn);
          model.insert(psn);
          break;
        case 2:
          ring.clear(psn);
          model.erase(psn);
          break;
        default: {  // the window advances
          const auto count = static_cast<std::uint32_t>(rng.below(bits / 2));
          const auto end = model.lower_bound(low + count);
          CHECK(ring.clear_range(low, count) == static_cast<std::uint32_t>(std::distance(model.begin(), end)));
          model.erase(model.begin(), end);
          low += count;
        }
      }
      Psn run = low;
      while (model.contains(run)) ++run;
      CHECK(ring.run_of_ones(low, bits) == run - low);
      const auto first = model.lower_bound(psn);
      CHECK(ring.find_first(psn, low + bits) == (first == model.end() ? low + bits : *first));
      if (psn + 64 <= low + bits) {
        std::uint64_t window = 0;
        for (unsigned i = 0; i < 64; ++i) window |= std::uint64_t{model.contains(psn + i)} << i;
        CHECK(ring.window64(psn) == window);
      }
    }
  }
}

TEST_CASE(send_window_agrees_with_a_map_of_packets) {
  struct Packet {
    SendState state = SendState::kUnsent;
    TimePs sent = 0;
  };
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Rng rng(seed);
    SendWindow window;
    window.start(first_psn(0xFFFFF0));
    std::map<Psn, Packet> model;
    for (TimePs now = 1; now < 600; ++now) {
      const std::uint64_t choice = rng.below(8);
      const Psn some = window.first() + (model.empty() ? 0 : rng.below(model.size()));
      if (choice < 3) {
        const Psn psn = window.end();
        window.append().nominal_bytes = 1000;
        window.sent(psn, now, 0);
        model[psn] = {SendState::kInFlight, now};
      } else if (model.empty()) {
        continue;
      } else if (choice < 5 && model[some].state == SendState::kInFlight) {
        window.leave_flight(some, SendState::kAcked);
        model[some].state = SendState::kAcked;
      } else if (choice == 5 && model[some].state == SendState::kInFlight) {
        window.leave_flight(some, SendState::kLost);
        model[some].state = SendState::kLost;
      } else if (choice == 6) {
        const Psn lost = window.next_lost(window.first());
        if (lost < window.end()) {
          window.sent(lost, now, 0);
          model[lost] = {SendState::kInFlight, now};
        }
      } else {
        Psn end = window.first();
        while (model.contains(end) && model[end].state == SendState::kAcked) model.erase(end++);
        window.advance(end);
        window.release_if_idle();
      }
      std::uint32_t in_flight = 0, lost = 0;
      Psn oldest = 0, first_lost = window.end();
      for (const auto& [psn, packet] : model) {
        if (packet.state == SendState::kInFlight) {
          ++in_flight;
          if (oldest == 0 || packet.sent < model[oldest].sent) oldest = psn;
        } else if (packet.state == SendState::kLost) {
          ++lost;
          first_lost = std::min(first_lost, psn);
        }
      }
      CHECK(window.in_flight() == in_flight && window.in_flight_bytes() == 1000ULL * in_flight);
      CHECK(window.lost() == lost && window.next_lost(window.first()) == first_lost);
      CHECK(in_flight == 0 || window.oldest() == oldest);
    }
  }
}

// With any losses, a SACK acknowledges exactly packets that arrived, and its cumulative PSN covers no gap.
// proves A.5.1
TEST_CASE(sacks_tell_the_truth) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    Rng rng(seed);
    test::PairOptions options;
    options.psn = {0xFFFF80, 5};
    options.mpr_units = 4;
    options.sack_bytes = static_cast<std::uint32_t>(1024U << rng.below(5));
    test::Pair pair(options);
    pair.connect();
    const Psn first = first_psn(options.psn[0]);
    std::set<Psn> arrived;
    std::uint64_t sacks = 0;
    pair.filter = [&](int from, const wire::Packet& packet, test::Flying& flying) {
      if (from == 0 && wire::is_data(packet.bth.opcode)) {
        if (rng.chance(1, 10)) return test::Fate::kDrop;
        flying.arrival += static_cast<TimePs>(rng.below(100)) * kPsPerUs;
        arrived.insert(extend24(packet.bth.psn, first));  // will have arrived at that time
      } else if (from == 1 && packet.bth.opcode == wire::Opcode::kSack) {
        ++sacks;
        const Psn cack = extend24(packet.seth.cack_psn, first);
        for (Psn psn = first; psn <= cack; ++psn) CHECK(arrived.contains(psn));
        for (unsigned i = 0; i < 64; ++i) {
          const Psn psn = cack + static_cast<Psn>(std::int64_t{packet.seth.sack_offset}) + i;
          if ((packet.seth.bitmap >> i & 1) != 0) CHECK(arrived.contains(psn));
        }
      }
      return test::Fate::kPass;
    };
    CHECK(pair.write(0, 1, 300'000, 0) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    CHECK(sacks > 5);
  }
}

}  // namespace
}  // namespace openmrc
