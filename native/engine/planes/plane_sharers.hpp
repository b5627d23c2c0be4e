// QPs of one host that have data in flight on the same plane, counted: their windows together fill one queue.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/base/address.hpp"
#include "engine/base/limits.hpp"

namespace openmrc {

class PlaneSharers {
 public:
  void join(PortId plane) { ++qps_[plane]; }
  void leave(PortId plane) { --qps_[plane]; }
  // At least one: a QP that asks is about to send.
  std::uint32_t on(PortId plane) const { return std::max(qps_[plane], 1U); }

 private:
  std::array<std::uint32_t, kPortCountMax> qps_{};
};

}  // namespace openmrc
