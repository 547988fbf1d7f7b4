#include "preload/engine.h"

#include <dlfcn.h>

#include <atomic>
#include <type_traits>

namespace weft::preload {
namespace {

template <class Function>
bool find(void* library, const char* name, Function& out) noexcept {
  out = reinterpret_cast<Function>(dlvsym(library, name, "WEFT_1"));
  return out != nullptr;
}

bool find_all(Engine& out) noexcept {
  void* library = dlopen("libibverbs.so.1", RTLD_LAZY);
  return library != nullptr && find(library, "weft_cm_open", out.cm_open) &&
         find(library, "weft_cm_write", out.cm_write) && find(library, "weft_cm_close", out.cm_close) &&
         find(library, "weft_cm_move", out.cm_move) &&
         find(library, "weft_cm_await_reader", out.cm_await_reader) &&
         find(library, "weft_system_root", out.system_root);
}

Engine found{};
std::atomic<bool> complete{false};
static_assert(std::is_trivially_destructible_v<Engine>);

}  // namespace

/// Concurrent callers get the same result.
const Engine* engine() noexcept {
  if (!complete.load(std::memory_order_acquire)) {
    Engine all{};
    if (!find_all(all)) return nullptr;
    found = all;
    complete.store(true, std::memory_order_release);
  }
  return &found;
}

}  // namespace weft::preload
