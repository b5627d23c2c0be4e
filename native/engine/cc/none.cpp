#include "engine/cc/none.hpp"

namespace openmrc {
namespace {

// Far above any amount in flight, and far below the point at which adding a packet size overflows.
constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 50;

}  // namespace

NoControl::NoControl() { stats_.window_bytes = stats_.max_window_bytes = kWindowBytes; }

void NoControl::on_sent(TimePs, std::uint64_t) {}

void NoControl::on_ack(TimePs, const AckSample& sample) {
  if (sample.rtt > 0 && (stats_.base_rtt == 0 || sample.rtt < stats_.base_rtt)) stats_.base_rtt = sample.rtt;
}

void NoControl::on_trim(TimePs, std::uint64_t, std::uint64_t, bool) { ++stats_.trims; }

void NoControl::on_loss(TimePs, std::uint64_t, std::uint64_t) { ++stats_.losses; }

std::uint64_t NoControl::window_bytes() const { return kWindowBytes; }

}  // namespace openmrc
