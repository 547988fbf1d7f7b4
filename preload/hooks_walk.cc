// Hooks for libc calls that search for paths. libc implements them with internal functions, which bypass the
// other hooks. A pattern is therefore matched with our functions, and a walk begins in the stand-in of its
// path.
#include <dirent.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <sys/stat.h>

#include <climits>
#include <cstddef>
#include <cstdlib>
#include <cstring>

#include "preload/next.h"
#include "preload/paths.h"

namespace weft::preload {
namespace {

// ---- patterns --------------------

using OnError = int (*)(const char*, int);
constinit Next<int (*)(const char*, int, OnError, glob_t*)> next_glob("glob");
constinit Next<int (*)(const char*, int, OnError, glob64_t*)> next_glob64("glob64");

void close_dir(void* dir) {
  closedir(static_cast<DIR*>(dir));
}
void* open_dir(const char* path) {
  return opendir(path);
}
void use_hooks(glob_t& with) noexcept {
  with.gl_readdir = [](void* dir) { return readdir(static_cast<DIR*>(dir)); };
  with.gl_stat = [](const char* path, struct stat* out) { return stat(path, out); };
  with.gl_lstat = [](const char* path, struct stat* out) { return lstat(path, out); };
}
void use_hooks(glob64_t& with) noexcept {
  with.gl_readdir = [](void* dir) { return readdir64(static_cast<DIR*>(dir)); };
  with.gl_stat = [](const char* path, struct stat64* out) { return stat64(path, out); };
  with.gl_lstat = [](const char* path, struct stat64* out) { return lstat64(path, out); };
}

/// A program that passes its own functions keeps them. Directories above ours are not changed, so only a
/// pattern that spells the name of one of ours matches it.
template <class Next, class Glob>
int match(Next next, const char* pattern, int flags, OnError on_error, Glob* out) noexcept {
  const bool reaches =
      (flags & GLOB_ALTDIRFUNC) == 0 && pattern != nullptr &&
      (std::strstr(pattern, "infiniband") != nullptr || std::strstr(pattern, "rdma_cm") != nullptr);
  if (!reaches) [[likely]]
    return next(pattern, flags, on_error, out);
  const Glob before = *out;
  out->gl_opendir = open_dir;
  out->gl_closedir = close_dir;
  use_hooks(*out);
  const int done = next(pattern, flags | GLOB_ALTDIRFUNC, on_error, out);
  out->gl_flags &= ~GLOB_ALTDIRFUNC;
  out->gl_opendir = before.gl_opendir;
  out->gl_closedir = before.gl_closedir;
  out->gl_readdir = before.gl_readdir;
  out->gl_stat = before.gl_stat;
  out->gl_lstat = before.gl_lstat;
  return done;
}

// ---- walks --------------------

constinit Next<int (*)(const char*, __ftw_func_t, int)> next_ftw("ftw");
constinit Next<int (*)(const char*, __ftw64_func_t, int)> next_ftw64("ftw64");
constinit Next<int (*)(const char*, __nftw_func_t, int, int)> next_nftw("nftw");
constinit Next<int (*)(const char*, __nftw64_func_t, int, int)> next_nftw64("nftw64");

/// The start of a walk: the program's path and the stand-in. Both without trailing slashes, because the paths
/// of a walk have none.
class Start {
 public:
  explicit Start(const char* path) noexcept : path_(path) {
    if (kind_of(path) == PathKind::kOther || std::strlen(path) >= sizeof shown_.text) return;
    shown_bytes_ = std::strlen(path);
    std::memcpy(shown_.text, path, shown_bytes_ + 1);
    while (shown_bytes_ > 1 && shown_.text[shown_bytes_ - 1] == '/') shown_.text[--shown_bytes_] = '\0';
    path_ = stand_in(shown_.text, real_);
    moved_ = path_ == real_.text;
  }
  [[nodiscard]] bool moved() const noexcept { return moved_; }
  [[nodiscard]] const char* path() const noexcept { return path_; }
  /// Length of the program's path minus that of the stand-in.
  [[nodiscard]] int longer() const noexcept {
    return static_cast<int>(shown_bytes_) - static_cast<int>(std::strlen(real_.text));
  }
  /// The program's path for `at`, a path in the stand-in; null if it is too long.
  const char* show(const char* at, char (&room)[PATH_MAX]) const noexcept {
    const char* rest = at + std::strlen(real_.text);
    const size_t bytes = std::strlen(rest);
    if (shown_bytes_ + bytes >= sizeof room) return nullptr;
    std::memcpy(room, shown_.text, shown_bytes_);
    std::memcpy(room + shown_bytes_, rest, bytes + 1);
    return room;
  }

