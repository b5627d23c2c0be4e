// Datagrams of two packets: data, and the ACK behind it.
#include <vector>

#include "engine/seal.hpp"
#include "tests/pair.hpp"

namespace openmrc::test {
namespace {

constexpr std::uint64_t kTarget = 500'000;
constexpr TimePs kTrip = 20 * kPsPerUs;  // more than a packet takes, less than any timer

constexpr std::size_t at(int end) { return static_cast<std::size_t>(end); }

PairOptions options_of() {
  PairOptions options;
  options.path_signal = PathSignal::kDelay;
  options.timeout_exponent = 9;
  options.sack_bytes = 65'536;  // ACKs alone are due
  return options;
}

bool is_joined(const Flying& flying) { return wire::first_packet_bytes(flying.bytes) < flying.bytes.size(); }

// Each packet of the datagram gets the ICRC of its present bytes.
void reseal(Flying& flying) {
  const std::span<std::uint8_t> bytes(flying.bytes);
  const std::size_t first = wire::first_packet_bytes(bytes);
  const wire::Flow flow{Pair::address(1 - flying.to, flying.port), Pair::address(flying.to, flying.port),
                        flying.fields.source_port, 4791};
  for (const std::span<std::uint8_t> packet : {bytes.first(first), bytes.subspan(first)}) {
    if (packet.empty()) continue;
    const std::size_t covered = packet.size() - wire::kIcrcBytes;
    const std::uint32_t crc =
        wire::icrc(flow, packet.first(wire::kBthBytes), packet.subspan(wire::kBthBytes, covered - wire::kBthBytes), 0);
    for (std::size_t i = 0; i < wire::kIcrcBytes; ++i) packet[covered + i] = static_cast<std::uint8_t>(crc >> (8 * i));
  }
}

// Both ends send data first, and hold acknowledgements until they reply, as programs that answer each other.
struct Exchange {
  explicit Exchange(const PairOptions& options = options_of()) : pair(options) {
    pair.connect();
    pair.run_for(10 * kPsPerMs);  // the first probes of the planes are answered
    pair.filter = [this](int from, const wire::Packet& packet, Flying& flying) {
      if (packet.bth.opcode == wire::Opcode::kProbe) return Fate::kPass;
      const Fate fate = change ? change(from, packet, flying) : Fate::kPass;
      left[at(from)].push_back(flying);
      return fate;
    };
    pair.outgoing = {Outgoing::kDataWithAcks, Outgoing::kDataWithAcks};
  }

  void message(int from) {
    CHECK(pair.write(from, posted[at(from)]++, 8, kTarget + 64 * at(from)) == Status::kOk);
    pair.run_for(kTrip);
  }
  // One message in each direction, and those of before: their ACKs show that both ends accept joined datagrams.
  void introduce() {
    message(0);
    message(1);
    message(0);
    CHECK(left[1].size() == 2 && !is_joined(left[1].front()));  // nothing was known of the other end yet
    clear();
  }
  void clear() { left = {}; }
  // All messages complete, once each and in order.
  void finish() {
    pair.outgoing = {};
    for (int end = 0; end < 2; ++end) {
      CHECK(pair.run_until_sends(end, posted[at(end)]));
      pair.run_for(10 * kPsPerMs);
      CHECK(pair.sends[at(end)].size() == posted[at(end)]);
      for (std::uint64_t i = 0; i < posted[at(end)]; ++i) {
        CHECK(pair.sends[at(end)][i].wr_id == i && pair.sends[at(end)][i].status == WcStatus::kSuccess);
      }
      CHECK(pair.landed(end, 8, kTarget + 64 * at(end)));
    }
  }

