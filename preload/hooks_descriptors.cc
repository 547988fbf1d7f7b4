// Hooks for libc calls with descriptors. Each checks whether the descriptor is ours, and otherwise calls the
// next function of its name.
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "preload/descriptors.h"
#include "preload/engine.h"
#include "preload/next.h"
#include "preload/pretend.h"

namespace weft::preload {
namespace {

constinit Next<ssize_t (*)(int, const void*, size_t)> next_write("write");
constinit Next<int (*)(int)> next_close("close");
constinit Next<int (*)(int)> next_dup("dup");
constinit Next<int (*)(int, int)> next_dup2("dup2");
constinit Next<int (*)(int, int, int)> next_dup3("dup3");
constinit Next<int (*)(int, int, ...)> next_fcntl("fcntl");
constinit Next<int (*)(int, int, ...)> next_fcntl64("fcntl64");
constinit Next<int (*)(unsigned, unsigned, int)> next_close_range("close_range");
constinit Next<void (*)(int)> next_closefrom("closefrom");
constinit Next<int (*)(int, int, int)> next_socket("socket");
constinit Next<int (*)(int, struct stat*)> next_fstat("fstat");
constinit Next<int (*)(int, struct stat64*)> next_fstat64("fstat64");

/// Hands a command to a channel; a descriptor that no longer is a channel gets the bytes by libc's write().
ssize_t write_command(int descriptor, int channel, const void* data, size_t bytes) {
  struct stat now {};
  if (next_fstat.get()(descriptor, &now) != 0 || !is_event_descriptor(now)) {
    forget(descriptor);
    return next_write.get()(descriptor, data, bytes);
  }
  return engine()->cm_write(channel, data, bytes);
}

/// Call before dup2() and dup3() replace `to`. A failing call leaves `to` as it is, so the causes of failure
/// are checked first. A kept descriptor is forgotten before it is replaced, so that the engine sends no
/// wake-up to the program's file.
void replace(int from, int to, int flags) noexcept {
  if (from == to || !is_known(to) || (flags & ~O_CLOEXEC) != 0) return;
  if (next_fcntl.get()(from, F_GETFD) < 0) return;
  if (channel_of(to) < 0) {
    forget(to);
  } else {
    static_cast<void>(release(to));
  }
}

/// Closes all descriptors from `first` to `last` except the engine's.
int close_but_kept(unsigned first, unsigned last) noexcept {
  int done = 0;
  for (unsigned kept = next_kept(first, last); kept < kDescriptors && done == 0;
       kept = next_kept(first, last)) {
    if (kept > first) done = next_close_range.get()(first, kept - 1, 0);
    first = kept + 1;
  }
  return done == 0 && first <= last ? next_close_range.get()(first, last, 0) : done;
}

/// Calls `next` with the arguments of fcntl(), and records the copy it may make.
template <class Fcntl>
int control(Fcntl next, int descriptor, int command, void* argument) noexcept {
  const int done = next(descriptor, command, argument);
  if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) copied(descriptor, done);
  return done;
}

}  // namespace
}  // namespace weft::preload

using namespace weft::preload;  // NOLINT(google-build-using-namespace): the hooks below are all of this file

WEFT_HOOK ssize_t write(int descriptor, const void* data, size_t bytes) {
  const int channel = channel_of(descriptor);
  if (channel < 0) [[likely]]
    return next_write.get()(descriptor, data, bytes);
  return write_command(descriptor, channel, data, bytes);
}

WEFT_HOOK int fcntl(int descriptor, int command, ...) {  // NOLINT(cert-dcl50-cpp): libc's
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(next_fcntl.get(), descriptor, command, argument);
}

WEFT_HOOK int fcntl64(int descriptor, int command, ...) {  // NOLINT(cert-dcl50-cpp): libc's
  va_list arguments;
  va_start(arguments, command);
  void* argument = va_arg(arguments, void*);
  va_end(arguments);
  return control(next_fcntl64.get(), descriptor, command, argument);
}

WEFT_HOOK int close_range(unsigned first, unsigned last, int flags) noexcept {
  if (flags != 0) {  // the call only sets close-on-exec, or works on a copy of the table
    if ((static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) == 0) release_range(first, last);
    return next_close_range.get()(first, last, flags);
  }
  release_range(first, last);
  return close_but_kept(first, last);
}

WEFT_HOOK void closefrom(int lowest) noexcept {
  const auto first = static_cast<unsigned>(lowest < 0 ? 0 : lowest);
  release_range(first, ~0U);
  if (next_kept(first, ~0U) == kDescriptors || close_but_kept(first, ~0U) != 0) next_closefrom.get()(lowest);
}

WEFT_HOOK int close(int descriptor) {
  if (is_kept(descriptor)) [[unlikely]] {
    errno = EBADF;  // the program has opened none of this number
    return -1;
  }
  return release(descriptor) ? 0 : next_close.get()(descriptor);
}

WEFT_HOOK int dup(int descriptor) noexcept {
  const int copy = next_dup.get()(descriptor);
  copied(descriptor, copy);
  return copy;
}

WEFT_HOOK int dup2(int from, int to) noexcept {
  replace(from, to, 0);
  const int copy = next_dup2.get()(from, to);
  copied(from, copy);
  return copy;
}

WEFT_HOOK int dup3(int from, int to, int flags) noexcept {
  replace(from, to, flags);
  const int copy = next_dup3.get()(from, to, flags);
  copied(from, copy);
  return copy;
}

/// Refuses sockets through which a program could find the kernel's own RDMA devices.
WEFT_HOOK int socket(int domain, int type, int protocol) noexcept {
  if (domain != AF_NETLINK || protocol != NETLINK_RDMA) return next_socket.get()(domain, type, protocol);
  errno = EPROTONOSUPPORT;
  return -1;
}

WEFT_HOOK int fstat(int descriptor, struct stat* out) noexcept {
  const int done = next_fstat.get()(descriptor, out);
  if (done == 0) pretend(descriptor, *out);
  return done;
}

WEFT_HOOK int fstat64(int descriptor, struct stat64* out) noexcept {
  const int done = next_fstat64.get()(descriptor, out);
  if (done == 0) pretend(descriptor, *out);
  return done;
}

// Programs built against a libc before 2.33 have these instead.
namespace {
constinit Next<int (*)(int, int, struct stat*)> next_fxstat("__fxstat");
constinit Next<int (*)(int, int, struct stat64*)> next_fxstat64("__fxstat64");
}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of libc
WEFT_HOOK int __fxstat(int version, int descriptor, struct stat* out) noexcept {
  const int done = next_fxstat.get()(version, descriptor, out);
  if (done == 0) pretend(descriptor, *out);
  return done;
}

WEFT_HOOK int __fxstat64(int version, int descriptor, struct stat64* out) noexcept {
  const int done = next_fxstat64.get()(version, descriptor, out);
  if (done == 0) pretend(descriptor, *out);
  return done;
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
