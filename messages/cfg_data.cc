#include "messages/cfg_data.h"

#include <cstring>

#include "base/endian.h"
#include "base/net/ethernet.h"
#include "messages/netdev.h"

namespace weft {
namespace {

static_assert(kNicFiltersBytesMax <= kCfgDataBytesMax);

constexpr uint32_t kMacBytes = 6;

}  // namespace

bool NicFilters::wants_group(const MacAddress& group) const noexcept {
  if (promiscuous || all_multicast || is_broadcast(group)) return true;
  for (uint32_t i = 0; i < multicast_count; ++i) {
    if (multicast[i] == group) return true;
  }
  return false;
}

uint32_t encode_statistics(const NicStatistics& in, std::span<std::byte> out) noexcept {
  const std::array<uint64_t, 6> values{in.frames_in, in.bytes_in, in.frames_out,
                                       in.bytes_out, in.drops,    in.errors};
  for (size_t i = 0; i < values.size(); ++i) store_be(out.data() + 8 * i, values[i]);
  return kNicStatisticsBytes;
}

bool decode_statistics(std::span<const std::byte> in, NicStatistics& out) noexcept {
  if (in.size() != kNicStatisticsBytes) return false;
  std::array<uint64_t, 6> values{};
  for (size_t i = 0; i < values.size(); ++i) values[i] = load_be<uint64_t>(in.data() + 8 * i);
  out = {.frames_in = values[0],
         .bytes_in = values[1],
         .frames_out = values[2],
         .bytes_out = values[3],
         .drops = values[4],
         .errors = values[5]};
  return true;
}

uint32_t encode_filters(const NicFilters& in, std::span<std::byte> out) noexcept {
  uint32_t flags = 0;
  if (in.promiscuous) flags |= kFilterPromiscuous;
  if (in.all_multicast) flags |= kFilterAllMulticast;
  store_be(out.data(), flags);
  store_be(out.data() + 4, in.multicast_count);
  for (uint32_t i = 0; i < in.multicast_count; ++i) {
    std::memcpy(out.data() + 8 + kMacBytes * i, in.multicast[i].data(), kMacBytes);
  }
  return 8 + kMacBytes * in.multicast_count;
}

bool decode_filters(std::span<const std::byte> in, NicFilters& out) noexcept {
  if (in.size() < 8) return false;
  const uint32_t flags = load_be<uint32_t>(in.data());
  const uint32_t count = load_be<uint32_t>(in.data() + 4);
  if ((flags & ~uint32_t{kFilterPromiscuous | kFilterAllMulticast}) != 0) return false;
  if (count > kMulticastFiltersMax || in.size() != 8 + size_t{kMacBytes} * count) return false;
  NicFilters filters;
  filters.promiscuous = (flags & kFilterPromiscuous) != 0;
  filters.all_multicast = (flags & kFilterAllMulticast) != 0;
  filters.multicast_count = count;
  for (uint32_t i = 0; i < count; ++i) {
    std::memcpy(filters.multicast[i].data(), in.data() + 8 + kMacBytes * i, kMacBytes);
    if (!is_group(filters.multicast[i])) return false;
  }
  out = filters;
  return true;
}

uint32_t encode_capabilities(const NicCapabilities& in, std::span<std::byte> out) noexcept {
  store_be(out.data(), static_cast<uint32_t>(in.offloads));
  store_be(out.data() + 4, in.mtu_bytes);
  store_be(out.data() + 8, in.frame_bytes_max);
  return kNicCapabilitiesBytes;
}

bool decode_capabilities(std::span<const std::byte> in, NicCapabilities& out) noexcept {
  if (in.size() != kNicCapabilitiesBytes) return false;
  const uint32_t offloads = load_be<uint32_t>(in.data());
  out = {.offloads = static_cast<Offload>(offloads) & kOffloadsAll,
         .mtu_bytes = load_be<uint32_t>(in.data() + 4),
         .frame_bytes_max = load_be<uint32_t>(in.data() + 8)};
  return true;
}

uint32_t encode_u32(uint32_t value, std::span<std::byte> out) noexcept {
  store_be(out.data(), value);
  return sizeof value;
}

bool decode_u32(std::span<const std::byte> in, uint32_t& out) noexcept {
  if (in.size() != sizeof out) return false;
  out = load_be<uint32_t>(in.data());
  return true;
}

uint32_t encode_mac(const MacAddress& mac, std::span<std::byte> out) noexcept {
  std::memcpy(out.data(), mac.data(), mac.size());
  return kMacBytes;
}

bool decode_mac(std::span<const std::byte> in, MacAddress& out) noexcept {
  if (in.size() != kMacBytes) return false;
  MacAddress mac;
  std::memcpy(mac.data(), in.data(), kMacBytes);
  if (!is_station(mac)) return false;
  out = mac;
  return true;
}

}  // namespace weft
