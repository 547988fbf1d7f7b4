// tests/support/system_call_watch.h -- shows a process each of its own system calls before it is made, as the
// kernel meets it: whoever made it, libc or not.
#pragma once

namespace weft::test {

/// From now on `look` is called with the number of every system call of this thread and its six arguments,
/// and then the call is made. Not to be taken back, and not for calls that make threads or processes: for a
/// child of a test. False where it cannot be (another architecture, no filters).
using LookAtCall = void (*)(long number, const long long* arguments);  // NOLINT(google-runtime-int)
[[nodiscard]] bool watch_system_calls(LookAtCall look);

}  // namespace weft::test
