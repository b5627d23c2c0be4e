// Facts that QPs of one host tell each other about a plane: how many of them have data in flight on it, as their windows
// together fill one queue, and whether any of them finds it silent.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"

namespace openmrc {

class PlaneSharers {
 public:
  void join(PortId plane) { ++planes_[plane].qps; }
  void leave(PortId plane) { --planes_[plane].qps; }
  // At least one: a QP that asks is about to send.
  std::uint32_t on(PortId plane) const { return std::max(planes_[plane].qps, 1U); }

  void fell_silent(PortId plane) {
    ++planes_[plane].silent;
    ++planes_[plane].falls;
  }
  void ended_silence(PortId plane) { --planes_[plane].silent; }
  bool silent(PortId plane) const { return planes_[plane].silent > 0; }
  // Increases with each QP that finds the plane silent.
  std::uint32_t falls(PortId plane) const { return planes_[plane].falls; }

 private:
  struct Plane {
    std::uint32_t qps = 0, silent = 0, falls = 0;
  };
  std::array<Plane, kPortCountMax> planes_{};
};

}  // namespace openmrc
