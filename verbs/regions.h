// verbs/regions.h -- registration as all calls have it that register.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace weft::verbs {

struct RegionRequest {
  ibv_pd* pd = nullptr;
  void* addr = nullptr;
  size_t length = 0;
  uint64_t iova = 0;  // first address as work requests and peers name it
  unsigned access = 0;
  const char* call = "";
  bool unreachable = false;  // whatever `access` says
};

/// Null with errno when it is refused.
ibv_mr* register_memory(const RegionRequest& request);

}  // namespace weft::verbs
