// How long a process that dies stays down.
#include "tools/launch/node_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "tests/support/temp_dir.h"

namespace weft::tools {
namespace {

class NodeProcessTest : public ::testing::Test {
 protected:
  void SetUp() override { setenv("WEFT_STATE_DIR", base_.path().c_str(), 1); }
  void TearDown() override { unsetenv("WEFT_STATE_DIR"); }

  /// Starts it at `now`, and lets it end `lives` later.
  Duration pause_after(NodeProcess& process, Instant& now, Duration lives) {
    EXPECT_TRUE(process.start(now).ok());
    int status = 0;
    EXPECT_EQ(waitpid(process.pid(), &status, 0), process.pid());
    now += lives;
    process.ended(status, now);
    const Duration pause = process.next_start() - now;
    now = process.next_start();
    return pause;
  }

  test::TempDir base_;
};

TEST_F(NodeProcessTest, the_pause_doubles_up_to_a_second_and_begins_anew_after_a_healthy_life) {
  const StateDir dir = StateDir::create("f").value();
  NodeCommand command;
  command.name = "s1";
  command.spec = node::SwitchSpec{};
  const UniqueFd lifeline(open("/dev/null", O_RDONLY | O_CLOEXEC));
  NodeProcess process(command, "/bin/true", dir, -1, lifeline.get(), {});
  Instant now{std::chrono::seconds(100)};
  for (const Duration pause : {kBackOffFirst, 2 * kBackOffFirst, 4 * kBackOffFirst})
    EXPECT_EQ(pause_after(process, now, kHealthy - Duration(1)), pause);
  for (int i = 0; i < 8; ++i) static_cast<void>(pause_after(process, now, Duration(1)));
  EXPECT_EQ(pause_after(process, now, Duration(1)), kBackOffMax);
  EXPECT_EQ(pause_after(process, now, kHealthy), kBackOffFirst);
  EXPECT_EQ(pause_after(process, now, Duration(1)), 2 * kBackOffFirst);
}

TEST_F(NodeProcessTest, each_start_but_the_first_is_a_restart) {
  const StateDir dir = StateDir::create("f").value();
  NodeCommand command;
  command.name = "s1";
  command.spec = node::SwitchSpec{};
  const UniqueFd lifeline(open("/dev/null", O_RDONLY | O_CLOEXEC));
  NodeProcess process(command, "/bin/true", dir, -1, lifeline.get(), {});
  Instant now{std::chrono::seconds(100)};
  for (uint32_t restarts = 0; restarts < 3; ++restarts) {
    static_cast<void>(pause_after(process, now, Duration(1)));
    EXPECT_EQ(process.record().restarts, restarts);
  }
}

/// A process that was ready once is started again while others still start, whatever it has answered since.
TEST_F(NodeProcessTest, one_that_was_ready_once_stays_so_through_later_lives) {
  const StateDir dir = StateDir::create("f").value();
  NodeCommand command;
  command.name = "s1";
  command.spec = node::SwitchSpec{};
  const UniqueFd lifeline(open("/dev/null", O_RDONLY | O_CLOEXEC));
  NodeProcess process(command, "/bin/true", dir, -1, lifeline.get(), {});
  process.answered(false);
  EXPECT_FALSE(process.ready() || process.ever_ready());
  process.answered(true);
  EXPECT_TRUE(process.ready() && process.ever_ready());
  process.answered(false);
  EXPECT_FALSE(process.ready());
  EXPECT_TRUE(process.ever_ready()) << "it may be frozen";
  process.answered(true);
  Instant now{std::chrono::seconds(100)};
  static_cast<void>(pause_after(process, now, Duration(1)));
  EXPECT_FALSE(process.ready()) << "it has ended";
  EXPECT_TRUE(process.ever_ready());
}

}  // namespace
}  // namespace weft::tools
