// Packets and their acknowledgements, field by field: a responder's replies to hand-made packets.
#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Fate;
using test::Flying;
using test::Pair;
using test::PairOptions;
using wire::Opcode;

constexpr std::uint64_t kTarget = 512 * 1024;
constexpr std::uint32_t kNeverByBytes = 1 << 20;
constexpr std::uint32_t kSmall = 16;  // payload of the packets made here
// BTH, METH, TSETH, RETH, ICRC, UDP header and 40.
constexpr std::uint32_t kSmallNominal = 12 + 4 + 4 + 16 + kSmall + 4 + 8 + 40;

wire::Packet small_write(const Pair& pair, std::uint32_t offset) {
  wire::Packet packet;
  packet.bth.opcode = Opcode::kWriteOnly;
  packet.bth.psn = (pair.options.psn[0] + offset) & (kPsnSpace - 1);
  packet.bth.ts = true;
  packet.reth = {kTarget + std::uint64_t{offset} * kSmall, Pair::kKey, kSmall};
  return packet;
}

std::vector<std::uint8_t> filled(std::uint8_t value) { return std::vector<std::uint8_t>(kSmall, value); }

// Acknowledgements of the responder, in order.
struct Answers {
  explicit Answers(Pair& pair) {
    pair.filter = [this](int from, const wire::Packet& packet, Flying&) {
      if (from == 1 && packet.bth.opcode == Opcode::kSack) sacks.push_back(packet);
      if (from == 1 && packet.bth.opcode == Opcode::kNack) nacks.push_back(packet);
      return Fate::kPass;
    };
  }
  std::vector<wire::Packet> sacks, nacks;
};

PairOptions without_byte_trigger() {
  PairOptions options;
  options.sack_bytes = kNeverByBytes;
  return options;
}

// --- what the requester writes into its packets

// proves A.2.2, A.3.2, A.3.3
TEST_CASE(data_packets_name_their_place_and_their_message) {
  Pair pair;
  std::vector<wire::Packet> sent;
  pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
    if (from == 0 && wire::is_data(packet.bth.opcode)) sent.push_back(packet);
    return Fate::kPass;
  };
  pair.connect();
  CHECK(pair.write(0, 1, 2500, kTarget) == Status::kOk);
  CHECK(pair.write_imm(0, 2, 1025, kTarget + 4000, 7) == Status::kOk);
  CHECK(pair.write(0, 3, 10, kTarget + 8000) == Status::kOk);
  CHECK(pair.run_until_sends(0, 3));
  struct Row {
    Opcode opcode;
    std::uint64_t address;
    std::uint32_t payload, length;
    std::uint16_t msn, rqmsn;
  };
  const std::vector<Row> rows{
      {Opcode::kWriteFirst, kTarget, 1024, 2500, 0, 0},       {Opcode::kWriteMiddle, kTarget + 1024, 1024, 2500, 0, 0},
      {Opcode::kWriteLast, kTarget + 2048, 452, 2500, 0, 0},  {Opcode::kWriteFirst, kTarget + 4000, 1024, 1025, 1, 0},
      {Opcode::kWriteLastImm, kTarget + 5024, 1, 1025, 1, 0}, {Opcode::kWriteOnly, kTarget + 8000, 10, 10, 2, 1}};
  CHECK(sent.size() == rows.size());
  for (std::size_t i = 0; i < std::min(rows.size(), sent.size()); ++i) {
    CHECK(sent[i].bth.opcode == rows[i].opcode && sent[i].bth.psn == pair.options.psn[0] + i);
    CHECK(sent[i].reth.virtual_address == rows[i].address && sent[i].reth.rkey == Pair::kKey);
    CHECK(sent[i].payload_bytes == rows[i].payload && sent[i].reth.dma_length == rows[i].length);
    CHECK(sent[i].meth.msn == rows[i].msn && sent[i].meth.rqmsn == rows[i].rqmsn);
  }
}

