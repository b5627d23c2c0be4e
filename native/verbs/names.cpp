// Names of the API's numbers, and conversions between units of rate.
#include <array>
#include <cstddef>

#include "verbs/api.hpp"

namespace openmrc::verbs {
namespace {

template <std::size_t Count>
const char* name_in(const std::array<const char*, Count>& names, int number) {
  const bool known = number >= 0 && static_cast<std::size_t>(number) < Count;
  return known && names[static_cast<std::size_t>(number)] != nullptr ? names[static_cast<std::size_t>(number)]
                                                                     : "unknown";
}

struct Rate {
  ibv_rate rate;
  int multiple;  // of 2.5 Gb/s; -1: none
  int mbps;
};

constexpr std::array<Rate, 21> kRates{{
    {IBV_RATE_2_5_GBPS, 1, 2500},    {IBV_RATE_5_GBPS, 2, 5000},       {IBV_RATE_10_GBPS, 4, 10000},
    {IBV_RATE_20_GBPS, 8, 20000},    {IBV_RATE_30_GBPS, 12, 30000},    {IBV_RATE_40_GBPS, 16, 40000},
    {IBV_RATE_60_GBPS, 24, 60000},   {IBV_RATE_80_GBPS, 32, 80000},    {IBV_RATE_120_GBPS, 48, 120000},
    {IBV_RATE_14_GBPS, -1, 14062},   {IBV_RATE_56_GBPS, -1, 56250},    {IBV_RATE_112_GBPS, -1, 112500},
    {IBV_RATE_168_GBPS, -1, 168750}, {IBV_RATE_25_GBPS, 10, 25781},    {IBV_RATE_100_GBPS, 40, 103125},
    {IBV_RATE_200_GBPS, 80, 206250}, {IBV_RATE_300_GBPS, 120, 309375}, {IBV_RATE_28_GBPS, 11, 28125},
    {IBV_RATE_50_GBPS, 20, 53125},   {IBV_RATE_400_GBPS, 160, 425000}, {IBV_RATE_600_GBPS, 240, 637500},
}};

}  // namespace

VERBS_API const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array<const char*, 8> kNames{nullptr,
                                                     "InfiniBand channel adapter",
                                                     "InfiniBand switch",
                                                     "InfiniBand router",
                                                     "iWARP NIC",
                                                     "usNIC",
                                                     "usNIC UDP",
                                                     "unspecified"};
  return name_in(kNames, type);
}

VERBS_API const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array<const char*, 6> kNames{"no state change (NOP)", "DOWN", "INIT", "ARMED", "ACTIVE",
                                                     "ACTIVE_DEFER"};
  return name_in(kNames, state);
}

VERBS_API const char* ibv_event_type_str(ibv_event_type event) {
  static constexpr std::array<const char*, 20> kNames{"CQ error",
                                                      "local work queue catastrophic error",
                                                      "invalid request local work queue error",
                                                      "local access violation work queue error",
                                                      "communication established",
                                                      "send queue drained",
                                                      "path migrated",
                                                      "path migration request error",
                                                      "local catastrophic error",
                                                      "port active",
                                                      "port error",
                                                      "LID change",
                                                      "P_Key change",
                                                      "SM change",
                                                      "SRQ error",
                                                      "SRQ limit reached",
                                                      "last WQE reached",
                                                      "client reregistration",
                                                      "GID table change",
                                                      "work queue fatal error"};
  return name_in(kNames, event);
}

VERBS_API const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array<const char*, 24> kNames{"success",
                                                      "local length error",
                                                      "local QP operation error",
                                                      "local EE context operation error",
                                                      "local protection error",
                                                      "Work Request Flushed Error",
                                                      "memory management operation error",
                                                      "bad response error",
                                                      "local access error",
                                                      "remote invalid request error",
                                                      "remote access error",
                                                      "remote operation error",
                                                      "transport retry counter exceeded",
                                                      "RNR retry counter exceeded",
                                                      "local RDD violation error",
                                                      "remote invalid RD request",
                                                      "aborted error",
                                                      "invalid EE context number",
                                                      "invalid EE context state",
                                                      "fatal error",
                                                      "response timeout error",
                                                      "general error",
                                                      "TM error",
                                                      "TM software rendezvous"};
  return name_in(kNames, status);
}

VERBS_API int ibv_rate_to_mult(ibv_rate rate) {
  for (const Rate& one : kRates) {
    if (one.rate == rate) return one.multiple;
  }
  return -1;
}

VERBS_API ibv_rate mult_to_ibv_rate(int multiple) {
  for (const Rate& one : kRates) {
    if (one.multiple == multiple && multiple > 0) return one.rate;
  }
  return IBV_RATE_MAX;
}

VERBS_API int ibv_rate_to_mbps(ibv_rate rate) {
  for (const Rate& one : kRates) {
    if (one.rate == rate) return one.mbps;
  }
  return -1;
}

VERBS_API ibv_rate mbps_to_ibv_rate(int mbps) {
  for (const Rate& one : kRates) {
    if (one.mbps == mbps) return one.rate;
  }
  return IBV_RATE_MAX;
}

}  // namespace openmrc::verbs
