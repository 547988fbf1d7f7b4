#include "base/process_limits.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/unique_fd.h"

namespace weft {
namespace {

rlim_t limit_of(decltype(RLIMIT_NOFILE) resource) noexcept {
  rlimit limit{};
  return getrlimit(resource, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

sigset_t only_file_size() noexcept {
  sigset_t out;
  sigemptyset(&out);
  sigaddset(&out, SIGXFSZ);
  return out;
}

/// A thread that waits at the gate, because all of them must be alive at the same time.
void* wait_at(void* gate) {
  auto* mutex = static_cast<pthread_mutex_t*>(gate);
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return nullptr;
}

}  // namespace

Status allow_descriptors(uint64_t count) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return errno_error("cannot read the limit of open files", errno);
  if (limit.rlim_cur >= count) return {};
  if (limit.rlim_max < count)
    return Error{fmt::format("needs {} open files, this user may have {}: raise ulimit -n", count,
                             static_cast<uint64_t>(limit.rlim_max))};
  limit.rlim_cur = count;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    return errno_error(fmt::format("cannot allow {} open files", count), errno);
  return {};
}

Status check_spare_descriptors(size_t count) {
  std::vector<UniqueFd> tried;
  for (size_t i = 0; i < count; ++i) {
    tried.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (tried.back().valid()) continue;
    if (errno != EMFILE) return errno_error("cannot open a file", errno);
    return Error{fmt::format("too many open files: {} more are needed, ulimit -n is {}: raise it", count,
                             static_cast<uint64_t>(limit_of(RLIMIT_NOFILE)))};
  }
  return {};
}

Status check_spare_threads(size_t count) {
  pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&gate);
  std::vector<pthread_t> tried;
  int refused = 0;
  while (refused == 0 && tried.size() < count) {
    pthread_t thread{};
    refused = pthread_create(&thread, nullptr, wait_at, &gate);
    if (refused == 0) tried.push_back(thread);
  }
  pthread_mutex_unlock(&gate);
  for (const pthread_t thread : tried) pthread_join(thread, nullptr);
  if (refused == 0) return {};
  if (refused != EAGAIN) return errno_error("cannot start a thread", refused);
  return Error{fmt::format("cannot start {} threads: raise ulimit -u, which is {}, or the memory (ulimit -v)",
                           count, static_cast<uint64_t>(limit_of(RLIMIT_NPROC)))};
}

Error no_process(const std::string& what, int error) {
  if (error != EAGAIN) return errno_error(what, error);
  return Error{fmt::format("{}: this user may have {} processes and threads: raise ulimit -u", what,
                           static_cast<uint64_t>(limit_of(RLIMIT_NPROC)))};
}

QuietFileSize::QuietFileSize() noexcept {
  sigset_t pending;
  sigpending(&pending);
  waited_ = sigismember(&pending, SIGXFSZ) == 1;
  const sigset_t mine = only_file_size();
  pthread_sigmask(SIG_BLOCK, &mine, &before_);
}

QuietFileSize::~QuietFileSize() {
  const int saved = errno;
  const sigset_t mine = only_file_size();
  const timespec now{};
  if (!waited_) static_cast<void>(sigtimedwait(&mine, nullptr, &now));
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = saved;
}

Status allocate_file(int fd, size_t bytes, const std::string& what) {
  const QuietFileSize quiet;
  int error = 0;
  do error = posix_fallocate(fd, 0, static_cast<off_t>(bytes));
  while (error == EINTR);
  return error == 0 ? Status{} : Status(errno_error("cannot allocate " + what, error));
}

}  // namespace weft
