#include "netsim/simulate/mrc_endpoint.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <unordered_map>

#include "engine/base/assert.hpp"
#include "engine/base/ring.hpp"
#include "engine/base/rng.hpp"

namespace openmrc::netsim {
namespace {

constexpr std::uint32_t kKey = 1;  // of the single region of every NIC: phantom, all addresses
constexpr std::uint32_t kCqCapacity = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint32_t kSendsPostedMax = 256;
constexpr std::uint32_t kIcrcBytes = 4;
constexpr TimePs kPlainReverseProbeInterval = 50 * kPsPerMs;
constexpr TimePs kReverseProbeRtts = 2;             // the specification has one; two leave room for the response
constexpr std::uint32_t kReverseProbePackets = 32;  // limits the probes of an incast of many QPs

Address address_of(std::uint32_t host, PortId port) {
  MRC_ASSERT(host < (1U << 24));
  Address address;
  address.family = AddressFamily::kIpv4;
  address.bytes = {static_cast<std::uint8_t>(port + 1), static_cast<std::uint8_t>(host >> 16),
                   static_cast<std::uint8_t>(host >> 8), static_cast<std::uint8_t>(host)};
  return address;
}

std::uint32_t host_of(const Address& address) {
  return (std::uint32_t{address.bytes[1]} << 16) | (std::uint32_t{address.bytes[2]} << 8) | address.bytes[3];
}

// Size of the send queue: all sends, up to a limit. A long message is sent as several.
std::uint32_t sends_max(const ConnectionEnd& end) {
  const std::uint64_t all = end.messages_out + end.bytes_out / kMessageBytesMax;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(all, 1, kSendsPostedMax));
}

// Several KiB, so one per thread instead of one per NIC.
TxBurst& scratch_burst() {
  static thread_local TxBurst burst;
  return burst;
}

std::uint32_t trailer_bytes(std::uint32_t payload_bytes) { return (4 - payload_bytes % 4) % 4 + kIcrcBytes; }

// The universe is drawn per QP.
QpToInit init_of(const MrcSettings& settings) {
  QpToInit init;
  init.ev_selector = settings.ev_selector;
  init.ev_set = {.active_per_port = settings.active_per_port,
                 .min_active = settings.min_active,
                 .probe_successes = settings.probe_successes,
                 .probe_interval = settings.probe_interval,
                 .skip_lapse = settings.skip_lapse,
                 .marked_probe_revives_to_good = settings.marked_probe_revives_to_good,
                 .half_marked_rule = settings.half_marked_rule};
  init.controller = settings.controller;
  init.cc = settings.cc;
  init.signal = settings.signal;
  return init;
}

QpToRtr rtr_of(const MrcSettings& settings) {
  QpToRtr rtr;
  rtr.mpr_units = settings.mpr_units;
  rtr.wimm_max_dest = settings.wimm_max;
  rtr.sack_bytes = settings.sack_bytes;
  rtr.nack_out_of_window = settings.nack_out_of_window;
  rtr.capabilities.trim_nack = settings.trim_nack;
  rtr.capabilities.dynamic_mpr = settings.dynamic_mpr;
  rtr.capabilities.plane_sacks = rtr.capabilities.sack_transit = settings.signal != PathSignal::kMarks;
  return rtr;
}

QpToRts rts_of(const MrcSettings& settings) {
  QpToRts rts;
  rts.mpr_units = settings.mpr_units;
  rts.wimm_max = settings.wimm_max;
  rts.timeout_exponent = settings.timeout_exponent;
  rts.linear_retries = settings.linear_retries;
  rts.exponential_retries = settings.exponential_retries;
  return rts;
}

class MrcEndpoint final : public Endpoint {
 public:
  MrcEndpoint(const Surroundings& surroundings, const MrcSettings& settings, std::uint32_t host, bool watched)
      : surroundings_(surroundings),
        settings_(settings),
        host_(host),
        engine_(engine_config(surroundings, settings, host, watched)) {
    require(engine_.create_cq(kCqCapacity, send_cq_));
    require(engine_.create_cq(kCqCapacity, recv_cq_));
    RegionConfig region;
    region.length_bytes = kMessageBytesMax;
    region.key = kKey;
    region.access = kRemoteWrite;
    require(engine_.register_memory(region));
  }

