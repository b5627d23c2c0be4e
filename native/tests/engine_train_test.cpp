// Datagrams that the kernel delivers in one piece.
#include <algorithm>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/seal.hpp"
#include "tests/pair.hpp"

namespace openmrc::test {
namespace {

constexpr std::uint64_t kBytes = 7 * 1024 + 300;
constexpr std::uint64_t kTarget = 500'000;

// Datagrams of one size; the last may be shorter.
struct Train {
  void arrive(Pair& pair) {
    datagram.bytes = bytes;
    pair.engine(1).handle_train(pair.now, datagram, step);
  }

  RxDatagram datagram;
  std::vector<std::uint8_t> bytes;
  std::size_t step = 0;
};

Train train_of(const TxBurst& burst) {
  Train train;
  for (std::uint32_t i = 0; i < burst.count; ++i) {
    const TxPacket& packet = burst.packets[i];
    train.bytes.insert(train.bytes.end(), packet.headers.begin(), packet.headers.begin() + packet.header_bytes);
    train.bytes.insert(train.bytes.end(), packet.payload, packet.payload + packet.payload_bytes);
    train.bytes.insert(train.bytes.end(), packet.trailer.begin(), packet.trailer.begin() + packet.trailer_bytes);
  }
  train.step = burst.packets[0].datagram_bytes();
  train.datagram.port = burst.port;
  train.datagram.source = Pair::address(0, burst.port);
  train.datagram.fields = burst.fields;
  train.datagram.traffic_class = burst.traffic_class;
  train.datagram.ecn = burst.ecn;
  return train;
}

// The first burst of a WRITE from end 0.
Train first_burst(Pair& pair) {
  CHECK(pair.write(0, 1, kBytes, kTarget) == Status::kOk);
  TxBurst burst;
  CHECK(pair.engine(0).poll_transmit(pair.now, 1, kBurstPacketsMax, burst));
  return train_of(burst);
}

// Planes that are controlled one by one, whose packets the engine handles run by run where it can.
PairOptions planes() {
  PairOptions options;
  options.path_signal = PathSignal::kDelay;
  options.capabilities.plane_sacks = options.capabilities.sack_transit = options.capabilities.no_icrc = true;
  options.burst_max = kBurstPacketsMax;
  options.mpr_units = 32;
  return options;
}

// A fault as networks and kernels cause it, or none.
void disturb(Train& train, Rng& rng) {
  const std::size_t count = train.bytes.size() / train.step;
  const auto at = static_cast<std::ptrdiff_t>(rng.below(count) * train.step);
  const auto step = static_cast<std::ptrdiff_t>(train.step);
  switch (rng.below(8)) {
    case 0:  // lost
      train.bytes.erase(train.bytes.begin() + at, train.bytes.begin() + at + step);
      break;
    case 1: {  // twice
      const std::vector<std::uint8_t> copy(train.bytes.begin() + at, train.bytes.begin() + at + step);
      train.bytes.insert(train.bytes.begin() + at, copy.begin(), copy.end());
      break;
    }
    case 2: {  // overtaken
      const auto other = static_cast<std::ptrdiff_t>(rng.below(count) * train.step);
      if (other != at) {
        std::swap_ranges(train.bytes.begin() + at, train.bytes.begin() + at + step, train.bytes.begin() + other);
      }
      break;
    }
    case 3:  // damaged in its headers
      train.bytes[static_cast<std::size_t>(at) + rng.below(std::min<std::size_t>(train.step, 36))] ^=
          static_cast<std::uint8_t>(1U << rng.below(8));
      break;
    case 4:
      train.datagram.ecn = Ecn::kCe;
      break;
    default:
      break;
  }
}

// Passes the acknowledgements of end 1 to end 0. Returns their bytes, and what end 1 has counted.
std::vector<std::uint8_t> acknowledgements(Pair& pair) {
  constexpr int end = 1;
  std::vector<std::uint8_t> bytes;
  TxBurst burst;
  while (pair.engine(end).poll_transmit(pair.now, ~PortMask{0}, 1, burst)) {
    Train train = train_of(burst);
    bytes.insert(bytes.end(), train.bytes.begin(), train.bytes.end());
    bytes.push_back(burst.port);
    train.datagram.source = Pair::address(end, burst.port);
    train.datagram.bytes = train.bytes;
    pair.engine(0).handle_datagram(pair.now, train.datagram);
  }
  const QpStats stats = pair.stats(end);
  for (const std::uint64_t value :
       {stats.received_packets, stats.received_bytes, stats.duplicate_packets, stats.placed_bytes,
        stats.received_messages, stats.out_of_window_packets, stats.refused_packets, stats.sacks_sent, stats.acks_sent,
        stats.nacks_sent, pair.engine(end).placed_packets(), std::uint64_t{pair.engine(end).message_open()},
        pair.engine(end).port_stats(0).received_bytes, pair.engine(end).drops().wrong_source}) {
    for (unsigned shift = 0; shift < 64; shift += 8) bytes.push_back(static_cast<std::uint8_t>(value >> shift));
  }
  return bytes;
}

}  // namespace

TEST_CASE(engine_train_has_the_same_effect_as_its_datagrams_one_by_one) {
  std::uint64_t packets = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    Rng rng(seed);
    Pair together(planes()), apart(planes());
    together.connect();
    apart.connect();
    std::vector<Train> late;
    bool alive = true;
    for (int turn = 0; turn < 60 && alive; ++turn) {
      if (rng.below(3) == 0) {
        const std::uint64_t bytes = 1 + rng.below(60'000), target = 300'000 + rng.below(100'000);
        together.write(0, 1, bytes, target);
        apart.write(0, 1, bytes, target);
      }
      TxBurst burst, same;
      const bool sends = together.engine(0).poll_transmit(together.now, 15, kBurstPacketsMax, burst);
      CHECK(apart.engine(0).poll_transmit(apart.now, 15, kBurstPacketsMax, same) == sends);
      if (sends) late.push_back(train_of(burst));
      if (!late.empty() && rng.below(4) > 0) {
        const auto next = late.begin() + static_cast<std::ptrdiff_t>(rng.below(late.size()));
        Train train = *next;
        late.erase(next);
        disturb(train, rng);
        if (!train.bytes.empty()) train.arrive(together);
        for (std::size_t at = 0; at < train.bytes.size(); at += train.step) {
          RxDatagram datagram = train.datagram;
          datagram.bytes = std::span(train.bytes).subspan(at, std::min(train.step, train.bytes.size() - at));
          apart.engine(1).handle_datagram(apart.now, datagram);
        }
      }
      if (rng.below(2) == 0) alive = acknowledgements(together) == acknowledgements(apart);
      CHECK(alive);
      together.now += 3 * kPsPerUs;
      apart.now = together.now;
    }
    CHECK(together.memory[1] == apart.memory[1]);
    packets += together.stats(1).received_packets;
    CHECK(acknowledgements(together) == acknowledgements(apart));
  }
  CHECK(packets > 10'000);
}

TEST_CASE(engine_train_places_every_datagram_and_the_shorter_last_one) {
  Pair pair;
  pair.connect();
  Train train = first_burst(pair);
  CHECK(train.bytes.size() % train.step != 0);
  train.arrive(pair);
  CHECK(pair.stats(1).received_packets == 8);
  CHECK(pair.landed(0, kBytes, kTarget));
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.stats(0).retransmitted_packets == 0);
}

TEST_CASE(engine_train_loses_a_damaged_datagram_alone) {
  Pair pair;
  pair.connect();
  Train train = first_burst(pair);
  train.bytes[2 * train.step + 100] ^= 1;
  train.arrive(pair);
  CHECK(pair.engine(1).drops().bad_icrc == 1);
  CHECK(pair.stats(1).received_packets == 7);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, kBytes, kTarget));
  CHECK(pair.stats(0).retransmitted_packets == 1);
}

