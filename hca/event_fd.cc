#include "hca/event_fd.h"

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace weft::hca {

std::shared_ptr<EventFd> EventFd::create() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  return fd.valid() ? std::make_shared<EventFd>(GuardedFd(std::move(fd))) : nullptr;
}

void EventFd::add(uint64_t units) noexcept {
  // Never blocks: that would take a counter near 2^64. Uses eventfd_write() because the preloaded object may
  // redirect write() on a program's descriptors (preload/).
  if (fd_.can_wake()) static_cast<void>(eventfd_write(fd_.get(), units));
}

Answer EventFd::take() {
  uint64_t unit = 0;
  if (read(fd_.get(), &unit, sizeof unit) == sizeof unit) return Answer::kOk;
  return errno == EINTR ? Answer::kInterrupted : Answer::kAgain;
}

void EventFd::take_back() noexcept {
  uint64_t unit = 0;
  const iovec into{&unit, sizeof unit};
  if (fd_.is_ours()) static_cast<void>(preadv2(fd_.get(), &into, 1, -1, RWF_NOWAIT));
}

void Errands::add(EventSource& source, int64_t units) noexcept {
  source.owed += units;
  if (!std::exchange(source.listed, true)) source.next = std::exchange(owing_, &source);
}

void Errands::forget(const EventSource& source) noexcept {
  EventSource** at = &owing_;
  while (*at != nullptr && *at != &source) at = &(*at)->next;
  if (*at != nullptr) *at = source.next;
}

Errands::Bag Errands::take() noexcept {
  Bag bag;
  for (size_t i = 0; i < Bag::kMost && !wakes_.empty(); ++i) bag.bells[i] = wakes_.take();
  for (size_t i = 0; i < Bag::kMost && owing_ != nullptr; ++i) {
    EventSource& source = *std::exchange(owing_, owing_->next);
    bag.units[i] = {source.descriptor, std::exchange(source.owed, 0)};
    source.listed = false;
  }
  static_cast<Wants&>(bag) = std::exchange(static_cast<Wants&>(*this), Wants());
  return bag;
}

void Errands::Bag::ring() noexcept {
  for (const std::shared_ptr<fabric::PeerBell>& bell : bells) {
    if (bell != nullptr) bell->ring();
  }
  for (const Units& due : units) {
    if (due.count > 0) due.descriptor->add(static_cast<uint64_t>(due.count));
    for (int64_t left = due.count; left < 0; ++left) due.descriptor->take_back();
  }
}

}  // namespace weft::hca
