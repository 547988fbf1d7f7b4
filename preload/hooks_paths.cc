// Hooks for libc calls that query or list paths. Paths of RDMA are redirected; all others go unchanged to the
// next function of the name.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "preload/next.h"
#include "preload/paths.h"
#include "preload/pretend.h"

namespace weft::preload {
namespace {

/// `call(path)` for the stand-in of `path`.
template <class Call>
auto elsewhere(const char* path, Call call) {
  PathRoom room;
  return call(stand_in(path, room));
}

/// As elsewhere(), for calls that ask about the descriptor itself when the path is empty.
template <class Stat, class Call>
int elsewhere_or_here(int dir, const char* path, int flags, Stat* out, Call call) {
  const int done = elsewhere(path, call);
  if (done == 0 && (flags & AT_EMPTY_PATH) != 0 && path != nullptr && path[0] == '\0') pretend(dir, *out);
  return done;
}

using Filter = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);
using Filter64 = int (*)(const dirent64*);
using Order64 = int (*)(const dirent64**, const dirent64**);

constinit Next<int (*)(const char*, struct stat*)> next_stat("stat");
constinit Next<int (*)(const char*, struct stat64*)> next_stat64("stat64");
constinit Next<int (*)(const char*, struct stat*)> next_lstat("lstat");
constinit Next<int (*)(const char*, struct stat64*)> next_lstat64("lstat64");
constinit Next<int (*)(int, const char*, struct stat*, int)> next_fstatat("fstatat");
constinit Next<int (*)(int, const char*, struct stat64*, int)> next_fstatat64("fstatat64");
constinit Next<int (*)(int, const char*, int, unsigned, struct statx*)> next_statx("statx");
constinit Next<int (*)(int, const char*, struct stat*)> next_xstat("__xstat");
constinit Next<int (*)(int, const char*, struct stat64*)> next_xstat64("__xstat64");
constinit Next<int (*)(int, const char*, struct stat*)> next_lxstat("__lxstat");
constinit Next<int (*)(int, const char*, struct stat64*)> next_lxstat64("__lxstat64");
constinit Next<int (*)(int, int, const char*, struct stat*, int)> next_fxstatat("__fxstatat");
constinit Next<int (*)(int, int, const char*, struct stat64*, int)> next_fxstatat64("__fxstatat64");
constinit Next<int (*)(const char*, int)> next_access("access");
constinit Next<int (*)(int, const char*, int, int)> next_faccessat("faccessat");
constinit Next<int (*)(const char*, int)> next_euidaccess("euidaccess");
constinit Next<int (*)(const char*, int)> next_eaccess("eaccess");
constinit Next<int (*)(const char*)> next_chdir("chdir");
constinit Next<FILE* (*)(const char*, const char*)> next_fopen("fopen");
constinit Next<FILE* (*)(const char*, const char*)> next_fopen64("fopen64");
constinit Next<FILE* (*)(const char*, const char*, FILE*)> next_freopen("freopen");
constinit Next<FILE* (*)(const char*, const char*, FILE*)> next_freopen64("freopen64");
constinit Next<DIR* (*)(const char*)> next_opendir("opendir");
constinit Next<int (*)(const char*, dirent***, Filter, Order)> next_scandir("scandir");
constinit Next<int (*)(const char*, dirent64***, Filter64, Order64)> next_scandir64("scandir64");
constinit Next<ssize_t (*)(const char*, char*, size_t)> next_readlink("readlink");
constinit Next<ssize_t (*)(int, const char*, char*, size_t)> next_readlinkat("readlinkat");
constinit Next<ssize_t (*)(const char*, char*, size_t, size_t)> next_readlink_chk("__readlink_chk");
constinit Next<char* (*)(const char*, char*)> next_realpath("realpath");
constinit Next<char* (*)(const char*)> next_canonicalize_file_name("canonicalize_file_name");
constinit Next<char* (*)(const char*, char*, size_t)> next_realpath_chk("__realpath_chk");

}  // namespace
}  // namespace weft::preload

using namespace weft::preload;  // NOLINT(google-build-using-namespace): the hooks below are all of this file

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of libc
WEFT_HOOK int stat(const char* path, struct stat* out) noexcept {
  return elsewhere(path, [&](const char* at) { return next_stat.get()(at, out); });
}

WEFT_HOOK int stat64(const char* path, struct stat64* out) noexcept {
  return elsewhere(path, [&](const char* at) { return next_stat64.get()(at, out); });
}

WEFT_HOOK int lstat(const char* path, struct stat* out) noexcept {
  return elsewhere(path, [&](const char* at) { return next_lstat.get()(at, out); });
}

WEFT_HOOK int lstat64(const char* path, struct stat64* out) noexcept {
  return elsewhere(path, [&](const char* at) { return next_lstat64.get()(at, out); });
}

WEFT_HOOK int fstatat(int dir, const char* path, struct stat* out, int flags) noexcept {
  return elsewhere_or_here(dir, path, flags, out,
                           [&](const char* at) { return next_fstatat.get()(dir, at, out, flags); });
}

