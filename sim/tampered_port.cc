#include "sim/tampered_port.h"

#include <algorithm>

namespace weft::sim {

std::span<const fabric::RxCell> TamperedPort::receive() noexcept {
  const std::span<const fabric::RxCell> fresh = inner_.receive();
  const uint32_t first = count_;
  for (const fabric::RxCell& cell : fresh.first(std::min<size_t>(fresh.size(), kCellsMax - first))) {
    std::vector<std::byte>& copy = copies_[count_];
    copy.assign(cell.bytes.begin(), cell.bytes.end());
    if (saboteur_.on_cell(node_, now_, copy)) cells_[count_++] = {copy, cell.vl};
  }
  if (count_ == 0 && !fresh.empty()) inner_.release();  // all were lost, so the caller will not release any
  return std::span(cells_).subspan(first, count_ - first);
}

}  // namespace weft::sim
