#include "nccl/adapter.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "nccl/line_placer.hpp"
#include "nccl/log.hpp"
#include "verbs/connection_values.hpp"
#include "verbs/device_settings.hpp"

namespace openmrc::nccl {
namespace {

using namespace verbs;  // values of connections

constexpr std::uint16_t kUdpPorts = 1024;  // that processes of one host search for a free one

void fill_random(void* out, std::size_t bytes) {
  if (::getrandom(out, bytes, 0) != static_cast<ssize_t>(bytes))
    throw nic::NicError(errno, "cannot draw random numbers");
}

QpToInit init_of(nic::Device& device, const EndDescription& own, const EndDescription& theirs, std::uint32_t payload,
                 std::uint64_t rate_bps, TimePs base_rtt) {
  const std::uint32_t evs = device.settings().evs_per_port;
  QpToInit init;
  init.ev_set.active_per_port = static_cast<std::uint16_t>(std::max(1U, evs - evs / 2));
  init.ev_universe = device.evs();
  init.signal = own.extensions && theirs.extensions ? PathSignal::kDiscover : PathSignal::kMarks;
  init.plane_buffer_bytes = theirs.receive_buffer_bytes / (3 * theirs.ports.ports.size());
  init.cc.mtu_bytes = payload + kHeaderBytes;
  init.cc.link_rate_bps = rate_bps;
  init.cc.base_rtt = base_rtt;
  const std::uint64_t floor = 16ULL * payload;
  const std::uint64_t in_flight = rate_bps / 8 * (base_rtt / kPsPerUs) / 1'000'000;
  init.cc.max_cwnd_bytes =
      std::min(std::max(3 * in_flight / 2, floor), std::max(theirs.receive_buffer_bytes / 3, floor));
  return init;
}

QpToRtr rtr_of(const EndDescription& theirs, std::uint32_t payload, bool extensions) {
  QpToRtr rtr;
  rtr.destination_qp = theirs.qp;
  rtr.rq_psn = theirs.psn;
  rtr.payload_mtu = payload;
  rtr.mpr_units = extensions ? kWindowUnitsPlanes : kWindowUnitsMarks;
  rtr.wimm_max_dest = kImmediatesMax;
  rtr.capabilities.plane_sacks = rtr.capabilities.sack_transit = rtr.capabilities.kernel_check = extensions;
  rtr.sack_bytes = extensions ? kSackBytesPlanes : std::max(4096U, payload * 4);
  return rtr;
}

QpToRts rts_of(const EndDescription& own, bool extensions) {
  QpToRts rts;
  rts.sq_psn = own.psn;
  rts.mpr_units = extensions ? kWindowUnitsPlanes : kWindowUnitsMarks;
  rts.wimm_max = kImmediatesMax;
  rts.timeout_exponent = kTimeoutExponent;
  rts.linear_retries = kLinearRetries;
  rts.exponential_retries = kExponentialRetries;
  rts.timestamp_resolution_ns = 1000;
  return rts;
}

}  // namespace

Adapter::Adapter(verbs::DeviceDescription description) : described_(std::move(description)) {
  open();
  for (const nic::SocketStats& socket : device_->socket_stats()) receive_buffer_bytes_ += socket.receive_buffer_bytes;
  for (const verbs::PlaneDescription& plane : described_.planes) rate_bps_ += verbs::rate_of(plane);
}

void Adapter::open() {
  std::uint64_t seed = 0;
  fill_random(&seed, sizeof seed);
  nic::Settings settings = settings_of(described_, seed);
  for (std::uint16_t offset = 0;; ++offset) {
    settings.udp_port = udp_port_ = static_cast<std::uint16_t>(kFirstUdpPort + offset);
    try {
      device_ = std::make_unique<nic::Device>(settings);
      return;
    } catch (const nic::NicError& error) {
      if (error.code() != EADDRINUSE || offset + 1 == kUdpPorts) throw;
    }
  }
}

EndDescription Adapter::description() const {
  EndDescription end;
  end.receive_buffer_bytes = receive_buffer_bytes_;
  end.extensions = !published_mrc();
  end.ports.udp_port = udp_port_;
  for (const verbs::PlaneDescription& plane : described_.planes) end.ports.ports.push_back(plane.advertise);
  return end;
}

std::uint32_t Adapter::payload_room(const PeerConfig& peer) {
  std::uint32_t room = kPayloadMtuMax;
  for (std::size_t plane = 0; plane < peer.ports.size(); ++plane) {
    const std::uint32_t mtu = device_->path_mtu(static_cast<PortId>(plane), peer.ports[plane], peer.udp_port);
    const std::uint32_t taken = (peer.ports[plane].family == AddressFamily::kIpv4 ? 28U : 48U) + kTransportBytes;
    room = std::min(room, std::max(kPayloadMtuMin, mtu > taken ? mtu - taken : 0));
  }
  return room - room % std::uint32_t{kLineBytes};
}

void Adapter::connect_qp(const EndDescription& own, const EndDescription& theirs, std::uint32_t payload) {
  const bool extensions = own.extensions && theirs.extensions;
  const TimePs base_rtt = described_.base_rtt != 0 ? described_.base_rtt : kBaseRtt;
  const QpToInit init = init_of(*device_, own, theirs, payload, rate_bps_, base_rtt);
  QpToRtr rtr = rtr_of(theirs, payload, extensions);
  const Status status = device_->command([&](Engine& engine, TimePs now) {
    Status step = engine.add_peer(theirs.ports, rtr.peer);
    if (step != Status::kOk) return step;
    step = engine.modify_qp(now, own.qp, init);
    if (step == Status::kOk) step = engine.modify_qp(now, own.qp, rtr);
    if (step == Status::kOk) step = engine.modify_qp(now, own.qp, rts_of(own, extensions));
    engine.remove_peer(rtr.peer);  // the QP has a reference of its own
    return step;
  });
  if (status != Status::kOk) {
    throw Failure{ncclSystemError, "a QP cannot be connected: status " + std::to_string(static_cast<int>(status))};
  }
}

Secret random_secret() {
  Secret secret{};
  fill_random(secret.data(), secret.size());
  return secret;
}

std::uint32_t random_number() {
  std::uint32_t number = 0;
  fill_random(&number, sizeof number);
  return number;
}

}  // namespace openmrc::nccl
