// No congestion control: the window never limits anything.
#pragma once

#include <cstdint>

#include "engine/cc/controller.hpp"

namespace openmrc {

class NoControl final : public CongestionController {
 public:
  NoControl();
  void on_sent(TimePs now, std::uint64_t bytes) override;
  void on_ack(TimePs now, const AckSample& sample) override;
  void on_trim(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes, bool last_hop) override;
  void on_loss(TimePs now, std::uint64_t bytes, std::uint64_t in_flight_bytes) override;
  std::uint64_t window_bytes() const override;
  CcStats stats() const override { return stats_; }

 private:
  CcStats stats_;
};

}  // namespace openmrc
