// A window in one file: its set-up, sides that come back, end or fall silent.
#include "fabric/window/file_device.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr size_t kFileBytes = 65'536;

class FileWindow : public ::testing::Test {
 protected:
  [[nodiscard]] FileDeviceConfig config(uint32_t side) const {
    FileDeviceConfig out;
    out.path = dir.path() + "/window";
    out.side = side;
    out.file_bytes = kFileBytes;
    return out;
  }
  std::unique_ptr<DmaDevice> open(uint32_t side) {
    return std::move(make_file_device(config(side), random).value());
  }
  void step(std::initializer_list<DmaDevice*> devices, Duration by = 1ms) {
    clock.advance(by);
    for (DmaDevice* device : devices) device->poll(clock.now());
  }
  std::string refusal(const FileDeviceConfig& wrong) {
    const auto made = make_file_device(wrong, random);
    return made.ok() ? "" : made.error().text;
  }

  TempDir dir;
  SeededRandom random{1};
  ManualClock clock;
};

TEST_F(FileWindow, both_sides_come_up_and_share_the_file) {
  const auto a = open(0);
  step({a.get()}, 1h);
  EXPECT_EQ(a->peer(), PeerState::kJoining) << "alone";
  EXPECT_EQ(a->peer_scratchpad(0), 0U);
  const auto b = open(1);
  for (int i = 0; i < 3; ++i) step({a.get(), b.get()});
  ASSERT_EQ(a->peer(), PeerState::kUp);
  ASSERT_EQ(b->peer(), PeerState::kUp);
  EXPECT_EQ(a->own_memory().size(), window_bytes_of_file(kFileBytes));
  EXPECT_EQ(a->limits().peer_window_bytes, 28'672U);
  EXPECT_FALSE(a->limits().memory_space);
  b->set_scratchpad(3, 0x0102030405060708);
  EXPECT_EQ(a->peer_scratchpad(3), 0x0102030405060708U);
  std::array<std::byte, 16> local{};
  local.fill(std::byte{7});
  ASSERT_TRUE(a->post({DmaKind::kWrite, DmaSpace::kWindow, 100, local.data(), 16, 1}));
  ASSERT_TRUE(a->post({DmaKind::kWrite, DmaSpace::kWindow, 28'664, local.data(), 16, 2}));
  ASSERT_TRUE(a->post({DmaKind::kRead, DmaSpace::kMemory, 100, local.data(), 16, 3}));
  a->flush();
  std::array<DmaCompletion, 4> done;
  ASSERT_EQ(a->completions(done), 3U);
  EXPECT_EQ(done[0].status, DmaStatus::kGood);
  EXPECT_EQ(done[1].status, DmaStatus::kOutOfBounds);
  EXPECT_EQ(done[2].status, DmaStatus::kOutOfBounds) << "no memory space";
  EXPECT_EQ(b->own_memory()[115], std::byte{7});
  EXPECT_EQ(b->own_memory()[116], std::byte{0});
  EXPECT_FALSE(b->take_notification());
  a->notify();
  a->notify();
  EXPECT_FALSE(b->prepare_sleep());
  EXPECT_TRUE(b->take_notification());
  EXPECT_FALSE(b->take_notification()) << "two as one";
}

TEST_F(FileWindow, a_side_that_comes_back_makes_a_new_window) {
  auto a = open(0);
  auto b = open(1);
  for (int i = 0; i < 3; ++i) step({a.get(), b.get()});
  b->own_memory()[5] = std::byte{9};
  b.reset();
  step({a.get()});
  EXPECT_EQ(a->peer(), PeerState::kGone);
  EXPECT_TRUE(a->peer_ended());
  b = open(1);
  EXPECT_EQ(b->own_memory()[5], std::byte{0}) << "nothing of the old window";
  for (int i = 0; i < 5; ++i) step({a.get(), b.get()});
  EXPECT_EQ(a->peer(), PeerState::kGone) << "for ever";
  EXPECT_EQ(b->peer(), PeerState::kJoining) << "with the side that was joined before";
  a.reset();
  a = open(0);
  for (int i = 0; i < 5; ++i) step({a.get(), b.get()});
  EXPECT_EQ(a->peer(), PeerState::kUp);
  EXPECT_EQ(b->peer(), PeerState::kUp);
}

TEST_F(FileWindow, without_locks_silence_ends_it_but_not_the_peer) {
  FileDeviceConfig mine = config(0);
  mine.locks = false;
  mine.silence = 1s;
  FileDeviceConfig other = mine;
  other.side = 1;
  {
    const auto make = open(0);  // makes the file
  }
  const auto a = std::move(make_file_device(mine, random).value());
  const auto b = std::move(make_file_device(other, random).value());
  for (int i = 0; i < 3; ++i) step({a.get(), b.get()});
  ASSERT_EQ(a->peer(), PeerState::kUp);
  for (int i = 0; i < 30; ++i) step({a.get(), b.get()}, 500ms);
  EXPECT_EQ(a->peer(), PeerState::kUp) << "it polls";
  for (int i = 0; i < 4; ++i) step({a.get()}, 200ms);
  EXPECT_EQ(a->peer(), PeerState::kUp);
  for (int i = 0; i < 4; ++i) step({a.get()}, 200ms);
  EXPECT_EQ(a->peer(), PeerState::kGone);
  EXPECT_FALSE(a->peer_ended()) << "it may be stopped, and go on";
}

TEST_F(FileWindow, a_stopped_process_stays_and_a_killed_one_has_ended) {
  const pid_t child = fork();
  if (child == 0) {
    SystemRandom chance;
    const MonotonicClock time;
    auto device = make_file_device(config(1), chance);
    if (!device) _exit(1);
    for (;;) {
      (*device)->poll(time.now());
      std::this_thread::sleep_for(1ms);
    }
  }
  auto a = open(0);
  const MonotonicClock time;
  const auto wait_for = [&](PeerState state) {
    for (const Instant limit = time.now() + 20s; time.now() < limit && a->peer() != state;) {
      a->poll(time.now());
      std::this_thread::sleep_for(1ms);
    }
    return a->peer() == state;
  };
  ASSERT_TRUE(wait_for(PeerState::kUp));
  kill(child, SIGSTOP);
  for (int i = 0; i < 100; ++i) a->poll(time.now() + i * 1s);
  EXPECT_EQ(a->peer(), PeerState::kUp) << "its lock stands";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  a->poll(time.now() + 1h);
  EXPECT_EQ(a->peer(), PeerState::kGone);
  EXPECT_TRUE(a->peer_ended());
}

TEST_F(FileWindow, what_cannot_be_used_is_refused_with_its_remedy) {
  const auto a = open(0);
  EXPECT_NE(refusal(config(0)).find("another process uses side 0"), std::string::npos) << refusal(config(0));
  EXPECT_NE(refusal(config(2)).find("give 0 or 1"), std::string::npos);
  FileDeviceConfig wrong = config(1);
  wrong.file_bytes = 2 * kFileBytes;
  EXPECT_NE(refusal(wrong).find("65536 bytes and should have 131072"), std::string::npos) << refusal(wrong);
  wrong = config(1);
  wrong.path = dir.path() + "/none";
  wrong.file_bytes = 0;
  EXPECT_NE(refusal(wrong).find("cannot open"), std::string::npos);
  wrong.file_bytes = 8192;
  EXPECT_NE(refusal(wrong).find("a window needs at least 16384"), std::string::npos) << refusal(wrong);
  ASSERT_EQ(chmod(config(1).path.c_str(), 0640), 0);
  EXPECT_NE(refusal(config(1)).find("chmod 0600"), std::string::npos);
  ASSERT_EQ(chmod(config(1).path.c_str(), 0600), 0);
  ASSERT_EQ(symlink(config(1).path.c_str(), (dir.path() + "/link").c_str()), 0);
  wrong = config(1);
  wrong.path = dir.path() + "/link";
  EXPECT_NE(refusal(wrong).find("regular file of this user"), std::string::npos);
}

}  // namespace
}  // namespace weft::test
