// What is opened only where it is this user's alone, and descriptors that a program may close under us.
#include "base/private_files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/guarded_fd.h"
#include "base/process_limits.h"
#include "base/worker_thread.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
namespace {

namespace fs = std::filesystem;
constexpr uid_t kOther = 1234;

std::string why_not(const std::string& path) {
  const Result<UniqueFd> opened = open_private_directory(AT_FDCWD, path, "state directory");
  return opened.ok() ? std::string() : opened.error().text;
}

TEST(PrivateFiles, a_directory_is_ours_closed_to_others_and_no_link) {
  const TempDir dir;
  const std::string path = dir.path() + "/d";
  EXPECT_NE(why_not(path), "");
  EXPECT_EQ(errno, ENOENT);
  mkdir(path.c_str(), 0700);
  EXPECT_EQ(why_not(path), "");
  for (const mode_t mode : {0701U, 0710U, 0720U, 0704U}) {
    chmod(path.c_str(), mode);
    EXPECT_NE(why_not(path).find("chmod 700 " + path), std::string::npos) << mode;
    EXPECT_EQ(errno, EPERM);
  }
  chmod(path.c_str(), 0700);
  fs::create_symlink(path, dir.path() + "/link");
  EXPECT_NE(why_not(dir.path() + "/link").find("is a symbolic link"), std::string::npos);
  std::ofstream(dir.path() + "/file") << "x";
  EXPECT_NE(why_not(dir.path() + "/file").find("is not a directory"), std::string::npos);
  if (geteuid() != 0) GTEST_SKIP() << "needs root: another user";
  ASSERT_EQ(chown(path.c_str(), kOther, kOther), 0);
  EXPECT_NE(why_not(path).find("belongs to user 1234"), std::string::npos);
}

TEST(PrivateFiles, a_missing_directory_is_made_for_this_user_alone) {
  const TempDir dir;
  const std::string path = dir.path() + "/d";
  EXPECT_TRUE(make_directory(path).ok());
  EXPECT_EQ(why_not(path), "");
  chmod(path.c_str(), 0755);
  EXPECT_TRUE(make_directory(path).ok());
  EXPECT_NE(why_not(path).find("has mode 0755"), std::string::npos) << "one that exists stays as it is";
  EXPECT_NE(make_directory(dir.path() + "/none/d").error().text.find("No such file"), std::string::npos);
  std::ofstream(dir.path() + "/file") << "x";
  EXPECT_NE(make_directory(dir.path() + "/file").error().text.find("is not a directory"), std::string::npos);
  if (geteuid() != 0) GTEST_SKIP() << "needs root: another user";
  ASSERT_EQ(chown(path.c_str(), kOther, kOther), 0);
  EXPECT_NE(make_directory(path).error().text.find("belongs to user 1234"), std::string::npos);
}

TEST(PrivateFiles, a_file_is_ours_and_no_link_and_nobody_waits_for_a_fifo) {
  const TempDir dir;
  const std::string path = dir.path() + "/f";
  std::ofstream(path) << "text";
  EXPECT_EQ(own_file_text(AT_FDCWD, path), "text");
  fs::create_symlink(path, dir.path() + "/link");
  EXPECT_EQ(own_file_text(AT_FDCWD, dir.path() + "/link"), "");
  ASSERT_EQ(mkfifo((dir.path() + "/fifo").c_str(), 0600), 0);
  EXPECT_EQ(own_file_text(AT_FDCWD, dir.path() + "/fifo"), "");
  if (geteuid() != 0) GTEST_SKIP() << "needs root: another user";
  ASSERT_EQ(chown(path.c_str(), kOther, kOther), 0);
  EXPECT_EQ(own_file_text(AT_FDCWD, path), "");
  EXPECT_EQ(errno, EPERM);
}

TEST(PrivateFiles, a_tree_is_removed_and_links_in_it_are_not_followed) {
  const TempDir dir;
  const fs::path root(dir.path());
  fs::create_directories(root / "kept");
  std::ofstream(root / "kept/file") << "x";
  fs::create_directories(root / "tree/below");
  std::ofstream(root / "tree/below/file") << "x";
  fs::create_directory_symlink(root / "kept", root / "tree/link");
  remove_tree(AT_FDCWD, root / "tree");
  EXPECT_FALSE(fs::exists(root / "tree"));
  EXPECT_TRUE(fs::exists(root / "kept/file"));
  fs::create_directory_symlink(root / "kept", root / "tree");
  remove_tree(AT_FDCWD, root / "tree");
  EXPECT_FALSE(fs::is_symlink(root / "tree"));
  EXPECT_TRUE(fs::exists(root / "kept/file"));
}

/// A number that the program has closed and that is another file by now.
class TakenNumber {
 public:
  explicit TakenNumber(int number) {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    EXPECT_EQ(dup2(ends[0], number), number);
    close(ends[0]);
    mine_ = UniqueFd(number);
    peer_ = UniqueFd(ends[1]);
  }
  [[nodiscard]] bool is_open() const { return fcntl(mine_.get(), F_GETFD) >= 0; }
  [[nodiscard]] bool is_untouched() const {
    char byte = 0;
    return is_open() && recv(peer_.get(), &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
  }

 private:
  UniqueFd mine_;
  UniqueFd peer_;
};

TEST(GuardedFd, a_number_that_is_another_file_by_now_is_neither_ours_nor_closed) {
  guard_descriptors({});
  GuardedFd fd(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)));
  EXPECT_TRUE(fd.is_ours());
  const TakenNumber taken(fd.get());
  EXPECT_FALSE(fd.is_ours());
  fd.reset();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(taken.is_open());
}

