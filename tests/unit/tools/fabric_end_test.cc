// How `weft down` ends a fabric, and what it finds afterwards.
#include "tools/launch/fabric_end.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <thread>

#include "tests/support/state_dir_fixture.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

/// A process that stands for a launcher. The tests hold the lock for it.
class StandInLauncher {
 public:
  explicit StandInLauncher(bool ends_by_signal) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      if (!ends_by_signal) signal(SIGTERM, SIG_IGN);
      alarm(60);
      [[maybe_unused]] const ssize_t told = write(ready[1], "r", 1);
      for (;;) pause();
    }
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~StandInLauncher() {
    if (pid_ > 0) end_status(SIGKILL);
  }
  StandInLauncher(const StandInLauncher&) = delete;
  StandInLauncher& operator=(const StandInLauncher&) = delete;

  [[nodiscard]] RunRecord record() const {
    RunRecord out;
    out.launcher = pid_;
    out.launcher_ticks = process_start_ticks(pid_);
    return out;
  }
  [[nodiscard]] bool runs() const { return process_start_ticks(pid_) != 0; }
  int end_status(int signal) {
    if (signal != 0) kill(pid_, signal);
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = 0;
    return status;
  }

 private:
  pid_t pid_ = 0;
};

class FabricEndTest : public test::StateDirFixture {
 protected:
  void SetUp() override {
    StateDirFixture::SetUp();
    Result<StateDir> ours = StateDir::create("f");
    Result<StateDir> others = StateDir::open("f");
    ASSERT_TRUE(ours.ok() && others.ok());
    dir_.emplace(std::move(*ours));
    holder_.emplace(std::move(*others));
    ASSERT_TRUE(holder_->lock().ok());
  }

  std::optional<StateDir> dir_;
  std::optional<StateDir> holder_;  // has the lock
};

TEST_F(FabricEndTest, a_launcher_that_waited_for_the_lock_is_another_fabric) {
  StandInLauncher launcher(true);
  StandInLauncher next(true);
  ASSERT_TRUE(holder_->save(launcher.record()).ok());
  std::thread starts([&] {
    while (launcher.runs()) std::this_thread::sleep_for(1ms);
    EXPECT_TRUE(holder_->save(next.record()).ok());
  });
  EXPECT_EQ(end_fabric(*dir_, 60s), FabricEnd::kReplaced);
  starts.join();
  EXPECT_TRUE(next.runs());
  EXPECT_TRUE(WIFSIGNALED(launcher.end_status(0)));
}

/// It has the lock while it cleans up.
TEST_F(FabricEndTest, another_that_ends_the_same_fabric_is_waited_for) {
  StandInLauncher launcher(true);
  ASSERT_TRUE(holder_->save(launcher.record()).ok());
  std::thread other([&] {
    while (launcher.runs()) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(50ms);
    holder_.reset();
  });
  EXPECT_EQ(end_fabric(*dir_, 60s), FabricEnd::kEnded);
  other.join();
}

TEST_F(FabricEndTest, a_launcher_that_does_not_end_stays) {
  const StandInLauncher launcher(false);
  ASSERT_TRUE(holder_->save(launcher.record()).ok());
  EXPECT_EQ(end_fabric(*dir_, 50ms), FabricEnd::kStays);
  EXPECT_TRUE(launcher.runs());
}

/// A process that this one does not see may hold the lock, so its end is not known.
TEST_F(FabricEndTest, a_launcher_that_cannot_be_seen_is_not_called_ended) {
  StandInLauncher launcher(true);
  RunRecord record = launcher.record();
  ++record.launcher_ticks;  // another process of this number
  ASSERT_TRUE(holder_->save(record).ok());
  EXPECT_EQ(end_fabric(*dir_, 50ms), FabricEnd::kHidden);
  EXPECT_TRUE(launcher.runs());
}

TEST_F(FabricEndTest, the_lock_is_taken_when_it_is_free) {
  StandInLauncher launcher(true);
  ASSERT_TRUE(holder_->save(launcher.record()).ok());
  holder_.reset();
  EXPECT_EQ(end_fabric(*dir_, 2s), FabricEnd::kEnded);
  EXPECT_TRUE(StateDir::open("f")->locked());
}

TEST_F(FabricEndTest, a_launcher_that_has_just_started_is_ended_once_it_is_recorded) {
  StandInLauncher launcher(true);
  RunRecord earlier;
  earlier.launcher = getpid();
  earlier.launcher_ticks = process_start_ticks(getpid()) + 1;
  ASSERT_TRUE(holder_->save(earlier).ok());
  std::thread starts([&] {
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(holder_->save(launcher.record()).ok());
    while (launcher.runs()) std::this_thread::sleep_for(1ms);
    holder_.reset();
  });
  EXPECT_EQ(end_fabric(*dir_, 60s), FabricEnd::kEnded);
  starts.join();
  const int status = launcher.end_status(0);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

}  // namespace
}  // namespace weft::tools
