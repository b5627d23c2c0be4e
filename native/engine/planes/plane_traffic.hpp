// Traffic of one host over each of its planes in both directions, with the latest tens of milliseconds counting most.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/time.hpp"

namespace openmrc {

class PlaneTraffic {
 public:
  static constexpr std::uint32_t kQpsMax = 127;  // the field of a SACK holds no more

  void sent(TimePs now, PortId plane, std::uint64_t bytes) { recent(now, planes_[plane]).sent += bytes; }
  // A slow plane may carry the acknowledgements of quicker ones, which are no data.
  void received(TimePs now, PortId plane, std::uint64_t bytes) {
    if (bytes <= kAcknowledgementBytesMax) return;
    recent(now, planes_[plane]).received += bytes;
  }
  // Data for a QP. `period`: that of its latest data on the plane, which the QP keeps.
  void received_for_qp(TimePs now, PortId plane, std::uint32_t& period) {
    Plane& own = in_period(now, planes_[plane]);
    if (period == own.period) return;
    period = own.period;
    ++own.qps;
  }
  // That data has come for over the plane lately.
  std::uint32_t receiving_qps(TimePs now, PortId plane) {
    const Plane& own = in_period(now, planes_[plane]);
    return std::clamp(std::max(own.qps, own.qps_before), 1U, kQpsMax);
  }
  // True if acknowledgements to this host share their way with data.
  bool both_ways(PortId plane) const { return kPart * planes_[plane].received > planes_[plane].sent; }

  void rebase(TimePs by) {
    for (Plane& plane : planes_) {
      plane.halved = rebased(plane.halved, by);
      plane.period_ends = rebased(plane.period_ends, by);
    }
  }

 private:
  static constexpr TimePs kHalfLife = 20 * kPsPerMs;
  static constexpr TimePs kPeriod = 250 * kPsPerMs;
  static constexpr std::uint64_t kPart = 8;
  static constexpr std::uint64_t kAcknowledgementBytesMax = 256;

  struct Plane {
    std::uint64_t sent = 0, received = 0;
    TimePs halved = 0;
    std::uint32_t period = 0;  // by number
    TimePs period_ends = 0;
    std::uint32_t qps = 0, qps_before = 0;  // with data in this period and in the one before
  };

  static Plane& recent(TimePs now, Plane& plane) {
    if (now - plane.halved < kHalfLife) return plane;
    const bool next = now - plane.halved < 2 * kHalfLife;
    plane.sent = next ? plane.sent / 2 : 0;
    plane.received = next ? plane.received / 2 : 0;
    plane.halved = next ? plane.halved + kHalfLife : now;
    return plane;
  }

  static Plane& in_period(TimePs now, Plane& plane) {
    if (now < plane.period_ends) return plane;
    plane.qps_before = now < plane.period_ends + kPeriod ? plane.qps : 0;
    plane.qps = 0;
    ++plane.period;
    plane.period_ends = now + kPeriod;
    return plane;
  }

  std::array<Plane, kPortCountMax> planes_{};
};

}  // namespace openmrc