TEST_CASE(engine_train_may_be_for_several_qps) {
  Pair pair;
  pair.connect();
  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::kWriteOnly;
  const std::vector<std::uint8_t> payload(64, 7);
  Train train;
  for (const std::uint32_t stranger : {0U, 1U, 0U}) {
    packet.bth.destination_qp = pair.qp[1] ^ stranger;
    const Flying forged = pair.forge(0, packet, payload);
    train.step = forged.bytes.size();
    train.datagram.fields = forged.fields;
    train.bytes.insert(train.bytes.end(), forged.bytes.begin(), forged.bytes.end());
  }
  train.datagram.source = Pair::address(0, 0);
  train.arrive(pair);
  CHECK(pair.engine(1).drops().unknown_qp == 1);
  CHECK(pair.stats(1).received_packets == 2);
}

// A driver does this part of the engine's work outside the lock.
TEST_CASE(engine_train_sealed_by_the_driver_is_that_of_the_engine) {
  Pair pair;
  pair.connect();
  CHECK(pair.write(0, 1, kBytes, kTarget) == Status::kOk);
  TxBurst burst;
  CHECK(pair.engine(0).poll_transmit(pair.now, 1, kBurstPacketsMax, burst));
  CHECK(burst.count == 8 && burst.packets[7].payload_bytes == 300);
  TxBurst again = burst;
  for (std::uint32_t i = 0; i < again.count; ++i) {
    again.packets[i].trailer.fill(0);
    again.packets[i].seam.fill(0);
  }
  seal(again, Pair::address(0, burst.port));
  for (std::uint32_t i = 0; i < burst.count; ++i) {
    const TxPacket& packet = burst.packets[i];
    CHECK(again.packets[i].trailer == packet.trailer);
    const std::size_t seam = i == 0 ? 0 : burst.packets[i - 1].trailer_bytes;
    CHECK(std::equal(packet.seam.end() - static_cast<std::ptrdiff_t>(seam), packet.seam.end(),
                     again.packets[i].seam.end() - static_cast<std::ptrdiff_t>(seam)));
  }
}

