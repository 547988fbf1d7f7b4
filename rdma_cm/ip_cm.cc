#include "rdma_cm/ip_cm.h"

#include <algorithm>

#include "base/endian.h"

namespace weft::rdma_cm {

void encode_ip_cm(const IpCmHeader& header, std::span<std::byte, kIpCmBytes> out) noexcept {
  out[0] = std::byte{0};
  out[1] = std::byte{static_cast<uint8_t>(header.family << 4)};
  store_be(&out[2], header.source_port);
  std::copy(header.source.begin(), header.source.end(), &out[4]);
  std::copy(header.destination.begin(), header.destination.end(), &out[20]);
}

bool decode_ip_cm(std::span<const std::byte, kIpCmBytes> in, IpCmHeader& out) noexcept {
  const uint8_t family = std::to_integer<uint8_t>(in[1]) >> 4;
  if (in[0] != std::byte{0} || (family != 4 && family != 6)) return false;
  out.family = family;
  out.source_port = load_be<uint16_t>(&in[2]);
  std::copy_n(&in[4], out.source.size(), out.source.begin());
  std::copy_n(&in[20], out.destination.size(), out.destination.begin());
  return true;
}

}  // namespace weft::rdma_cm
