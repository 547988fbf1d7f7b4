// A program that was started without standard input, output or error.
#include "base/standard_descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

namespace weft::test {
namespace {

/// Exit status of `check` in a child that has closed `closed` and then begun as a program does.
template <class Check>
int without(const std::vector<int>& closed, Check check) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int number : {0, 1, 2}) dup2(open("/dev/null", O_RDWR), number);
    for (const int number : closed) close(number);
    occupy_standard_descriptors();
    _exit(check());
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StandardDescriptors, the_next_file_gets_none_of_their_numbers) {
  for (const std::vector<int>& closed :
       std::vector<std::vector<int>>{{0}, {1}, {2}, {0, 1}, {1, 2}, {0, 1, 2}})
    EXPECT_EQ(without(closed, [] { return open("/dev/zero", O_RDONLY) > 2 ? 0 : 1; }), 0);
}

TEST(StandardDescriptors, using_one_fails_as_if_it_were_closed) {
  EXPECT_EQ(without({0, 1, 2},
                    [] {
                      std::array<char, 1> byte{};
                      if (read(0, byte.data(), 1) >= 0 || errno != EBADF) return 1;
                      for (const int number : {1, 2})
                        if (write(number, byte.data(), 1) >= 0 || errno != EBADF) return 2;
                      return 0;
                    }),
            0);
}

TEST(StandardDescriptors, a_program_that_we_become_finds_what_our_starter_left) {
  EXPECT_EQ(without({0, 2},
                    [] {
                      if ((fcntl(0, F_GETFD) & FD_CLOEXEC) == 0 || (fcntl(2, F_GETFD) & FD_CLOEXEC) == 0)
                        return 1;
                      return (fcntl(1, F_GETFD) & FD_CLOEXEC) == 0 ? 0 : 2;
                    }),
            0);
}

TEST(StandardDescriptors, output_is_there_or_not) {
  EXPECT_EQ(without({}, [] { return has_standard_output() ? 0 : 1; }), 0);
  EXPECT_EQ(without({0}, [] { return has_standard_output() ? 0 : 1; }), 0);
  EXPECT_EQ(without({0, 1}, [] { return has_standard_output() ? 1 : 0; }), 0);
}

}  // namespace
}  // namespace weft::test