WEFT_HOOK int fstatat64(int dir, const char* path, struct stat64* out, int flags) noexcept {
  return elsewhere_or_here(dir, path, flags, out,
                           [&](const char* at) { return next_fstatat64.get()(dir, at, out, flags); });
}

WEFT_HOOK int statx(int dir, const char* path, int flags, unsigned mask, struct statx* out) noexcept {
  return elsewhere_or_here(dir, path, flags, out,
                           [&](const char* at) { return next_statx.get()(dir, at, flags, mask, out); });
}

WEFT_HOOK int __xstat(int version, const char* path, struct stat* out) noexcept {
  return elsewhere(path, [&](const char* at) { return next_xstat.get()(version, at, out); });
}

WEFT_HOOK int __xstat64(int version, const char* path, struct stat64* out) noexcept {
  return elsewhere(path, [&](const char* at) { return next_xstat64.get()(version, at, out); });
}

WEFT_HOOK int __lxstat(int version, const char* path, struct stat* out) noexcept {
  return elsewhere(path, [&](const char* at) { return next_lxstat.get()(version, at, out); });
}

WEFT_HOOK int __lxstat64(int version, const char* path, struct stat64* out) noexcept {
  return elsewhere(path, [&](const char* at) { return next_lxstat64.get()(version, at, out); });
}

WEFT_HOOK int __fxstatat(int version, int dir, const char* path, struct stat* out, int flags) noexcept {
  return elsewhere_or_here(dir, path, flags, out,
                           [&](const char* at) { return next_fxstatat.get()(version, dir, at, out, flags); });
}

WEFT_HOOK int __fxstatat64(int version, int dir, const char* path, struct stat64* out, int flags) noexcept {
  return elsewhere_or_here(dir, path, flags, out, [&](const char* at) {
    return next_fxstatat64.get()(version, dir, at, out, flags);
  });
}

WEFT_HOOK int access(const char* path, int mode) noexcept {
  return elsewhere(path, [&](const char* at) { return next_access.get()(at, mode); });
}

WEFT_HOOK int faccessat(int dir, const char* path, int mode, int flags) noexcept {
  return elsewhere(path, [&](const char* at) { return next_faccessat.get()(dir, at, mode, flags); });
}

WEFT_HOOK int euidaccess(const char* path, int mode) noexcept {
  return elsewhere(path, [&](const char* at) { return next_euidaccess.get()(at, mode); });
}

WEFT_HOOK int eaccess(const char* path, int mode) noexcept {
  return elsewhere(path, [&](const char* at) { return next_eaccess.get()(at, mode); });
}

WEFT_HOOK int chdir(const char* path) noexcept {
  return elsewhere(path, [&](const char* at) { return next_chdir.get()(at); });
}

WEFT_HOOK FILE* fopen(const char* path, const char* mode) {
  return elsewhere(path, [&](const char* at) { return next_fopen.get()(at, mode); });
}

WEFT_HOOK FILE* fopen64(const char* path, const char* mode) {
  return elsewhere(path, [&](const char* at) { return next_fopen64.get()(at, mode); });
}

WEFT_HOOK FILE* freopen(const char* path, const char* mode, FILE* file) {
  return elsewhere(path, [&](const char* at) { return next_freopen.get()(at, mode, file); });
}

WEFT_HOOK FILE* freopen64(const char* path, const char* mode, FILE* file) {
  return elsewhere(path, [&](const char* at) { return next_freopen64.get()(at, mode, file); });
}

WEFT_HOOK DIR* opendir(const char* path) {
  return elsewhere(path, [&](const char* at) { return next_opendir.get()(at); });
}

WEFT_HOOK int scandir(const char* path, dirent*** list, Filter filter, Order order) {
  return elsewhere(path, [&](const char* at) { return next_scandir.get()(at, list, filter, order); });
}

WEFT_HOOK int scandir64(const char* path, dirent64*** list, Filter64 filter, Order64 order) {
  return elsewhere(path, [&](const char* at) { return next_scandir64.get()(at, list, filter, order); });
}

WEFT_HOOK ssize_t readlink(const char* path, char* out, size_t bytes) noexcept {
  return elsewhere(path, [&](const char* at) { return next_readlink.get()(at, out, bytes); });
}

WEFT_HOOK ssize_t readlinkat(int dir, const char* path, char* out, size_t bytes) noexcept {
  return elsewhere(path, [&](const char* at) { return next_readlinkat.get()(dir, at, out, bytes); });
}

WEFT_HOOK ssize_t __readlink_chk(const char* path, char* out, size_t bytes, size_t room) noexcept {
  return elsewhere(path, [&](const char* at) { return next_readlink_chk.get()(at, out, bytes, room); });
}

WEFT_HOOK char* realpath(const char* path, char* out) noexcept {
  return elsewhere(path, [&](const char* at) { return next_realpath.get()(at, out); });
}

WEFT_HOOK char* canonicalize_file_name(const char* path) noexcept {
  return elsewhere(path, [&](const char* at) { return next_canonicalize_file_name.get()(at); });
}

WEFT_HOOK char* __realpath_chk(const char* path, char* out, size_t room) noexcept {
  return elsewhere(path, [&](const char* at) { return next_realpath_chk.get()(at, out, room); });
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp)
