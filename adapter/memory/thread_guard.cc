// The handler recognises a fault of a copy by the stack pointer. The functions called between enter_copy()
// and leave_copy() use few bytes below the stack pointer that enter_copy() notes. The frame of a signal
// handler that interrupts them begins a kilobyte below it or on another stack.
#include "adapter/memory/thread_guard.h"

namespace weft::adapter {
namespace {

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_DEEP_COPIES 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_DEEP_COPIES 1
#endif
#endif
#if defined(WEFT_DEEP_COPIES)
constexpr uintptr_t kCopyStackBytes = 64 * 1024;  // the sanitizer's memcpy() keeps traces on the stack
#else
constexpr uintptr_t kCopyStackBytes = 768;  // less than a signal frame: 128 bytes of red zone, 968 of state
#endif

}  // namespace

thread_local constinit ThreadGuard thread_guard [[gnu::tls_model("initial-exec")]];

bool leave_guarded_copy(const void* stack) noexcept {
  const auto entered = reinterpret_cast<uintptr_t>(thread_guard.stack);
  if (entered == 0 || entered - reinterpret_cast<uintptr_t>(stack) >= kCopyStackBytes) return false;
  thread_guard.stack = nullptr;
  return true;
}

}  // namespace weft::adapter
