// Captures of one process: each has its own ring, in which a frame stands with the number of its port, and
// none ends another.
#include "base/net/capture_set.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "base/net/capture_port.h"
#include "base/words.h"
#include "tests/support/memory_frame_port.h"
#include "tests/support/temp_dir.h"

namespace weft {
namespace {

class CaptureSetTest : public ::testing::Test {
 protected:
  static std::unique_ptr<CapturePort> port(const char* name) {
    return std::make_unique<CapturePort>(
        std::make_unique<test::MemoryFramePort>(MacAddress{2, 0, 0, 0, 0, 1}), name);
  }
  [[nodiscard]] std::string path(const std::string& name) const { return dir_.path() + "/" + name; }
  /// Starts a capture that must start, and opens its ring.
  CaptureRing start(const std::string& name, const std::string& interface = "", pid_t reader = getpid()) {
    const Status started = captures_.start({path(name), interface, 0, 0, reader});
    EXPECT_TRUE(started.ok()) << started.error().text;
    return CaptureRing::open(path(name)).value();
  }
  /// A frame of `bytes` bytes passes outwards.
  static void pass(CapturePort& at, size_t bytes) {
    const std::vector<std::byte> frame(kVnetBytes + bytes);
    ASSERT_EQ(at.write_frame(std::span(frame).first(kVnetBytes), std::span(frame).subspan(kVnetBytes)),
              FrameIo::kOk);
  }
  /// Port and length of each frame in the ring.
  using Frames = std::vector<std::pair<uint32_t, uint32_t>>;
  static Frames frames(CaptureRing& ring) {
    Frames out;
    for (CapturedFrame frame; ring.read(frame) == CaptureRing::ReadResult::kFrame;)
      out.emplace_back(frame.port, frame.frame_bytes);
    return out;
  }

  test::TempDir dir_;
  std::unique_ptr<CapturePort> left_ = port("eth0");
  std::unique_ptr<CapturePort> right_ = port("eth1");
  CaptureSet captures_{{left_.get(), right_.get()}};
};

TEST_F(CaptureSetTest, all_interfaces_share_a_ring) {
  CaptureRing ring = start("a");
  pass(*right_, 60);
  pass(*left_, 61);
  EXPECT_EQ(frames(ring), (Frames{{1, 60}, {0, 61}}));
  captures_.stop(path("a"));
  pass(*right_, 60);
  EXPECT_TRUE(frames(ring).empty());
}

TEST_F(CaptureSetTest, a_second_capture_leaves_the_first_alone) {
  CaptureRing all = start("all");
  CaptureRing one = start("one", "eth1");
  pass(*left_, 61);
  pass(*right_, 60);
  EXPECT_EQ(frames(all), (Frames{{0, 61}, {1, 60}}));
  EXPECT_EQ(frames(one), (Frames{{1, 60}}));
  captures_.stop(path("one"));
  captures_.stop(path("one"));
  pass(*right_, 62);
  EXPECT_EQ(frames(all), (Frames{{1, 62}}));
  EXPECT_TRUE(frames(one).empty());
}

TEST_F(CaptureSetTest, one_too_many_is_told_who_is_there) {
  for (size_t i = 0; i < kCapturesMax; ++i) start(std::to_string(i));
  const Status refused = captures_.start({path("more"), "", 0, 0, getpid()});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text,
            "4 captures run here already, as many as there may be; end one of the processes " +
                joined(std::vector<std::string>(kCapturesMax, std::to_string(getpid()))));
  EXPECT_FALSE(std::filesystem::exists(path("more")));
  captures_.stop(path("2"));
  start("more");
}

TEST_F(CaptureSetTest, a_capture_whose_reader_was_killed_gives_its_place_up) {
  const pid_t gone = fork();
  if (gone == 0) _exit(0);
  ASSERT_EQ(waitpid(gone, nullptr, 0), gone);
  CaptureRing left_behind = start("0", "", gone);
  for (size_t i = 1; i < kCapturesMax; ++i) start(std::to_string(i));
  CaptureRing next = start("next");
  EXPECT_FALSE(std::filesystem::exists(path("0")));
  pass(*left_, 60);
  EXPECT_TRUE(frames(left_behind).empty());
  EXPECT_EQ(frames(next), (Frames{{0, 60}}));
}

TEST_F(CaptureSetTest, an_unknown_name_is_told_what_there_is) {
  const Status refused = captures_.start({path("a"), "eht1", 0, 0, getpid()});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "there is no interface 'eht1'; did you mean 'eth1'? known: eth0, eth1");
  EXPECT_FALSE(std::filesystem::exists(path("a")));
}

}  // namespace
}  // namespace weft
