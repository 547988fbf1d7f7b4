#include "messages/window_call.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::test {
namespace {

TEST(WindowCall, every_field_comes_back) {
  const auto bytes = encode_window_call({SubnetId(0x0102), Lid(0x0304), Lid(0x0506)});
  WindowCall got;
  ASSERT_EQ(decode_window_call(bytes, got), WindowCallFault::kNone);
  EXPECT_EQ(got.subnet, SubnetId(0x0102));
  EXPECT_EQ(got.from, Lid(0x0304));
  EXPECT_EQ(got.to, Lid(0x0506));
}

TEST(WindowCall, a_wrong_packet_is_refused_and_leaves_the_result_alone) {
  struct Wrong {
    size_t at;
    std::byte value;
    WindowCallFault fault;
  };
  const std::vector<Wrong> wrong{
      {0, std::byte{1}, WindowCallFault::kMagic},     {3, std::byte{1}, WindowCallFault::kMagic},
      {5, std::byte{2}, WindowCallFault::kVersion},   {12, std::byte{1}, WindowCallFault::kReserved},
      {15, std::byte{1}, WindowCallFault::kReserved}, {9, std::byte{0}, WindowCallFault::kLid},
      {11, std::byte{0}, WindowCallFault::kLid}};
  for (const Wrong& one : wrong) {
    auto bytes = encode_window_call({SubnetId(0), Lid(1), Lid(2)});
    bytes[one.at] = one.value;
    WindowCall got{SubnetId(9), Lid(9), Lid(9)};
    EXPECT_EQ(decode_window_call(bytes, got), one.fault) << one.at;
    EXPECT_EQ(got.from, Lid(9));
  }
  const auto broadcast = encode_window_call({SubnetId(0), Lid(0xFFFF), Lid(2)});
  WindowCall got;
  EXPECT_EQ(decode_window_call(broadcast, got), WindowCallFault::kLid);
}

TEST(WindowCall, any_other_length_is_refused) {
  const auto good = encode_window_call({SubnetId(0), Lid(1), Lid(2)});
  for (size_t bytes = 0; bytes <= kWindowCallBytes + 4; ++bytes) {
    std::vector<std::byte> packet(good.begin(), good.end());
    packet.resize(bytes);
    WindowCall got;
    EXPECT_EQ(decode_window_call(packet, got) == WindowCallFault::kNone, bytes == kWindowCallBytes) << bytes;
  }
}

}  // namespace
}  // namespace weft::test
