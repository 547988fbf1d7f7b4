// preload/next.h -- the function of the same name that the program would have called without us.
#pragma once

#include <dlfcn.h>

#include <atomic>

/// Before each function that stands in for one of libc.
#define WEFT_HOOK extern "C" __attribute__((visibility("default")))

namespace weft::preload {

/// Any thread; concurrent callers get the same result.
template <class Function>
class Next {
 public:
  explicit constexpr Next(const char* name) noexcept : name_(name) {}
  /// Null when libc has no such function.
  [[nodiscard]] Function get() noexcept {
    Function known = found_.load(std::memory_order_relaxed);
    if (known != nullptr) [[likely]]
      return known;
    known = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name_));
    found_.store(known, std::memory_order_relaxed);
    return known;
  }

 private:
  const char* name_;
  std::atomic<Function> found_{nullptr};
};

}  // namespace weft::preload
