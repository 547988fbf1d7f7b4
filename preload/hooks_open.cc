// Hooks for libc calls that open paths. Paths of RDMA are redirected; all others go unchanged to the next
// function of the name.
#include <fcntl.h>
#include <sys/types.h>

#include <cstdarg>

#include "preload/descriptors.h"
#include "preload/next.h"
#include "preload/paths.h"

namespace weft::preload {
namespace {

// ---- opening --------------------

using Open = int (*)(const char*, int, ...);
using OpenAt = int (*)(int, const char*, int, ...);
using Open2 = int (*)(const char*, int);
using OpenAt2 = int (*)(int, const char*, int);
constinit Next<Open> next_open("open");
constinit Next<Open> next_open64("open64");
constinit Next<OpenAt> next_openat("openat");
constinit Next<OpenAt> next_openat64("openat64");
constinit Next<Open2> next_open_2("__open_2");
constinit Next<Open2> next_open64_2("__open64_2");
constinit Next<OpenAt2> next_openat_2("__openat_2");
constinit Next<OpenAt2> next_openat64_2("__openat64_2");

/// `call(path)` for the stand-in of `path`, or a new channel.
template <class Call>
int open_or_channel(const char* path, int flags, Call call) {
  if (kind_of(path) == PathKind::kManager) [[unlikely]]
    return open_channel(flags);
  PathRoom room;
  return call(stand_in(path, room));
}

mode_t mode_of(int flags, va_list arguments) noexcept {
  const bool makes = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;
  // The callers have begun the list, which the analyzer misses.
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized)
  return makes ? static_cast<mode_t>(va_arg(arguments, int)) : 0;
}

}  // namespace
}  // namespace weft::preload

using namespace weft::preload;  // NOLINT(google-build-using-namespace): the hooks below are all of this file

WEFT_HOOK int open(const char* path, int flags, ...) {  // NOLINT(cert-dcl50-cpp): libc's
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_channel(path, flags, [&](const char* at) { return next_open.get()(at, flags, mode); });
}

WEFT_HOOK int open64(const char* path, int flags, ...) {  // NOLINT(cert-dcl50-cpp): libc's
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_channel(path, flags, [&](const char* at) { return next_open64.get()(at, flags, mode); });
}

WEFT_HOOK int openat(int dir, const char* path, int flags, ...) {  // NOLINT(cert-dcl50-cpp): libc's
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_channel(path, flags,
                         [&](const char* at) { return next_openat.get()(dir, at, flags, mode); });
}

WEFT_HOOK int openat64(int dir, const char* path, int flags, ...) {  // NOLINT(cert-dcl50-cpp): libc's
  va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = mode_of(flags, arguments);
  va_end(arguments);
  return open_or_channel(path, flags,
                         [&](const char* at) { return next_openat64.get()(dir, at, flags, mode); });
}

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of libc
WEFT_HOOK int __open_2(const char* path, int flags) {
  return open_or_channel(path, flags, [&](const char* at) { return next_open_2.get()(at, flags); });
}

WEFT_HOOK int __open64_2(const char* path, int flags) {
  return open_or_channel(path, flags, [&](const char* at) { return next_open64_2.get()(at, flags); });
}

WEFT_HOOK int __openat_2(int dir, const char* path, int flags) {
  return open_or_channel(path, flags, [&](const char* at) { return next_openat_2.get()(dir, at, flags); });
}

WEFT_HOOK int __openat64_2(int dir, const char* path, int flags) {
  return open_or_channel(path, flags, [&](const char* at) { return next_openat64_2.get()(dir, at, flags); });
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