  std::uint32_t open(const ConnectionEnd& end) override;
  void connect(std::uint32_t connection, std::uint32_t peer_number) override;
  void post(TimePs now, std::uint32_t connection, MessageId message, std::uint64_t bytes) override;
  void handle_packet(TimePs now, PortId port, const HostPacket& packet) override;
  void handle_timer(TimePs now) override {
    now_ = now;
    engine_.handle_timer(now);
  }
  void handle_port_state(TimePs now, PortId port, bool up) override {
    now_ = now;
    engine_.handle_port_state(now, port, up);
  }
  bool poll_transmit(TimePs now, PortMask free_ports, PortMask paused_ports, Outbound& out) override;
  bool poll_done(Done& done) override;
  bool poll_path_event(PathEvent& event) override;
  void hot_memory(HotMemory& memory) const override {
    memory.push_back(bytes_of(*this));
    engine_.hot_memory(memory);
  }
  TimePs next_timer() const override { return engine_.next_timer(); }
  ConnectionStats stats(std::uint32_t connection) const override;
  std::uint64_t memory_bytes() const override;

 private:
  struct Post {
    MessageId message;
    std::uint64_t bytes;
  };
  struct Connection {
    std::uint32_t qp = 0;
    ConnectionEnd end;
    std::uint32_t receives_left = 0;  // expected messages without a posted receive
    Ring<Post> waiting;               // waiting for room in the send queue
  };

  static EngineConfig engine_config(const Surroundings& surroundings, const MrcSettings& settings, std::uint32_t host,
                                    bool watched);
  // All WIMMs in flight may complete at one instant, when the packet arrives that they waited for.
  std::uint32_t receives_posted() const { return settings_.wimm_max; }
  static void require(Status status) { MRC_ASSERT(status == Status::kOk); }
  std::vector<Ev> draw_universe(std::uint32_t connection) const;
  void add_paths(Rng& rng, PortId port, std::vector<Ev>& universe) const;
  std::vector<std::uint32_t> denied_paths(PortId port) const;
  bool post_now(TimePs now, Connection& connection, const Post& post);
  void collect();
  void sent(const Completion& completion);
  void received(const Completion& completion);

