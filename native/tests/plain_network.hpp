// Hosts on plain switches, in virtual time: every plane has a link with its own rate, delay and FIFO to each host,
// without marks. Payload is not carried. For tests of the engine on networks that were not built for it.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <set>
#include <vector>

#include "engine/base/rng.hpp"
#include "engine/engine.hpp"
#include "nic/moderation.hpp"
#include "tests/check.hpp"
#include "tests/tcp_stream.hpp"

namespace openmrc::test {

struct PlainLink {
  std::int64_t rate_bps = 1'000'000'000;
  std::int64_t fifo_bytes = 256 * 1024;
  TimePs delay = 100 * kPsPerUs;  // one way
  TimePs jitter = 0;              // each packet takes up to this much longer, and overtakes others
  TimePs bucket = 0;  // time of the bytes that a shaper passes at once after a pause; 0: a port, which paces all
  std::uint32_t loss_ppm = 0;
  bool marks = false;  // CE above a quarter of the FIFO
  bool dead = false;
};

struct PlainOptions {
  std::vector<PlainLink> planes;
  int hosts = 2;
  std::uint32_t payload_mtu = 1408;
  std::uint32_t burst_max = 43;
  PathSignal signal = PathSignal::kDelay;
  bool plane_sacks = true, sack_transit = true, sack_sharers = true;
  std::vector<std::int32_t> drift_ppm;  // of each host's clock, which has an offset of its own, too
  std::uint8_t mpr_units = 32;
  std::uint32_t sack_bytes = 16'384;
  std::uint32_t evs_per_port = 8;
  std::uint16_t active_per_port = 32;
  std::uint8_t timeout_exponent = 13;
  // Lateness of a host in running its engine: exponential, and occasionally one to three milliseconds.
  TimePs jitter = 50 * kPsPerUs;
  std::uint32_t hiccup_ppm = 1000;
  bool stamps = true;  // hosts know the arrival times of packets
  bool pauses = true;  // hosts pause before reads as a device's I/O thread does
  std::uint64_t seed = 1;
  // Sites: that of each host, and the planes' links towards every site. None: all hosts are on the same switches.
  std::vector<std::size_t> site_of_host;
  std::vector<PlainLink> between_sites;
};

class PlainNetwork {
 public:
  struct Flow {
    int from = 0, to = 0;
    std::uint32_t qp = 0, peer_qp = 0;
    std::uint64_t message_bytes = 256 * 1024;
    std::uint32_t outstanding = 0, outstanding_max = 16;
    std::uint64_t left_bytes = UINT64_MAX;  // to be posted
    std::uint64_t completed_bytes = 0;
    TimePs done = 0, last_progress = 0, longest_gap = 0;
    bool started = false, failed = false;
  };
  struct LinkState {
    PlainLink link;
    TimePs free_at = 0;    // when all bytes so far would have left at the rate
    TimePs departure = 0;  // of the latest packet
    std::uint64_t packets = 0, dropped = 0;
    std::uint64_t arrived_bytes = 0;
    std::int64_t queued_bytes = 0;  // ahead of the latest packet
    TimePs queued_sum = 0, queued_max = 0;
  };

  struct Tcp {
    TcpStream sender;
    int from = 0, to = 0;
    PortId plane = 0;
    TimePs stops = kNever;
    std::uint64_t arrived_packets = 0;
    std::deque<std::uint64_t> data, acknowledgements;  // on the way
  };

  explicit PlainNetwork(const PlainOptions& given) : options(given), rng_(Rng::for_component(given.seed, "plain", 0)) {
    for (int host = 0; host < options.hosts; ++host) add_host(host);
    for (const std::size_t site : options.site_of_host) site_links_.resize(std::max(site_links_.size(), site + 1));
    for (std::vector<LinkState>& links : site_links_) {
      for (const PlainLink& plane : options.between_sites) links.push_back({.link = plane});
    }
  }

