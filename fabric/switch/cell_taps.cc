// How it works: as for the interfaces of a host, the direction is the neighbour's: "out" is a cell that the
// neighbour sends. The bytes are those that were admitted: the checked copy of the header, then the flit's
// bytes behind it.
#include "fabric/switch/cell_taps.h"

#include <fmt/format.h>

#include <array>

namespace weft::fabric {
namespace {

using HeaderBytes = std::array<std::byte, kCellHeaderBytes>;

HeaderBytes bytes_of(const CellHead& head) noexcept {
  HeaderBytes out;
  head.store(out.data());
  return out;
}

uint32_t place_of(PortNumber port, VirtualLane vl) noexcept {
  return uint32_t{port} * kVlCount + vl.value();
}

}  // namespace

CellTaps::CellTaps(uint32_t ports) {
  for (uint32_t port = 1; port <= ports; ++port) points_.emplace_back(std::to_string(port), &running_);
}

std::vector<CapturePoint*> CellTaps::points() {
  std::vector<CapturePoint*> out;
  for (CapturePoint& point : points_) out.push_back(&point);
  return out;
}

CapturePoint* CellTaps::wanted(PortNumber port) noexcept {
  if (port == 0 || port > points_.size()) return nullptr;  // the management port or no port
  CapturePoint& point = points_[port - 1U];
  return point.captured() ? &point : nullptr;
}

void CellTaps::write(PortNumber port, FrameDirection direction, std::span<const std::byte> head,
                     std::span<const std::byte> rest, std::string_view note) noexcept {
  if (CapturePoint* point = wanted(port); point != nullptr) point->copy(direction, head, rest, note);
}

bool CellTaps::begin(PortNumber in, PortNumber out, const RxFlit& flit, const CellHead& head,
                     std::string_view note) {
  if (wanted(in) == nullptr && wanted(out) == nullptr) return false;
  const bool whole = flit.tail || out == kPortNone;  // no further flits of a lost cell are recorded
  if (whole) {
    sent(in, flit, head, note);
    received(out, flit, head, note);
    return false;
  }
  Growing& cell = growing_[place_of(in, flit.vl)];
  const HeaderBytes header = bytes_of(head);
  const std::span<const std::byte> rest = flit.payload.subspan(kCellHeaderBytes);
  cell.out = out;
  cell.note = note;
  cell.bytes.assign(header.begin(), header.end());
  cell.bytes.insert(cell.bytes.end(), rest.begin(), rest.end());
  return true;
}

void CellTaps::add(PortNumber in, const RxFlit& flit) {
  const auto found = growing_.find(place_of(in, flit.vl));
  if (found == growing_.end()) return;
  Growing& cell = found->second;
  cell.bytes.insert(cell.bytes.end(), flit.payload.begin(), flit.payload.end());
  if (!flit.tail) return;
  if (!flit.poison) {  // poison: the sender has withdrawn the cell
    write(in, FrameDirection::kOut, cell.bytes, {}, cell.note);
    write(cell.out, FrameDirection::kIn, cell.bytes, {}, cell.note);
  }
  growing_.erase(found);
}

void CellTaps::refused(PortNumber in, const RxFlit& flit, std::string_view reason) noexcept {
  write(in, FrameDirection::kOut, flit.payload, {}, fmt::format("refused here: {}", reason));
}

void CellTaps::sent(PortNumber in, const RxFlit& flit, const CellHead& head, std::string_view note) noexcept {
  write(in, FrameDirection::kOut, bytes_of(head), flit.payload.subspan(kCellHeaderBytes), note);
}

void CellTaps::received(PortNumber out, const RxFlit& flit, const CellHead& head,
                        std::string_view note) noexcept {
  write(out, FrameDirection::kIn, bytes_of(head), flit.payload.subspan(kCellHeaderBytes), note);
}

}  // namespace weft::fabric