  Pair pair;
  Pair::Filter change;
  std::array<std::vector<Flying>, 2> left;  // datagrams but probes, by sender
  std::array<std::uint64_t, 2> posted{};
};

// Damages a byte of the first joined datagram that end 1 sends, and sets `damaged`.
template <typename Place>
Pair::Filter damage_one(bool& damaged, const Place& place) {
  return [&damaged, place](int from, const wire::Packet&, Flying& flying) {
    if (from != 1 || !is_joined(flying) || damaged) return Fate::kPass;
    damaged = true;
    flying.bytes[place(flying)] ^= 0x11;
    return Fate::kPass;
  };
}

}  // namespace

// proves X.4.9
TEST_CASE(engine_joined_acks_travel_in_the_datagram_of_the_reply) {
  Exchange exchange;
  exchange.introduce();
  for (int i = 0; i < 20; ++i) {
    exchange.clear();
    exchange.message(1);
    exchange.message(0);
    for (const std::vector<Flying>& left : exchange.left) CHECK(left.size() == 1 && is_joined(left.front()));
    // The ACK of the message before has arrived with the reply.
    CHECK(exchange.pair.sends[1].size() == exchange.posted[1]);
    CHECK(exchange.pair.sends[0].size() + 1 == exchange.posted[0]);
  }
  CHECK(exchange.pair.stats(0).retransmitted_packets == 0 && exchange.pair.engine(0).drops().bad_icrc == 0);
  exchange.finish();
}

// Its ACKs leave the bit clear, as those of published MRC.
TEST_CASE(engine_joined_datagrams_are_not_sent_to_a_peer_that_does_not_accept_them) {
  Exchange exchange;
  exchange.change = [](int from, const wire::Packet&, Flying& flying) {
    std::uint8_t* ack = flying.bytes.data() + flying.bytes.size() - wire::kAckBytes;
    if (from == 1 && (flying.bytes[0] == 0xD1 || is_joined(flying))) ack[8] = 0;
    reseal(flying);
    return Fate::kPass;
  };
  exchange.introduce();
  for (int i = 0; i < 5; ++i) {
    exchange.message(1);
    exchange.message(0);
  }
  for (const Flying& flying : exchange.left[0]) CHECK(!is_joined(flying));
  CHECK(exchange.left[0].size() == 10);
  CHECK(is_joined(exchange.left[1].back()));  // the other end accepts them
  exchange.finish();
}

TEST_CASE(engine_joined_acks_stay_apart_on_planes_that_mark) {
  PairOptions options = options_of();
  options.path_signal = PathSignal::kMarks;
  Exchange exchange(options);
  for (int i = 0; i < 5; ++i) {
    exchange.pair.outgoing = {};
    exchange.message(0);
    exchange.pair.outgoing = {Outgoing::kDataWithAcks, Outgoing::kDataWithAcks};
    exchange.message(1);
  }
  for (const auto& left : exchange.left) {
    for (const Flying& flying : left) CHECK(!is_joined(flying));
  }
  exchange.finish();
}

TEST_CASE(engine_joined_datagrams_that_are_lost_are_repeated_in_parts) {
  Exchange exchange;
  exchange.introduce();
  int joined = 0;
  exchange.change = [&](int, const wire::Packet& packet, Flying& flying) {
    CHECK(!packet.bth.rtx || !is_joined(flying));
    return is_joined(flying) && joined++ % 2 == 0 ? Fate::kDrop : Fate::kPass;
  };
  for (int i = 0; i < 20; ++i) {
    exchange.message(1);
    exchange.message(0);
  }
  CHECK(joined > 0);
  exchange.finish();
  CHECK(exchange.pair.stats(0).retransmitted_packets + exchange.pair.stats(1).retransmitted_packets > 0);
}

TEST_CASE(engine_joined_datagrams_that_arrive_twice_count_once) {
  Exchange exchange;
  exchange.introduce();
  exchange.change = [](int, const wire::Packet&, Flying& flying) {
    return is_joined(flying) ? Fate::kTwice : Fate::kPass;
  };
  for (int i = 0; i < 10; ++i) {
    exchange.message(1);
    exchange.message(0);
  }
  exchange.finish();
  CHECK(exchange.pair.stats(0).retransmitted_packets == 0);
}

// Each packet has its own ICRC.
TEST_CASE(engine_joined_packets_are_damaged_one_by_one) {
  for (const bool data : {true, false}) {
    Exchange exchange;
    exchange.introduce();
    bool damaged = false;
    exchange.change = damage_one(damaged, [data](const Flying& flying) { return data ? 40 : flying.bytes.size() - 1; });
    const std::uint64_t placed = exchange.pair.stats(0).received_packets;
    const std::size_t completed = exchange.pair.sends[0].size();
    exchange.message(1);
    CHECK(damaged && exchange.pair.engine(0).drops().bad_icrc == 1);
    CHECK(exchange.pair.stats(0).received_packets - placed == (data ? 0 : 1));
    CHECK(exchange.pair.sends[0].size() - completed == (data ? 1 : 0));
    exchange.finish();
  }
}

TEST_CASE(engine_joined_datagrams_may_be_damaged_anywhere) {
  for (std::size_t byte = 0; byte < 68; ++byte) {
    Exchange exchange;
    exchange.introduce();
    bool damaged = false;
    exchange.change = damage_one(damaged, [byte](const Flying& flying) { return byte % flying.bytes.size(); });
    exchange.message(1);
    exchange.message(0);
    CHECK(damaged);
    exchange.finish();
  }
}

// Malformed datagrams are counted under the name of their error.
TEST_CASE(engine_joined_datagrams_need_an_ack_behind_the_data) {
  Pair pair(options_of());
  pair.connect();
  const auto errors = [&](wire::ParseError error) {
    return pair.engine(1).drops().parse_errors[static_cast<std::size_t>(error)];
  };
  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::kWriteOnly;
  packet.bth.psn = pair.options.psn[0];
  packet.bth.joined = true;
  packet.reth = {kTarget, Pair::kKey, 8};
  const std::vector<std::uint8_t> payload(8, 7);
  const Flying data = pair.forge(0, packet, payload);
  packet.bth.joined = false;
  const Flying behind = pair.forge(0, packet, payload);
  const auto arrive = [&](std::vector<std::uint8_t> bytes) {
    Flying flying = data;
    flying.bytes = std::move(bytes);
    pair.deliver(flying);
  };
  // Data where the ACK should be: the packet in front is taken.
  std::vector<std::uint8_t> bytes = data.bytes;
  bytes.insert(bytes.end(), behind.bytes.begin(), behind.bytes.begin() + wire::kAckBytes);
  arrive(bytes);
  CHECK(errors(wire::ParseError::kBadJoin) == 1 && pair.stats(1).received_packets == 1);
  // Nothing behind it: what would be the ACK is the end of the data.
  arrive(data.bytes);
  CHECK(errors(wire::ParseError::kTooShort) == 1 && errors(wire::ParseError::kBadJoin) == 2);
  for (std::size_t length = 0; length < data.bytes.size() + wire::kAckBytes; ++length) {
    arrive({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)});
  }
  CHECK(pair.stats(1).received_packets == 1 && pair.state(1) == QpState::kRts);
}

