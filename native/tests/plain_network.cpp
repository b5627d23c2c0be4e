#include "tests/plain_network.hpp"

#include <algorithm>

namespace openmrc::test {
namespace {

constexpr std::uint32_t kFrameBytes = 28 + 14 + 24;  // IPv4, UDP, Ethernet with preamble and gap
constexpr std::uint32_t kTcpFrameBytes = 1500 + 14 + 24, kTcpAckFrameBytes = 52 + 14 + 24;
constexpr TimePs kTcpCheckInterval = 100 * kPsPerMs;

}  // namespace

void PlainNetwork::add_host(int host) {
  EngineConfig config;
  config.seed = options.seed * 1000 + static_cast<std::uint64_t>(host);
  config.icrc = false;
  const auto planes = static_cast<PortId>(options.planes.size());
  for (PortId port = 0; port < planes; ++port) config.ports.emplace_back().local = address(host, port);
  Host fresh;
  fresh.engine = std::make_unique<Engine>(config);
  CHECK(fresh.engine->create_cq(4096, fresh.cq) == Status::kOk);
  CHECK(fresh.engine->register_memory({nullptr, 0, 1ULL << 32, kKey, kLocalRead | kRemoteWrite}) == Status::kOk);
  hosts_.push_back(std::move(fresh));
  std::vector<LinkState> links;
  for (const PlainLink& plane : options.planes) links.push_back({.link = plane});
  links_.push_back(std::move(links));
}

std::size_t PlainNetwork::connect(int from, int to, bool urgent) {
  std::array<std::uint32_t, 2> qp{};
  const std::array<int, 2> ends{from, to};
  for (std::size_t end = 0; end < 2; ++end) {
    const CqId cq = hosts_[at(ends[end])].cq;
    const QpInitAttributes attributes{
        .send_cq = cq, .recv_cq = cq, .send_wr_max = 256, .recv_wr_max = 256, .urgent = urgent};
    CHECK(engine(ends[end]).create_qp(attributes, qp[end]) == Status::kOk);
  }
  for (std::size_t end = 0; end < 2; ++end) {
    Engine& own = engine(ends[end]);
    PeerConfig config;
    PeerId peer = 0;
    QpToInit init;
    init.signal = options.signal;
    init.ev_set.active_per_port = options.active_per_port;
    init.cc = {.mtu_bytes = options.payload_mtu + 100, .link_rate_bps = 40'000'000'000, .base_rtt = 100 * kPsPerUs};
    for (PortId port = 0; port < options.planes.size(); ++port) {
      config.ports.push_back(address(ends[1 - end], port));
      for (std::uint32_t i = 0; i < options.evs_per_port; ++i) {
        init.ev_universe.push_back({0xC000 + port * 256U + i, port});
      }
    }
    CHECK(own.add_peer(config, peer) == Status::kOk);
    CHECK(own.modify_qp(clock(ends[end]), qp[end], init) == Status::kOk);
    QpToRtr rtr;
    rtr.peer = peer;
    rtr.destination_qp = qp[1 - end];
    rtr.rq_psn = 100;
    rtr.payload_mtu = options.payload_mtu;
    rtr.mpr_units = options.mpr_units;
    rtr.capabilities.plane_sacks = options.plane_sacks;
    rtr.capabilities.sack_transit = options.sack_transit;
    rtr.capabilities.sack_sharers = options.sack_sharers;
    rtr.sack_bytes = options.sack_bytes;
    CHECK(own.modify_qp(clock(ends[end]), qp[end], rtr) == Status::kOk);
    QpToRts rts;
    rts.sq_psn = 100;
    rts.mpr_units = options.mpr_units;
    rts.timeout_exponent = options.timeout_exponent;
    rts.exponential_retries = 10;
    rts.timestamp_resolution_ns = 1000;
    CHECK(own.modify_qp(clock(ends[end]), qp[end], rts) == Status::kOk);
  }
  Flow flow;
  flow.from = from;
  flow.to = to;
  flow.qp = qp[0];
  flow.peer_qp = qp[1];
  flow.last_progress = now;
  flows.push_back(flow);
  wake(from, now);
  return flows.size() - 1;
}

void PlainNetwork::post(Flow& flow) {
  flow.started = true;
  while (flow.outstanding < flow.outstanding_max && flow.left_bytes > 0 && !flow.failed) {
    SendWr wr;
    wr.lkey = wr.rkey = kKey;
    wr.length_bytes = std::min(flow.message_bytes, flow.left_bytes);
    CHECK(engine(flow.from).post_send(clock(flow.from), flow.qp, wr) == Status::kOk);
    flow.left_bytes -= wr.length_bytes;
    ++flow.outstanding;
  }
  wake(flow.from, now);
}

void PlainNetwork::send(std::size_t flow, std::uint64_t bytes, std::uint32_t number) {
  Flow& own = flows[flow];
  CHECK(engine(own.to).post_recv(own.peer_qp, 0) == Status::kOk);
  SendWr wr;
  wr.opcode = WrOpcode::kWriteImm;
  wr.immediate = number;
  wr.lkey = wr.rkey = kKey;
  wr.length_bytes = bytes;
  CHECK(engine(own.from).post_send(clock(own.from), own.qp, wr) == Status::kOk);
  ++own.outstanding;
  wake(own.from, now);
}

TimePs PlainNetwork::lateness() {
  if (options.jitter == 0) return 0;
  if (rng_.below(1'000'000) < options.hiccup_ppm) {
    return kPsPerMs + static_cast<TimePs>(rng_.below(2 * static_cast<std::uint64_t>(kPsPerMs)));
  }
  // The sum of eight halvings approximates an exponential distribution without floating point.
  std::uint64_t late = 0;
  for (int i = 0; i < 4; ++i) late += rng_.below(static_cast<std::uint64_t>(options.jitter) / 2);
  return static_cast<TimePs>(late);
}

void PlainNetwork::wake(int host, TimePs time) {
  Host& target = hosts_[at(host)];
  if (target.awake_at <= time) return;
  target.awake_at = time;
  queue_.push({time, number_++, host, kRunEngine});
}

void PlainNetwork::collect(int host) {
  Host& own = hosts_[at(host)];
  std::array<Completion, 64> completions;
  while (const std::size_t count = own.engine->poll_completions(own.cq, completions)) {
    for (std::size_t i = 0; i < count; ++i) {
      if (completions[i].opcode == WcOpcode::kRecvWriteImm) {
        const auto of = std::find_if(flows.begin(), flows.end(), [&](const Flow& one) {
          return one.to == host && one.peer_qp == completions[i].qp;
        });
        arrived(static_cast<std::size_t>(of - flows.begin()), completions[i].immediate);
        continue;
      }
      const auto flow = std::find_if(flows.begin(), flows.end(),
                                     [&](const Flow& one) { return one.from == host && one.qp == completions[i].qp; });
      if (flow == flows.end()) continue;
      --flow->outstanding;
      if (completions[i].status != WcStatus::kSuccess) {
        flow->failed = true;
        continue;
      }
      flow->completed_bytes += completions[i].bytes;
      flow->longest_gap = std::max(flow->longest_gap, now - flow->last_progress);
      flow->last_progress = now;
      if (flow->left_bytes == 0 && flow->outstanding == 0) flow->done = now;
    }
  }
  for (Flow& flow : flows) {
    if (flow.from == host && flow.started && flow.outstanding < flow.outstanding_max && flow.left_bytes > 0) post(flow);
  }
  std::array<Event, 64> batch;
  while (const std::size_t count = own.engine->poll_events(batch)) {
    events.insert(events.end(), batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

// False: dropped.
bool PlainNetwork::enqueue(LinkState& state, std::uint32_t frame_bytes) {
  ++state.packets;
  const TimePs start = std::max(now, state.free_at - state.link.bucket);
  const TimePs waiting = start - now;
  const std::int64_t queued = waiting / 1'000'000 * state.link.rate_bps / 8'000'000;
  if (state.link.dead || queued + frame_bytes > state.link.fifo_bytes) {
    ++state.dropped;
    return false;
  }
  state.queued_sum += waiting;
  state.queued_max = std::max(state.queued_max, waiting);
  state.queued_bytes = queued;
  const auto serialization =
      static_cast<TimePs>(std::int64_t{frame_bytes} * 8'000'000 / (state.link.rate_bps / 1'000'000));
  state.free_at = std::max(now, state.free_at) + serialization;
  state.departure = state.link.bucket > 0 ? start : state.free_at;
  if (rng_.below(1'000'000) >= state.link.loss_ppm) return true;
  ++state.dropped;
  return false;
}

TimePs PlainNetwork::one_way_delay(const PlainLink& link) {
  if (link.jitter == 0) return link.delay;
  return link.delay + static_cast<TimePs>(rng_.below(static_cast<std::uint64_t>(link.jitter)));
}

void PlainNetwork::launch(int from, const TxBurst& burst, const TxPacket& tx) {
  const int to = burst.destination.bytes[3] - 1;
  const bool between = !site_links_.empty() && options.site_of_host[at(from)] != options.site_of_host[at(to)];
  LinkState& state = between ? site_links_[options.site_of_host[at(to)]][burst.port] : links_[at(to)][burst.port];
  const std::uint32_t frame_bytes = tx.datagram_bytes() + kFrameBytes;
  if (dead_evs.contains(burst.ev)) {
    ++state.packets;
    ++state.dropped;
    return;
  }
  if (!enqueue(state, frame_bytes)) return;
  std::int32_t slot = 0;
  if (free_.empty()) {
    slot = static_cast<std::int32_t>(packets_.size());
    packets_.emplace_back();
  } else {
    slot = free_.back();
    free_.pop_back();
  }
  Packet& packet = packets_[static_cast<std::size_t>(slot)];
  std::copy(tx.headers.begin(), tx.headers.begin() + tx.header_bytes, packet.bytes.begin());
  std::copy(tx.trailer.begin(), tx.trailer.begin() + tx.trailer_bytes, packet.bytes.begin() + tx.header_bytes);
  packet.size = static_cast<std::uint32_t>(tx.header_bytes) + tx.trailer_bytes;
  packet.rx = {};
  packet.rx.port = burst.port;
  packet.rx.source = address(from, burst.port);
  packet.rx.fields = burst.fields;
  packet.rx.traffic_class = burst.traffic_class;
  const bool marked = state.link.marks && burst.ecn == Ecn::kEct0 && 4 * state.queued_bytes > state.link.fifo_bytes;
  packet.rx.ecn = marked ? Ecn::kCe : burst.ecn;
  packet.rx.phantom_bytes = tx.payload_bytes;
  packet.frame_bytes = frame_bytes;
  packet.between_sites = between;
  if (!between) state.arrived_bytes += tx.payload_bytes;
  queue_.push({state.departure + one_way_delay(state.link), number_++, to, slot});
}

// At the host, or at the switch of its site, behind which the link to the host follows.
void PlainNetwork::arrive(int host, std::int32_t slot) {
  Packet& packet = packets_[static_cast<std::size_t>(slot)];
  if (packet.between_sites) {
    packet.between_sites = false;
    LinkState& last = links_[at(host)][packet.rx.port];
    if (enqueue(last, packet.frame_bytes)) {
      last.arrived_bytes += packet.rx.phantom_bytes;
      queue_.push({last.departure + one_way_delay(last.link), number_++, host, slot});
    } else {
      free_.push_back(slot);
    }
    return;
  }
  Host& own = hosts_[at(host)];
  own.inbox.push_back(slot);
  packet.arrived = now;
  wake(host, std::max(now, own.rests_until) + lateness());
}

void PlainNetwork::add_tcp(int from, int to, PortId plane) {
  Tcp stream;
  stream.from = from;
  stream.to = to;
  stream.plane = plane;
  tcp.push_back(std::move(stream));
  step_tcp(static_cast<int>(tcp.size()) - 1, kTcpCheck);
}

void PlainNetwork::send_tcp(int stream) {
  Tcp& own = tcp[at(stream)];
  LinkState& state = links_[at(own.to)][own.plane];
  while (now < own.stops && own.sender.may_send()) {
    const std::uint64_t number = own.sender.send(now);
    if (!enqueue(state, kTcpFrameBytes)) continue;
    own.data.push_back(number);
    queue_.push({state.departure + state.link.delay, number_++, stream, kTcpData});
  }
}

void PlainNetwork::step_tcp(int stream, std::int32_t what) {
  Tcp& own = tcp[at(stream)];
  if (what == kTcpData) {
    ++own.arrived_packets;
    LinkState& back = links_[at(own.from)][own.plane];
    if (enqueue(back, kTcpAckFrameBytes)) {
      own.acknowledgements.push_back(own.data.front());
      queue_.push({back.departure + back.link.delay, number_++, stream, kTcpAck});
    }
    own.data.pop_front();
    return;
  }
  if (what == kTcpAck) {
    own.sender.acknowledge(now, own.acknowledgements.front());
    own.acknowledgements.pop_front();
  } else {
    own.sender.check(now);
    queue_.push({now + kTcpCheckInterval, number_++, stream, kTcpCheck});
  }
  send_tcp(stream);
}

void PlainNetwork::transmit(int host) {
  const PortMask all = (PortMask{1} << options.planes.size()) - 1;
  while (engine(host).poll_transmit(clock(host), all, options.burst_max, burst_)) {
    for (std::uint32_t i = 0; i < burst_.count; ++i) launch(host, burst_, burst_.packets[i]);
  }
}

void PlainNetwork::look_after(int host) {
  Host& own = hosts_[at(host)];
  own.awake_at = kNever;
  nic::Moderation::Look look{now / kPsPerNs, static_cast<std::uint32_t>(own.inbox.size()), 0, nic::kNeverNs};
  for (const std::int32_t slot : own.inbox) {
    Packet& packet = packets_[static_cast<std::size_t>(slot)];
    packet.rx.bytes = {packet.bytes.data(), packet.size};
    packet.rx.waited = options.stamps ? now - packet.arrived : 0;
    look.bytes += packet.size + packet.rx.phantom_bytes;
    own.engine->handle_datagram(clock(host), packet.rx);
    if (packet.rx.phantom_bytes > 0) {
      look.waited = packet.rx.waited / kPsPerNs;
      look.message_open = own.engine->message_open();
    }
    free_.push_back(slot);
  }
  own.inbox.clear();
  if (own.engine->next_timer() <= clock(host)) own.engine->handle_timer(clock(host));
  transmit(host);
  collect(host);
  transmit(host);
  if (options.pauses) {
    const TimePs patience = own.engine->patience();
    const nic::TimeNs left = patience == kNever ? nic::kNeverNs : patience / kPsPerNs;
    own.rests_until = now + own.moderation.pause(look, left) * kPsPerNs;
  }
  const TimePs next = own.engine->next_timer();
  if (next != kNever) wake(host, std::max(from_clock(host, next), now) + lateness());
}

void PlainNetwork::run_until(TimePs end) {
  std::stable_sort(actions_.begin(), actions_.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  while (true) {
    const TimePs next = queue_.empty() ? kNever : queue_.top().time;
    if (!actions_.empty() && actions_.front().first <= std::min(next, end)) {
      now = std::max(now, actions_.front().first);
      const auto action = actions_.front().second;
      actions_.erase(actions_.begin());
      action();
      continue;
    }
    if (next > end) break;
    const Entry entry = queue_.top();
    queue_.pop();
    now = std::max(now, entry.time);
    if (entry.packet >= 0) {
      arrive(entry.host, entry.packet);
    } else if (entry.packet != kRunEngine) {
      step_tcp(entry.host, entry.packet);
    } else if (Host& host = hosts_[at(entry.host)]; host.awake_at == entry.time) {
      if (now >= host.stopped_until) {
        look_after(entry.host);
      } else {
        host.awake_at = kNever;
        wake(entry.host, host.stopped_until);
      }
    }
  }
  now = std::max(now, end);
}

}  // namespace openmrc::test
