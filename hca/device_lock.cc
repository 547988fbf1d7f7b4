// How it works: a thread that finds the lock taken spins about as long as a turn takes. Then it yields its
// core, because the owner may have lost its own, and at last it sleeps 50 us at a time. A thread that comes
// while another one waits lets that one go first.
#include "hca/device_lock.h"

#include <sched.h>
#include <time.h>

#include <ctime>

#include "base/cancel_shield.h"
#include "base/check.h"

namespace weft::hca {
namespace {

constexpr uint32_t kSpins = 128;  // about the length of one turn
constexpr uint32_t kYields = 16;
constexpr long kSleepNs = 50'000;  // NOLINT(google-runtime-int): timespec

void pause_core() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void DeviceLock::give_way() const noexcept {
  for (uint32_t spin = 0; spin < kSpins; ++spin) {
    if (waiters_.load(std::memory_order_relaxed) == 0) return;
    pause_core();
  }
  sched_yield();
}

void DeviceLock::lock_patiently() noexcept {
  do {
    WEFT_CHECK(!is_mine(),
               "a signal handler has called a function of an RDMA device, and has interrupted another one of "
               "this thread there: a handler may poll, post and ask for notifications, and nothing else");
  } while (!take(kRoundsOfASecond));
}

bool DeviceLock::wait(uint32_t rounds) noexcept {
  const CancelShield shield;
  waiters_.fetch_add(1, std::memory_order_relaxed);
  bool taken = false;
  for (uint32_t round = 0; round < rounds; ++round) {
    taken = holder_.load(std::memory_order_relaxed) == nullptr && try_lock();
    if (taken) break;
    if (round < kSpins) {
      pause_core();
    } else if (round < kSpins + kYields) {
      sched_yield();
    } else {
      const timespec nap{0, kSleepNs};
      nanosleep(&nap, nullptr);
    }
  }
  waiters_.fetch_sub(1, std::memory_order_relaxed);
  return taken;
}

}  // namespace weft::hca
