#include "verbs/mrc_seam.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr auto kAnswerPause = std::chrono::microseconds(20);  // between two looks for answers to probes
constexpr std::size_t kProbesMax = 1U << 16;                  // their numbers have 16 bits

nic::Device& device(ibv_context* context) { return Context::of(context).nic->device(); }
nic::Device& device(ibv_qp* qp) { return Qp::of(qp).nic().device(); }

// Peers are known while their probes are under way.
class KnownPeers {
 public:
  explicit KnownPeers(Nic& nic) : nic_(nic) {}
  ~KnownPeers() {
    for (const PeerId peer : peers_) {
      nic_.device().command([peer](Engine& engine, TimePs) { return engine.remove_peer(peer); });
    }
  }
  KnownPeers(const KnownPeers&) = delete;
  KnownPeers& operator=(const KnownPeers&) = delete;

  Status add(const MrcProbe& probe, PeerId& peer) {
    const Address destination = address_of(probe.destination);
    if (destination.family != nic_.description().planes.front().local.family) return Status::kInvalidArgument;
    const PeerConfig config = nic_.peer(destination, probe.qp_number);
    const Status status = nic_.device().command([&](Engine& engine, TimePs) { return engine.add_peer(config, peer); });
    if (status == Status::kOk) peers_.push_back(peer);
    return status;
  }

 private:
  Nic& nic_;
  std::vector<PeerId> peers_;
};

// Answers of everything that was sent, or has been given up.
void take_answers(nic::Device& device, std::size_t sent, std::vector<MrcProbeAnswer>& answers) {
  EndpointResult result;
  for (std::size_t done = 0; done < sent;) {
    if (!device.poll_endpoint_result(result)) {
      if (device.closed()) return;
      std::this_thread::sleep_for(kAnswerPause);
      continue;
    }
    ++done;
    if (!result.answered) continue;
    answers.push_back({.index = result.request_id,
                       .rtt_ns = static_cast<std::uint64_t>(result.rtt / kPsPerNs),
                       .port = result.port,
                       .service_time_removed = result.service_time_removed});
  }
}

int send_probes(Nic& nic, std::span<const MrcProbe> probes, std::uint64_t timeout_ns,
                std::vector<MrcProbeAnswer>& answers) {
  const std::lock_guard guard(nic.probing());
  KnownPeers peers(nic);
  std::vector<PeerId> ids(probes.size());
  for (std::size_t i = 0; i < probes.size(); ++i) {
    const Status status = peers.add(probes[i], ids[i]);
    if (status != Status::kOk) return errno_of(status);
  }
  const auto timeout = static_cast<TimePs>(timeout_ns) * kPsPerNs;
  std::size_t sent = 0;
  Status status = Status::kOk;
  for (; sent < probes.size() && status == Status::kOk; ++sent) {
    const Ev ev = probes[sent].ev;
    status = nic.device().command([&](Engine& engine, TimePs now) {
      return engine.send_ev_probe(now, ids[sent], ev.port, ev.value, static_cast<std::uint16_t>(sent), timeout);
    });
  }
  if (status != Status::kOk) --sent;
  take_answers(nic.device(), sent, answers);
  return status == Status::kQueueFull ? EAGAIN : errno_of(status);
}

class Seam final : public MrcSeam {
 public:
  bool is_context(ibv_context* context) override { return context != nullptr && is_live(&Context::of(context)); }

  const void* device_of(ibv_context* context) override { return Context::of(context).nic.get(); }

  int create_qp(ibv_pd* pd, ibv_qp_init_attr& wanted, ibv_qp*& qp) override {
    return guarded([&] {
      Qp* made = nullptr;
      const int error = verbs::create_qp(pd, wanted, Lanes::kMrc, made);
      if (error == 0) qp = &made->api.qp_base;
      return error;
    });
  }

  int set_paths(ibv_qp* qp, const MrcPaths& paths) override {
    return guarded([&] {
      Qp::of(qp).mrc_paths = paths;
      return 0;
    });
  }

  MrcNumbers numbers(ibv_qp* qp) override { return Qp::of(qp).mrc_numbers; }

  int set_numbers(ibv_qp* qp, const MrcNumbers& numbers) override {
    Qp::of(qp).mrc_numbers = numbers;
    return 0;
  }

  void reset_numbers(ibv_qp* qp) override { Qp::of(qp).mrc_numbers = default_mrc_numbers(); }

  int set_receive_window(ibv_qp* qp, std::uint8_t mpr_units) override {
    return guarded([&] {
      return errno_of(device(qp).command(
          [&](Engine& engine, TimePs) { return engine.set_receive_window(Qp::of(qp).mrc, mpr_units); }));
    });
  }

  int evs(ibv_context* context, std::vector<Ev>& evs) override {
    if (!Context::of(context).nic->description().rules.empty()) return EOPNOTSUPP;  // the API knows source ports only
    return guarded([&] {
      evs = device(context).evs();
      return 0;
    });
  }

  int ev_states(ibv_qp* qp, std::vector<MrcEvState>& states) override {
    return guarded([&] {
      return device(qp).look([&](const Engine& engine) {
        const EvSet* set = engine.ev_set(Qp::of(qp).mrc);
        states.clear();
        for (EvIndex i = 0; set != nullptr && i < set->size(); ++i) states.push_back({set->ev(i), set->state(i)});
        return 0;
      });
    });
  }

  int set_denied(ibv_qp* qp, std::uint32_t ev, bool denied) override {
    return guarded([&] {
      return errno_of(device(qp).command([&](Engine& engine, TimePs now) {
        const std::uint32_t lane = Qp::of(qp).mrc;
        return denied ? engine.deny_ev(now, lane, ev) : engine.enable_ev(now, lane, ev);
      }));
    });
  }

  int listen(ibv_context* context, MrcEvListener& listener) override {
    return guarded([&] {
      Context::of(context).nic->events().listen([&listener](const Event& event) {
        listener.on_ev_change({event.qp, {event.ev, event.port}, static_cast<EvState>(event.value)});
      });
      return 0;
    });
  }

  int probe(ibv_context* context, std::span<const MrcProbe> probes, std::uint64_t timeout_ns,
            std::vector<MrcProbeAnswer>& answers) override {
    if (probes.size() >= kProbesMax) return EINVAL;
    return guarded([&] { return send_probes(*Context::of(context).nic, probes, timeout_ns, answers); });
  }

  PortMask planes_at(ibv_context* context, const ibv_gid& gid) override {
    const Address address = address_of(gid);
    const std::vector<PlaneDescription>& planes = Context::of(context).nic->description().planes;
    PortMask found = 0;
    for (std::size_t plane = 0; plane < planes.size(); ++plane) {
      if (address == planes[plane].advertise || address == planes[plane].local) found |= PortMask{1} << plane;
    }
    return found;
  }

  std::uint32_t plane_count(ibv_context* context) override {
    return static_cast<std::uint32_t>(Context::of(context).nic->description().planes.size());
  }

  int set_plane_state(ibv_context* context, PortId plane, bool up) override {
    return guarded([&] {
      device(context).set_port_state(plane, up);
      return 0;
    });
  }

  int signal(ibv_cq* cq) override {
    return guarded([&] {
      complete_here(Cq::of(cq), {});
      return 0;
    });
  }
};

}  // namespace

VERBS_API MrcSeam* openmrc_mrc_seam() {
  static Seam& seam = *new Seam;  // programs call during their exit
  return &seam;
}

}  // namespace openmrc::verbs
