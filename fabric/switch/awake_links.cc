// How it works: an output with waiting flits stays awake, because no bell announces free room in a ring. A
// link with a connector of its own stays awake too.
#include "fabric/switch/awake_links.h"

#include <algorithm>
#include <bit>

namespace weft::fabric {
namespace {

constexpr Duration kRestInterval = 500us;  // between searches for links that may rest
constexpr Duration kRestAfter = 1ms;       // an idle link may rest after this time

}  // namespace

void AwakeLinks::add(Port& port) noexcept {
  port.link->set_bell(bells_, port.number);
  awake_.insert(port.number);
}

void AwakeLinks::wake_due() noexcept {
  if (bells_->any()) {
    const LinkBells::Bits rung = bells_->take();
    for (uint32_t word = 0; word < rung.size(); ++word) {
      for (uint64_t left = rung[word]; left != 0; left &= left - 1)
        need(ports_[static_cast<PortNumber>(word * 64 + static_cast<uint32_t>(std::countr_zero(left)))]);
    }
  }
  while (times_.earliest() <= ports_.now) wake(ports_[times_.first()]);
}

void AwakeLinks::wake(Port& port) noexcept {
  awake_.insert(port.number);
  times_.erase(port.number);
  if (port.rests) --resting_;
  port.rests = false;
  port.looked_at = false;
  port.link->finish_sleep();
  port.received_at = ports_.now;
}

/// While few links are awake, links that are up do not rest.
void AwakeLinks::rest_links() noexcept {
  next_rest_ = ports_.now + kRestInterval;
  const bool many = awake_.size() > always_;
  awake_.for_each([&](PortNumber number) {
    Port& port = ports_[number];
    const bool idle = ports_.now - std::max(port.received_at, port.progress_at) >= kRestAfter;
    if (may_rest(port) && (!port.up || (many && idle))) static_cast<void>(rest(port));
  });
}

bool AwakeLinks::may_rest(const Port& port) noexcept {
  return port.looked_at && (port.waiting_lanes | port.poison_lanes) == 0 && port.link->announces_all() &&
         port.up == (port.link->state() == LinkState::kUp);
}

/// False when the link has work after all.
bool AwakeLinks::rest(Port& port) noexcept {
  const bool quiet = port.link->prepare_sleep();
  const Instant due = quiet ? port.link->deadline() : Instant::min();
  if (due <= ports_.now) {
    port.link->finish_sleep();
    return false;
  }
  awake_.erase(port.number);
  if (due != kNever) times_.set(port.number, due);
  port.rests = port.up;
  if (port.up) ++resting_;
  return true;
}

void AwakeLinks::wait_fds(std::vector<pollfd>& out) const {
  awake_.for_each([&](PortNumber number) { ports_[number].link->wait_fds(out); });
}

bool AwakeLinks::prepare_sleep() noexcept {
  bool quiet = true;
  awake_.for_each([&](PortNumber number) {
    Port& port = ports_[number];
    if (!quiet) return;
    quiet = may_rest(port) ? rest(port) : port.link->prepare_sleep();
  });
  if (quiet && !bells_->any()) return true;
  finish_sleep();
  return false;
}

void AwakeLinks::finish_sleep() noexcept {
  awake_.for_each([&](PortNumber number) { ports_[number].link->finish_sleep(); });
}

Instant AwakeLinks::deadline() const noexcept {
  if (bells_->any()) return ports_.now;
  Instant due = times_.earliest();
  awake_.for_each([&](PortNumber number) { due = std::min(due, ports_[number].link->deadline()); });
  return due;
}

}  // namespace weft::fabric
