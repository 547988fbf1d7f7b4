#include "messages/opcode.h"

namespace weft {
namespace {

constexpr std::array<uint16_t, 256> make_properties() {
  std::array<uint16_t, 256> table{};
  for (const OpcodeInfo& info : kOpcodes) table[static_cast<uint8_t>(info.opcode)] = info.properties;
  return table;
}
constexpr std::array<uint16_t, 256> kProperties = make_properties();

}  // namespace

uint16_t opcode_properties(uint8_t wire) noexcept {
  return kProperties[wire];
}

}  // namespace weft
