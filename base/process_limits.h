// base/process_limits.h -- checks for resources before they are used: libzmq aborts the process if it gets no
// descriptor or thread, and writing to a mapped file that has no disk block ends the process by SIGBUS.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace weft {

/// Raises the soft limit of descriptors to `count`, as far as the hard limit allows. Fails with a line that
/// names both numbers.
Status allow_descriptors(uint64_t count);
/// Fails unless `count` more descriptors can be opened now.
Status check_spare_descriptors(size_t count);
/// Fails unless `count` threads can be started now.
Status check_spare_threads(size_t count);
/// The error of a failed fork(), with the limit to raise.
Error no_process(const std::string& what, int error);
/// While it lives, a write of this thread beyond `ulimit -f` fails with EFBIG only. SIGXFSZ, which ends a
/// program that does not handle it, is blocked and discarded.
class QuietFileSize {
 public:
  QuietFileSize() noexcept;
  ~QuietFileSize();
  QuietFileSize(const QuietFileSize&) = delete;
  QuietFileSize& operator=(const QuietFileSize&) = delete;

 private:
  sigset_t before_{};
  bool waited_ = false;  // a SIGXFSZ of this thread or process was pending already and must stay
};

/// Gives the file its blocks, so that no write to its mapping can fail. `what` names it in the error.
Status allocate_file(int fd, size_t bytes, const std::string& what);

}  // namespace weft
