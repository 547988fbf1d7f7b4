// The state directory and the record of a run.
#include "tools/launch/state_dir.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/support/state_dir_fixture.h"
#include "tests/support/temp_dir.h"
#include "tools/launch/child_process.h"

namespace weft::tools {
namespace {

class StateDirTest : public test::StateDirFixture {};

TEST_F(StateDirTest, record_comes_back) {
  Result<StateDir> dir = StateDir::create("f");
  ASSERT_TRUE(dir.ok()) << dir.error().text;
  RunRecord record;
  record.launcher = 11;
  record.launcher_ticks = 22;
  record.topology = "/a b/t.toml";
  record.ready = record.ends_unused = true;
  record.cell_payload = 1024;
  record.flit_payload = 64;
  record.direct = true;
  record.processes = {{"h1", "weft-host", 33, 44, 5}};
  record.interfaces = {{"eth0", "n1"}, {"weft0", ""}};
  record.ports = {{"s1", 2, "h1"}};
  record.spare = {{"s1", 64, 48128}};
  record.borrowed = {
      {"u0", "lan", 7, 1400, 1500, {2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 2}, {65000, 64000}, {65536, 65535}},
      {"u1", "", 8, 0, 0, {}, {}, {}, {}}};
  ASSERT_TRUE(dir.value().save(record).ok());
  const RunRecord back = dir.value().load();
  ASSERT_EQ(back.borrowed.size(), 2U);
  for (size_t i = 0; i < 2; ++i) {
    const BorrowedInterface& is = back.borrowed[i];
    const BorrowedInterface& was = record.borrowed[i];
    EXPECT_EQ(std::tie(is.name, is.netns, is.index, is.mtu, is.mtu_before, is.mac, is.mac_before),
              std::tie(was.name, was.netns, was.index, was.mtu, was.mtu_before, was.mac, was.mac_before));
    EXPECT_EQ(is.sizes, was.sizes);
    EXPECT_EQ(is.sizes_before, was.sizes_before);
  }
  EXPECT_EQ(back.launcher, 11);
  EXPECT_EQ(back.launcher_ticks, 22U);
  EXPECT_TRUE(back.ready);
  EXPECT_EQ(back.topology, "/a b/t.toml");
  ASSERT_EQ(back.processes.size(), 1U);
  EXPECT_EQ(back.processes[0].restarts, 5U);
  ASSERT_EQ(back.interfaces.size(), 2U);
  EXPECT_EQ(back.interfaces[0].netns, "n1");
  EXPECT_EQ(back.interfaces[1].netns, "");
  ASSERT_EQ(back.ports.size(), 1U);
  EXPECT_EQ(back.ports[0].number, 2U);
  EXPECT_EQ(back.ports[0].peer, "h1");
  EXPECT_TRUE(back.ends_unused);
  EXPECT_EQ(back.cell_payload, 1024U);
  EXPECT_EQ(back.flit_payload, 64U);
  EXPECT_TRUE(back.direct);
  ASSERT_EQ(back.spare.size(), 1U);
  EXPECT_EQ(back.spare[0].node, "s1");
  EXPECT_EQ(back.spare[0].ports, 64U);
  EXPECT_EQ(back.spare[0].first_lid, 48128U);
}

TEST_F(StateDirTest, a_name_never_leads_out_of_the_directory) {
  for (const char* name : {"", ".", "..", "a/b", "../x", ".hidden"})
    EXPECT_FALSE(StateDir::open(name).ok()) << name;
  const Result<StateDir> dir = StateDir::create("a");
  ASSERT_TRUE(dir.ok()) << dir.error().text;
  ASSERT_EQ(mkdir(dir.value().file("b").c_str(), 0700), 0);
  EXPECT_FALSE(StateDir::open("a/b").ok()) << "nor into the directory of a fabric";
}

TEST_F(StateDirTest, a_stopped_process_is_told_from_a_running_one) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_NAME, "a) R (b");  // as it may be called
    raise(SIGSTOP);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, WUNTRACED), child);
  EXPECT_TRUE(is_stopped(child));
  EXPECT_FALSE(is_stopped(getpid()));
  EXPECT_NE(process_start_ticks(child), 0U);
  kill(child, SIGKILL);
  waitpid(child, &status, 0);
  EXPECT_EQ(process_start_ticks(child), 0U);
}

