#include "adapter/port.h"

#include <algorithm>
#include <utility>

#include "adapter/limits.h"

namespace weft::adapter {

ServiceLanes lanes_in_turn(uint32_t lanes) noexcept {
  const uint32_t used = std::clamp(lanes, 1U, uint32_t{kVlCount} - 1);
  ServiceLanes table{};
  for (uint32_t sl = 0; sl < table.size(); ++sl) table[sl] = VirtualLane(static_cast<uint8_t>(sl % used));
  return table;
}

AdapterPort::News AdapterPort::came_up() noexcept {
  const fabric::CellPortInfo before = std::exchange(info_, link_->info());
  const uint64_t link = std::exchange(incarnation_, link_->incarnation());
  const News news{.lid = known_ && before.lid != info_.lid,
                  .gid = known_ && (before.guid != info_.guid || before.subnet != info_.subnet),
                  .link = known_ && link != incarnation_};
  lmc_ = 0;
  lid_mask_ = 0xFFFF;
  lanes_ = lanes_in_turn(info_.lanes);
  state_ = PortState::kActive;
  linked_ = known_ = true;
  expired_ = waits_again_ = false;
  ++generation_;
  return news;
}

void AdapterPort::went_down(Instant now) noexcept {
  linked_ = expired_ = waits_again_ = false;
  state_ = PortState::kDown;
  down_since_ = now;
}

Instant AdapterPort::expires_at() const noexcept {
  if (linked_ || !known_) return kNever;
  if (waits_again_) return Instant::min();
  return expired_ ? kNever : down_since_ + kPortDownLimit;
}

void AdapterPort::set_lid(Lid base, uint8_t lmc) noexcept {
  info_.lid = base;
  lmc_ = lmc;
  lid_mask_ = static_cast<uint16_t>(0xFFFFU << lmc);
  ++generation_;
}

void AdapterPort::set_state(PortState state) noexcept {
  state_ = state;
  if (state == PortState::kActive) ++generation_;
}

void AdapterPort::set_lanes(const ServiceLanes& lanes) noexcept {
  lanes_ = lanes;
  ++generation_;
}

void AdapterPort::set_pkeys(std::span<const uint16_t> pkeys) noexcept {
  pkeys_ = {};
  std::copy(pkeys.begin(), pkeys.end(), pkeys_.begin());
}

}  // namespace weft::adapter
