// Private interface between libibverbs.so.1 and lib_mrc.so, which come from one build: MRC's abilities beyond verbs.
//
// lib_mrc.so contains no engine. It makes its objects of verbs objects, and calls this for the rest. Functions return an
// errno and throw nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/base/address.hpp"
#include "engine/cc/controller.hpp"
#include "engine/paths/ev_set.hpp"
#include "verbs/api.hpp"

namespace openmrc::verbs {

inline constexpr const char* kMrcSeamSymbol = "openmrc_mrc_seam";
inline constexpr const char* kMrcSeamNode = "OPENMRC_PRIVATE_1";

// Paths and congestion control of an MRC QP, from INIT on.
struct MrcPaths {
  std::vector<Ev> evs;  // empty: all of the device
  std::uint16_t min_active = 1;
  std::string controller = "nscc";
  // The device's values apply for mtu_bytes and link_rate_bps, and for base_rtt and max_cwnd_bytes that are 0.
  CcConfig cc;
};

// Numbers of an MRC QP, of RTR and of RTS.
struct MrcNumbers {
  std::uint8_t mpr_units_dest = 0, mpr_units = 0;
  std::uint16_t wimm_max_dest = 0, wimm_max = 0;
  std::uint8_t timeout_exponent = 0, linear_retries = 0, exponential_retries = 0;
  bool trim_nack = true, dynamic_mpr = false, service_time = true;
};

struct MrcEvState {
  Ev ev;
  EvState state{};
};

struct MrcEvChange {
  std::uint32_t qp = 0;
  Ev ev;
  EvState state{};
};

struct MrcProbe {
  ibv_gid destination{};        // of the peer's first plane
  std::uint32_t qp_number = 0;  // of a QP of the peer, from which its UDP port follows
  Ev ev;
};

struct MrcProbeAnswer {
  std::size_t index = 0;  // of the probe
  std::uint64_t rtt_ns = 0;
  PortId port = 0;
  bool service_time_removed = false;
};

// Called from a thread of the device.
class MrcEvListener {
 public:
  virtual void on_ev_change(const MrcEvChange& change) = 0;

 protected:
  ~MrcEvListener() = default;
};

class MrcSeam {
 public:
  virtual bool is_context(ibv_context* context) = 0;
  // Equal for all contexts of a device.
  virtual const void* device_of(ibv_context* context) = 0;

  // --- queue pairs: MRC alone, whatever OPENMRC_QP is
  virtual int create_qp(ibv_pd* pd, ibv_qp_init_attr& wanted, ibv_qp*& qp) = 0;
  // Effective at the next ibv_modify_qp() to INIT.
  virtual int set_paths(ibv_qp* qp, const MrcPaths& paths) = 0;
  virtual MrcNumbers numbers(ibv_qp* qp) = 0;
  // Effective at the next ibv_modify_qp() to RTR or RTS.
  virtual int set_numbers(ibv_qp* qp, const MrcNumbers& numbers) = 0;
  virtual void reset_numbers(ibv_qp* qp) = 0;
  virtual int set_receive_window(ibv_qp* qp, std::uint8_t mpr_units) = 0;

  // --- paths
  virtual int evs(ibv_context* context, std::vector<Ev>& evs) = 0;
  virtual int ev_states(ibv_qp* qp, std::vector<MrcEvState>& states) = 0;
  virtual int set_denied(ibv_qp* qp, std::uint32_t ev, bool denied) = 0;
  // The listener stays for ever, and must not call this class but for signal().
  virtual int listen(ibv_context* context, MrcEvListener& listener) = 0;
  // Sends all probes and waits for their answers, in order of arrival, at most for `timeout_ns`.
  virtual int probe(ibv_context* context, std::span<const MrcProbe> probes, std::uint64_t timeout_ns,
                    std::vector<MrcProbeAnswer>& answers) = 0;
  // Bit N: the address is that of plane N.
  virtual PortMask planes_at(ibv_context* context, const ibv_gid& gid) = 0;
  virtual std::uint32_t plane_count(ibv_context* context) = 0;
  virtual int set_plane_state(ibv_context* context, PortId plane, bool up) = 0;

  // --- completion queues
  // Adds an empty completion, and an event if the CQ is armed.
  virtual int signal(ibv_cq* cq) = 0;

 protected:
  ~MrcSeam() = default;
};

using MrcSeamFunction = MrcSeam* (*)();

// Numbers of a QP that names none.
MrcNumbers default_mrc_numbers();

}  // namespace openmrc::verbs