  const Surroundings& surroundings_;
  const MrcSettings& settings_;
  std::uint32_t host_;
  Engine engine_;
  CqId send_cq_ = 0, recv_cq_ = 0;
  std::vector<Connection> connections_;
  std::unordered_map<std::uint32_t, std::uint32_t> by_qp_;  // look-up only
  std::vector<Done> done_;
  std::size_t done_taken_ = 0;
  TimePs now_ = 0;
};

EngineConfig MrcEndpoint::engine_config(const Surroundings& surroundings, const MrcSettings& settings,
                                        std::uint32_t host, bool watched) {
  EngineConfig config;
  config.seed = Rng::for_component(surroundings.seed, "nic", host).next();
  config.ev_format = wire::EvFormat::kStev;
  config.icrc = false;
  // No limits: there are no forged packets, and responses are immediate.
  config.answer_interval_peer = config.answer_interval = config.answer_patience = 0;
  config.port_check_interval = kNever;
  config.reverse_probe_packets = kReverseProbePackets;
  config.reverse_probe_interval =
      settings.reverse_probe_interval > 0 ? settings.reverse_probe_interval : kReverseProbeRtts * surroundings.base_rtt;
  // Queues of plain switches may hold many round trips, and a response that waited in them still counts.
  if (settings.signal != PathSignal::kMarks && settings.reverse_probe_interval == 0) {
    config.reverse_probe_interval = std::max(config.reverse_probe_interval, kPlainReverseProbeInterval);
  }
  for (PortId port = 0; port < surroundings.shape.planes; ++port)
    config.ports.emplace_back().local = address_of(host, port);
  if (!watched) config.events_max = 0;
  return config;
}

// In ascending order.
std::vector<std::uint32_t> MrcEndpoint::denied_paths(PortId port) const {
  std::vector<std::uint32_t> denied;
  for (const DeniedPath& path : settings_.denied) {
    if (path.plane == port) denied.push_back(path.t0_uplink + path.t1_uplink * surroundings_.shape.t1s);
  }
  std::sort(denied.begin(), denied.end());
  denied.erase(std::unique(denied.begin(), denied.end()), denied.end());
  return denied;
}

// An EV is port * paths + path, so that its digits are the uplinks and values differ between ports. With hashed routing
// the numbers have no meaning, and there are more of them than paths.
void MrcEndpoint::add_paths(Rng& rng, PortId port, std::vector<Ev>& universe) const {
  const ClosShape& shape = surroundings_.shape;
  const bool hashed = shape.routing == Routing::kHash;
  const std::uint32_t paths = hashed ? 4096 : shape.paths();
  const std::vector<std::uint32_t> denied = hashed ? std::vector<std::uint32_t>{} : denied_paths(port);
  const std::uint32_t allowed = paths - static_cast<std::uint32_t>(denied.size());
  const std::uint32_t wanted = std::min<std::uint32_t>(settings_.universe_per_port, allowed);
  // Floyd's algorithm for distinct random numbers: the set is only as large as the draw.
  std::vector<std::uint32_t> drawn;
  for (std::uint32_t i = allowed - wanted; i < allowed; ++i) {
    const auto number = static_cast<std::uint32_t>(rng.below(std::uint64_t{i} + 1));
    const bool taken = std::find(drawn.begin(), drawn.end(), number) != drawn.end();
    drawn.push_back(taken ? i : number);
  }
  for (std::uint32_t path : drawn) {
    for (const std::uint32_t skipped : denied) path += skipped <= path ? 1 : 0;
    universe.push_back({port * paths + path, port});
  }
}

std::vector<Ev> MrcEndpoint::draw_universe(std::uint32_t connection) const {
  Rng rng = Rng::for_component(surroundings_.seed, "evs", (std::uint64_t{host_} << 32) | connection);
  std::vector<Ev> universe;
  for (PortId port = 0; port < surroundings_.shape.planes; ++port) add_paths(rng, port, universe);
  return universe;
}

std::uint32_t MrcEndpoint::open(const ConnectionEnd& end) {
  QpInitAttributes attributes;
  attributes.send_cq = send_cq_;
  attributes.recv_cq = recv_cq_;
  attributes.send_wr_max = sends_max(end);
  attributes.recv_wr_max = std::clamp<std::uint32_t>(end.messages_in, 1, receives_posted());
  Connection connection;
  connection.end = end;
  require(engine_.create_qp(attributes, connection.qp));
  by_qp_[connection.qp] = static_cast<std::uint32_t>(connections_.size());
  connections_.push_back(std::move(connection));
  return connections_.back().qp;
}

void MrcEndpoint::connect(std::uint32_t index, std::uint32_t peer_number) {
  Connection& connection = connections_[index];
  QpToInit init = init_of(settings_);
  init.ev_universe = draw_universe(index);
  require(engine_.modify_qp(now_, connection.qp, init));

  PeerConfig peer;
  for (PortId port = 0; port < surroundings_.shape.planes; ++port) {
    peer.ports.push_back(address_of(connection.end.peer_host, port));
  }
  QpToRtr rtr = rtr_of(settings_);
  require(engine_.add_peer(peer, rtr.peer));
  rtr.destination_qp = peer_number;
  rtr.payload_mtu = surroundings_.payload_mtu;
  require(engine_.modify_qp(now_, connection.qp, rtr));
  connection.receives_left = connection.end.messages_in;
  for (std::uint32_t i = 0; i < receives_posted() && connection.receives_left > 0; ++i, --connection.receives_left) {
    require(engine_.post_recv(connection.qp, 0));
  }
  require(engine_.modify_qp(now_, connection.qp, rts_of(settings_)));
  // A driver polls after each command. Otherwise all QPs would queue in the order of their creation, which is by peer:
  // every host of an all-to-all would begin with the same receiver, regardless of the order of posting. With per-plane
  // control QPs begin with a probe of each plane, which has to wait for the NIC.
  if (init.signal == PathSignal::kMarks) {
    MRC_ASSERT(!engine_.poll_transmit(now_, ~PortMask{0}, 1, scratch_burst()));
  }
}

void MrcEndpoint::post(TimePs now, std::uint32_t index, MessageId message, std::uint64_t bytes) {
  now_ = now;
  Connection& connection = connections_[index];
  if (!connection.waiting.empty() || !post_now(now, connection, {message, bytes})) {
    connection.waiting.push_back({message, bytes});
  }
}

// False: no room. A message longer than the standard's maximum is sent as several, of which only the last is signaled.
bool MrcEndpoint::post_now(TimePs now, Connection& connection, const Post& post) {
  const std::uint64_t pieces = std::max<std::uint64_t>(1, (post.bytes + kMessageBytesMax - 1) / kMessageBytesMax);
  MRC_ASSERT(pieces <= kSendsPostedMax);
  if (engine_.sends_outstanding(connection.qp) + pieces > sends_max(connection.end)) return false;
  SendWr wr;
  wr.lkey = wr.rkey = kKey;
  wr.wr_id = post.message;
  wr.immediate = post.message;
  std::uint64_t left = post.bytes;
  for (std::uint64_t piece = 0; piece < pieces; ++piece) {
    const bool last = piece + 1 == pieces;
    wr.opcode = last ? WrOpcode::kWriteImm : WrOpcode::kWrite;
    wr.signaled = last;
    wr.length_bytes = std::min(left, kMessageBytesMax);
    left -= wr.length_bytes;
    const Status status = engine_.post_send(now, connection.qp, wr);
    if (status == Status::kQueueFull && piece == 0) return false;
    if (status != Status::kOk) {  // the QP is in error: no further posted work will be sent
      done_.push_back({post.message, Done::Kind::kFailed});
      return true;
    }
  }
  return true;
}

void MrcEndpoint::handle_packet(TimePs now, PortId port, const HostPacket& packet) {
  now_ = now;
  // The full size, which is known here, and not only the header: pad and ICRC behind it are never read.
  std::array<std::uint8_t, kHeaderRoom + 8> bytes;
  std::memcpy(bytes.data(), packet.header.data(), kHeaderRoom);
  std::memset(bytes.data() + kHeaderRoom, 0, bytes.size() - kHeaderRoom);
  RxDatagram datagram;
  datagram.port = port;
  datagram.source = address_of(packet.source_host, port);
  datagram.fields = wire::fields_of_ev(packet.ev, wire::EvFormat::kStev);
  datagram.traffic_class = packet.traffic_class;
  datagram.ecn = packet.ecn;
  const bool trimmed = is_trimmed(packet.traffic_class);
  datagram.bytes = {bytes.data(), packet.header_bytes + (trimmed ? 0 : trailer_bytes(packet.payload_bytes))};
  datagram.phantom_bytes = trimmed ? 0 : packet.payload_bytes;
  engine_.handle_datagram(now, datagram);
}

bool MrcEndpoint::poll_transmit(TimePs now, PortMask free_ports, PortMask paused_ports, Outbound& out) {
  now_ = now;
  TxBurst& burst = scratch_burst();
  if (!engine_.poll_transmit(now, free_ports & ~paused_ports, 1, burst)) return false;
  const TxPacket& tx = burst.packets[0];
  MRC_ASSERT(burst.count == 1 && tx.header_bytes <= kHeaderRoom);
  out.port = burst.port;
  HostPacket& packet = out.packet;
  packet.destination_host = host_of(burst.destination);
  packet.ev = burst.ev;
  packet.bytes = tx.datagram_bytes() + surroundings_.header_bytes;
  packet.payload_bytes = tx.payload_bytes;
  packet.traffic_class = burst.traffic_class;
  packet.ecn = burst.ecn;
  packet.header_bytes = static_cast<std::uint8_t>(tx.header_bytes);
  std::memcpy(packet.header.data(), tx.headers.data(), kHeaderRoom);
  return true;
}

bool MrcEndpoint::poll_done(Done& done) {
  if (done_taken_ == done_.size()) {
    done_.clear();
    done_taken_ = 0;
    collect();
    if (done_.empty()) return false;
  }
  done = done_[done_taken_++];
  return true;
}

void MrcEndpoint::collect() {
  CqId cq = 0;
  while (engine_.poll_signaled_cq(cq)) {
    std::array<Completion, 16> batch;
    while (const std::size_t count = engine_.poll_completions(cq, batch)) {
      for (std::size_t i = 0; i < count; ++i) {
        if (cq == send_cq_) {
          sent(batch[i]);
        } else {
          received(batch[i]);
        }
      }
    }
  }
}

void MrcEndpoint::sent(const Completion& completion) {
  const bool good = completion.status == WcStatus::kSuccess;
  done_.push_back({static_cast<MessageId>(completion.wr_id), good ? Done::Kind::kCompleted : Done::Kind::kFailed});
  Connection& connection = connections_[by_qp_.at(completion.qp)];
  while (!connection.waiting.empty() && post_now(now_, connection, connection.waiting.front())) {
    connection.waiting.pop_front();
  }
}

void MrcEndpoint::received(const Completion& completion) {
  if (completion.status != WcStatus::kSuccess) return;  // flushed: the QP is in error, and the sender reports it
  done_.push_back({completion.immediate, Done::Kind::kReceived});
  Connection& connection = connections_[by_qp_.at(completion.qp)];
  if (connection.receives_left == 0) return;
  if (engine_.qp_state(completion.qp) == QpState::kError)
    return;  // the QP failed after this message: no more will come
  --connection.receives_left;
  require(engine_.post_recv(completion.qp, 0));
}

bool MrcEndpoint::poll_path_event(PathEvent& out) {
  std::array<Event, 1> one;
  while (engine_.poll_events(one) == 1) {
    const Event& event = one[0];
    if (event.type != EventType::kEvState && event.type != EventType::kEvReplaced) continue;
    const auto found = by_qp_.find(event.qp);
    if (found == by_qp_.end()) continue;
    const bool replaced = event.type == EventType::kEvReplaced;
    out.time = event.time;
    out.connection = found->second;
    out.ev = event.ev;
    out.port = event.port;
    out.state = replaced ? 0 : static_cast<std::uint8_t>(event.value);
    out.cause = static_cast<std::uint8_t>(event.detail);
    out.replacement = replaced ? event.value : 0;
    return true;
  }
  return false;
}

ConnectionStats MrcEndpoint::stats(std::uint32_t connection) const {
  const std::uint32_t qp = connections_[connection].qp;
  QpStats qp_stats;
  CcStats cc;
  ConnectionStats stats;
  if (!engine_.qp_stats(qp, qp_stats)) return stats;
  stats.sent_packets = qp_stats.sent_packets;
  stats.sent_bytes = qp_stats.sent_bytes;
  stats.retransmitted_packets = qp_stats.retransmitted_packets;
  stats.received_packets = qp_stats.received_packets;
  stats.received_bytes = qp_stats.placed_bytes;
  stats.duplicate_packets = qp_stats.duplicate_packets;
  stats.acknowledgements = qp_stats.sacks_received + qp_stats.acks_received;
  stats.negative_acknowledgements = qp_stats.nacks_received;
  stats.marks = qp_stats.ecn_marks_received;
  stats.trims = qp_stats.trims_received;
  stats.losses_inferred = qp_stats.losses_inferred;
  stats.timeouts = qp_stats.timeouts;
  stats.smoothed_rtt = qp_stats.smoothed_rtt;
  if (engine_.cc_stats(qp, cc)) stats.window_bytes = cc.window_bytes;
  return stats;
}

std::uint64_t MrcEndpoint::memory_bytes() const {
  std::uint64_t per_qp = 0;
  for (const QpFootprint& part : qp_footprint()) per_qp += part.bytes;
  std::uint64_t bytes = sizeof(*this);
  for (const Connection& connection : connections_) {
    bytes += sizeof(Connection) + per_qp;
    if (const EvSet* set = engine_.ev_set(connection.qp); set != nullptr) bytes += set->memory_bytes();
  }
  return bytes;
}

}  // namespace

std::unique_ptr<Endpoint> make_mrc_endpoint(const Surroundings& surroundings, const MrcSettings& settings,
                                            std::uint32_t host, bool watched) {
  return std::make_unique<MrcEndpoint>(surroundings, settings, host, watched);
}

}  // namespace openmrc::netsim
