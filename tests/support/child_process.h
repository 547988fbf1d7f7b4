// tests/support/child_process.h -- another process that has made something, and lives until it is killed.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace weft::test {

class ChildProcess {
 public:
  /// `make()` runs in the child, which keeps what it gives, a Result.
  template <class Make>
  explicit ChildProcess(Make&& make) {
    std::array<int, 2> ends{};
    EXPECT_EQ(pipe(ends.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
      const auto kept = make();
      const char said = kept.ok() ? 'y' : 'n';
      (void)!write(ends[1], &said, 1);
      pause();
      _exit(0);
    }
    char said = 0;
    EXPECT_EQ(read(ends[0], &said, 1), 1);
    made_ = said == 'y';
    close(ends[0]);
    close(ends[1]);
  }
  ~ChildProcess() { end(); }
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  void end() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    pid_ = 0;
  }
  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] bool made() const { return made_; }

 private:
  pid_t pid_ = 0;
  bool made_ = false;
};

}  // namespace weft::test