 private:
  const char* path_;
  size_t shown_bytes_ = 0;
  bool moved_ = false;
  PathRoom shown_{};
  PathRoom real_{};
};

/// The walk of this thread. Thread-local, because libc passes no context to the callback. Nested walks
/// restore it.
template <class Visit>
struct Walk {
  const Start& start;
  Visit visit;
  static thread_local Walk* current;
};
template <class Visit>
thread_local Walk<Visit>* Walk<Visit>::current = nullptr;

/// The callback given to libc: translates the path and calls the program's function.
template <class Visit>
struct Between;
template <class Stat>
struct Between<int (*)(const char*, const Stat*, int)> {
  using Visit = int (*)(const char*, const Stat*, int);
  static int call(const char* at, const Stat* what, int kind) {
    const Walk<Visit>& walk = *Walk<Visit>::current;
    char room[PATH_MAX];
    const char* shown = walk.start.show(at, room);
    return walk.visit(shown != nullptr ? shown : at, what, kind);
  }
};
template <class Stat>
struct Between<int (*)(const char*, const Stat*, int, FTW*)> {
  using Visit = int (*)(const char*, const Stat*, int, FTW*);
  static int call(const char* at, const Stat* what, int kind, FTW* where) {
    const Walk<Visit>& walk = *Walk<Visit>::current;
    char room[PATH_MAX];
    const char* shown = walk.start.show(at, room);
    if (shown == nullptr) return walk.visit(at, what, kind, where);
    FTW moved{where->base + walk.start.longer(), where->level};
    return walk.visit(shown, what, kind, &moved);
  }
};

template <class Next, class Visit, class... More>
int walk_from(Next next, const char* path, Visit visit, More... more) {
  const Start start(path);
  if (!start.moved()) [[likely]]
    return next(path, visit, more...);
  Walk<Visit> walk{start, visit};
  Walk<Visit>* outer = Walk<Visit>::current;
  Walk<Visit>::current = &walk;
  const int done = next(start.path(), Between<Visit>::call, more...);
  Walk<Visit>::current = outer;
  return done;
}

// ---- trees --------------------

using Fts = FTS* (*)(char* const*, int, int (*)(const FTSENT**, const FTSENT**));
using Fts64 = FTS64* (*)(char* const*, int, int (*)(const FTSENT64**, const FTSENT64**));
constinit Next<Fts> next_fts_open("fts_open");
constinit Next<Fts64> next_fts64_open("fts64_open");

/// The roots, replaced by stand-ins where we have them. fts copies them, so this need not outlive the call.
template <class Next, class Order>
auto open_tree(Next next, char* const* roots, int options, Order order)
    -> decltype(next(roots, options, order)) {
  size_t count = 0;
  bool ours = false;
  for (; roots[count] != nullptr; ++count) ours = ours || kind_of(roots[count]) != PathKind::kOther;
  if (!ours) [[likely]]
    return next(roots, options, order);
  auto* rooms = static_cast<PathRoom*>(std::malloc(count * sizeof(PathRoom)));
  auto** led = static_cast<char**>(std::malloc((count + 1) * sizeof(char*)));
  decltype(next(roots, options, order)) made = nullptr;
  if (rooms != nullptr && led != nullptr) {
    for (size_t i = 0; i < count; ++i) led[i] = const_cast<char*>(stand_in(roots[i], rooms[i]));
    led[count] = nullptr;
    made = next(led, options, order);
  }
  std::free(rooms);
  std::free(led);
  return made;
}

using Filter = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);
using Filter64 = int (*)(const dirent64*);
using Order64 = int (*)(const dirent64**, const dirent64**);
constinit Next<int (*)(int, const char*, dirent***, Filter, Order)> next_scandirat("scandirat");
constinit Next<int (*)(int, const char*, dirent64***, Filter64, Order64)> next_scandirat64("scandirat64");

}  // namespace
}  // namespace weft::preload

using namespace weft::preload;  // NOLINT(google-build-using-namespace): the hooks below are all of this file

WEFT_HOOK int glob(const char* pattern, int flags, OnError on_error, glob_t* out) noexcept {
  return match(next_glob.get(), pattern, flags, on_error, out);
}

WEFT_HOOK int glob64(const char* pattern, int flags, OnError on_error, glob64_t* out) noexcept {
  return match(next_glob64.get(), pattern, flags, on_error, out);
}

WEFT_HOOK int ftw(const char* path, __ftw_func_t visit, int descriptors) {
  return walk_from(next_ftw.get(), path, visit, descriptors);
}

WEFT_HOOK int ftw64(const char* path, __ftw64_func_t visit, int descriptors) {
  return walk_from(next_ftw64.get(), path, visit, descriptors);
}

WEFT_HOOK int nftw(const char* path, __nftw_func_t visit, int descriptors, int flags) {
  return walk_from(next_nftw.get(), path, visit, descriptors, flags);
}

WEFT_HOOK int nftw64(const char* path, __nftw64_func_t visit, int descriptors, int flags) {
  return walk_from(next_nftw64.get(), path, visit, descriptors, flags);
}

WEFT_HOOK FTS* fts_open(char* const* roots, int options, int (*order)(const FTSENT**, const FTSENT**)) {
  return open_tree(next_fts_open.get(), roots, options, order);
}

WEFT_HOOK FTS64* fts64_open(char* const* roots, int options,
                            int (*order)(const FTSENT64**, const FTSENT64**)) {
  return open_tree(next_fts64_open.get(), roots, options, order);
}

WEFT_HOOK int scandirat(int dir, const char* path, dirent*** list, Filter filter, Order order) {
  PathRoom room;
  return next_scandirat.get()(dir, stand_in(path, room), list, filter, order);
}

WEFT_HOOK int scandirat64(int dir, const char* path, dirent64*** list, Filter64 filter, Order64 order) {
  PathRoom room;
  return next_scandirat64.get()(dir, stand_in(path, room), list, filter, order);
}
