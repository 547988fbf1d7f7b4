#include "tools/capture/recent_cells.h"

#include <utility>

#include "messages/cell.h"
#include "messages/multicast.h"

namespace weft::tools {
namespace {

/// True when the cell was sent by or to this LID. The port may have belonged to another program before.
bool concerns(const CapturedFrame& cell, Lid lid) noexcept {
  if (cell.data.size() < kCellHeaderBytes) return false;
  const CellHead head(cell.data.data());
  if (cell.direction == FrameDirection::kOut) return head.slid() == lid;
  return head.dlid() == lid || is_multicast(head.dlid());
}

}  // namespace

void RecentCells::add(CapturedFrame cell) {
  bytes_ += cell.data.size();
  const uint64_t now_ns = cell.time_ns;
  cells_.push_back(std::move(cell));
  while (!cells_.empty() && (bytes_ > kKeptBytesMax || cells_.front().time_ns + kKeptNs < now_ns)) {
    bytes_ -= cells_.front().data.size();
    cells_.pop_front();
  }
}

std::vector<CapturedFrame> RecentCells::take(uint32_t port, Lid lid) {
  std::vector<CapturedFrame> out;
  for (CapturedFrame& cell : cells_)
    if (cell.port == port && concerns(cell, lid)) out.push_back(std::move(cell));
  cells_.clear();
  bytes_ = 0;
  return out;
}

}  // namespace weft::tools
