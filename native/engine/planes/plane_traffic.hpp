// Traffic of one host over each of its planes in both directions, with the latest tens of milliseconds counting most.
#pragma once

#include <array>
#include <cstdint>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"
#include "engine/base/time.hpp"

namespace openmrc {

class PlaneTraffic {
 public:
  void sent(TimePs now, PortId plane, std::uint64_t bytes) { recent(now, planes_[plane]).sent += bytes; }
  // A slow plane may carry the acknowledgements of quicker ones, which are no data.
  void received(TimePs now, PortId plane, std::uint64_t bytes) {
    if (bytes > kAcknowledgementBytesMax) recent(now, planes_[plane]).received += bytes;
  }
  // True if acknowledgements to this host share their way with data.
  bool both_ways(PortId plane) const { return kPart * planes_[plane].received > planes_[plane].sent; }

  void rebase(TimePs by) {
    for (Plane& plane : planes_) plane.halved = rebased(plane.halved, by);
  }

 private:
  static constexpr TimePs kHalfLife = 20 * kPsPerMs;
  static constexpr std::uint64_t kPart = 8;
  static constexpr std::uint64_t kAcknowledgementBytesMax = 256;

  struct Plane {
    std::uint64_t sent = 0, received = 0;
    TimePs halved = 0;
  };

  static Plane& recent(TimePs now, Plane& plane) {
    if (now - plane.halved < kHalfLife) return plane;
    const bool next = now - plane.halved < 2 * kHalfLife;
    plane.sent = next ? plane.sent / 2 : 0;
    plane.received = next ? plane.received / 2 : 0;
    plane.halved = next ? plane.halved + kHalfLife : now;
    return plane;
  }

  std::array<Plane, kPortCountMax> planes_{};
};

}  // namespace openmrc
