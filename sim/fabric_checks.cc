#include "sim/fabric_checks.h"

#include <fmt/format.h>

namespace weft::sim {

std::string check_credits(fabric::MemoryCable& cable, uint32_t lanes) {
  if (cable.end(0).state() != fabric::LinkState::kUp || cable.end(1).state() != fabric::LinkState::kUp)
    return {};
  for (uint32_t from = 0; from < 2; ++from) {
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      const fabric::LaneCredit& sender = cable.end(from).lane(VirtualLane(static_cast<uint8_t>(lane)));
      const fabric::LaneCredit& receiver = cable.end(1 - from).lane(VirtualLane(static_cast<uint8_t>(lane)));
      const uint64_t granted = receiver.arrived() - receiver.held();
      const uint64_t returned = sender.available() + sender.sent() - sender.capacity();
      const bool holds = receiver.arrived() <= sender.sent() && granted <= receiver.arrived() &&
                         returned <= granted && sender.available() <= sender.capacity();
      if (holds) continue;
      return fmt::format("from end {} lane {}: sent {} arrived {} granted {} returned {} free {}", from, lane,
                         sender.sent(), receiver.arrived(), granted, returned, sender.available());
    }
  }
  return {};
}

std::string check_credits_at_rest(fabric::MemoryCable& cable, uint32_t lanes) {
  if (cable.end(0).state() != fabric::LinkState::kUp || cable.end(1).state() != fabric::LinkState::kUp) {
    return fmt::format("{} and {} at the end", to_string(cable.end(0).state()),
                       to_string(cable.end(1).state()));
  }
  for (uint32_t from = 0; from < 2; ++from) {
    for (uint32_t lane = 0; lane < lanes; ++lane) {
      const fabric::LaneCredit& sender = cable.end(from).lane(VirtualLane(static_cast<uint8_t>(lane)));
      if (sender.available() == sender.capacity()) continue;
      return fmt::format("from end {} lane {}: {} of {} credits are missing at rest", from, lane,
                         sender.capacity() - sender.available(), sender.capacity());
    }
  }
  return {};
}

SwitchCells count_switch_cells(const fabric::Switch& core) {
  SwitchCells cells;
  for (uint32_t number = 1; number <= core.ports(); ++number) {
    const auto& counters = core.port(static_cast<fabric::PortNumber>(number)).counters;
    cells.in += counters.get(fabric::SwitchPortCounter::kCellsIn) +
                counters.get(fabric::SwitchPortCounter::kCellsCopied);
    cells.out_or_dropped += counters.get(fabric::SwitchPortCounter::kCellsOut);
    for (auto i = static_cast<uint32_t>(fabric::kFirstDrop);
         i < static_cast<uint32_t>(fabric::SwitchPortCounter::kCount); ++i) {
      cells.out_or_dropped += counters.get(static_cast<fabric::SwitchPortCounter>(i));
    }
  }
  cells.held = core.cells_held();
  return cells;
}

std::string check_switch_cells(const SwitchCells& cells) {
  if (cells.in == cells.out_or_dropped + cells.held) return {};
  return fmt::format("{} cells in, {} out or dropped, {} held", cells.in, cells.out_or_dropped, cells.held);
}

}  // namespace weft::sim
