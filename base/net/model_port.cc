#include "base/net/model_port.h"

#include <utility>

#include "base/net/ethernet.h"

namespace weft {

ModelPort::ModelPort(std::string kind, const MacAddress& mac, const MtuRange& mtu, uint32_t frame_bytes_max)
    : info_{.kind = std::move(kind),
            .name = {},
            .mac = mac,
            .mtu_bytes = mtu.most,
            .frame_bytes_max = frame_bytes_max,
            .offloads = Offload::kNone},
      mtu_(mtu) {}

Status ModelPort::set_offloads(Offload wanted) {
  if (wanted != Offload::kNone) return Error{info_.kind + ": has no offloads"};
  return {};
}

Status ModelPort::set_mac(const MacAddress& mac) {
  if (!is_station(mac)) return Error{info_.kind + ": " + to_string(mac) + " cannot be a station's address"};
  info_.mac = mac;
  return {};
}

Status ModelPort::set_mtu(uint32_t mtu_bytes) {
  if (mtu_bytes < mtu_.least || mtu_bytes > mtu_.most) {
    return Error{info_.kind + ": MTU " + std::to_string(mtu_bytes) + " is not in " +
                 std::to_string(mtu_.least) + ".." + std::to_string(mtu_.most)};
  }
  info_.mtu_bytes = mtu_bytes;
  return {};
}

}  // namespace weft
