// The capture ring between its two ends: everything that fits arrives whole and in order, the rest is
// counted.
#include "base/net/capture_ring.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/rng.h"

namespace weft {
namespace {

class CaptureRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() / ("weft-capture-" + std::to_string(getpid()))).string();
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};

std::vector<std::byte> frame_of(size_t bytes, uint64_t seed) {
  std::vector<std::byte> frame(bytes);
  SeededRandom random(seed);
  random.fill(frame);
  return frame;
}

TEST_F(CaptureRingTest, frames_cross_whole_and_in_order_many_times_round) {
  Result<CaptureRing> writer = CaptureRing::create(path_, kCaptureRingBytesMin);
  ASSERT_TRUE(writer.ok()) << writer.error().text;
  Result<CaptureRing> reader = CaptureRing::open(path_);
  ASSERT_TRUE(reader.ok()) << reader.error().text;
  SeededRandom random(1);
  CapturedFrame got;
  for (uint32_t i = 0; i < 2'000; ++i) {
    const std::vector<std::byte> frame = frame_of(14 + random.below(9'000), i);
    const size_t cut = random.below(frame.size());
    writer.value().write(i % 3, FrameDirection::kOut, std::span(frame).first(cut),
                         std::span(frame).subspan(cut), 1U << 20);
    ASSERT_EQ(reader.value().read(got), CaptureRing::ReadResult::kFrame);
    ASSERT_EQ(got.data, frame);
    ASSERT_EQ(got.direction, FrameDirection::kOut);
    ASSERT_EQ(got.port, i % 3);
    ASSERT_GT(got.time_ns, 0U);
  }
  EXPECT_EQ(reader.value().read(got), CaptureRing::ReadResult::kEmpty);
  EXPECT_EQ(reader.value().dropped(), 0U);
}

TEST_F(CaptureRingTest, notes_cross_with_their_frames) {
  Result<CaptureRing> writer = CaptureRing::create(path_, kCaptureRingBytesMin);
  Result<CaptureRing> reader = CaptureRing::open(path_);
  ASSERT_TRUE(writer.ok() && reader.ok());
  SeededRandom random(4);
  CapturedFrame got;
  for (uint32_t i = 0; i < 2'000; ++i) {
    const std::vector<std::byte> frame = frame_of(1 + random.below(9'000), i);
    const std::string note(random.below(2 * kCaptureNoteBytesMax), static_cast<char>('a' + i % 26));
    writer.value().write(0, FrameDirection::kIn, frame, {}, 1U << 20, note);
    ASSERT_EQ(reader.value().read(got), CaptureRing::ReadResult::kFrame);
    ASSERT_EQ(got.data, frame);
    ASSERT_EQ(got.note, note.substr(0, kCaptureNoteBytesMax));
  }
}

TEST_F(CaptureRingTest, a_second_reader_goes_on_where_the_first_one_stopped) {
  Result<CaptureRing> writer = CaptureRing::create(path_, kCaptureRingBytesMin);
  ASSERT_TRUE(writer.ok());
  for (uint32_t port = 0; port < 3; ++port)
    writer.value().write(port, FrameDirection::kIn, frame_of(100, port), {}, 1U << 20);
  for (uint32_t port = 0; port < 3; ++port) {
    Result<CaptureRing> reader = CaptureRing::open(path_);
    ASSERT_TRUE(reader.ok());
    CapturedFrame got;
    ASSERT_EQ(reader.value().read(got), CaptureRing::ReadResult::kFrame);
    EXPECT_EQ(got.port, port);
  }
}

TEST_F(CaptureRingTest, long_frames_are_cut_and_full_rings_count) {
  Result<CaptureRing> writer = CaptureRing::create(path_, kCaptureRingBytesMin);
  Result<CaptureRing> reader = CaptureRing::open(path_);
  ASSERT_TRUE(writer.ok() && reader.ok());
  const std::vector<std::byte> frame = frame_of(1'514, 3);
  uint64_t written = 0;
  for (; reader.value().dropped() == 0; ++written)
    writer.value().write(0, FrameDirection::kIn, frame, {}, 96);
  EXPECT_EQ(written - 1, kCaptureRingBytesMin / (32 + 96));
  CapturedFrame got;
  uint64_t seen = 0;
  for (; reader.value().read(got) == CaptureRing::ReadResult::kFrame; ++seen) {
    ASSERT_EQ(got.data.size(), 96U);
    ASSERT_EQ(got.frame_bytes, 1'514U);
  }
  EXPECT_EQ(seen, written - 1);
}

/// The rest of the ring has room for the last frame, and not for its note.
TEST_F(CaptureRingTest, a_note_that_does_not_fit_is_dropped_with_its_frame) {
  Result<CaptureRing> writer = CaptureRing::create(path_, kCaptureRingBytesMin);
  Result<CaptureRing> reader = CaptureRing::open(path_);
  ASSERT_TRUE(writer.ok() && reader.ok());
  constexpr uint32_t kKept = 96;
  constexpr uint32_t kWhole = 32 + kKept + kCaptureNoteBytesMax;
  static_assert(kCaptureRingBytesMin % kWhole >= 32 + kKept);
  const std::string note(kCaptureNoteBytesMax, 'n');
  for (uint32_t i = 0; reader.value().dropped() == 0; ++i)
    writer.value().write(i, FrameDirection::kIn, frame_of(kKept, i), {}, kKept, note);
  CapturedFrame got;
  uint32_t seen = 0;
  for (; reader.value().read(got) == CaptureRing::ReadResult::kFrame; ++seen) {
    ASSERT_EQ(got.data, frame_of(kKept, seen));
    ASSERT_EQ(got.note, note);
  }
  EXPECT_EQ(seen, kCaptureRingBytesMin / kWhole);
}

/// Fields of the first record, by their offsets: each one alone is damaged and repaired.
TEST_F(CaptureRingTest, each_field_of_a_record_is_checked) {
  Result<CaptureRing> writer = CaptureRing::create(path_, kCaptureRingBytesMin);
  Result<CaptureRing> reader = CaptureRing::open(path_);
  ASSERT_TRUE(writer.ok() && reader.ok());
  const std::vector<std::byte> frame = frame_of(100, 3);
  writer.value().write(0, FrameDirection::kIn, frame, {}, 100);
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  const auto poke = [&file](std::streamoff at, uint32_t value) {
    file.seekp(4096 + at);
    file.write(reinterpret_cast<const char*>(&value), sizeof value).flush();
  };
  struct Field {
    std::streamoff at;
    uint32_t wrong;
    uint32_t right;
    const char* why;
  };
  CapturedFrame got;
  for (const Field& field :
       {Field{0, 101, 100, "more is kept than the frame had"},
        Field{0, 105, 100, "more is kept than was written"},
        Field{16, 2, 0, "a direction that does not exist"}, Field{24, 5, 0, "a note that was not written"}}) {
    poke(field.at, field.wrong);
    EXPECT_EQ(reader.value().read(got), CaptureRing::ReadResult::kBroken) << field.why;
    poke(field.at, field.right);
  }
  ASSERT_EQ(reader.value().read(got), CaptureRing::ReadResult::kFrame);
  EXPECT_EQ(got.data, frame);
}

TEST_F(CaptureRingTest, hostile_cursors_harm_neither_side) {
  Result<CaptureRing> writer = CaptureRing::create(path_, kCaptureRingBytesMin);
  Result<CaptureRing> reader = CaptureRing::open(path_);
  ASSERT_TRUE(writer.ok() && reader.ok());
  const std::vector<std::byte> frame = frame_of(100, 3);
  const auto poke = [this](std::streamoff at, uint64_t value) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
  };
  poke(256, uint64_t{1} << 40);  // reader far ahead
  writer.value().write(0, FrameDirection::kIn, frame, {}, 100);
  poke(256, 0);
  writer.value().write(0, FrameDirection::kIn, frame, {}, 100);
  EXPECT_EQ(writer.value().dropped(), 1U);
  CapturedFrame got;
  poke(128, uint64_t{1} << 40);  // writer far ahead
  EXPECT_EQ(reader.value().read(got), CaptureRing::ReadResult::kBroken);
  poke(128, 64);
  poke(4096, ~uint64_t{0});  // absurd lengths
  EXPECT_EQ(reader.value().read(got), CaptureRing::ReadResult::kBroken);
}

TEST_F(CaptureRingTest, something_else_is_refused) {
  std::ofstream(path_) << "text";
  EXPECT_FALSE(CaptureRing::open(path_).ok());
  EXPECT_FALSE(CaptureRing::open(path_ + "-none").ok());
}

}  // namespace
}  // namespace weft
