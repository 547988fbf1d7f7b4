#include "messages/window_record.h"

#include <gtest/gtest.h>

#include <vector>

namespace weft::test {
namespace {

std::vector<std::byte> record_of(const WindowRecord& record, size_t data) {
  const auto header = encode_window_record(record);
  std::vector<std::byte> out(header.begin(), header.end());
  out.resize(out.size() + data, std::byte{0x5A});
  return out;
}
WindowRecordFault fault_of(const std::vector<std::byte>& bytes) {
  WindowRecord record;
  std::span<const std::byte> data;
  return decode_window_record(bytes, record, data);
}

TEST(WindowRecord, every_field_comes_back) {
  const WindowRecord sent{.kind = WindowRecordKind::kSend,
                          .flags = kRecordLast | kRecordImmediate | kRecordAnswer,
                          .code = 3,
                          .timer = 14,
                          .number = 0x01020304,
                          .acknowledged = 0x05060708,
                          .immediate = 0x090A0B0C,
                          .address = 0x1112131415161718,
                          .key = 0x191A1B1C,
                          .total = 100,
                          .offset = 90,
                          .sender_life = 0x21222324,
                          .receiver_life = 0x25262728};
  WindowRecord got;
  std::span<const std::byte> data;
  const std::vector<std::byte> bytes = record_of(sent, 10);
  ASSERT_EQ(decode_window_record(bytes, got, data), WindowRecordFault::kNone);
  EXPECT_EQ(data.size(), 10U);
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_EQ(got.flags, sent.flags);
  EXPECT_EQ(got.code, sent.code);
  EXPECT_EQ(got.timer, sent.timer);
  EXPECT_EQ(got.number, sent.number);
  EXPECT_EQ(got.acknowledged, sent.acknowledged);
  EXPECT_EQ(got.immediate, sent.immediate);
  EXPECT_EQ(got.address, sent.address);
  EXPECT_EQ(got.key, sent.key);
  EXPECT_EQ(got.total, sent.total);
  EXPECT_EQ(got.offset, sent.offset);
  EXPECT_EQ(got.sender_life, sent.sender_life);
  EXPECT_EQ(got.receiver_life, sent.receiver_life);
}

TEST(WindowRecord, the_bytes_are_those_of_the_page) {
  const auto bytes = encode_window_record(
      {.kind = WindowRecordKind::kRead, .number = 7, .address = 0x0102030405060708, .total = 9});
  EXPECT_EQ(bytes[0], std::byte{9});
  EXPECT_EQ(bytes[7], std::byte{7});
  EXPECT_EQ(bytes[16], std::byte{1});
  EXPECT_EQ(bytes[23], std::byte{8});
  EXPECT_EQ(bytes[31], std::byte{9});
}

TEST(WindowRecord, a_short_send_is_a_whole_send) {
  const auto header = encode_short_send({.flags = kRecordSolicited | kRecordAnswer,
                                         .number = 0x01020304,
                                         .acknowledged = 0x05060708,
                                         .sender_life = 0x21222324,
                                         .receiver_life = 0x25262728});
  std::vector<std::byte> bytes(header.begin(), header.end());
  EXPECT_EQ(bytes[0], std::byte{14});
  EXPECT_EQ(bytes[7], std::byte{4});
  EXPECT_EQ(bytes[16], std::byte{0x25});
  bytes.resize(kShortSendBytes + 8);
  WindowRecord got;
  std::span<const std::byte> data;
  ASSERT_EQ(decode_window_record(bytes, got, data), WindowRecordFault::kNone);
  EXPECT_EQ(data.data(), bytes.data() + kShortSendBytes);
  EXPECT_EQ(data.size(), 8U);
  EXPECT_EQ(got.kind, WindowRecordKind::kSend);
  EXPECT_EQ(got.flags, kRecordLast | kRecordSolicited | kRecordAnswer);
  EXPECT_EQ(got.number, 0x01020304U);
  EXPECT_EQ(got.acknowledged, 0x05060708U);
  EXPECT_EQ(got.total, 8U);
  EXPECT_EQ(got.offset, 0U);
  EXPECT_EQ(got.sender_life, 0x21222324U);
  EXPECT_EQ(got.receiver_life, 0x25262728U);
}

TEST(WindowRecord, each_fault_of_a_short_send_is_refused) {
  const auto header = encode_short_send({.number = 1});
  std::vector<std::byte> bytes(header.begin(), header.end());
  EXPECT_EQ(fault_of(bytes), WindowRecordFault::kNone) << "no data";
  for (const int flag : {1, 2, 4, 32, 64, 128}) {
    std::vector<std::byte> wrong = bytes;
    wrong[1] |= static_cast<std::byte>(flag);
    EXPECT_EQ(fault_of(wrong), WindowRecordFault::kFlags) << flag;
  }
  for (const size_t at : {2U, 3U}) {
    std::vector<std::byte> wrong = bytes;
    wrong[at] = std::byte{1};
    EXPECT_EQ(fault_of(wrong), WindowRecordFault::kReserved) << at;
  }
  bytes.pop_back();
  EXPECT_EQ(fault_of(bytes), WindowRecordFault::kLength);
}

TEST(WindowRecord, a_datagram_has_a_header_of_its_own) {
  const auto header = encode_datagram_record();
  std::vector<std::byte> bytes(header.begin(), header.end());
  EXPECT_EQ(bytes[0], std::byte{15});
  bytes.resize(kDatagramRecordBytes + 44);  // the shortest cell of a datagram
  WindowRecord got;
  std::span<const std::byte> data;
  ASSERT_EQ(decode_window_record(bytes, got, data), WindowRecordFault::kNone);
  EXPECT_EQ(got.kind, WindowRecordKind::kDatagram);
  EXPECT_EQ(data.data(), bytes.data() + kDatagramRecordBytes);
  EXPECT_EQ(data.size(), 44U);
  for (size_t at = 1; at < kDatagramRecordBytes; ++at) {
    std::vector<std::byte> wrong = bytes;
    wrong[at] = std::byte{1};
    EXPECT_EQ(fault_of(wrong), at == 1 ? WindowRecordFault::kFlags : WindowRecordFault::kReserved) << at;
  }
  bytes.resize(kWindowRecordBytes - 1);
  EXPECT_EQ(fault_of(bytes), WindowRecordFault::kLength);
}

TEST(WindowRecord, each_fault_is_refused) {
  const WindowRecord send{.kind = WindowRecordKind::kSend, .flags = kRecordLast, .total = 10};
  EXPECT_EQ(fault_of(record_of(send, 10)), WindowRecordFault::kNone);
  EXPECT_EQ(fault_of(record_of(send, 9)), WindowRecordFault::kRange) << "the last part does not end it";
  EXPECT_EQ(fault_of(record_of(send, 11)), WindowRecordFault::kRange);
  WindowRecord part = send;
  part.flags = 0;
  EXPECT_EQ(fault_of(record_of(part, 10)), WindowRecordFault::kRange) << "it ends, and is not the last part";
  EXPECT_EQ(fault_of(record_of(part, 9)), WindowRecordFault::kNone);
  part.offset = 11;
  EXPECT_EQ(fault_of(record_of(part, 0)), WindowRecordFault::kRange);

  std::vector<std::byte> bytes = record_of(send, 10);
  bytes.resize(kWindowRecordBytes - 1);
  EXPECT_EQ(fault_of(bytes), WindowRecordFault::kLength);
  for (const int kind : {0, 16, 255}) {
    bytes = record_of(send, 10);
    bytes[0] = static_cast<std::byte>(kind);
    EXPECT_EQ(fault_of(bytes), WindowRecordFault::kKind) << kind;
  }
  bytes = record_of(send, 10);
  bytes[1] |= std::byte{32};
  EXPECT_EQ(fault_of(bytes), WindowRecordFault::kFlags);
  bytes = record_of(send, 10);
  bytes[47] = std::byte{1};
  EXPECT_EQ(fault_of(bytes), WindowRecordFault::kReserved);
  EXPECT_EQ(fault_of(record_of({.kind = WindowRecordKind::kFetchAdd}, 15)), WindowRecordFault::kLength);
  EXPECT_EQ(fault_of(record_of({.kind = WindowRecordKind::kFetchAdd}, 16)), WindowRecordFault::kNone);
  EXPECT_EQ(fault_of(record_of({.kind = WindowRecordKind::kAck}, 1)), WindowRecordFault::kLength);
}

}  // namespace
}  // namespace weft::test
