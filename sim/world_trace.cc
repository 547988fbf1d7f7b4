// Output of a world for debugging: each flit, each cell, and the state at the end.
#include <fmt/format.h>

#include "base/endian.h"
#include "messages/cell.h"
#include "messages/flit.h"
#include "messages/opcode.h"
#include "sim/world.h"

namespace weft::sim {

void World::on_flit(uint32_t link_and_end, std::span<const std::byte> flit) noexcept {
  ++flits_;
  trace_.event(now_, TraceKind::kFlit, link_and_end, load_be<uint64_t>(flit.data()),
               load_be<uint32_t>(flit.data() + 12));
  if (trace_.prints_flits() && flit.size() > kFlitHeaderBytes + kCellHeaderBytes) {
    describe_cell(link_and_end, flit.subspan(kFlitHeaderBytes));
  }
}

void World::tamper(uint32_t link_and_end, std::span<std::byte> flit) noexcept {
  if (saboteur_ != nullptr) saboteur_->on_flit(link_and_end >> 1, link_and_end & 1, flit);
}

/// Prints one line for a cell that fills its flit.
void World::describe_cell(uint32_t link_and_end, std::span<const std::byte> cell) {
  CellView view;
  if (decode_cell(cell, CrcCheck::kAlreadyVerified, view) != CellError::kNone) return;
  const OpcodeInfo* info = find_opcode(static_cast<uint8_t>(view.opcode));
  std::string line =
      fmt::format("link {}.{} {} -> {} {} qp {:06x} psn {:06x} cell {} flags {:02x} {} bytes",
                  link_and_end >> 1, link_and_end & 1, view.slid.value(), view.dlid.value(), info->name,
                  view.dest_qpn.value(), view.psn.value(), view.cell_number, view.flags, view.payload.size());
  if ((info->properties & kOpAcknowledge) != 0) {
    line += fmt::format(" ack psn {:06x} cell {} code {} msn {}", view.ack.psn.value(), view.ack.cell_number,
                        static_cast<int>(view.ack.code), view.ack.messages_completed);
  }
  trace_.note(now_, line);
}

void World::describe_end() {
  for (uint32_t node = 0; node < turns_.nodes(); ++node) {
    trace_.note(now_, fmt::format("node {} was busy in {} of {} turns, late in {}", node,
                                  turns_.busy_turns(node), turn_count_, turns_.late_turns(node)));
  }
  for (uint32_t link = 0; link < fabric_.links(); ++link) {
    trace_.note(now_, fmt::format("link {} is {} and {}", link,
                                  weft::fabric::to_string(fabric_.cable(link).end(0).state()),
                                  weft::fabric::to_string(fabric_.cable(link).end(1).state())));
  }
  trace_.note(now_, scenario_->report());
}

}  // namespace weft::sim
