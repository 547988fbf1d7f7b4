#include "base/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace weft {

void occupy_standard_descriptors() noexcept {
  for (int number = STDIN_FILENO; number <= STDERR_FILENO; ++number) {
    if (fcntl(number, F_GETFD) >= 0) continue;
    const int opened = open("/dev/null", (number == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    if (opened > number) close(opened);  // another thread was faster: the number is taken
  }
}

bool has_standard_output() noexcept {
  const int flags = fcntl(STDOUT_FILENO, F_GETFL);
  return flags >= 0 && (flags & O_ACCMODE) != O_RDONLY;
}

}  // namespace weft
