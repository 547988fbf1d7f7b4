// fabric/window/file_device.h -- a memory window in one file that both sides map: tmpfs, persistent memory,
// or the BAR of QEMU's ivshmem in two guests. Has no memory space: what does not lie in the file goes
// through the owner. docs/window.md.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/rng.h"
#include "base/unique_fd.h"
#include "fabric/window/device.h"

namespace weft::fabric {

/// A sleeper looks for notifications this often: nothing wakes it.
inline constexpr Duration kFileLookEvery = 1ms;

struct FileDeviceConfig {
  std::string path;
  uint32_t side = 0;      // 0 or 1; the peer has the other
  size_t file_bytes = 0;  // of a file that is made or empty; 0: it exists and has its size
  uint32_t requests = 256;
  /// True: a file lock per side says whether the peer lives, so a stopped peer stays up. False, for memory
  /// that is shared with another kernel: the peer is gone when it has not polled for `silence`.
  bool locks = true;
  Duration silence = 10s;
};

/// Bytes of window memory per side of a file of `file_bytes`; 0 when it is too small.
[[nodiscard]] size_t window_bytes_of_file(size_t file_bytes) noexcept;

/// Opens a regular file that only this user may use; with `may_make` a missing one is made.
Result<UniqueFd> open_window_file(const std::string& path, bool may_make);

/// Threads: see DmaDevice. Set-up refuses, with the reason, a file that others may change, that belongs to
/// another user, is too small, or whose side is taken.
Result<std::unique_ptr<DmaDevice>> make_file_device(const FileDeviceConfig& config, RandomSource& random);

}  // namespace weft::fabric
