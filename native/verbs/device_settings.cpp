#include "verbs/device_settings.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include "engine/base/limits.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::uint64_t kRateUnknownBps = 40'000'000'000;  // loopback and veth report none
constexpr std::uint32_t kEvsPerPathFilePort = 32;

// As many EVs for each path: a lost packet sets its EV aside for a while, which must not remove the path.
std::uint32_t evs_of(const std::vector<PlaneDescription>& planes) {
  std::size_t paths = 1;
  for (const PlaneDescription& plane : planes) paths = std::max(paths, plane.selectors.size());
  const auto count = static_cast<std::uint32_t>(paths);
  return (kEvsPerPathFilePort + count - 1) / count * count;
}

// With fewer EVs than paths each NIC draws among them: the first ones for all would leave the other uplinks idle.
std::vector<std::uint16_t> drawn(const std::vector<std::uint16_t>& selectors, std::size_t count, std::mt19937_64& rng) {
  std::vector<std::uint16_t> chosen;
  std::sample(selectors.begin(), selectors.end(), std::back_inserter(chosen), count, rng);
  return chosen;
}

}  // namespace

nic::Settings settings_of(const DeviceDescription& device, std::uint64_t seed) {
  nic::Settings settings;
  settings.seed = seed;
  const bool by_file = !device.rules.empty();
  const std::uint32_t wanted = by_file ? evs_of(device.planes) : settings.evs_per_port;
  settings.evs_per_port = std::min(wanted, kEvCountMax / static_cast<std::uint32_t>(device.planes.size()));
  std::mt19937_64 rng(seed);
  for (const PlaneDescription& plane : device.planes) {
    nic::PortSettings& port = settings.ports.emplace_back();
    port.local = plane.local;
    port.advertise = plane.advertise;
    port.interface = plane.interface;
    port.receive = plane.receive;
    port.selectors = drawn(plane.selectors, settings.evs_per_port, rng);
  }
  if (!by_file) return settings;
  settings.ev_format = wire::EvFormat::kSrv6;
  settings.paths = nic::PathRules(device.rules);
  settings.burst_packets = settings.plane_burst_packets =
      1;  // no checksum, hence no offload that would make use of more
  return settings;
}

std::uint64_t rate_of(const PlaneDescription& plane) {
  const std::string interface = plane.interface.empty() ? interface_of(plane.local) : plane.interface;
  std::int64_t mbps = 0;
  std::ifstream speed("/sys/class/net/" + interface + "/speed");
  const bool reported = speed >> mbps && mbps > 0;
  if (!reported) return plane.rate_bps == 0 ? kRateUnknownBps : plane.rate_bps;
  const std::uint64_t rate = static_cast<std::uint64_t>(mbps) * 1'000'000;
  return plane.rate_bps == 0 ? rate : std::min(rate, plane.rate_bps);
}

}  // namespace openmrc::verbs
