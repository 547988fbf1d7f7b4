// Ports of one process under one capture: each frame stands in the ring with the number of its port.
#include "base/capture_port.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "tests/support/memory_frame_port.h"

namespace weft {
namespace {

class CapturePortTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  static std::unique_ptr<CapturePort> port(const char* name) {
    return std::make_unique<CapturePort>(
        std::make_unique<test::MemoryFramePort>(MacAddress{2, 0, 0, 0, 0, 1}), name);
  }
  [[nodiscard]] CaptureRequest of(const char* interface) const { return {path_, interface, 0, 0}; }
  /// A frame of `bytes` bytes passes outwards.
  static void pass(CapturePort& at, size_t bytes) {
    const std::vector<std::byte> frame(kVnetBytes + bytes);
    ASSERT_EQ(at.write_frame(std::span(frame).first(kVnetBytes), std::span(frame).subspan(kVnetBytes)),
              FrameIo::kOk);
  }

  std::string path_ =
      (std::filesystem::temp_directory_path() / ("weft-port-" + std::to_string(getpid()))).string();
  std::unique_ptr<CapturePort> left_ = port("eth0");
  std::unique_ptr<CapturePort> right_ = port("eth1");
  std::array<CapturePort*, 2> ports_{left_.get(), right_.get()};
};

TEST_F(CapturePortTest, all_interfaces_share_a_ring) {
  ASSERT_TRUE(start_capture(ports_, of("")).ok());
  Result<CaptureRing> ring = CaptureRing::open(path_);
  ASSERT_TRUE(ring.ok()) << ring.error().text;
  pass(*right_, 60);
  pass(*left_, 61);
  CapturedFrame frame;
  ASSERT_EQ(ring.value().read(frame), CaptureRing::ReadResult::kFrame);
  EXPECT_EQ(std::pair(frame.port, frame.frame_bytes), std::pair(1U, 60U));
  ASSERT_EQ(ring.value().read(frame), CaptureRing::ReadResult::kFrame);
  EXPECT_EQ(std::pair(frame.port, frame.frame_bytes), std::pair(0U, 61U));
  right_->stop_capture();
  pass(*right_, 60);
  EXPECT_EQ(ring.value().read(frame), CaptureRing::ReadResult::kEmpty);
}

TEST_F(CapturePortTest, one_interface_is_chosen_by_name) {
  ASSERT_TRUE(start_capture(ports_, of("")).ok());
  ASSERT_TRUE(start_capture(ports_, of("eth1")).ok()) << "takes the place of the first";
  Result<CaptureRing> ring = CaptureRing::open(path_);
  ASSERT_TRUE(ring.ok());
  pass(*left_, 61);
  pass(*right_, 60);
  CapturedFrame frame;
  ASSERT_EQ(ring.value().read(frame), CaptureRing::ReadResult::kFrame);
  EXPECT_EQ(frame.port, 1U);
  EXPECT_EQ(ring.value().read(frame), CaptureRing::ReadResult::kEmpty);
}

TEST_F(CapturePortTest, an_unknown_name_is_told_what_there_is) {
  const Status refused = start_capture(ports_, of("eht1"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().text, "there is no interface 'eht1'; did you mean 'eth1'? known: eth0, eth1");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace weft