  std::size_t connect(int from, int to, bool urgent = false);
  void post(Flow& flow);
  // One message with a number, which `arrived` gets at its end.
  void send(std::size_t flow, std::uint64_t bytes, std::uint32_t number);
  // A stream between two hosts of one site, from now on.
  void add_tcp(int from, int to, PortId plane);
  void run_until(TimePs end);
  LinkState& link(int to, PortId plane) { return links_[at(to)][plane]; }
  Engine& engine(int host) { return *hosts_[at(host)].engine; }
  QpStats stats(const Flow& flow) {
    QpStats result;
    CHECK(engine(flow.from).qp_stats(flow.qp, result));
    return result;
  }
  PlaneStats plane(const Flow& flow, PortId port) {
    PlaneStats result;
    CHECK(engine(flow.from).plane_stats(flow.qp, port, result));
    return result;
  }
  // The host does nothing until then, as one whose processors are busy; what arrives waits.
  void stop(int host, TimePs until) { hosts_[at(host)].stopped_until = until; }
  void at_time(TimePs time, std::function<void()> action) { actions_.push_back({time, std::move(action)}); }
  // From now on, one way, of a plane's links to all hosts.
  void set_delay(PortId plane, TimePs delay) {
    for (std::vector<LinkState>& links : links_) links[plane].link.delay = delay;
  }
  // Payload of the completed messages of all flows.
  std::uint64_t completed_bytes() const {
    std::uint64_t sum = 0;
    for (const Flow& flow : flows) sum += flow.completed_bytes;
    return sum;
  }
  std::int64_t sum_bps() const {
    std::int64_t sum = 0;
    for (const PlainLink& plane : options.planes) sum += plane.rate_bps;
    return sum;
  }

  PlainOptions options;
  TimePs now = kPsPerMs;
  std::vector<Flow> flows;
  std::vector<Tcp> tcp;
  std::vector<Event> events;
  std::function<void(std::size_t flow, std::uint32_t number)> arrived;
  std::set<std::uint32_t> dead_evs;  // lose all packets, in both directions

 private:
  static constexpr std::uint32_t kKey = 0x77;
  static constexpr std::int32_t kRunEngine = -1, kTcpData = -2, kTcpAck = -3, kTcpCheck = -4;  // `host`: the stream
  static std::size_t at(int host) { return static_cast<std::size_t>(host); }
  static Address address(int host, PortId port) {
    Address result;
    result.family = AddressFamily::kIpv4;
    result.bytes = {10, port, 0, static_cast<std::uint8_t>(host + 1)};
    return result;
  }

  struct Packet {
    RxDatagram rx;
    std::array<std::uint8_t, kHeaderBytesMax + 8> bytes;
    std::uint32_t size = 0, frame_bytes = 0;
    bool between_sites = false;  // on the way to the site of its host
    TimePs arrived = 0;
  };
  struct Entry {
    TimePs time;
    std::uint64_t number;
    int host;
    std::int32_t packet;  // its slot, or one of kRunEngine to kTcpCheck
    bool operator<(const Entry& other) const { return time != other.time ? time > other.time : number > other.number; }
  };
  struct Host {
    std::unique_ptr<Engine> engine;
    CqId cq = 0;
    TimePs awake_at = kNever;
    std::vector<std::int32_t> inbox;
    nic::Moderation moderation;
    TimePs rests_until = 0, stopped_until = 0;
  };

  void add_host(int host);
  void transmit(int host);
  void launch(int from, const TxBurst& burst, const TxPacket& tx);
  bool enqueue(LinkState& state, std::uint32_t frame_bytes);
  void arrive(int host, std::int32_t slot);
  void send_tcp(int stream);
  void step_tcp(int stream, std::int32_t what);
  TimePs one_way_delay(const PlainLink& link);
  void wake(int host, TimePs time);
  void look_after(int host);
  void collect(int host);
  TimePs lateness();
  // Clocks of the hosts.
  std::int32_t drift(int host) const { return at(host) < options.drift_ppm.size() ? options.drift_ppm[at(host)] : 0; }
  TimePs clock(int host) const { return now + now / 1'000'000 * drift(host) + host * 777 * kPsPerMs; }
  TimePs from_clock(int host, TimePs time) const {
    const TimePs elapsed = time - host * 777 * kPsPerMs;
    return elapsed - elapsed / 1'000'000 * drift(host);
  }

  std::vector<Host> hosts_;
  std::vector<std::vector<LinkState>> links_, site_links_;  // by host or site, and by plane
  std::vector<Packet> packets_;
  std::vector<std::int32_t> free_;
  std::priority_queue<Entry> queue_;
  std::vector<std::pair<TimePs, std::function<void()>>> actions_;
  std::uint64_t number_ = 0;
  TxBurst burst_;
  Rng rng_;
};

}  // namespace openmrc::test
