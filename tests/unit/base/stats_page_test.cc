// A page that a process holds: it is named while the process lives and no longer, and nobody takes it from
// it.
#include "base/stats_page.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>

#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"

namespace weft {
namespace {

/// Another process that makes the page, says so, and lives until it is killed.
class Holder : public test::ChildProcess {
 public:
  explicit Holder(const std::string& path) : ChildProcess([&path] { return hold(path); }) {}

 private:
  static Result<StatsPage> hold(const std::string& path) {
    Result<StatsPage> page = StatsPage::create_held(path, 16);
    if (page.ok()) page->add("count")->store(7);
    const pid_t holder = getpid();
    if (page.ok() && fork() == 0) {  // a child has no part in it
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() == holder) pause();  // or it was killed before it could be told of
      _exit(0);
    }
    return page;
  }
};

TEST(StatsPage, takes_as_many_entries_as_it_was_made_for) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/p.stats";
  Result<StatsPage> page = StatsPage::create(path, 2);
  ASSERT_TRUE(page.ok());
  EXPECT_NE(page->add("one"), nullptr);
  EXPECT_NE(page->add("two"), nullptr);
  EXPECT_EQ(page->add("three"), nullptr);
  EXPECT_EQ(read_stats_page(path).value().size(), 2U);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - sizeof(CounterCell));
  EXPECT_FALSE(read_stats_page(path).ok()) << "the last value is not there";
}

TEST(HeldStatsPage, names_its_holder_until_that_is_killed) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/p.stats";
  EXPECT_FALSE(stats_page_holder(path).has_value()) << "there is none";
  Holder holder(path);
  ASSERT_TRUE(holder.made());
  EXPECT_EQ(stats_page_holder(path), holder.pid());
  EXPECT_EQ(read_stats_page(path).value(), (std::vector<std::pair<std::string, uint64_t>>{{"count", 7}}));
  holder.end();
  EXPECT_FALSE(stats_page_holder(path).has_value());
  EXPECT_EQ(read_stats_page(path).value().size(), 1U) << "what it counted stays";
}

TEST(HeldStatsPage, is_not_taken_from_a_holder_that_lives) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/p.stats";
  Holder first(path);
  ASSERT_TRUE(first.made());
  Holder second(path);
  EXPECT_FALSE(second.made());
  EXPECT_EQ(stats_page_holder(path), first.pid());
  first.end();
  Holder third(path);
  EXPECT_TRUE(third.made()) << "the name is free again";
  EXPECT_EQ(stats_page_holder(path), third.pid());
  const auto files = std::filesystem::directory_iterator(dir.path());
  EXPECT_EQ(std::distance(begin(files), end(files)), 1) << "and nothing else is left";
}

TEST(HeldStatsPage, a_page_without_holder_is_replaced_whole) {
  const test::TempDir dir;
  const std::string path = dir.path() + "/p.stats";
  ASSERT_TRUE(StatsPage::create(path, 8).ok());
  EXPECT_FALSE(stats_page_holder(path).has_value()) << "create() holds nothing";
  Holder holder(path);
  ASSERT_TRUE(holder.made());
  EXPECT_EQ(read_stats_page(path).value().size(), 1U);
}

}  // namespace
}  // namespace weft
