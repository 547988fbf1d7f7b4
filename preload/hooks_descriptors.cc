// The calls of libc that a program makes with descriptors. Each looks once whether the descriptor is ours,
// and otherwise calls the next function of its name.
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

/// A command for a channel; what is no channel any more gets its bytes as any other descriptor.
ssize_t write_command(int descriptor, int channel, const void* data, size_t bytes) noexcept {
  struct stat now {};
  if (next_fstat.get()(descriptor, &now) != 0 || !is_event_descriptor(now)) {
    forget(descriptor);
    return next_write.get()(descriptor, data, bytes);
  }
  return engine()->cm_write(channel, data, bytes);
}

/// `next` with the arguments of fcntl(), of which a copy may come.
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
  if ((static_cast<unsigned>(flags) & CLOSE_RANGE_CLOEXEC) == 0) release_range(first, last);
  return next_close_range.get()(first, last, flags);
}

WEFT_HOOK void closefrom(int lowest) noexcept {
  release_range(static_cast<unsigned>(lowest < 0 ? 0 : lowest), ~0U);
  next_closefrom.get()(lowest);
}

WEFT_HOOK int close(int descriptor) {
  return release(descriptor) ? 0 : next_close.get()(descriptor);
}

WEFT_HOOK int dup(int descriptor) noexcept {
  const int copy = next_dup.get()(descriptor);
  copied(descriptor, copy);
  return copy;
}

WEFT_HOOK int dup2(int from, int to) noexcept {
  if (from != to) static_cast<void>(release(to));
  const int copy = next_dup2.get()(from, to);
  copied(from, copy);
  return copy;
}

WEFT_HOOK int dup3(int from, int to, int flags) noexcept {
  if (from != to) static_cast<void>(release(to));
  const int copy = next_dup3.get()(from, to, flags);
  copied(from, copy);
  return copy;
}

/// Devices of the kernel must not be found by asking it.
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