TEST(GuardedFd, what_it_owns_is_closed_once) {
  const int number = open("/dev/null", O_RDWR | O_CLOEXEC);
  {
    GuardedFd first{UniqueFd(number)};
    const GuardedFd second(std::move(first));
    EXPECT_TRUE(second.is_ours());
    EXPECT_FALSE(first.valid());  // NOLINT(bugprone-use-after-move): that is the point
  }
  EXPECT_LT(fcntl(number, F_GETFD), 0);
}

TEST(GuardedFd, the_keeper_hears_of_kept_ones_alone) {
  static int balance = 0;
  balance = 0;
  guard_descriptors({.keep = [](int /*descriptor*/, int ours) { balance += ours != 0 ? 1 : -1; }});
  {
    const GuardedFd kept(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)));
    EXPECT_EQ(balance, 1);
    const GuardedFd given(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)), false);
    EXPECT_EQ(balance, 1);
  }
  guard_descriptors({});
}

/// As the preloaded object, which hears of dup2().
TEST(GuardedFd, wake_ups_end_when_the_keeper_keeps_the_number_no_more) {
  static bool keeps = true;
  keeps = true;
  guard_descriptors({.keep = [](int, int) {}, .keeps = [](int) { return keeps ? 1 : 0; }});
  GuardedFd fd(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)));
  EXPECT_TRUE(fd.can_wake());
  keeps = false;
  EXPECT_TRUE(fd.can_wake()) << "the number is still the same file";
  const TakenNumber taken(fd.get());
  EXPECT_FALSE(fd.can_wake());
  keeps = true;
  EXPECT_TRUE(fd.can_wake()) << "the keeper is believed without a system call";
  fd.reset();
  EXPECT_FALSE(fd.can_wake());
  EXPECT_TRUE(taken.is_untouched());
  guard_descriptors({});
}

TEST(GuardedFd, a_keeper_that_cannot_be_asked_is_not_believed) {
  guard_descriptors({.keep = [](int, int) {}});
  GuardedFd fd(UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC)));
  EXPECT_TRUE(fd.can_wake());
  const TakenNumber taken(fd.get());
  EXPECT_FALSE(fd.can_wake());
  guard_descriptors({});
}

TEST(WakeUp, a_descriptor_that_was_taken_away_is_left_alone) {
  guard_descriptors({});
  WakeUp wake;
  ASSERT_TRUE(wake.valid());
  wake.wake();
  pollfd item{wake.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&item, 1, 0), 1);
  wake.clear();
  EXPECT_EQ(poll(&item, 1, 0), 0);
  struct stat in_file {};
  struct stat out_file {};
  const int other = wake.fd() + 1;  // the kernel numbers both ends of a pipe one after the other where it can
  if (fstat(wake.fd(), &in_file) != 0 || fstat(other, &out_file) != 0 || in_file.st_ino != out_file.st_ino)
    GTEST_SKIP() << "the ends of the pipe are not beside each other";
  const TakenNumber in(wake.fd());
  const TakenNumber out(other);
  wake.wake();
  EXPECT_TRUE(out.is_untouched());
  wake.clear();
  EXPECT_EQ(wake.fd(), -1) << "nobody is to wait for it";
  EXPECT_TRUE(in.is_open());
}

TEST(WakeUp, any_number_of_wakes_is_cleared_at_once) {
  WakeUp wake;
  for (int i = 0; i < 100'000; ++i) wake.wake();
  wake.clear();
  pollfd item{wake.fd(), POLLIN, 0};
  EXPECT_EQ(poll(&item, 1, 0), 0);
}

std::atomic<int> signals{0};

TEST(QuietFileSize, a_file_that_may_not_grow_is_an_error_alone) {
  const TempDir dir;
  const UniqueFd file(open((dir.path() + "/f").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct sigaction before {};
  struct sigaction counting {};
  counting.sa_handler = [](int) { ++signals; };
  sigaction(SIGXFSZ, &counting, &before);
  rlimit limit{};
  getrlimit(RLIMIT_FSIZE, &limit);
  const rlimit none{0, limit.rlim_max};
  setrlimit(RLIMIT_FSIZE, &none);
  const Status allocated = allocate_file(file.get(), 4096, "a page");
  const int after_ours = signals;
  const bool refused =
      write(file.get(), "x", 1) < 0 && errno == EFBIG;  // the program's own, which it hears of
  setrlimit(RLIMIT_FSIZE, &limit);
  sigaction(SIGXFSZ, &before, nullptr);
  EXPECT_FALSE(allocated.ok());
  EXPECT_EQ(after_ours, 0);
  EXPECT_TRUE(refused);
  EXPECT_EQ(signals, 1);
}

}  // namespace
}  // namespace weft::test
