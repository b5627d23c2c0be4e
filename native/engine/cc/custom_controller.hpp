// Congestion controllers from outside: plain C functions over a block of 64-bit words, one block per QP.
//
// As with custom_selector.hpp, the functions access their block only. Times are picoseconds, sizes nominal bytes, flags
// 0 or 1; the order of calls is that of CongestionController.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "engine/base/name_registry.hpp"
#include "engine/cc/controller.hpp"

namespace openmrc {

extern "C" {
// The block is zeroed. `max_window_bytes` 0: no limit; the engine itself enforces a limit that is set.
using CustomControllerInit = void (*)(std::uint64_t* state, std::uint32_t mtu_bytes, std::uint64_t link_rate_bps,
                                      std::int64_t base_rtt_ps, std::uint64_t max_window_bytes, std::uint32_t trimming);
using CustomControllerSent = void (*)(std::uint64_t* state, std::int64_t now_ps, std::uint64_t bytes);
// AckSample; `rtt_ps` 0: no sample.
using CustomControllerAck = void (*)(std::uint64_t* state, std::int64_t now_ps, std::uint64_t new_bytes,
                                     std::uint64_t in_flight_bytes, std::int64_t rtt_ps, std::uint32_t marked,
                                     std::uint32_t rcv_cwnd_pen, std::uint32_t restore_cwnd);
using CustomControllerTrim = void (*)(std::uint64_t* state, std::int64_t now_ps, std::uint64_t bytes,
                                      std::uint64_t in_flight_bytes, std::uint32_t last_hop);
using CustomControllerLoss = void (*)(std::uint64_t* state, std::int64_t now_ps, std::uint64_t bytes,
                                      std::uint64_t in_flight_bytes);
// The engine raises a result below one packet to one packet, since a smaller window would stop the QP for good.
using CustomControllerWindow = std::uint64_t (*)(const std::uint64_t* state);
}

struct CustomControllerFunctions {
  CustomControllerInit init = nullptr;
  CustomControllerSent on_sent = nullptr;  // may be null
  CustomControllerAck on_ack = nullptr;
  CustomControllerTrim on_trim = nullptr;
  CustomControllerLoss on_loss = nullptr;
  CustomControllerWindow window_bytes = nullptr;
  std::uint32_t state_words = 1;  // 1 .. kPolicyStateWordsMax
};

// Registers `name` for make_controller; lifetime and threads as for register_ev_selector.
RegisterResult register_controller(std::string_view name, const CustomControllerFunctions& functions);

std::unique_ptr<CongestionController> make_custom_controller(const CustomControllerFunctions& functions,
                                                             const CcConfig& config);

}  // namespace openmrc
