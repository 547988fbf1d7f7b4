#include "fabric/switch/port_timers.h"

namespace weft::fabric {

void PortTimers::set(PortNumber port, Instant due) noexcept {
  due_[port] = due;
  place(count_++, port);
  rise(count_ - 1);
}

void PortTimers::erase(PortNumber port) noexcept {
  if (place_[port] == kNowhere) return;
  const size_t at = place_[port] - 1U;
  place_[port] = kNowhere;
  const PortNumber last = heap_[--count_];
  if (last == port) return;
  place(at, last);
  rise(at);
  sink(place_[last] - 1U);
}

void PortTimers::rise(size_t at) noexcept {
  const PortNumber port = heap_[at];
  for (; at != 0 && due_[port] < due_[heap_[(at - 1) / 2]]; at = (at - 1) / 2) place(at, heap_[(at - 1) / 2]);
  place(at, port);
}

void PortTimers::sink(size_t at) noexcept {
  const PortNumber port = heap_[at];
  for (size_t child = 2 * at + 1; child < count_; child = 2 * at + 1) {
    if (child + 1 < count_ && due_[heap_[child + 1]] < due_[heap_[child]]) ++child;
    if (due_[heap_[child]] >= due_[port]) break;
    place(at, heap_[child]);
    at = child;
  }
  place(at, port);
}

}  // namespace weft::fabric
