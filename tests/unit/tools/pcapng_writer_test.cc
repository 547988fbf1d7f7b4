// Bytes of pcapng files, read back block by block.
#include "tools/capture/pcapng_writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace weft::tools {
namespace {

struct Block {
  uint32_t type = 0;
  std::string body;
};

template <class T>
T number(const std::string& from, size_t at) {
  T out{};
  EXPECT_LE(at + sizeof out, from.size());
  std::memcpy(&out, from.data() + at, sizeof out);
  return out;
}

/// Both lengths of a block have to agree, and be multiples of four.
std::vector<Block> blocks_of(const std::string& file) {
  std::vector<Block> out;
  for (size_t at = 0; at < file.size();) {
    const auto total = number<uint32_t>(file, at + 4);
    EXPECT_EQ(total % 4, 0U);
    EXPECT_EQ(number<uint32_t>(file, at + total - 4), total);
    out.push_back({number<uint32_t>(file, at), file.substr(at + 8, total - 12)});
    at += total;
  }
  return out;
}

/// Code -> value, from `at` on to the end of options.
std::map<uint16_t, std::string> options_of(const std::string& body, size_t at) {
  std::map<uint16_t, std::string> out;
  while (true) {
    const auto code = number<uint16_t>(body, at);
    const auto bytes = number<uint16_t>(body, at + 2);
    if (code == 0) {
      EXPECT_EQ(at + 4, body.size()) << "nothing behind the end of the options";
      return out;
    }
    out[code] = body.substr(at + 4, bytes);
    at += 4 + (bytes + 3U) / 4 * 4;
  }
}

class PcapngWriterTest : public ::testing::Test {
 protected:
  PcapngWriter writer(CaptureContent content, uint32_t keep_max = 0) {
    return {UniqueFd(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600)),
            {"a", "longer"},
            content,
            keep_max};
  }
  std::vector<Block> read() {
    std::ifstream file(path_, std::ios::binary);
    return blocks_of({std::istreambuf_iterator<char>(file), {}});
  }
  static CapturedFrame frame(size_t bytes) {
    CapturedFrame out;
    out.time_ns = 0x0102'0304'0506'0708;
    out.port = 1;
    out.frame_bytes = static_cast<uint32_t>(bytes);
    for (size_t i = 0; i < bytes; ++i) out.data.push_back(static_cast<std::byte>(i));
    return out;
  }

  test::TempDir dir_;
  std::string path_ = dir_.path() + "/file.pcapng";
};

TEST_F(PcapngWriterTest, section_and_interfaces) {
  const std::pair<CaptureContent, uint16_t> kinds[] = {
      {CaptureContent::kFrames, 1}, {CaptureContent::kPackets, 1}, {CaptureContent::kCells, 147}};
  for (const auto& [content, link_type] : kinds) {
    PcapngWriter out = writer(content);
    EXPECT_TRUE(out.flush());
    const std::vector<Block> blocks = read();
    ASSERT_EQ(blocks.size(), 3U);
    EXPECT_EQ(blocks[0].type, 0x0A0D0D0AU);
    EXPECT_EQ(number<uint32_t>(blocks[0].body, 0), 0x1A2B3C4DU);
    EXPECT_EQ(number<uint16_t>(blocks[0].body, 4), 1U);
    EXPECT_EQ(number<uint64_t>(blocks[0].body, 8), UINT64_MAX);
    EXPECT_EQ(options_of(blocks[0].body, 16).at(4).substr(0, 5), "weft ");
    for (size_t i = 1; i <= 2; ++i) {
      EXPECT_EQ(blocks[i].type, 1U);
      EXPECT_EQ(number<uint16_t>(blocks[i].body, 0), link_type);
      const std::map<uint16_t, std::string> options = options_of(blocks[i].body, 8);
      EXPECT_EQ(options.at(2), i == 1 ? "a" : "longer");
      EXPECT_EQ(options.at(9), "\x09") << "nanoseconds";
    }
  }
}

TEST_F(PcapngWriterTest, frames_with_time_lengths_direction_and_comment) {
  PcapngWriter out = writer(CaptureContent::kFrames);
  CapturedFrame first = frame(5);
  first.frame_bytes = 77;
  first.note = "lost here";
  EXPECT_TRUE(out.frame(first));
  CapturedFrame second = frame(4);
  second.direction = FrameDirection::kOut;
  EXPECT_TRUE(out.frame(second));
  EXPECT_TRUE(out.flush());
  const std::vector<Block> blocks = read();
  ASSERT_EQ(blocks.size(), 5U);
  const std::string& body = blocks[3].body;
  EXPECT_EQ(blocks[3].type, 6U);
  EXPECT_EQ(number<uint32_t>(body, 0), 1U) << "index of the interface";
  EXPECT_EQ(number<uint32_t>(body, 4), 0x01020304U) << "upper half of the time";
  EXPECT_EQ(number<uint32_t>(body, 8), 0x05060708U);
  EXPECT_EQ(number<uint32_t>(body, 12), 5U) << "bytes here";
  EXPECT_EQ(number<uint32_t>(body, 16), 77U) << "bytes of the frame";
  EXPECT_EQ(body.substr(20, 8), std::string("\x00\x01\x02\x03\x04\x00\x00\x00", 8));
  const std::map<uint16_t, std::string> options = options_of(body, 28);
  EXPECT_EQ(options.at(2), std::string("\x01\x00\x00\x00", 4)) << "in";
  EXPECT_EQ(options.at(1), "lost here");
  const std::map<uint16_t, std::string> others = options_of(blocks[4].body, 24);
  EXPECT_EQ(others.at(2), std::string("\x02\x00\x00\x00", 4)) << "out";
  EXPECT_FALSE(others.contains(1)) << "there is nothing to say";
}

TEST_F(PcapngWriterTest, only_the_beginning_is_kept_where_no_more_is_wanted) {
  PcapngWriter out = writer(CaptureContent::kPackets, 6);
  EXPECT_TRUE(out.frame(frame(100)));
  EXPECT_TRUE(out.flush());
  const std::string body = read().at(3).body;
  EXPECT_EQ(number<uint32_t>(body, 12), 6U);
  EXPECT_EQ(number<uint32_t>(body, 16), 100U);
  EXPECT_EQ(options_of(body, 28).size(), 1U);
}

TEST_F(PcapngWriterTest, what_cannot_be_written_has_a_reason) {
  PcapngWriter out(UniqueFd(open("/dev/full", O_WRONLY)), {"a"}, CaptureContent::kFrames);
  EXPECT_EQ(out.failure(), 0) << "it is still in memory";
  EXPECT_FALSE(out.flush());
  EXPECT_EQ(out.failure(), ENOSPC);
  EXPECT_FALSE(out.frame(frame(10)));
}

TEST_F(PcapngWriterTest, a_long_capture_does_not_wait_in_memory) {
  PcapngWriter out = writer(CaptureContent::kFrames);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(out.frame(frame(1000)));
  EXPECT_GT(read().size(), 50U);
}

}  // namespace
}  // namespace weft::tools
