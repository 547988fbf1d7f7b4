// preload/paths.h -- which paths are RDMA's, and their stand-ins.
#pragma once

#include <cstddef>

namespace weft::preload {

enum class PathKind : unsigned char {
  kOther,    // none of ours
  kManager,  // /dev/infiniband/rdma_cm
  kDevice,   // another node of /dev/infiniband
  kDevices,  // /dev/infiniband itself
  kSystem,   // below /sys/class/infiniband, infiniband_verbs, misc/rdma_cm
};
/// Fast for paths of other kinds. `path` may be null.
[[nodiscard]] PathKind kind_of(const char* path) noexcept;

/// Where a path leads: itself, or into `room`, which stays the caller's.
struct PathRoom {
  char text[512];
};
[[nodiscard]] const char* stand_in(const char* path, PathRoom& room) noexcept;

}  // namespace weft::preload