// A switch that trims removes the ACK, too.
TEST_CASE(engine_joined_datagrams_that_were_trimmed_are_data_alone) {
  Exchange exchange;
  exchange.introduce();
  bool trimmed = false;
  exchange.change = [&](int from, const wire::Packet&, Flying& flying) {
    if (from != 1 || !is_joined(flying) || trimmed) return Fate::kPass;
    trimmed = true;
    flying.bytes.resize(20);
    flying.traffic_class = TrafficClass::kTrimmed;
    return Fate::kPass;
  };
  exchange.message(1);
  exchange.message(0);
  CHECK(trimmed);
  exchange.finish();
}

// Datagrams of one size that the kernel delivers in one piece.
TEST_CASE(engine_joined_datagrams_may_form_a_train) {
  Exchange exchange;
  exchange.introduce();
  exchange.message(1);
  exchange.message(0);
  Pair& pair = exchange.pair;
  std::vector<Flying> caught;
  exchange.change = [&](int from, const wire::Packet&, Flying& flying) {
    if (from != 1) return Fate::kPass;
    caught.push_back(flying);
    return Fate::kDrop;
  };
  exchange.message(1);
  CHECK(caught.size() == 1 && is_joined(caught[0]));
  const Flying first = caught[0];
  std::vector<std::uint8_t> train;
  for (int copy = 0; copy < 3; ++copy) train.insert(train.end(), first.bytes.begin(), first.bytes.end());
  RxDatagram rx;
  rx.port = first.port;
  rx.source = Pair::address(1, first.port);
  rx.fields = first.fields;
  rx.bytes = train;
  wire::FlowIcrc icrc;
  const auto whole = [&] { return intact(rx, first.bytes.size(), Pair::address(0, first.port), 4791, icrc); };
  CHECK(whole());
  for (std::size_t byte = 5; byte < train.size(); byte += 7) {
    train[byte] ^= 8;
    CHECK(!whole());
    train[byte] ^= 8;
  }
  const std::uint64_t before = pair.engine(0).port_stats(first.port).received_packets;
  pair.engine(0).handle_train(pair.now, rx, first.bytes.size());
  CHECK(pair.engine(0).port_stats(first.port).received_packets - before == 6);
  pair.pump();
  CHECK(pair.sends[0].size() == exchange.posted[0]);
  exchange.change = nullptr;
  exchange.finish();
}

}  // namespace openmrc::test