TEST_CASE(engine_train_is_intact_until_any_of_its_bytes_changes) {
  Pair pair;
  pair.connect();
  Train train = first_burst(pair);
  wire::FlowIcrc icrc;
  const auto whole = [&] {
    train.datagram.bytes = train.bytes;
    return intact(train.datagram, train.step, Pair::address(1, train.datagram.port), 4791, icrc);
  };
  CHECK(whole());
  for (std::size_t at = 5; at < train.bytes.size(); at += 97) {
    train.bytes[at] ^= 0x10;
    CHECK(!whole());
    train.bytes[at] ^= 0x10;
  }
  CHECK(whole());
  train.bytes.pop_back();
  CHECK(!whole());
}

TEST_CASE(engine_train_that_the_driver_checked_is_not_checked_again) {
  Pair pair;
  pair.connect();
  Train train = first_burst(pair);
  train.bytes.back() ^= 1;
  train.datagram.checked = true;
  train.arrive(pair);
  CHECK(pair.engine(1).drops().bad_icrc == 0);
  CHECK(pair.stats(1).received_packets == 8);
}

// proves X.4.10
TEST_CASE(packets_without_icrc_arrive_where_both_ends_agreed) {
  PairOptions options;
  options.capabilities.no_icrc = true;
  Pair pair(options);
  pair.connect();
  Train train = first_burst(pair);
  for (std::size_t at = 0; at < train.bytes.size(); at += train.step) {
    const std::size_t end = std::min(at + train.step, train.bytes.size());
    CHECK(std::all_of(train.bytes.begin() + static_cast<std::ptrdiff_t>(end - 4),
                      train.bytes.begin() + static_cast<std::ptrdiff_t>(end), [](std::uint8_t b) { return b == 0; }));
  }
  wire::FlowIcrc icrc;
  train.datagram.bytes = train.bytes;
  CHECK(intact(train.datagram, train.step, Pair::address(1, train.datagram.port), 4791, icrc));
  train.arrive(pair);
  CHECK(pair.landed(0, kBytes, kTarget));
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.engine(0).drops().bad_icrc == 0 && pair.engine(0).drops().missing_icrc == 0);
}

TEST_CASE(packets_without_icrc_are_dropped_where_none_was_agreed) {
  Pair pair;
  pair.connect();
  Train train = first_burst(pair);
  for (std::size_t at = 0; at < train.bytes.size(); at += train.step) train.bytes[at + 8] |= 4;
  train.arrive(pair);
  CHECK(pair.engine(1).drops().missing_icrc == 8 && pair.engine(1).drops().bad_icrc == 0);
  CHECK(pair.stats(1).received_packets == 0);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, kBytes, kTarget));
}

TEST_CASE(packets_with_an_icrc_are_checked_also_where_none_is_required) {
  PairOptions options;
  options.capabilities.no_icrc = true;
  Pair pair(options);
  pair.connect();
  Train train = first_burst(pair);
  train.bytes[2 * train.step + 8] &= 0xFB;  // its ICRC is zero, and wrong
  wire::FlowIcrc icrc;
  train.datagram.bytes = train.bytes;
  CHECK(!intact(train.datagram, train.step, Pair::address(1, train.datagram.port), 4791, icrc));
  train.arrive(pair);
  CHECK(pair.engine(1).drops().bad_icrc == 1 && pair.stats(1).received_packets == 7);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.landed(0, kBytes, kTarget));
}

TEST_CASE(endpoint_operations_always_have_an_icrc) {
  Pair pair;
  pair.connect();
  Train train = first_burst(pair);
  train.bytes.resize(train.step);
  train.bytes[5] = train.bytes[6] = 0;
  train.bytes[7] = static_cast<std::uint8_t>(kEndpointQp);
  train.bytes[8] |= 4;
  train.arrive(pair);
  CHECK(pair.engine(1).drops().missing_icrc == 1);
}

}  // namespace openmrc::test
