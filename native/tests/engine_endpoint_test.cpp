// Endpoint operations from strangers and forgers: port status, EV probes, and limits on the responses.
#include <algorithm>

#include "tests/crowd.hpp"

namespace {

using namespace openmrc;
using test::Crowd;
using wire::EndpointOp;

constexpr std::uint16_t kUdp = 4791;
constexpr PortMask kBoth = Crowd::kAll;

struct Two : Crowd {
  Two() {
    add(1, kUdp);
    add(2, kUdp);
    link = connect(0, 1);
    peer = know(0, 1);
  }
  PortMask seen_by_0() { return engine(0).peer_ports_up(peer); }

  Link link;
  PeerId peer = 0;
};

EndpointResult probe(Crowd& crowd, std::size_t from, PeerId peer) {
  CHECK(crowd.engine(from).send_ev_probe(crowd.now, peer, 1, 0xC012, 5, kPsPerMs) == Status::kOk);
  crowd.run_for(2 * kPsPerMs);
  EndpointResult result;
  CHECK(crowd.engine(from).poll_endpoint_result(result));
  return result;
}

// --- port status

// proves X.2.1
TEST_CASE(endpoint_01_a_forged_port_status_changes_nothing) {
  Two two;
  CHECK(two.write(two.link, 0, 5000, 0) == Status::kOk);
  two.run_for(kPsPerMs);
  for (const std::uint32_t nonce : {0U, 1U, 0xDEADBEEFU}) {
    for (PortId port = 0; port < Crowd::kPorts; ++port) {
      const auto status = Crowd::request(EndpointOp::kPortStatusUpdate, kUdp, 0, 77, nonce);
      two.deliver(two.forge(2, 0, port, status));
    }
  }
  CHECK(two.seen_by_0() == kBoth);
  CHECK(two.engine(0).drops().wrong_nonce == 6);
}

// proves A.12.3
TEST_CASE(endpoint_02_a_true_port_status_is_believed_and_its_correction_too) {
  Two two;
  two.engine(1).handle_port_state(two.now, 1, false);
  two.exchange();
  CHECK(two.seen_by_0() == 1);
  two.engine(1).handle_port_state(two.now, 1, true);
  two.exchange();
  CHECK(two.seen_by_0() == kBoth);
}

// A status in flight, as visible to an observer on the path.
Crowd::Datagram captured_status(Two& two, PortId port, bool up) {
  two.engine(1).handle_port_state(two.now, port, up);
  two.transmit(1);
  CHECK(two.flying.size() == 1);
  const Crowd::Datagram status = two.flying.front();
  return status;
}

std::uint32_t nonce_in(const Crowd::Datagram& status) {
  wire::Packet packet;
  CHECK(wire::parse(status.bytes, wire::Extent::kWhole, packet) == wire::ParseError::kNone);
  return packet.erth.nonce;
}

// proves X.2.2
TEST_CASE(endpoint_03_the_port_that_carries_a_status_is_up) {
  Two two;
  const std::uint32_t nonce = nonce_in(captured_status(two, 0, false));
  two.exchange();
  two.engine(1).handle_port_state(two.now, 0, true);
  two.exchange();
  CHECK(two.seen_by_0() == kBoth);
  // A party that knows the nonce can send masks that contradict their own arrival: they are counted and ignored.
  std::uint16_t id = 200;
  for (const PortMask mask : {0U, 1U, 0xFFFFFFFDU}) {
    two.deliver(two.forge(2, 0, 1, Crowd::request(EndpointOp::kPortStatusUpdate, kUdp, mask, id++, nonce)));
    CHECK(two.seen_by_0() == kBoth);
  }
  CHECK(two.engine(0).drops().contradictory_port_status == 3 && two.engine(0).drops().wrong_nonce == 0);
  // None of them makes a genuine one with the same number stale.
  two.deliver(two.forge(2, 0, 1, Crowd::request(EndpointOp::kPortStatusUpdate, kUdp, 2, 202, nonce)));
  CHECK(two.seen_by_0() == 2);
}

// proves X.2.2
TEST_CASE(endpoint_04_a_status_that_leaves_no_common_port_is_not_believed) {
  Two two;
  const std::uint32_t nonce = nonce_in(captured_status(two, 1, false));
  two.exchange();
  two.engine(1).handle_port_state(two.now, 1, true);
  two.exchange();
  two.engine(0).handle_port_state(two.now, 0, false);
  two.exchange();
  const auto other_port_only = Crowd::request(EndpointOp::kPortStatusUpdate, kUdp, 1, 200, nonce);
  two.deliver(two.forge(2, 0, 0, other_port_only));
  CHECK((two.seen_by_0() & two.engine(0).ports_up()) != 0);
}

// proves X.2.6
TEST_CASE(endpoint_05_an_idle_connection_finds_out_that_a_port_is_up) {
  Two two;
  const std::uint32_t nonce = nonce_in(captured_status(two, 1, false));
  two.exchange();
  two.engine(1).handle_port_state(two.now, 1, true);
  two.exchange();
  two.deliver(two.forge(2, 0, 0, Crowd::request(EndpointOp::kPortStatusUpdate, kUdp, 1, 200, nonce)));
  two.flying.clear();
  CHECK(two.seen_by_0() == 1);
  two.run_for(2 * kPsPerSecond);
  CHECK(two.seen_by_0() == kBoth);
}

// proves X.2.6
TEST_CASE(endpoint_06_a_port_that_is_down_stays_down_at_one_probe_a_second) {
  Two two;
  two.engine(1).handle_port_state(two.now, 1, false);
  two.run_for(kPsPerMs);
  const std::uint64_t before = two.sent;
  two.run_for(10 * kPsPerSecond);
  CHECK(two.seen_by_0() == 1);
  CHECK(two.sent - before >= 9 && two.sent - before <= 11);
}

// proves X.2.2
TEST_CASE(endpoint_07_an_older_status_that_comes_late_is_ignored) {
  Two two;
  const Crowd::Datagram down = captured_status(two, 1, false);
  two.exchange();
  two.engine(1).handle_port_state(two.now, 1, true);
  two.exchange();
  CHECK(two.seen_by_0() == kBoth);
  two.deliver(down);
  CHECK(two.seen_by_0() == kBoth);
}

TEST_CASE(endpoint_08_a_handshake_does_not_change_the_ports_of_a_connected_peer) {
  Two two;
  PeerConfig claim = Crowd::peer_of(2, kUdp);
  claim.ports_up = 1;
  PeerId id = 0;
  CHECK(two.engine(0).add_peer(claim, id) == Status::kOk);
  CHECK(id == two.peer && two.seen_by_0() == kBoth);
}

// --- several ranks on one address

TEST_CASE(endpoint_10_probes_of_each_rank_of_a_host_are_answered) {
  Crowd crowd;
  crowd.add(1, kUdp);
  for (std::uint16_t rank = 0; rank < 3; ++rank) crowd.add(2, static_cast<std::uint16_t>(kUdp + rank));
  for (std::size_t rank = 1; rank <= 3; ++rank) crowd.know(0, rank);
  for (std::size_t rank = 1; rank <= 3; ++rank) CHECK(probe(crowd, rank, crowd.know(rank, 0)).answered);
  for (std::size_t rank = 1; rank <= 3; ++rank) CHECK(probe(crowd, 0, crowd.know(0, rank)).answered);
}

// proves X.2.1
TEST_CASE(endpoint_11_a_port_status_is_that_of_its_sender) {
  Crowd crowd;
  crowd.add(1, kUdp);
  for (std::uint16_t rank = 0; rank < 3; ++rank) crowd.add(2, static_cast<std::uint16_t>(kUdp + rank));
  for (std::size_t rank = 1; rank <= 3; ++rank) crowd.connect(0, rank);
  crowd.engine(2).handle_port_state(crowd.now, 1, false);
  crowd.exchange();
  CHECK(crowd.engine(0).peer_ports_up(crowd.know(0, 1)) == kBoth);
  CHECK(crowd.engine(0).peer_ports_up(crowd.know(0, 2)) == 1);
  CHECK(crowd.engine(0).peer_ports_up(crowd.know(0, 3)) == kBoth);
}

// proves X.2.5
TEST_CASE(endpoint_12_the_answer_to_another_rank_is_no_answer) {
  Two two;
  CHECK(two.engine(0).send_ev_probe(two.now, two.peer, 0, 0xC000, 5, kPsPerMs) == Status::kOk);
  two.transmit(0);
  wire::Packet asked;
  CHECK(wire::parse(two.flying.front().bytes, wire::Extent::kWhole, asked) == wire::ParseError::kNone);
  two.flying.clear();
  wire::Packet answer;
  answer.bth.opcode = wire::Opcode::kEndpointResponse;
  answer.bth.destination_qp = kEndpointQp;
  answer.bth.psn = asked.bth.psn;
  answer.eeth.op = EndpointOp::kEvProbe;
  answer.eeth.nonce = asked.erth.nonce + 1;
  two.deliver(two.forge(2, 0, 0, answer));
  EndpointResult result;
  CHECK(!two.engine(0).poll_endpoint_result(result));
  answer.eeth.nonce = asked.erth.nonce;
  two.deliver(two.forge(2, 0, 0, answer));
  CHECK(two.engine(0).poll_endpoint_result(result) && result.answered);
}

// proves X.3.1
TEST_CASE(endpoint_13_a_padded_probe_is_answered_in_its_size) {
  for (const std::uint32_t padding : {4U, 20U, 1400U, kProbePaddingMax}) {
    Two two;
    CHECK(two.engine(0).send_ev_probe(two.now, two.peer, 0, 0xC000, 5, kPsPerMs, padding) == Status::kOk);
    CHECK(two.transmit(0));
    const std::size_t asked_bytes = two.flying.front().bytes.size();
    CHECK(asked_bytes == 12 + 16 + 4 + padding);
    two.deliver(two.flying.front());
    two.flying.clear();
    CHECK(two.transmit(1));
    CHECK(two.flying.front().bytes.size() == std::max<std::size_t>(asked_bytes, 12 + 36 + 4));
    two.exchange();
    EndpointResult result;
    CHECK(two.engine(0).poll_endpoint_result(result) && result.answered);
  }
}

// proves X.3.1
TEST_CASE(endpoint_14_a_small_answer_to_a_padded_probe_is_none) {
  Two two;
  CHECK(two.engine(0).send_ev_probe(two.now, two.peer, 0, 0xC000, 5, kPsPerMs, 1400) == Status::kOk);
  two.transmit(0);
  wire::Packet asked;
  CHECK(wire::parse(two.flying.front().bytes, wire::Extent::kWhole, asked) == wire::ParseError::kNone);
  two.flying.clear();
  wire::Packet answer;
  answer.bth.opcode = wire::Opcode::kEndpointResponse;
  answer.bth.destination_qp = kEndpointQp;
  answer.bth.psn = asked.bth.psn;
  answer.eeth.op = EndpointOp::kEvProbe;
  answer.eeth.nonce = asked.erth.nonce;
  two.deliver(two.forge(2, 0, 0, answer));
  EndpointResult result;
  CHECK(!two.engine(0).poll_endpoint_result(result));
  two.run_for(2 * kPsPerMs);
  CHECK(two.engine(0).poll_endpoint_result(result) && !result.answered);
}

TEST_CASE(endpoint_15_a_padding_that_no_packet_has_is_refused) {
  Two two;
  for (const std::uint32_t padding : {1U, 6U, kProbePaddingMax + 4}) {
    const Status status = two.engine(0).send_ev_probe(two.now, two.peer, 0, 0xC000, 5, kPsPerMs, padding);
    CHECK(status == Status::kInvalidArgument);
  }
}

// --- addresses that are merely claimed

TEST_CASE(endpoint_20_a_peer_lives_as_long_as_it_is_used) {
  Crowd crowd;
  crowd.add(1, kUdp);
  crowd.add(2, kUdp);
  Engine& engine = crowd.engine(0);
  const PeerId first = crowd.know(0, 1);
  CHECK(crowd.know(0, 1) == first && engine.peer_count() == 1);
  CHECK(engine.remove_peer(first) == Status::kOk && engine.peer_count() == 1);
  const Crowd::Link link = crowd.connect(0, 1);
  CHECK(engine.remove_peer(first) == Status::kOk && engine.peer_count() == 1);
  CHECK(engine.remove_peer(first) == Status::kNotFound);
  CHECK(engine.destroy_qp(crowd.now, link.qps[0]) == Status::kOk && engine.peer_count() == 0);
  CHECK(crowd.know(0, 1) != first && engine.peer_ports_up(first) == 0);
}

TEST_CASE(endpoint_21_a_flap_after_many_half_handshakes_is_told_to_nobody) {
  Crowd crowd;
  crowd.add(1, kUdp);
  for (std::uint16_t i = 0; i < 5000; ++i) {
    PeerId id = 0;
    CHECK(crowd.engine(0).add_peer(Crowd::peer_of(3, static_cast<std::uint16_t>(10'000 + i)), id) == Status::kOk);
    CHECK(crowd.engine(0).remove_peer(id) == Status::kOk);
  }
  CHECK(crowd.engine(0).peer_count() == 0);
  crowd.engine(0).handle_port_state(crowd.now, 1, false);
  crowd.run_for(kPsPerSecond);
  CHECK(crowd.sent == 0);
}

TEST_CASE(endpoint_22_an_address_that_never_answered_gets_one_datagram_a_flap) {
  Crowd crowd;
  crowd.add(1, kUdp);
  constexpr std::uint64_t kClaims = 50;
  for (std::uint16_t i = 0; i < kClaims; ++i) {
    PeerId id = 0;
    CHECK(crowd.engine(0).add_peer(Crowd::peer_of(3, static_cast<std::uint16_t>(10'000 + i)), id) == Status::kOk);
    crowd.to_rts(0, crowd.create(0), id, 0x1234, 1, 2);
  }
  crowd.engine(0).handle_port_state(crowd.now, 1, false);
  crowd.run_for(kPsPerSecond / 2);
  CHECK(crowd.sent == kClaims);
}

// proves A.12.3
TEST_CASE(endpoint_23_a_peer_that_answered_is_told_again_until_it_answers) {
  Two two;
  CHECK(two.write(two.link, 0, 5000, 0) == Status::kOk);
  two.run_for(kPsPerMs);
  two.engine(0).handle_port_state(two.now, 1, false);
  const std::uint64_t before = two.sent;
  two.transmit(0);
  two.flying.clear();  // lost
  two.run_for(25 * kPsPerMs);
  CHECK(two.engine(1).peer_ports_up(two.know(1, 0)) == 1);
  CHECK(two.sent - before == 3);
}

TEST_CASE(endpoint_24_the_table_of_peers_is_bounded) {
  Crowd crowd;
  crowd.add(1, kUdp);
  PeerConfig claim = Crowd::peer_of(3, kUdp);
  PeerId id = 0;
  Status status = Status::kOk;
  std::uint32_t count = 0;
  for (; count <= kPeersMax && status == Status::kOk; ++count) {
    claim.ports[0].bytes[4] = static_cast<std::uint8_t>(count >> 16);
    claim.ports[0].bytes[1] = static_cast<std::uint8_t>(count >> 8);
    claim.ports[0].bytes[2] = static_cast<std::uint8_t>(count);
    status = crowd.engine(0).add_peer(claim, id);
  }
  CHECK(status == Status::kLimit && crowd.engine(0).peer_count() == kPeersMax);
}

// --- how many answers

// proves X.2.3
TEST_CASE(endpoint_30_strangers_are_not_answered) {
  Two two;
  for (std::uint16_t i = 0; i < 100; ++i) {
    two.deliver(two.forge(9, 0, 0, Crowd::request(EndpointOp::kEvProbe, kUdp, 0, i)));
    two.deliver(two.forge(2, 0, 0, Crowd::request(EndpointOp::kEvProbe, kUdp + 1, 0, i)));
  }
  CHECK(!two.transmit(0));
  CHECK(two.engine(0).drops().unknown_peer == 200);
}

// proves X.2.4
TEST_CASE(endpoint_31_a_peer_gets_a_bounded_number_of_answers) {
  Two two;
  constexpr int kProbes = 300'000;  // within a second
  const auto probe = two.forge(2, 0, 0, Crowd::request(EndpointOp::kEvProbe, kUdp, 0, 1));
  for (int i = 0; i < kProbes; ++i) {
    two.now += kPsPerSecond / kProbes;
    two.deliver(probe);
    two.transmit(0);
  }
  CHECK(two.sent <= 1024 + 5000 + 1);
  CHECK(two.sent >= 5000);
  CHECK(two.engine(0).drops().unanswered_probes == kProbes - two.sent);
}

// proves X.2.4
TEST_CASE(endpoint_32_answers_come_after_data) {
  Two two;
  two.deliver(two.forge(2, 0, 0, Crowd::request(EndpointOp::kEvProbe, kUdp, 0, 1)));
  CHECK(two.write(two.link, 0, 64, 0) == Status::kOk);
  two.transmit(0);
  CHECK(two.flying.size() == 2);
  CHECK(two.flying[0].bytes[0] == static_cast<std::uint8_t>(wire::Opcode::kWriteOnly));
  CHECK(two.flying[1].bytes[0] == static_cast<std::uint8_t>(wire::Opcode::kEndpointResponse));
}

// proves X.2.4
TEST_CASE(endpoint_33_answers_leave_within_a_bounded_time) {
  Two two;
  two.deliver(two.forge(2, 0, 0, Crowd::request(EndpointOp::kEvProbe, kUdp, 0, 1)));
  CHECK(two.write(two.link, 0, 64, 0) == Status::kOk);
  two.now += kPsPerMs;
  two.transmit(0);
  CHECK(two.flying.size() == 2);
  CHECK(two.flying[0].bytes[0] == static_cast<std::uint8_t>(wire::Opcode::kEndpointResponse));
}

}  // namespace
