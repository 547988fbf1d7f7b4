// base/process_limits.h -- asks for what a library needs before it is called: libzmq ends the whole process
// when a descriptor or a thread is refused to it, and a file that cannot grow ends it by SIGBUS.
#pragma once

#include <signal.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/result.h"

namespace weft {

/// Makes room for `count` descriptors in all, raising our own limit up to what the user may have. Fails with
/// a line that names both numbers.
Status allow_descriptors(uint64_t count);
/// Fails unless `count` more descriptors can be opened now.
Status check_spare_descriptors(size_t count);
/// Fails unless `count` threads can be started now.
Status check_spare_threads(size_t count);
/// What fork() failed by, in words that say what to raise.
Error no_process(const std::string& what, int error);
/// While it lives, a file that would outgrow `ulimit -f` is refused to this thread by EFBIG alone: SIGXFSZ,
/// which ends a program that does not expect it, is held back and dropped.
class QuietFileSize {
 public:
  QuietFileSize() noexcept;
  ~QuietFileSize();
  QuietFileSize(const QuietFileSize&) = delete;
  QuietFileSize& operator=(const QuietFileSize&) = delete;

 private:
  sigset_t before_{};
  bool waited_ = false;  // one for this thread, or for the process, was pending already
};

/// Gives the file its blocks, so that no write to its mapping can fail. `what` names it in the error.
Status allocate_file(int fd, size_t bytes, const std::string& what);

}  // namespace weft
