// A whole simulated run: two ends, the network between them, the applications, the faults, and the two phases. In the
// safety phase all faults of the scenario may occur and no check may fail; then a few paths heal, new work stops, and
// within a bound of virtual time all posted work has to complete and both ends have to become idle.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <queue>
#include <string>
#include <vector>

#include "tests/sim/endpoint.hpp"
#include "tests/sim/network.hpp"
#include "tests/sim/scenario.hpp"
#include "tests/sim/stream.hpp"
#include "tests/sim/verdict.hpp"

namespace openmrc::sim {

// Deliberate errors that the checkers must detect.
enum class Canary : std::uint8_t { kNone = 0, kMemory, kOrder, kGuard, kLiveness, kDeterminism, kCrash };

struct Outcome {
  std::uint64_t trace_hash = 0;
  std::uint64_t final_draw = 0;
  std::uint64_t packets = 0;
  std::uint64_t messages = 0;
  std::uint64_t errors = 0;  // legitimate ERR states of QPs
  TimePs virtual_time = 0;
  NetworkCounters network;
};

class World {
 public:
  World(const Scenario& scenario, Canary canary, int verbosity);  // 1: events, 2: every packet as well
  Outcome run();                                                  // throws Failure

 private:
  enum class Kind : std::uint8_t {
    kArrival,
    kTimer,
    kPortFree,
    kFaultStart,
    kFaultStop,
    kFaultTick,
    kPortNotice,
    kAppTick,
    kStallEnd,
    kConnect,
    kPeerBreak,
    kReconnect,
    kClockRebase,
  };
  struct Pending {
    TimePs time;
    std::uint64_t order;  // ties are broken by insertion
    Kind kind;
    std::uint8_t end;
    std::uint32_t index;        // datagram, fault or QP
    std::uint32_t incarnation;  // of the QP it refers to
    bool operator>(const Pending& other) const { return time != other.time ? time > other.time : order > other.order; }
  };
  // One QP and its counterpart.
  struct Link {
    const QpPlan* plan = nullptr;
    std::array<std::uint32_t, kEnds> qpn{};
    std::array<std::uint32_t, kEnds> psn{};
    std::array<std::uint32_t, kEnds> budget{};
    std::array<bool, kEnds> ready{};                          // RTS
    std::array<bool, kEnds> broken{};                         // ERR, and noticed
    std::array<bool, kEnds> commanded{};                      // ERR by our command
    std::array<std::unique_ptr<Stream>, kEnds> stream;        // by sender
    std::array<std::unique_ptr<TargetMemory>, kEnds> target;  // at that end
    std::array<std::uint32_t, kEnds> target_key{};
    std::array<CqId, kEnds> send_cq{}, recv_cq{};
    std::uint32_t incarnation = 0;
    bool restarting = false;
    bool closed() const { return broken[0] || broken[1]; }
  };

  // world.cpp: time
  void schedule(TimePs time, Kind kind, int end = 0, std::uint32_t index = 0, std::uint32_t incarnation = 0);
  void run_until(TimePs limit, bool stop_when_settled);
  void dispatch(const Pending& pending);
  void arrive(const Pending& pending);
  void timer(int end);
  void step(int end);  // the driver's part after a call of its engine
  void arm(int end);
  void note_acknowledged(int end, const Datagram& datagram, std::span<const std::uint8_t> bytes);
  void transmit(int end, const TxBurst& burst, const TxPacket& packet, std::vector<std::uint8_t>&& bytes);
  bool stalled(int end) const { return now_ < stalled_until_[static_cast<std::size_t>(end)]; }
  void print_packet(const char* what, int end, PortId plane, const wire::EvFields& fields,
                    const wire::Packet& packet) const;
  void heal();
  void unstall(int end);
  bool settled() const;
  void print_paths(const Link& link, int end) const;
  void require_settled();
  void require_quiet();
  void final_checks();

  // world_apps.cpp: applications
  void set_up_memory(std::uint32_t index, Link& link);
  void create(std::uint32_t index, int end);
  void new_streams(std::uint32_t index);
  void connect(std::uint32_t index, int end);
  void post_receives(Link& link, int end);
  bool feed(int end);
  bool post_one(std::uint32_t index, int end);
  void drain(int end);
  void on_completion(int end, const Completion& completion);
  void notice_errors(int end);
  void judge_error(const Link& link, int end) const;
  void break_peer(std::uint32_t index, int end);
  void reconnect(std::uint32_t index);

  // world_faults.cpp: faults on the ends
  void start_fault(std::uint32_t index);
  void stop_fault(std::uint32_t index);
  void tick_fault(std::uint32_t index);
  void deny_some(const Fault& fault);
  void probe_some(const Fault& fault);

  Link* find_link(int end, std::uint32_t qpn);

  const Scenario& scenario_;
  Canary canary_;
  int verbosity_;
  TraceHash trace_;
  Rng rng_;
  Network network_;
  std::array<std::unique_ptr<Endpoint>, kEnds> ends_;
  std::array<PeerId, kEnds> peers_{};
  std::array<std::vector<std::uint8_t>, kEnds> source_;
  std::vector<Link> links_;
  std::priority_queue<Pending, std::vector<Pending>, std::greater<>> queue_;
  std::vector<Datagram> datagrams_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<Network::Arrival> arrivals_;
  std::array<std::vector<std::uint32_t>, kEnds> backlog_;  // datagrams that wait for a stalled end
  std::array<TimePs, kEnds> stalled_until_{};
  std::array<TimePs, kEnds> armed_{kNever, kNever};
  std::array<TimePs, kEnds> armed_port_{kNever, kNever};
  std::array<TimePs, kEnds> last_timer_{-1, -1};
  std::array<std::uint32_t, kEnds> timer_spins_{};
  std::uint64_t order_ = 0;
  TimePs now_ = 0;
  bool stopped_ = false;  // no new work
  Outcome outcome_;
};

}  // namespace openmrc::sim
