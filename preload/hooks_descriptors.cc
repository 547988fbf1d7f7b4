// The calls of libc that a program makes with descriptors. Each looks once whether the descriptor is ours,
// and otherwise calls the next function of its name.
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>

#include "preload/descriptors.h"
#include "preload/engine.h"
#include "preload/next.h"

#define WEFT_HOOK extern "C" __attribute__((visibility("default")))

namespace weft::preload {
namespace {

constinit Next<ssize_t (*)(int, const void*, size_t)> next_write("write");
constinit Next<int (*)(int)> next_close("close");
constinit Next<int (*)(int)> next_dup("dup");
constinit Next<int (*)(int, int)> next_dup2("dup2");
constinit Next<int (*)(int, int, int)> next_dup3("dup3");
constinit Next<int (*)(int, int, int)> next_socket("socket");
constinit Next<int (*)(int, struct stat*)> next_fstat("fstat");
constinit Next<int (*)(int, struct stat64*)> next_fstat64("fstat64");

/// A channel is a character device to whoever asks.
template <class Stat>
void pretend(Stat& out) noexcept {
  constexpr unsigned kMiscMajor = 10;
  constexpr unsigned kMinor = 58;
  out.st_mode = S_IFCHR | 0666;
  out.st_rdev = makedev(kMiscMajor, kMinor);
}

}  // namespace
}  // namespace weft::preload

using namespace weft::preload;  // NOLINT(google-build-using-namespace): the hooks below are all of this file

WEFT_HOOK ssize_t write(int descriptor, const void* data, size_t bytes) {
  const int channel = channel_of(descriptor);
  if (channel < 0) [[likely]]
    return next_write.get()(descriptor, data, bytes);
  return engine()->cm_write(channel, data, bytes);
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
  if (done == 0 && channel_of(descriptor) >= 0) pretend(*out);
  return done;
}

WEFT_HOOK int fstat64(int descriptor, struct stat64* out) noexcept {
  const int done = next_fstat64.get()(descriptor, out);
  if (done == 0 && channel_of(descriptor) >= 0) pretend(*out);
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
  if (done == 0 && channel_of(descriptor) >= 0) pretend(*out);
  return done;
}

WEFT_HOOK int __fxstat64(int version, int descriptor, struct stat64* out) noexcept {
  const int done = next_fxstat64.get()(version, descriptor, out);
  if (done == 0 && channel_of(descriptor) >= 0) pretend(*out);
  return done;
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
