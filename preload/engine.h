// preload/engine.h -- functions of our libibverbs.so.1, the engine. They are looked up when the program first
// uses something of RDMA.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace weft::preload {

struct Engine {
  int (*cm_open)();
  ssize_t (*cm_write)(int descriptor, const void* data, size_t bytes);
  void (*cm_await_reader)(int descriptor);
  int (*cm_close)(int descriptor);
  int (*cm_move)(int descriptor, int copy);
  int (*system_root)(char* out, size_t bytes);
};
/// Null when the library cannot be found or is not ours.
[[nodiscard]] const Engine* engine() noexcept;

}  // namespace weft::preload
