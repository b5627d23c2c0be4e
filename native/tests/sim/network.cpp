#include "tests/sim/network.hpp"

#include <algorithm>

namespace openmrc::sim {

namespace {

constexpr std::size_t kReplayMemory = 64;

bool trimmable(const Datagram& datagram) {
  return datagram.traffic_class == TrafficClass::kTrimmable || datagram.traffic_class == TrafficClass::kTrimmableRetx;
}

TimePs serialization(std::uint64_t bytes, std::uint64_t rate_bps) {
  return static_cast<TimePs>(bytes * 8 * static_cast<std::uint64_t>(kPsPerSecond / 1000) / (rate_bps / 1000));
}

}  // namespace

Address address_of(const Scenario& scenario, int end, PortId plane) {
  Address address;
  address.family = scenario.family;
  if (scenario.family == AddressFamily::kIpv4) {
    address.bytes = {10, plane, 0, static_cast<std::uint8_t>(end + 1)};
  } else {
    address.bytes[0] = 0xFD;
    address.bytes[7] = plane;
    address.bytes[15] = static_cast<std::uint8_t>(end + 1);
  }
  return address;
}

Network::Network(const Scenario& scenario)
    : scenario_(scenario), rng_(Rng::for_component(scenario.seed, "network")), burst_state_(scenario.faults.size()) {
  for (auto& end : carrier_) end.fill(true);
}

bool Network::applies(const Fault& fault, TimePs now, const Datagram& datagram) const {
  if (now < fault.start || now >= fault.stop) return false;
  if (fault.sender >= 0 && fault.sender != datagram.sender) return false;
  if (fault.plane >= 0 && fault.plane != datagram.plane) return false;
  if (fault.ev_class < 0) return true;
  return static_cast<std::uint32_t>(fault.ev_class) ==
         ev_class_of(wire::ev_of_fields(datagram.fields, scenario_.ev_format));
}

void Network::apply(std::size_t index, TimePs now, const Datagram& datagram, Fate& fate,
                    std::vector<Arrival>& arrivals) {
  const Fault& fault = scenario_.faults[index];
  const bool hit = rng_.chance(fault.permille, 1000);
  switch (fault.kind) {
    case FaultKind::kLoss:
      fate.lost |= hit;
      break;
    case FaultKind::kBurstLoss:
      // Two states: rare entry, about sixteen packets long.
      burst_state_[index] = burst_state_[index] ? !rng_.chance(1, 16) : rng_.chance(fault.permille, 16000);
      fate.lost |= burst_state_[index];
      break;
    case FaultKind::kControlLoss:
      fate.lost |= hit && datagram.traffic_class == TrafficClass::kControl;
      break;
    case FaultKind::kDuplicate:
      fate.copies += hit ? 1 + static_cast<int>(rng_.below(3)) : 0;
      break;
    case FaultKind::kReorder:
      fate.extra_delay += hit ? static_cast<TimePs>(rng_.below(static_cast<std::uint64_t>(8 * fault.amount))) : 0;
      break;
    case FaultKind::kJitter:
      fate.extra_delay += static_cast<TimePs>(rng_.below(static_cast<std::uint64_t>(fault.amount)));
      break;
    case FaultKind::kCorrupt:
      fate.corrupt |= hit;
      break;
    case FaultKind::kTrim:
      fate.trim |= hit && trimmable(datagram);
      break;
    case FaultKind::kMark:
      fate.mark |= hit;
      break;  // a false mark: independent of queue and ECT
    case FaultKind::kBlackhole:
      fate.lost = true;
      break;
    case FaultKind::kFlap:
      fate.lost |= ((now - fault.start) / fault.amount) % 2 == 0;
      break;
    case FaultKind::kSlow:
      fate.slow_factor = 10;
      break;
    case FaultKind::kReplay:
      if (hit && !memory_.empty()) {
        Datagram old = memory_[rng_.below(memory_.size())];
        ++counters_.replayed;
        arrivals.emplace_back(now + fault.amount, std::move(old));
      }
      break;
    default:
      break;
  }
}

Network::Fate Network::fate_of(TimePs now, const Datagram& datagram, std::vector<Arrival>& arrivals) {
  Fate fate;
  if (!carrier(datagram.plane)) fate.lost = true;
  if (healed_) {
    const std::uint32_t ev_class = ev_class_of(wire::ev_of_fields(datagram.fields, scenario_.ev_format));
    if (((scenario_.healed_planes >> datagram.plane) & 1) == 0 ||
        ((scenario_.healed_ev_classes >> ev_class) & 1) == 0) {
      fate.lost = true;
    }
    return fate;
  }
  for (std::size_t i = 0; i < scenario_.faults.size(); ++i) {
    if (applies(scenario_.faults[i], now, datagram)) apply(i, now, datagram, fate, arrivals);
  }
  return fate;
}

// False: dropped. A trimmed packet bypasses the queue, since switches have a class of its own for it.
bool Network::enter_queue(TimePs now, Datagram& datagram, Fate& fate, TimePs& departure) {
  const LinkPlan& plan = scenario_.links[datagram.plane];
  LinkState& link = links_[datagram.sender][datagram.plane];
  const std::uint64_t rate = plan.rate_bps / fate.slow_factor;
  const TimePs wait = std::max<TimePs>(link.busy_until - now, 0);
  const TimePs limit = serialization(plan.queue_bytes, rate);
  const bool data = datagram.traffic_class != TrafficClass::kControl;
  if (wait > limit && data) {
    if (plan.trim && trimmable(datagram)) {
      fate.trim = true;
    } else {
      ++counters_.queue_drops;
      return false;
    }
  }
  if (plan.ecn_bytes != 0 && wait > serialization(plan.ecn_bytes, rate) && datagram.ecn != Ecn::kNotEct)
    fate.mark = true;
  if (fate.trim || !data) {
    departure = now;
    return true;
  }
  link.busy_until = now + wait + serialization(datagram.bytes.size() + 48, rate);
  departure = link.busy_until;
  return true;
}

void Network::trim(Datagram& datagram) {
  ++counters_.trimmed;
  // At least BTH, METH, TSETH; occasionally a switch that cuts too much.
  std::size_t keep = 20 + rng_.below(60);
  if (rng_.chance(1, 200)) keep = rng_.below(20);
  if (keep < datagram.bytes.size()) datagram.bytes.resize(keep);
  datagram.traffic_class =
      scenario_.links[datagram.plane].trim_at_last_hop ? TrafficClass::kTrimmedLastHop : TrafficClass::kTrimmed;
  datagram.pristine = false;
}

void Network::corrupt(Datagram& datagram) {
  if (datagram.bytes.empty()) return;
  ++counters_.corrupted;
  const bool pristine = datagram.pristine;
  datagram.pristine = false;
  if (rng_.chance(1, 8)) {
    datagram.bytes.resize(rng_.below(datagram.bytes.size()));
    return;
  }
  const std::vector<std::uint8_t> before = datagram.bytes;
  const std::uint64_t flips = 1 + rng_.below(3);
  for (std::uint64_t i = 0; i < flips; ++i) {
    std::size_t at = rng_.below(datagram.bytes.size());
    // The ICRC leaves one byte of the BTH out, because switches may change it: the packet is still valid.
    if (at == 4) at = 0;
    datagram.bytes[at] ^= static_cast<std::uint8_t>(1U << rng_.below(8));
  }
  datagram.pristine = pristine && datagram.bytes == before;  // the same bit may have been drawn twice
}

void Network::remember(const Datagram& datagram) {
  if (memory_.size() < kReplayMemory) {
    memory_.push_back(datagram);
  } else if (rng_.chance(1, 4)) {
    memory_[rng_.below(kReplayMemory)] = datagram;
  }
}

void Network::send(TimePs now, Datagram&& datagram, std::vector<Arrival>& arrivals) {
  ++counters_.sent;
  const bool replays = std::any_of(scenario_.faults.begin(), scenario_.faults.end(),
                                   [](const Fault& fault) { return fault.kind == FaultKind::kReplay; });
  if (replays && !healed_) remember(datagram);
  Fate fate = fate_of(now, datagram, arrivals);
  if (fate.lost) {
    ++counters_.lost;
    return;
  }
  const LinkPlan& plan = scenario_.links[datagram.plane];
  const std::uint32_t ev = wire::ev_of_fields(datagram.fields, scenario_.ev_format);
  for (int copy = 0; copy < fate.copies; ++copy) {
    Fate mine = fate;
    Datagram packet = datagram;
    TimePs departure = now;
    if (!enter_queue(now, packet, mine, departure)) continue;
    if (mine.trim) trim(packet);
    if (mine.mark) {
      ++counters_.marked;
      packet.ecn = Ecn::kCe;
    }
    if (mine.corrupt) corrupt(packet);
    if (copy > 0) ++counters_.duplicated;
    TimePs arrival = departure + plan.delay + mine.extra_delay;
    if (plan.ev_spread > 0)
      arrival += static_cast<TimePs>((std::uint64_t{ev} * 0xD1342543DE82EF95ULL >> 20) %
                                     static_cast<std::uint64_t>(plan.ev_spread));
    if (plan.jitter > 0) arrival += static_cast<TimePs>(rng_.below(static_cast<std::uint64_t>(plan.jitter)));
    ++counters_.delivered;
    arrivals.emplace_back(arrival, std::move(packet));
  }
}

Datagram Network::garbage(int victim) {
  Datagram datagram;
  datagram.pristine = false;
  datagram.plane = static_cast<PortId>(rng_.below(scenario_.planes));
  datagram.sender = static_cast<std::uint8_t>(1 - victim);
  datagram.source = address_of(scenario_, rng_.chance(1, 2) ? 1 - victim : victim, datagram.plane);
  datagram.fields.source_port = static_cast<std::uint16_t>(rng_.next());
  datagram.traffic_class = static_cast<TrafficClass>(rng_.below(6));
  datagram.ecn = static_cast<Ecn>(rng_.below(4));
  datagram.bytes.resize(rng_.below(200));
  for (std::uint8_t& byte : datagram.bytes) byte = static_cast<std::uint8_t>(rng_.next());
  // Half of it resembles a transport packet, which gets further into the parser.
  constexpr std::uint8_t kOpcodes[] = {0xC6, 0xC7, 0xC8, 0xC9, 0xCA, 0xCB, 0xD1,
                                       0xD8, 0xD9, 0xDC, 0xDD, 0xDE, 0x06, 0x11};
  if (datagram.bytes.size() >= 12 && rng_.chance(1, 2)) {
    datagram.bytes[0] = kOpcodes[rng_.below(sizeof kOpcodes)];
    datagram.bytes[1] &= 0x30;
    datagram.bytes[2] = datagram.bytes[3] = 0xFF;
    datagram.bytes[5] = datagram.bytes[6] = 0;
    datagram.bytes[7] = static_cast<std::uint8_t>(0x10 + rng_.below(8));
  }
  return datagram;
}

}  // namespace openmrc::sim
