// How it works. Host to LAN: the front frame of each session, round robin; its head is copied and checked,
// then it goes to every destination that does not have it yet (UnitClient::delivered). While one is busy, the
// frame stays at the front and keeps its element, which is the back-pressure on its host. LAN to host: the
// next frame is read straight into the send memory of the session that got the last one; if it is for another
// host, it is copied. A frame that a host cannot take now, or not whole, waits in `held_`; until it is
// delivered no further LAN frame is read. If it came from a host, the LAN is read before the next one of a
// host may wait there.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/net/ethernet.h"
#include "iou_driver/iou_netdev.h"

namespace weft::iou {
namespace {

constexpr uint32_t bit_of(uint32_t index) noexcept {
  return 1U << index;
}

}  // namespace

// ---- host -> LAN and other hosts

int IouNetdev::take_from_hosts() noexcept {
  serve_held();
  if (nic_writer_.holding() && !nic_writer_.flush()) counters_.add(UnitCounter::kNicBusyTurns);
  int taken = 0;
  for (uint32_t i = 0; i < client_count_; ++i) taken += take_from((first_ + i) % client_count_);
  if (client_count_ != 0) first_ = (first_ + 1) % client_count_;
  return taken;
}

int IouNetdev::take_from(uint32_t index) noexcept {
  session::NetdevSession& session = *clients_[index].session;
  int taken = 0;
  for (uint32_t i = 0; i < kUnitWritesPerPoll; ++i) {
    const session::InboundFrame* frame = session.front_frame();
    if (frame == nullptr || !forward_front(index, *frame)) break;
    clients_[index].delivered = 0;
    session.release_frame();
    ++taken;
  }
  return taken;
}

void IouNetdev::refuse(UnitClient& from, UnitCounter reason) noexcept {
  counters_.add(reason);
  ++from.statistics.errors;
}

/// Copies the head of the frame and checks only the copy, never the element.
bool IouNetdev::head_allowed(UnitClient& from, const session::InboundFrame& frame) noexcept {
  if (!copy_head(frame.bytes, head_) ||
      check_vnet(head_.vnet, head_.frame(), head_.frame_bytes) != VnetError::kNone) {
    refuse(from, UnitCounter::kBadVnetHeader);
    return false;
  }
  if (is_group(head_.source)) {
    refuse(from, UnitCounter::kGroupSource);
    return false;
  }
  if (head_.source != from.mac && !policy_.bridge) {
    refuse(from, UnitCounter::kForeignSource);
    return false;
  }
  const uint32_t longest = kEthernetHeaderBytes + kVlanTagBytes + from.mtu_in_force(nic_.info().mtu_bytes);
  if (cut_of(head_.vnet, head_.frame(), head_.frame_bytes).frame_bytes > longest) {
    refuse(from, UnitCounter::kTooLongForMtu);
    return false;
  }
  return true;
}

uint32_t IouNetdev::targets_for(const MacAddress& destination, uint32_t except) const noexcept {
  const bool group = is_group(destination);
  uint32_t targets = 0;
  bool known = except < client_count_ && clients_[except].mac == destination;
  for (uint32_t i = 0; i < client_count_; ++i) {
    const UnitClient& client = clients_[i];
    if (i == except || !client.active) continue;
    known = known || client.mac == destination;
    if (client.wants(destination, group)) targets |= bit_of(i);
  }
  return known ? targets : targets | kToNic;
}

/// True if the frame has reached all its destinations, or was refused.
bool IouNetdev::forward_front(uint32_t index, const session::InboundFrame& frame) noexcept {
  UnitClient& from = clients_[index];
  if (!head_allowed(from, frame)) return true;
  const std::span<const std::byte> rest = frame.bytes.subspan(head_.size);
  uint32_t left = targets_for(head_.destination, index) & ~from.delivered;
  if ((left & kToNic) != 0) {
    if (!write_to_nic(from, rest)) return false;
    from.delivered |= kToNic;
    left &= ~kToNic;
  }
  while (left != 0) {
    const auto to = static_cast<uint32_t>(std::countr_zero(left));
    const Handed handed = hand_over(to, head_, rest);
    if (handed == Handed::kDone) {
      counters_.add(UnitCounter::kFramesBetweenHosts);
    } else if (handed == Handed::kMemoryBusy || may_wait_for(clients_[to])) {
      counters_.add(UnitCounter::kHostBusyTurns);
      return false;
    } else {
      counters_.add(UnitCounter::kSlowHostDrops);
      ++clients_[to].statistics.drops;
    }
    from.delivered |= bit_of(to);
    left &= ~bit_of(to);
  }
  return true;
}

/// True while a frame waits for a host that has no room; asked in each turn. False once the budget of its
/// endnode is used up, and until the host takes a frame again.
bool IouNetdev::may_wait_for(UnitClient& to) noexcept {
  if (to.slow) return false;
  // While the unit's own port is down no host counts as slow, so that a dead switch loses no frames.
  if (!to.session->port_up()) {
    to.budget->wait_unblamed(now_);
    return true;
  }
  to.slow = !to.budget->wait(now_, last_turn_);
  return !to.slow;
}

void IouNetdev::count_taken(UnitClient& to, uint32_t frame_bytes) noexcept {
  to.slow = false;
  to.budget->add_taken(frame_bytes);
  ++to.statistics.frames_in;
  to.statistics.bytes_in += frame_bytes;
  counters_.add(UnitCounter::kFramesToHosts);
}

/// False when the NIC is busy.
bool IouNetdev::write_to_nic(UnitClient& from, std::span<const std::byte> rest) noexcept {
  switch (nic_writer_.write(head_, rest)) {
    case FrameIo::kOk:
      counters_.add(UnitCounter::kFramesToLan);
      ++from.statistics.frames_out;
      from.statistics.bytes_out += head_.frame_bytes;
      return true;
    case FrameIo::kBusy:
      counters_.add(UnitCounter::kNicBusyTurns);
      return false;
    case FrameIo::kDown:
      counters_.add(UnitCounter::kNicDown);
      ++from.statistics.drops;
      return true;
    case FrameIo::kDropped:
    case FrameIo::kEmpty:
      counters_.add(UnitCounter::kNicRefused);
      ++from.statistics.drops;
      return true;
  }
  return true;
}

// ---- LAN -> hosts

bool IouNetdev::fits_as_it_is(const UnitClient& to, const FrameHead& head) const noexcept {
  if (head.frame_bytes + kVnetBytes > to.session->frame_bytes_max()) return false;
  if (head.vnet.flags == 0 && head.vnet.gso_type == 0) return true;
  FrameLayout layout;
  (void)parse_frame(head.frame(), layout);
  return is_subset(offloads_needed(head.vnet, layout.ip_version), to.features);
}

/// Gives one host its copy. A frame that the host cannot take whole is cut in held_.
IouNetdev::Handed IouNetdev::hand_over(uint32_t index, const FrameHead& head,
                                       std::span<const std::byte> rest) noexcept {
  UnitClient& to = clients_[index];
  const uint32_t bytes = kVnetBytes + head.frame_bytes;
  if (!fits_as_it_is(to, head)) {
    if (bytes > held_.bytes.size()) {
      counters_.add(UnitCounter::kTooLongForHost);
      ++to.statistics.drops;
      return Handed::kDone;
    }
    if (!is_waited_for(to, bytes)) return Handed::kBusy;
    if (held_.length != 0 || lan_turn_) return Handed::kMemoryBusy;
    std::memcpy(held_.bytes.data(), head.bytes.data(), head.size);
    if (!rest.empty()) std::memcpy(held_.bytes.data() + head.size, rest.data(), rest.size());
    hold(std::span(held_.bytes).first(bytes), bit_of(index));
    serve_held();
    lan_turn_ = held_.length != 0;
    return Handed::kDone;
  }
  const std::span<std::byte> into = to.session->claim_frame(bytes);
  if (into.size() < bytes) return Handed::kBusy;
  std::memcpy(into.data(), head.bytes.data(), head.size);
  if (!rest.empty()) std::memcpy(into.data() + head.size, rest.data(), rest.size());
  to.session->submit_frame(bytes);
  count_taken(to, head.frame_bytes);
  return Handed::kDone;
}

int IouNetdev::take_from_nic() noexcept {
  int taken = 0;
  nic_held_ = false;
  for (uint32_t i = 0; i < kUnitReadsPerPoll; ++i) {
    if (!read_one()) break;
    ++taken;
  }
  if (taken != 0 || !nic_held_) lan_turn_ = false;
  return taken;
}

/// Memory for the next LAN frame: the claim of the host that got the last one, or of another host. Private
/// memory if none of several hosts has room, if the claim is too small for the LAN's largest frame, or if no
/// host is there and the LAN has yet to take frames of one that has gone: a model takes none while its
/// answers are not read. Empty if the LAN has to wait. `client` is kUnitClientsMax for private memory.
std::span<std::byte> IouNetdev::claim_landing(uint32_t& client) noexcept {
  client = kUnitClientsMax;
  if (held_.length != 0) return {};
  const uint32_t nic_bytes = kVnetBytes + nic_.info().frame_bytes_max;
  uint32_t active = 0;
  for (uint32_t i = 0; i < client_count_; ++i) {
    const uint32_t index = (landing_ + i) % client_count_;
    if (!clients_[index].active) continue;
    ++active;
    session::NetdevSession& session = *clients_[index].session;
    const std::span<std::byte> into = session.claim_frame(std::min(session.frame_bytes_max(), nic_bytes));
    if (into.empty()) continue;
    if (into.size() < nic_bytes) {
      session.abandon_frame();
      return held_.bytes;
    }
    client = index;
    return into;
  }
  const bool read = active > 1 || (active == 0 && holds_frames());
  return read ? std::span<std::byte>(held_.bytes) : std::span<std::byte>();
}

/// Reads one LAN frame and gives it to its hosts; false when there is none or it has to wait.
bool IouNetdev::read_one() noexcept {
  uint32_t landing = kUnitClientsMax;
  const std::span<std::byte> into = claim_landing(landing);
  if (into.empty()) {
    nic_held_ = true;
    return false;
  }
  const FrameReadResult got = nic_.read_frame(into);
  if (got.io != FrameIo::kOk) {
    if (landing < kUnitClientsMax) clients_[landing].session->abandon_frame();
    if (got.io == FrameIo::kDropped) counters_.add(UnitCounter::kLanReadRefused);
    return got.io == FrameIo::kDropped;
  }
  uint32_t targets = 0;
  if (!copy_head(into.first(got.bytes), head_) ||
      check_vnet(head_.vnet, head_.frame(), head_.frame_bytes) != VnetError::kNone) {
    counters_.add(UnitCounter::kLanBadVnetHeader);
  } else {
    targets = targets_for(head_.destination, kUnitClientsMax) & ~kToNic;
    if (targets == 0) counters_.add(UnitCounter::kNoHostFor);
  }
  route(into.first(got.bytes), landing, targets);
  return true;
}

/// Gives a LAN frame to the clients of `targets`. It lies in the claim of client `landing`, or in held_.
void IouNetdev::route(std::span<const std::byte> bytes, uint32_t landing, uint32_t targets) noexcept {
  const bool claimed = landing < kUnitClientsMax;
  const bool stays = claimed && (targets & bit_of(landing)) != 0 && fits_as_it_is(clients_[landing], head_);
  const uint32_t elsewhere = stays ? targets & ~bit_of(landing) : targets;
  if (claimed && !stays) {
    // Copied first, because the claim is released before the frame is handed over: its host may need it as
    // well.
    if (elsewhere != 0) std::memcpy(held_.bytes.data(), bytes.data(), bytes.size());
    clients_[landing].session->abandon_frame();
    bytes = std::span<const std::byte>(held_.bytes).first(bytes.size());
  }
  if (elsewhere != 0) {
    const uint32_t waiting = hand_to_all(bytes, elsewhere);
    if (waiting != 0) hold(bytes, waiting);
    landing_ = static_cast<uint32_t>(std::countr_zero(elsewhere));
  }
  if (!stays) return;
  UnitClient& to = clients_[landing];
  to.session->submit_frame(static_cast<uint32_t>(bytes.size()));
  count_taken(to, head_.frame_bytes);
  landing_ = landing;
}

/// Copies a LAN frame to the hosts of `targets` that take it whole and now; returns the other hosts to wait
/// for.
uint32_t IouNetdev::hand_to_all(std::span<const std::byte> bytes, uint32_t targets) noexcept {
  uint32_t waiting = 0;
  const std::span<const std::byte> rest = bytes.subspan(head_.size);
  while (targets != 0) {
    const auto index = static_cast<uint32_t>(std::countr_zero(targets));
    targets &= targets - 1;
    UnitClient& to = clients_[index];
    const bool whole = fits_as_it_is(to, head_);
    if (whole && hand_over(index, head_, rest) == Handed::kDone) continue;
    if (whole ? !to.slow : is_waited_for(to, static_cast<uint32_t>(bytes.size()))) {
      waiting |= bit_of(index);
    } else {
      counters_.add(UnitCounter::kSlowHostDrops);
      ++to.statistics.drops;
    }
  }
  return waiting;
}

/// False for a slow host until it has room again. `bytes` is the length of the frame if it has to be cut for
/// the host.
bool IouNetdev::is_waited_for(UnitClient& to, uint32_t bytes) noexcept {
  if (!to.slow) return true;
  const uint32_t room = std::min(to.session->frame_bytes_max(), bytes);
  if (to.session->claim_frame(room).size() < room) return false;
  to.session->abandon_frame();
  return true;
}

/// Keeps a frame for the hosts of `targets`. `bytes` may be held_.bytes itself; held_ must be free.
void IouNetdev::hold(std::span<const std::byte> bytes, uint32_t targets) noexcept {
  if (bytes.data() != held_.bytes.data()) std::memcpy(held_.bytes.data(), bytes.data(), bytes.size());
  held_.length = static_cast<uint32_t>(bytes.size());
  held_.targets = targets;
  held_.cutting_for = 0;
  (void)copy_head(std::span<const std::byte>(held_.bytes).first(held_.length), held_.head);
}

void IouNetdev::serve_held() noexcept {
  if (held_.length == 0) return;
  if (held_.cutting_for != 0) {
    const uint32_t cut = held_.cutting_for;
    if (serve_held_to(static_cast<uint32_t>(std::countr_zero(cut))) == Handed::kDone) held_.targets &= ~cut;
  }
  for (uint32_t left = held_.targets; left != 0 && held_.cutting_for == 0; left &= left - 1) {
    const auto index = static_cast<uint32_t>(std::countr_zero(left));
    if (serve_held_to(index) == Handed::kDone) held_.targets &= ~bit_of(index);
  }
  if (held_.targets != 0) counters_.add(UnitCounter::kHostBusyTurns);
  drop_for_slow_hosts();
  if (held_.targets == 0) held_.length = 0;
}

void IouNetdev::drop_for_slow_hosts() noexcept {
  if (held_.targets == 0 || active_count() < 2) return;
  for (uint32_t left = held_.targets; left != 0; left &= left - 1) {
    const auto index = static_cast<uint32_t>(std::countr_zero(left));
    UnitClient& client = clients_[index];
    if (may_wait_for(client)) continue;
    held_.targets &= ~bit_of(index);
    if (held_.cutting_for == bit_of(index)) {
      segmenter_.cancel();
      held_.cutting_for = 0;
    }
    ++client.statistics.drops;
    counters_.add(UnitCounter::kSlowHostDrops);
  }
}

IouNetdev::Handed IouNetdev::serve_held_to(uint32_t index) noexcept {
  UnitClient& to = clients_[index];
  const uint32_t bit = bit_of(index);
  if (!to.active) {
    if (held_.cutting_for == bit) {
      segmenter_.cancel();
      held_.cutting_for = 0;
    }
    return Handed::kDone;
  }
  if (held_.cutting_for == bit) return cut_held_for(to);
  const std::span<const std::byte> bytes = std::span<const std::byte>(held_.bytes).first(held_.length);
  const std::span<const std::byte> rest = bytes.subspan(held_.head.size);
  if (fits_as_it_is(to, held_.head)) return hand_over(index, held_.head, rest);
  if (!segmenter_.start(held_.head.span(), rest)) {
    counters_.add(UnitCounter::kUncuttableForHost);
    return Handed::kDone;
  }
  counters_.add(UnitCounter::kSegmentedForHost);
  held_.cutting_for = bit;
  return cut_held_for(to);
}

IouNetdev::Handed IouNetdev::cut_held_for(UnitClient& to) noexcept {
  while (segmenter_.active()) {
    const uint32_t bytes = segmenter_.next_bytes();
    if (bytes > to.session->frame_bytes_max()) {
      counters_.add(UnitCounter::kTooLongForHost);
      ++to.statistics.drops;
      segmenter_.cancel();
      break;
    }
    const std::span<std::byte> into = to.session->claim_frame(bytes);
    if (into.size() < bytes) return Handed::kBusy;
    to.session->submit_frame(segmenter_.next(into));
    count_taken(to, bytes - kVnetBytes);
  }
  held_.cutting_for = 0;
  return Handed::kDone;
}

}  // namespace weft::iou
