// The congestion window of DCTCP (RFC 8257): slow start and congestion avoidance as in any TCP; a cut by alpha / 2,
// once per window, on echoed marks; a cut by half on losses.
#pragma once

#include <cstdint>

#include "netsim/generated/simulator.hpp"

namespace openmrc::netsim {

// Contents of one acknowledgement, and the sender's state. In packets and packet numbers.
struct DctcpSample {
  std::uint64_t delivered = 0;  // new arrivals, in order or not
  bool echo = false;            // ECE: some were marked
  std::uint64_t acknowledged = 0, next = 0;
  bool window_limited = false;  // the window, not the application, limited the sender
  bool repairing = false;       // fast recovery: neither growth nor a second cut
};

class DctcpControl {
 public:
  explicit DctcpControl(const DctcpSettings& settings);

  void on_ack(const DctcpSettings& settings, const DctcpSample& sample);
  void on_loss(const DctcpSettings& settings);  // once per recovery
  // `again`: a repeated timeout of the packet, which carries no new information about the network.
  void on_timeout(const DctcpSettings& settings, bool again);

  std::uint64_t window() const { return window_; }  // packets
  std::uint32_t alpha() const { return alpha_; }    // of kAlphaOne
  static constexpr std::uint32_t kAlphaOne = 1U << 20;

 private:
  void update_alpha(const DctcpSettings& settings, const DctcpSample& sample);
  void grow(std::uint64_t delivered);

  std::uint64_t window_;
  std::uint64_t threshold_ = ~std::uint64_t{0};  // of slow start
  std::uint64_t credit_ = 0;                     // packets counted towards the next step of congestion avoidance
  std::uint64_t delivered_ = 0, marked_ = 0;     // in this window
  std::uint64_t window_end_ = 0;                 // alpha is updated when this is acknowledged
  std::uint64_t cut_end_ = 0;                    // marks up to here have caused a cut
  std::uint32_t alpha_ = kAlphaOne;              // RFC 8257, section 3.3: starts at 1
};

}  // namespace openmrc::netsim
