#include "adapter/verbs.h"

#include <array>
#include <cstring>

namespace weft::adapter {
namespace {

constexpr std::array<std::string_view, 7> kStateNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

}  // namespace

AhAttr ah_attr_from(const WorkCompletion& completion, uint8_t port,
                    std::span<const std::byte> receive) noexcept {
  AhAttr attr{.dlid = completion.src_lid, .sl = completion.sl, .port = port};
  if ((completion.flags & kWcGrh) == 0 || receive.size() < kGrhBytes) return attr;
  GlobalHeaderWire header;
  std::memcpy(&header, receive.data(), sizeof header);
  const uint32_t first = header.version_class_flow.get();
  attr.is_global = true;
  attr.route = {.dgid = header.source,
                .flow_label = first & 0xF'FFFF,
                .traffic_class = static_cast<uint8_t>(first >> 20)};
  return attr;
}

std::string_view to_string(QpState state) noexcept {
  const auto index = static_cast<size_t>(state);
  return index < kStateNames.size() ? kStateNames[index] : "?";
}

}  // namespace weft::adapter
