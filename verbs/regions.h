// verbs/regions.h -- registration, shared by all calls that register memory.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "verbs/use_count.h"

namespace weft::verbs {

struct RegionRequest {
  ibv_pd* pd = nullptr;
  void* addr = nullptr;
  size_t length = 0;
  uint64_t iova = 0;  // address of the first byte in work requests and for peers
  unsigned access = 0;
  const char* call = "";
  bool unreachable = false;  // no access is allowed, whatever `access` says
  UseCount memory{};         // of the device memory that it is in; null: none
  UseCount dma{};            // of its DMA handle; null: none
};

/// Null, with errno set, when the registration is refused.
ibv_mr* register_memory(const RegionRequest& request);

}  // namespace weft::verbs