TEST_F(StateDirTest, root_of_a_user_namespace_has_the_directory_of_its_user) {
  unsetenv("WEFT_STATE_DIR");
  unsetenv("XDG_RUNTIME_DIR");
  const std::string outside = StateDir::base();
  EXPECT_EQ(outside, "/tmp/weft-" + std::to_string(geteuid()));
  const std::string map = "0 " + std::to_string(geteuid()) + " 1";
  const pid_t child = fork();
  if (child == 0) {
    if (unshare(CLONE_NEWUSER) != 0) _exit(77);
    std::ofstream("/proc/self/uid_map") << map;
    _exit(geteuid() == 0 && StateDir::base() == outside ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
    GTEST_SKIP() << "may not make a user namespace here; needs sysctl user.max_user_namespaces above 0";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST_F(StateDirTest, one_holder_of_the_lock) {
  Result<StateDir> first = StateDir::create("f");
  ASSERT_TRUE(first.ok());
  EXPECT_FALSE(first.value().locked());
  ASSERT_TRUE(first.value().lock().ok());
  Result<StateDir> second = StateDir::open("f");
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(second.value().locked());
  const Status refused = second.value().lock();
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().text.find("already running"), std::string::npos);
}

TEST_F(StateDirTest, whoever_looks_at_the_lock_is_in_nobodys_way) {
  ASSERT_TRUE(StateDir::create("f").ok());
  std::atomic<bool> done{false};
  std::vector<std::thread> lookers;
  for (int i = 0; i < 3; ++i) {
    lookers.emplace_back([&done] {
      const Result<StateDir> dir = StateDir::open("f");
      while (!done) static_cast<void>(dir.value().locked());
    });
  }
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    Result<StateDir> dir = StateDir::open("f");
    refused += dir.value().lock().ok() ? 0 : 1;
  }
  done = true;
  for (std::thread& looker : lookers) looker.join();
  EXPECT_EQ(refused, 0);
}

TEST_F(StateDirTest, only_a_private_directory_of_ours) {
  chmod(base_.c_str(), 0755);
  EXPECT_FALSE(StateDir::create("f").ok());
  chmod(base_.c_str(), 0700);
  std::ofstream(base_ + "/f") << "a file";
  EXPECT_FALSE(StateDir::create("f").ok());
  EXPECT_FALSE(StateDir::open("never").ok());
}

TEST_F(StateDirTest, is_checked_when_it_is_opened_too) {
  ASSERT_TRUE(StateDir::create("f").ok());
  for (const std::string& path : {base_, base_ + "/f"}) {
    chmod(path.c_str(), 0755);
    const Result<StateDir> opened = StateDir::open("f");
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().text.find("WEFT_STATE_DIR to another"), std::string::npos);
    EXPECT_EQ(StateDir::fabrics().ok(), path != base_);
    chmod(path.c_str(), 0700);
    EXPECT_TRUE(StateDir::open("f").ok());
  }
  std::filesystem::create_directory(base_ + "/home");
  chmod((base_ + "/home").c_str(), 0700);
  std::filesystem::create_directory_symlink(base_ + "/home", base_ + "/lab");
  EXPECT_FALSE(StateDir::open("lab").ok());
}

TEST_F(StateDirTest, a_path_that_is_exchanged_after_the_check_leads_nowhere) {
  const Result<StateDir> dir = StateDir::create("f");
  ASSERT_TRUE(dir.value().save({}).ok());
  std::filesystem::rename(base_ + "/f", base_ + "/g");
  std::filesystem::create_directory(base_ + "/victim");
  std::ofstream(base_ + "/victim/thesis") << "x";
  std::filesystem::create_directory_symlink(base_ + "/victim", base_ + "/f");
  dir.value().remove_runtime_files();
  EXPECT_TRUE(std::filesystem::exists(base_ + "/victim/thesis"));
  EXPECT_FALSE(std::filesystem::exists(base_ + "/g/run"));
  dir.value().remove_all();
  EXPECT_TRUE(std::filesystem::exists(base_ + "/victim/thesis"));
}

/// With the leases and names, programs get their LIDs back from the next run of the fabric.
TEST_F(StateDirTest, logs_and_what_is_known_of_lids_stay) {
  Result<StateDir> dir = StateDir::create("f");
  for (const char* name : {"h1.log", "h1.log.old", "lids", "names", "s1.leases", "h1.ctl", "h1.stats", "run"})
    std::ofstream(dir.value().file(name)) << "x";
  dir.value().remove_runtime_files();
  for (const char* name : {"h1.log", "h1.log.old", "lids", "names", "s1.leases"})
    EXPECT_TRUE(std::filesystem::exists(dir.value().file(name))) << name;
  for (const char* name : {"h1.ctl", "h1.stats", "run"})
    EXPECT_FALSE(std::filesystem::exists(dir.value().file(name)));
  EXPECT_EQ(StateDir::fabrics().value(), std::vector<std::string>{"f"});
}