// proves A.3.4
TEST_CASE(timestamps_count_in_the_unit_that_their_resolution_bit_names) {
  for (const std::uint16_t unit_ns : {std::uint16_t{128}, std::uint16_t{1000}}) {
    PairOptions options;
    options.timestamp_resolution_ns = unit_ns;
    Pair pair(options);
    int data = 0;
    pair.filter = [&](int from, const wire::Packet& packet, Flying&) {
      if (from != 0 || !wire::is_data(packet.bth.opcode)) return Fate::kPass;
      ++data;
      CHECK(packet.bth.ts);
      const bool coarse = packet.tseth.resolution == wire::TimestampResolution::k1Us;
      CHECK(coarse == (unit_ns == 1000));
      CHECK(packet.tseth.timestamp == static_cast<std::uint16_t>(pair.now / (unit_ns * kPsPerNs)));
      return Fate::kPass;
    };
    pair.connect();
    for (std::uint64_t i = 0; i < 5; ++i) {
      pair.run_for(77 * kPsPerMs);
      CHECK(pair.write(0, i, 100, kTarget) == Status::kOk);
      CHECK(pair.run_until_sends(0, i + 1));
    }
    CHECK(data == 5);
  }
}

// proves A.3.5
TEST_CASE(congestion_control_counts_the_udp_length_and_40_bytes) {
  Pair pair;
  pair.connect();
  pair.filter = [](int, const wire::Packet&, Flying&) { return Fate::kDrop; };
  CHECK(pair.write(0, 1, 1000, kTarget) == Status::kOk);
  pair.pump();
  CHECK(pair.stats(0).in_flight_bytes == 8 + 12 + 4 + 4 + 16 + 1000 + 4 + 40);
  CHECK(pair.write_imm(0, 2, 1, kTarget, 9) == Status::kOk);
  pair.pump();
  CHECK(pair.stats(0).in_flight_bytes == 1088 + (8 + 12 + 4 + 4 + 16 + 4 + 4 + 4 + 40));  // padded to 4 bytes
}

// --- what the responder answers

