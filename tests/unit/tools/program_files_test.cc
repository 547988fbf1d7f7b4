#include "tools/launch/program_files.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/stats_page.h"
#include "fabric/carrier/unix_socket.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

/// Number of a process that has ended and was waited for.
pid_t ended_process() {
  const pid_t pid = fork();
  if (pid == 0) _exit(0);
  waitpid(pid, nullptr, 0);
  return pid;
}

TEST(ProgramFiles, what_programs_that_have_ended_leave_goes) {
  const test::TempDir dir;
  const fs::path at(dir.path());
  const std::string dead = std::to_string(ended_process());
  const std::string self = std::to_string(getpid());
  for (const std::string& pid : {dead, self, "1" + dead}) {
    fs::create_directories(at / ("sys-" + pid) / "class");
    std::ofstream(at / ("sys-" + pid) / "class/file") << "x";
    fs::permissions(at / ("sys-" + pid), fs::perms::owner_all);
  }
  ASSERT_EQ(make_program_tree(at), at / ("sys-" + self));
  const fs::path space = ".pid-namespace";
  fs::copy_symlink(at / ("sys-" + self) / space, at / ("sys-" + dead) / space);
  fs::create_symlink("pid:[1]", at / ("sys-1" + dead) / space);
  for (const char* name : {"alice.stats", "notes-x", "sys-"}) std::ofstream(at / name) << "x";
  const fs::path held = at / ("rping-" + dead + ".stats");
  const test::ChildProcess holder([&] { return StatsPage::create_held(held, 8); });
  ASSERT_TRUE(holder.made());
  const fs::path numbered_anew = at / ("rping-" + self + ".stats");
  std::ofstream(numbered_anew) << "x";
  const fs::path killed_early = at / ("rping-" + dead + ".stats." + dead);
  const fs::path half_made = at / ("rping-" + self + ".stats." + self);
  for (const fs::path& page : {killed_early, half_made}) std::ofstream(page) << "x";
  const auto now = fs::file_time_type::clock::now();
  for (size_t i = 0; i < kEndedProgramsMax + 3; ++i) {
    const fs::path page = at / ("p" + std::to_string(i) + "-" + dead + ".stats");
    std::ofstream(page) << "x";
    fs::last_write_time(page, now - std::chrono::seconds(i));
  }
  for (const fs::path& page : {held, numbered_anew}) fs::last_write_time(page, now - std::chrono::hours(1));
  fs::create_directory(at / "direct");
  fs::permissions(at / "direct", fs::perms::owner_all);
  const fs::path door = at / "direct/0-7.sock";
  { const UniqueFd killed = std::move(fabric::listen_unix(door, 1).value()); }
  clear_up_programs(at);
  EXPECT_FALSE(fs::exists(at / ("sys-" + dead)));
  EXPECT_TRUE(fs::exists(at / ("sys-" + self) / "class/file"));
  EXPECT_TRUE(fs::exists(at / ("sys-1" + dead))) << "its number means another process there";
  for (const char* name : {"alice.stats", "notes-x", "sys-"}) EXPECT_TRUE(fs::exists(at / name)) << name;
  EXPECT_FALSE(fs::exists(door));
  EXPECT_TRUE(fs::exists(held)) << "a process of another PID namespace has it";
  EXPECT_FALSE(fs::exists(numbered_anew)) << "nobody holds it, whoever has the number now";
  EXPECT_FALSE(fs::exists(killed_early)) << "its process will not put it in place any more";
  EXPECT_TRUE(fs::exists(half_made)) << "its process is about to put it in place";
  EXPECT_TRUE(fs::exists(at / ("p0-" + dead + ".stats"))) << "the latest stay";
  EXPECT_TRUE(fs::exists(at / ("p31-" + dead + ".stats")));
  EXPECT_FALSE(fs::exists(at / ("p32-" + dead + ".stats")));
  EXPECT_FALSE(fs::exists(at / ("p34-" + dead + ".stats")));
  clear_up_programs(at / "none");
}

}  // namespace
}  // namespace weft::tools
