// verbs/newer_abi.h -- structs of newer libibverbs headers, for programs that were built with them. The names
// are ours, so that the library builds with old headers and with new ones.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "verbs/use_count.h"

/// A C function whose name in the library differs from its name here, because newer headers declare that name
/// with types of their own.
#define WEFT_VERBS_NAMED(name) __asm__(name) __attribute__((visibility("default")))

namespace weft::verbs {

/// ibv_dmah: hints for transactions on a PCI bus. Here there is no bus: the hints are checked and have no
/// effect.
struct DmaHandle {
  ibv_context* context = nullptr;
  UseCount users = std::make_shared<UseCount::element_type>(0);
};

/// ibv_mr_init_attr of libibverbs 1.15; `buf` came with 1.17.
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
