// verbs/newer_abi.h -- structs of libibverbs' newer headers, for calls that programs built with them make.
// The names are ours, so that the library builds with old headers and new ones.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

/// A C function that has another name in the library than here: newer headers declare it with their types.
#define WEFT_VERBS_NAMED(name) __asm__(name) __attribute__((visibility("default")))

namespace weft::verbs {

/// ibv_dmah: hints about transactions on a bus, of which there is none here. They are checked and kept.
struct DmaHandle {
  ibv_context* context = nullptr;
  std::atomic<uint32_t> users{0};
};

/// ibv_mr_init_attr, since version 1.15 of the library; `buf` since 1.17.
struct MrInit {
  size_t length;
  int access;
  uint64_t comp_mask;
  uint64_t iova;
  void* addr;
  int fd;
  uint64_t fd_offset;
  DmaHandle* dmah;
  void* buf;
};
inline constexpr uint64_t kMrIova = 1;
inline constexpr uint64_t kMrAddr = 2;
inline constexpr uint64_t kMrFd = 4;
inline constexpr uint64_t kMrFdOffset = 8;
inline constexpr uint64_t kMrDmaHandle = 16;
inline constexpr uint64_t kMrBuffer = 32;
static_assert(offsetof(MrInit, comp_mask) == 16 && offsetof(MrInit, fd) == 40 && sizeof(MrInit) == 72);

/// ibv_dmah_init_attr
struct DmaHandleInit {
  uint32_t comp_mask;
  uint32_t cpu_id;
  uint8_t processing_hint;
  uint8_t memory_type;
};
inline constexpr uint32_t kDmaCpu = 1;
inline constexpr uint32_t kDmaHint = 2;
inline constexpr uint32_t kDmaMemoryType = 4;

}  // namespace weft::verbs