// proves A.3.7
TEST_CASE(sacks_and_nacks_name_the_packet_that_they_answer) {
  PairOptions options;
  options.ev_format = wire::EvFormat::kStev;
  options.sack_bytes = 1;
  Pair pair(options);
  pair.connect();
  std::map<std::uint32_t, std::uint32_t> ev_of;  // by PSN, of the latest copy
  int sacks = 0, nacks = 0;
  pair.filter = [&](int from, const wire::Packet& packet, Flying& flying) {
    if (from == 0 && wire::is_data(packet.bth.opcode)) {
      flying.arrival += (packet.bth.psn - options.psn[0]) * 20 * kPsPerNs;  // spaced, so that SACKs do not merge
      ev_of[packet.bth.psn] = std::uint32_t{flying.fields.flow_label} << 16 | flying.fields.source_port;
      if (!packet.bth.rtx && packet.bth.psn % 10 == 3) {
        flying.bytes.resize(24);
        flying.traffic_class = TrafficClass::kTrimmed;
      }
    } else if (packet.bth.opcode == Opcode::kSack && !packet.seth.probe_response) {
      ++sacks;
      const std::uint32_t trigger =
          packet.seth.cack_psn + static_cast<std::uint32_t>(std::int32_t{packet.seth.ack_psn_offset});
      CHECK(ev_of.contains(trigger) && ev_of[trigger] == packet.seth.entropy);
    } else if (packet.bth.opcode == Opcode::kNack) {
      ++nacks;
      CHECK(ev_of.contains(packet.neth.nack_psn) && ev_of[packet.neth.nack_psn] == packet.neth.entropy);
    }
    return Fate::kPass;
  };
  CHECK(pair.write(0, 1, 100'000, kTarget) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(sacks >= 10 && nacks >= 9);
}

// proves A.5.3
TEST_CASE(small_packets_count_as_1024_bytes_towards_a_sack) {
  Pair pair;  // a SACK each 4,096 bytes
  pair.connect();
  const Answers answers(pair);
  for (std::uint32_t i = 0; i < 12; ++i) {
    pair.deliver(pair.forge(0, small_write(pair, i), filled(1)));
    pair.pump();
    CHECK(answers.sacks.size() == (i + 1) / 4);
  }
}

// proves A.5.4, A.5.5
TEST_CASE(an_ack_request_a_mark_a_repeat_and_a_duplicate_cause_a_sack_at_once) {
  enum class Kind { kPlain, kAckRequest, kMark, kRepeat, kDuplicate };
  for (const Kind kind : {Kind::kPlain, Kind::kAckRequest, Kind::kMark, Kind::kRepeat, Kind::kDuplicate}) {
    Pair pair(without_byte_trigger());
    pair.connect();
    const Answers answers(pair);
    pair.deliver(pair.forge(0, small_write(pair, 0), filled(1)));
    pair.pump();
    CHECK(answers.sacks.empty());
    wire::Packet packet = small_write(pair, kind == Kind::kDuplicate ? 0 : 1);
    packet.bth.ack_request = kind == Kind::kAckRequest;
    packet.bth.rtx = kind == Kind::kRepeat;
    Flying flying = pair.forge(0, packet, filled(1));
    if (kind == Kind::kMark) flying.ecn = Ecn::kCe;
    pair.deliver(flying);
    pair.pump();
    CHECK(answers.sacks.size() == (kind == Kind::kPlain ? 0U : 1U));
    for (const wire::Packet& sack : answers.sacks) {
      CHECK(sack.seth.mark == (kind == Kind::kMark ? wire::SackMark::kSkipOnce : wire::SackMark::kNone));
    }
  }
}

// proves A.5.5
TEST_CASE(marked_sacks_that_wait_are_not_merged) {
  PairOptions options = without_byte_trigger();
  options.planes = 1;
  Pair pair(options);
  pair.connect();
  const Answers answers(pair);
  for (std::uint32_t i = 0; i < 6; ++i) {
    wire::Packet packet = small_write(pair, i);
    packet.bth.ack_request = true;
    Flying flying = pair.forge(0, packet, filled(1));
    if (i == 1 || i == 2) flying.ecn = Ecn::kCe;
    pair.deliver(flying);
  }
  pair.pump();
  const auto marked = std::count_if(answers.sacks.begin(), answers.sacks.end(), [](const wire::Packet& sack) {
    return sack.seth.mark == wire::SackMark::kSkipOnce;
  });
  CHECK(marked == 2);
  CHECK(answers.sacks.size() == 4);  // the unmarked ones before and after the marks are one each
}

// proves A.5.1, A.5.6, A.7.3
TEST_CASE(every_arrival_is_in_some_sack_although_one_bitmap_is_too_short) {
  Pair pair(without_byte_trigger());
  pair.connect();
  const Answers answers(pair);
  std::set<std::uint32_t> arrived;
  for (std::uint32_t offset = 0; offset <= 400; ++offset) {
    const bool missing = offset == 1 || (offset > 40 && offset < 130) || (offset > 140 && offset < 300);
    if (missing) continue;
    wire::Packet packet = small_write(pair, offset);
    packet.bth.ack_request = offset == 400;
    pair.deliver(pair.forge(0, packet, filled(1)));
    arrived.insert(pair.options.psn[0] + offset);
  }
  pair.pump();
  std::set<std::uint32_t> reported{pair.options.psn[0]};
  CHECK(answers.sacks.size() >= 3);
  for (const wire::Packet& sack : answers.sacks) {
    CHECK(sack.seth.cack_psn == pair.options.psn[0] && sack.seth.mpr_units == 0);
    const std::uint32_t base = sack.seth.cack_psn + static_cast<std::uint32_t>(std::int32_t{sack.seth.sack_offset});
    for (std::uint32_t i = 0; i < 64; ++i) {
      if ((sack.seth.bitmap >> i & 1) != 0) reported.insert(base + i);
    }
  }
  CHECK(reported == arrived);
}

// proves A.5.8, A.5.10
TEST_CASE(a_duplicate_is_acknowledged_and_neither_written_nor_counted) {
  Pair pair(without_byte_trigger());
  pair.connect();
  const Answers answers(pair);
  wire::Packet packet = small_write(pair, 0);
  packet.bth.ack_request = true;
  for (const std::uint8_t value : {std::uint8_t{0x11}, std::uint8_t{0x22}}) {
    pair.deliver(pair.forge(0, packet, filled(value)));
    pair.pump();
    CHECK(pair.memory[1][kTarget] == 0x11);
  }
  CHECK(answers.sacks.size() == 2);
  for (const wire::Packet& sack : answers.sacks) CHECK(sack.cc_state.rcvd_256_bytes == 1);  // 104 bytes
  for (std::uint32_t offset = 1; offset < 6; ++offset) {
    packet = small_write(pair, offset);
    packet.bth.ack_request = true;
    pair.deliver(pair.forge(0, packet, filled(0x33)));
    pair.pump();
    CHECK(answers.sacks.back().cc_state.rcvd_256_bytes == ((offset + 1) * kSmallNominal + 255) / 256);
  }
}

wire::Packet probe(const Pair& pair, std::uint16_t id) {
  wire::Packet packet;
  packet.bth.opcode = Opcode::kProbe;
  packet.peth.probe_id = id;
  packet.peth.source_context = pair.context(0);
  packet.peth.destination_context = pair.context(1);
  return packet;
}

// proves A.5.9, A.12.1
TEST_CASE(a_probe_is_answered_with_its_id_from_the_oldest_gap_on) {
  Pair pair(without_byte_trigger());
  pair.connect();
  const Answers answers(pair);
  pair.deliver(pair.forge(0, probe(pair, 77)));
  pair.pump();
  CHECK(answers.sacks.size() == 1);
  CHECK(answers.sacks[0].seth.probe_response && answers.sacks[0].seth.ack_psn_offset == 77);
  CHECK(answers.sacks[0].seth.cack_psn == pair.options.psn[0] - 1 && answers.sacks[0].seth.bitmap == 0);
  for (std::uint32_t offset = 1; offset < 200; ++offset) {
    pair.deliver(pair.forge(0, small_write(pair, offset), filled(1)));
  }
  wire::Packet last = small_write(pair, 200);
  last.bth.ack_request = true;
  pair.deliver(pair.forge(0, last, filled(1)));
  pair.pump();  // all of them have been in a SACK
  pair.deliver(pair.forge(0, probe(pair, 78)));
  pair.pump();
  CHECK(answers.sacks.back().seth.probe_response && answers.sacks.back().seth.ack_psn_offset == 78);
  CHECK(answers.sacks.back().seth.sack_offset == 1 && answers.sacks.back().seth.bitmap == ~1ULL);
}

// Regression: what the answer had no room for followed in SACKs that named a packet, but echoed the probe's timestamp.
TEST_CASE(sacks_that_follow_the_answer_to_a_probe_echo_a_packet) {
  Pair pair(without_byte_trigger());
  pair.connect();
  const Answers answers(pair);
  for (std::uint32_t offset = 1; offset < 200; ++offset) {
    wire::Packet packet = small_write(pair, offset);
    packet.tseth.timestamp = static_cast<std::uint16_t>(1000 + offset);
    pair.deliver(pair.forge(0, packet, filled(1)));
  }
  wire::Packet asked = probe(pair, 77);
  asked.peth.timestamp = 5;
  pair.deliver(pair.forge(0, asked));
  pair.pump();
  CHECK(answers.sacks.size() == 4);  // of 64 packets each
  for (const wire::Packet& sack : answers.sacks) {
    const bool answer = &sack == &answers.sacks.front();
    CHECK(sack.seth.probe_response == answer);
    CHECK(sack.cc_state.timestamp == (answer ? 5 : 1199));
    CHECK(answer || sack.seth.ack_psn_offset == 200);
  }
}

// proves A.3.9
TEST_CASE(acknowledgements_and_probes_of_other_contexts_are_ignored) {
  Pair pair;
  pair.connect();
  pair.filter = [](int, const wire::Packet&, Flying&) { return Fate::kDrop; };
  CHECK(pair.write(0, 1, 5000, kTarget) == Status::kOk);
  pair.pump();
  CHECK(pair.stats(0).in_flight_packets == 5);
  wire::Packet sack;
  sack.bth.opcode = Opcode::kSack;
  sack.seth.cack_psn = pair.options.psn[0] + 1;
  for (const bool right : {false, true}) {
    sack.seth.source_context = pair.context(1);
    sack.seth.destination_context = static_cast<std::uint16_t>(pair.context(0) + (right ? 0 : 1));
    pair.deliver(pair.forge(1, sack));
    CHECK(pair.stats(0).in_flight_packets == (right ? 3U : 5U) && pair.stats(0).stale_packets == 1);
  }
  wire::Packet stale = probe(pair, 1);
  ++stale.peth.source_context;
  pair.deliver(pair.forge(0, stale));
  CHECK(pair.stats(1).probes_received == 0 && pair.stats(1).stale_packets == 1);
}

// proves A.6.5, A.7.2
TEST_CASE(a_psn_above_the_window_is_refused_and_the_last_one_inside_is_not) {
  for (const bool nacks : {true, false}) {
    PairOptions options = without_byte_trigger();
    options.mpr_units = 2;
    options.nack_out_of_window = nacks;
    Pair pair(options);
    pair.connect();
    const Answers answers(pair);
    for (const std::uint32_t offset : {2 * kMprUnitPsns - 2, 2 * kMprUnitPsns - 1}) {
      const bool inside = offset == 2 * kMprUnitPsns - 2;
      pair.deliver(pair.forge(0, small_write(pair, offset), filled(0xEE)));
      pair.pump();
      CHECK((pair.memory[1][kTarget + offset * kSmall] == 0xEE) == inside);
      CHECK(answers.nacks.size() == (nacks && !inside ? 1U : 0U));
    }
    CHECK(pair.stats(1).out_of_window_packets == 1);
    for (const wire::Packet& nack : answers.nacks) {
      CHECK(nack.neth.reason == wire::NackReason::kPsnOutOfWindow);
      CHECK(nack.neth.nack_psn == pair.options.psn[0] + 2 * kMprUnitPsns - 1);
    }
  }
}

// proves A.2.2
TEST_CASE(a_packet_whose_size_contradicts_its_opcode_is_refused) {
  for (const Opcode opcode : {Opcode::kWriteFirst, Opcode::kWriteMiddle, Opcode::kWriteOnly}) {
    Pair pair;
    pair.connect();
    wire::Packet packet = small_write(pair, 0);
    packet.bth.opcode = opcode;
    packet.reth.dma_length = 5000;
    pair.deliver(pair.forge(0, packet, filled(0xEE)));
    CHECK(pair.error(1) == QpErrorCause::kProtocol);
    CHECK(pair.memory[1][kTarget] != 0xEE);
  }
}

// proves A.1.4
TEST_CASE(a_packet_of_the_other_transport_is_dropped_and_counted) {
  for (const Transport transport : {Transport::kMrc, Transport::kRc}) {
    PairOptions options;
    options.transport = transport;
    Pair pair(options);
    pair.connect();
    wire::Packet packet = small_write(pair, 0);
    if (transport == Transport::kMrc) packet.bth.opcode = Opcode::kRcWriteOnly;
    pair.deliver(pair.forge(0, packet, filled(0xEE)));
    CHECK(pair.engine(1).drops().wrong_transport == 1);
    CHECK(pair.memory[1][kTarget] != 0xEE && pair.state(1) == QpState::kRts);
  }
}

// --- time

// proves A.10.1
TEST_CASE(the_time_for_which_a_packet_was_held_is_no_part_of_the_round_trip) {
  for (const bool service_time : {true, false}) {
    PairOptions options;
    options.capabilities.service_time = service_time;
    Pair pair(options);
    pair.connect();
    CHECK(pair.write(0, 1, 4000, kTarget) == Status::kOk);
    pair.pump();
    pair.busy_ports = 0xF;  // delays the response
    pair.run_for(60 * kPsPerUs);
    pair.busy_ports = 0;
    CHECK(pair.run_until_sends(0, 1));
    const TimePs held = 55 * kPsPerUs;
    const TimePs expected = 2 * pair.options.delay + (service_time ? 0 : held);
    CHECK(pair.stats(0).last_rtt >= expected - kPsPerUs && pair.stats(0).last_rtt <= expected + kPsPerUs);
  }
}

// proves X.4.5
TEST_CASE(sacks_per_plane_are_counted_by_plane_and_come_after_a_millisecond) {
  for (const bool per_plane : {true, false}) {
    PairOptions options = without_byte_trigger();
    options.capabilities.plane_sacks = per_plane;
    Pair pair(options);
    pair.connect();
    Answers answers(pair);
    pair.deliver(pair.forge(0, small_write(pair, 1), filled(1)));
    pair.run_for(900 * kPsPerUs);
    CHECK(answers.sacks.empty());
    pair.run_for(200 * kPsPerUs);
    CHECK(answers.sacks.size() == (per_plane ? 1U : 0U));
  }
}

// proves X.4.5
TEST_CASE(sacks_per_plane_that_wait_are_one_unless_a_packet_is_missing) {
  for (const bool missing : {true, false}) {
    PairOptions options;
    options.planes = 1;
    options.sack_bytes = 16 * 1024;
    options.capabilities.plane_sacks = true;
    Pair pair(options);
    pair.connect();
    const Answers answers(pair);
    for (std::uint32_t offset = 0; offset < 160; ++offset) {
      if (missing && offset == 20) continue;
      pair.deliver(pair.forge(0, small_write(pair, offset), filled(1)));
    }
    pair.pump();
    CHECK(missing ? answers.sacks.size() > 2 : answers.sacks.size() == 1);
    CHECK(answers.sacks.back().seth.cack_psn == pair.options.psn[0] + (missing ? 19 : 159));
  }
}

// proves X.4.6
TEST_CASE(sacks_per_plane_carry_the_transit_time_of_their_trigger) {
  for (const bool transit : {true, false}) {
    PairOptions options;
    options.capabilities.plane_sacks = true;
    options.capabilities.sack_transit = transit;
    Pair pair(options);
    pair.connect();
    const Answers answers(pair);
    CHECK(pair.write(0, 1, 50'000, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    CHECK(!answers.sacks.empty());
    for (const wire::Packet& sack : answers.sacks) {
      const bool is_transit = sack.cc_state.ooo_count >= 39 && sack.cc_state.ooo_count <= 40;  // 5 us in 128 ns
      CHECK(is_transit == transit);
    }
  }
}

// proves X.4.13
TEST_CASE(sacks_per_plane_carry_the_number_of_receiving_qps_or_the_penalty) {
  for (const bool sharers : {true, false}) {
    PairOptions options;
    options.planes = 1;
    options.capabilities.plane_sacks = true;
    options.capabilities.sack_sharers = sharers;
    Pair pair(options);
    pair.connect();
    CHECK(pair.engine(1).set_receive_penalty(pair.qp[1], 5, false) == Status::kOk);
    const Answers answers(pair);
    CHECK(pair.write(0, 1, 50'000, kTarget) == Status::kOk);
    CHECK(pair.run_until_sends(0, 1));
    CHECK(!answers.sacks.empty());
    for (const wire::Packet& sack : answers.sacks) {
      CHECK(sack.cc_state.rcv_cwnd_pen == (sharers ? 1 : 5));
    }
  }
}

}  // namespace
