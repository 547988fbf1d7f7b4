// Names of states, events and codes, and conversion of rates.
#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "messages/failure.h"
#include "verbs/c_call.h"

namespace {

template <size_t kCount>
const char* name_at(const std::array<const char*, kCount>& names, int at, const char* unknown) noexcept {
  return at >= 0 && static_cast<size_t>(at) < kCount ? names[static_cast<size_t>(at)] : unknown;
}

struct Rate {
  ibv_rate rate;
  int mbps;
  int multiple;  // of 2.5 Gb/s, as libibverbs has it; 0: none
};
constexpr Rate kRates[] = {
    {IBV_RATE_2_5_GBPS, 2500, 1},     {IBV_RATE_5_GBPS, 5000, 2},         {IBV_RATE_10_GBPS, 10000, 4},
    {IBV_RATE_14_GBPS, 14062, 0},     {IBV_RATE_20_GBPS, 20000, 8},       {IBV_RATE_25_GBPS, 25781, 0},
    {IBV_RATE_28_GBPS, 28125, 11},    {IBV_RATE_30_GBPS, 30000, 12},      {IBV_RATE_40_GBPS, 40000, 16},
    {IBV_RATE_50_GBPS, 53125, 20},    {IBV_RATE_56_GBPS, 56250, 0},       {IBV_RATE_60_GBPS, 60000, 24},
    {IBV_RATE_80_GBPS, 80000, 32},    {IBV_RATE_100_GBPS, 103125, 0},     {IBV_RATE_112_GBPS, 112500, 0},
    {IBV_RATE_120_GBPS, 120000, 48},  {IBV_RATE_168_GBPS, 168750, 0},     {IBV_RATE_200_GBPS, 206250, 0},
    {IBV_RATE_300_GBPS, 309375, 0},   {IBV_RATE_400_GBPS, 425000, 160},   {IBV_RATE_600_GBPS, 637500, 240},
    {IBV_RATE_800_GBPS, 850000, 320}, {IBV_RATE_1200_GBPS, 1275000, 480},
};

template <class Match>
const Rate* find_rate(Match match) noexcept {
  const Rate* found = std::find_if(std::begin(kRates), std::end(kRates), match);
  return found != std::end(kRates) ? found : nullptr;
}

}  // namespace

WEFT_VERBS_API const char* ibv_wc_status_str(ibv_wc_status status) {
  return weft::completion_status_text(static_cast<uint32_t>(status));
}

WEFT_VERBS_API const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array<const char*, 8> kNames{"unknown",           "InfiniBand channel adapter",
                                                     "InfiniBand switch", "InfiniBand router",
                                                     "iWARP NIC",         "usNIC",
                                                     "usNIC UDP",         "unspecified"};
  return name_at(kNames, static_cast<int>(type), "unknown");
}

WEFT_VERBS_API const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array<const char*, 6> kNames{
      "no state change (NOP)", "down", "init", "armed", "active", "active defer"};
  return name_at(kNames, static_cast<int>(state), "unknown");
}

WEFT_VERBS_API const char* ibv_event_type_str(ibv_event_type event) {
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
                                                      "P_Key table change",
                                                      "SM change",
                                                      "SRQ catastrophic error",
                                                      "SRQ limit reached",
                                                      "last WQE reached",
                                                      "client reregistration",
                                                      "GID table change",
                                                      "WQ fatal error"};
  return name_at(kNames, static_cast<int>(event), "unknown");
}

WEFT_VERBS_API int ibv_rate_to_mbps(ibv_rate rate) {
  const Rate* found = find_rate([=](const Rate& row) { return row.rate == rate; });
  return found != nullptr ? found->mbps : -1;
}

WEFT_VERBS_API ibv_rate mbps_to_ibv_rate(int mbps) {
  const Rate* found = find_rate([=](const Rate& row) { return row.mbps == mbps; });
  return found != nullptr ? found->rate : IBV_RATE_MAX;
}

WEFT_VERBS_API int ibv_rate_to_mult(ibv_rate rate) {
  const Rate* found = find_rate([=](const Rate& row) { return row.rate == rate && row.multiple != 0; });
  return found != nullptr ? found->multiple : -1;
}

WEFT_VERBS_API ibv_rate mult_to_ibv_rate(int multiple) {
  const Rate* found = find_rate([=](const Rate& row) { return row.multiple == multiple && multiple != 0; });
  return found != nullptr ? found->rate : IBV_RATE_MAX;
}
