#include "sim/verbs/cell_text.h"

#include <fmt/format.h>

#include "messages/cell.h"
#include "messages/opcode.h"

namespace weft::sim::verbs {

std::string text_of_cell(std::span<const std::byte> cell) {
  CellView view;
  if (decode_cell(cell, CrcCheck::kAlreadyVerified, view) != CellError::kNone) return {};
  const OpcodeInfo* info = find_opcode(static_cast<uint8_t>(view.opcode));
  std::string line =
      fmt::format("{} -> {} {} qp {:06x} -> {:06x} psn {:06x} cell {} flags {:02x} {} bytes",
                  view.slid.value(), view.dlid.value(), info->name, view.src_qpn.value(),
                  view.dest_qpn.value(), view.psn.value(), view.cell_number, view.flags, view.payload.size());
  if ((info->properties & kOpAcknowledge) != 0)
    line += fmt::format(" ack psn {:06x} cell {} code {} msn {}", view.ack.psn.value(), view.ack.cell_number,
                        static_cast<int>(view.ack.code), view.ack.messages_completed);
  return line;
}

}  // namespace weft::sim::verbs
