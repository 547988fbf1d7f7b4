// base/standard_descriptors.h -- descriptors 0 to 2 of a program that was started without them (`<&- >&-`,
// some supervisors). The kernel gives the lowest free number to the next file, so that a socket of ours would
// get what a log line or a daemon's dup2() means for standard output.
#pragma once

namespace weft {

/// Opens /dev/null for each of the descriptors 0 to 2 that is closed, against its direction: reading from 0
/// and writing to 1 and 2 fail with EBADF as before. They close on exec, so a program that we become finds
/// what our starter left. Call first in main().
void occupy_standard_descriptors() noexcept;
/// False if standard output was closed when this program started.
[[nodiscard]] bool has_standard_output() noexcept;

}  // namespace weft