TEST_F(StateDirTest, clean_up_ends_only_what_the_record_names) {
  Result<StateDir> dir = StateDir::create("f");
  ChildSpec spec;
  spec.argv = {"/bin/sleep", "60"};
  Result<pid_t> ours = start_child(spec);
  Result<pid_t> other = start_child(spec);
  ASSERT_TRUE(ours.ok() && other.ok());
  const uint64_t ticks = process_start_ticks(ours.value());
  EXPECT_TRUE(is_running(ours.value(), ticks));
  EXPECT_FALSE(is_running(ours.value(), ticks + 1)) << "the same number, another process";
  RunRecord record;
  record.processes = {{"a", "sleep", ours.value(), ticks, 0},
                      {"b", "sleep", other.value(), process_start_ticks(other.value()) + 1, 0}};
  clean_up_leftovers(dir.value(), record);
  EXPECT_FALSE(is_running(ours.value(), ticks));
  EXPECT_EQ(kill(other.value(), 0), 0);
  kill(other.value(), SIGKILL);
  waitpid(ours.value(), nullptr, 0);
  waitpid(other.value(), nullptr, 0);
}

TEST(ChildProcess, commands_end_or_are_ended) {
  const Result<CommandResult> echo =
      run_command({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"}, -1, std::chrono::seconds(10));
  ASSERT_TRUE(echo.ok());
  EXPECT_EQ(echo.value().exit_code, 3);
  EXPECT_EQ(echo.value().output, "out\nerr\n");
  const Result<CommandResult> killed =
      run_command({"/bin/sh", "-c", "kill -9 $$"}, -1, std::chrono::seconds(10));
  ASSERT_TRUE(killed.ok());
  EXPECT_EQ(killed.value().exit_code, 128 + SIGKILL) << "as a shell says it";
  EXPECT_FALSE(run_command({"/bin/sleep", "60"}, -1, std::chrono::milliseconds(50)).ok());
  EXPECT_FALSE(run_command({"/nonexistent/program"}, -1, std::chrono::seconds(1)).ok());
  EXPECT_FALSE(run_command({"no-such-program-of-ours"}, -1, std::chrono::seconds(1)).ok());
}

TEST(ChildProcess, of_a_long_output_the_beginning_is_kept) {
  const Result<CommandResult> much =
      run_command({"/bin/sh", "-c", "echo begin; head -c 1000000 /dev/zero"}, -1, std::chrono::seconds(10));
  ASSERT_TRUE(much.ok());
  EXPECT_EQ(much.value().exit_code, 0);
  EXPECT_TRUE(much.value().output.starts_with("begin\n"));
  EXPECT_GE(much.value().output.size(), 64U * 1024);
  EXPECT_LT(much.value().output.size(), 128U * 1024);
}

/// A process that is started again for months does not fill the disk.
TEST(ChildProcess, a_long_log_is_put_aside) {
  const test::TempDir dir;
  ChildSpec spec;
  spec.argv = {"/bin/sh", "-c", "echo new"};
  spec.log_path = dir.path() + "/child.log";
  const auto start = [&] {
    const Result<pid_t> pid = start_child(spec);
    ASSERT_TRUE(pid.ok());
    waitpid(pid.value(), nullptr, 0);
  };
  constexpr uintmax_t kMost = 8 << 20;
  std::ofstream(spec.log_path) << "old";
  std::filesystem::resize_file(spec.log_path, kMost);
  start();
  EXPECT_EQ(std::filesystem::file_size(spec.log_path), kMost + 4) << "not yet too long";
  start();
  EXPECT_EQ(std::filesystem::file_size(spec.log_path), 4U);
  EXPECT_EQ(std::filesystem::file_size(spec.log_path + ".old"), kMost + 4);
}

TEST(ChildProcess, children_get_only_what_they_are_given) {
  ChildSpec spec;
  const std::string log = (std::filesystem::temp_directory_path() / "weft-child-test.log").string();
  std::filesystem::remove(log);
  const UniqueFd given(::open("/dev/null", O_RDONLY));  // NOLINT: without O_CLOEXEC on purpose
  const UniqueFd stray(::open("/dev/null", O_RDONLY));
  spec.argv = {"/bin/sh", "-c", "ls /proc/$$/fd; exit 0"};
  spec.handed = {given.get()};
  spec.log_path = log;
  Result<pid_t> pid = start_child(spec);
  ASSERT_TRUE(pid.ok());
  waitpid(pid.value(), nullptr, 0);
  std::ifstream in(log);
  const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(text, "0\n1\n2\n3\n");
  std::filesystem::remove(log);
}

}  // namespace
}  // namespace weft::tools
