#include "tools/capture/name_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::tools {
Result<NameWait> NameWait::start(control::ControlClient& client, const StateDir& dir,
                                 const CaptureWish& wish) {
  NameWait out(wish);
  for (const SpareRecord& spare : dir.load().spare) {
    Result<RunningCapture> capture =
        RunningCapture::start(client, dir, {.taker = spare.node, .ring_bytes = kCellRingBytes});
    if (!capture.ok()) return capture.error();
    out.captures_.push_back(std::move(capture).value());
  }
  if (out.captures_.empty())
    return Error{fmt::format("no switch of fabric '{}' has spare_ports that '{}' could join", dir.fabric(),
                             wish.target)};
  out.recent_.resize(out.captures_.size());
  return out;
}

Status NameWait::drain() {
  CapturedFrame cell;
  for (size_t i = 0; i < captures_.size(); ++i) {
    CaptureRing::ReadResult result = captures_[i].ring().read(cell);
    for (; result == CaptureRing::ReadResult::kFrame; result = captures_[i].ring().read(cell))
      recent_[i].add(std::move(cell));
    if (result == CaptureRing::ReadResult::kBroken) return Error{"the capture ring is damaged"};
  }
  return {};
}

Result<std::optional<Arrival>> NameWait::look(control::ControlClient& client, const StateDir& dir) {
  if (Status drained = drain(); !drained.ok()) return drained.error();
  const std::vector<ProgramNode> programs = running_programs(dir);
  const auto program = std::find_if(programs.begin(), programs.end(), [this](const ProgramNode& each) {
    return each.name == wish_.target && each.guid != 0;
  });
  if (program == programs.end()) return std::optional<Arrival>();
  Result<SpareView> view = look_at_spare_ports(client, dir, dir.load());
  if (!view.ok()) return view.error();
  for (const Guest& guest : view->guests) {
    if (guest.guid != program->guid) continue;
    const auto taker = std::find_if(captures_.begin(), captures_.end(), [&guest](const RunningCapture& each) {
      return each.taker() == guest.node;
    });
    if (taker == captures_.end()) continue;
    Arrival out{place_of_program(*program, guest, wish_), {}, static_cast<size_t>(taker - captures_.begin())};
    out.early = recent_[out.taker].take(out.place.first, Lid(guest.lid));
    return std::optional<Arrival>(std::move(out));
  }
  return std::optional<Arrival>();
}

}  // namespace weft::tools
