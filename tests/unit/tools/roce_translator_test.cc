// What becomes of cells in a RoCE v2 capture: operations, headers and numbers of the frames, of cells
// that are made by hand.
#include "tools/capture/roce_translator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "base/crc32c.h"
#include "base/rng.h"
#include "messages/mad/cm.h"
#include "messages/session_mad.h"
#include "messages/transport_headers.h"

namespace weft::tools {
namespace {

constexpr uint32_t kCellPayload = 1024;
constexpr uint8_t kWholeCell = kCellFirst | kCellLast;
constexpr size_t kBase = kEthernetHeaderBytes + 28;  // of the base header over IPv4
constexpr size_t kHeaders = kBase + kBthBytes;

struct Hand {
  Opcode opcode = Opcode::kSend;
  uint32_t psn = 100;
  uint16_t cell = 0;
  uint8_t flags = kWholeCell;
  uint8_t flags2 = 0;
  uint32_t bytes = 64;
  bool answer = false;               // from LID 2 to LID 1
  std::vector<std::byte> parts{};    // between header and data
  std::vector<std::byte> payload{};  // else `bytes` of 0x5A
  std::string note{};
  Qpn dest_qpn{0x222};
};

template <class... T>
std::vector<std::byte> words(T... values) {
  std::vector<std::byte> out;
  const auto add = [&out](auto value) {
    out.resize(out.size() + sizeof value);
    store_be(out.data() + out.size() - sizeof value, value);
  };
  (add(values), ...);
  return out;
}

/// Queue pair 0x111 of LID 1 and 0x222 of LID 2.
CapturedFrame make(const Hand& hand) {
  std::vector<std::byte> payload = hand.payload;
  if (payload.empty()) payload.assign(hand.bytes, std::byte{0x5A});
  const CellTemplate fixed = make_cell_template({.dest_subnet = SubnetId(1),
                                                 .src_subnet = SubnetId(1),
                                                 .dlid = Lid(hand.answer ? 1 : 2),
                                                 .slid = Lid(hand.answer ? 2 : 1),
                                                 .dest_qpn = hand.answer ? Qpn(0x111) : hand.dest_qpn,
                                                 .src_qpn = Qpn(hand.answer ? 0x222 : 0x111)});
  const uint32_t properties = opcode_properties(static_cast<uint8_t>(hand.opcode));
  const bool ack = (properties & kOpAcknowledge) != 0;
  CapturedFrame out;
  out.time_ns = 1'000'000;
  out.note = hand.note;
  out.data.resize(kCellHeaderBytes);
  (void)compose_cell_header(out.data.data(), fixed,
                            {.opcode = hand.opcode,
                             .flags = hand.flags,
                             .flags2 = hand.flags2,
                             .psn = Psn(hand.psn),
                             .cell_number = hand.cell,
                             .payload_bytes = static_cast<uint16_t>(ack ? 0 : payload.size())});
  out.data.insert(out.data.end(), hand.parts.begin(), hand.parts.end());
  if (!ack) out.data.insert(out.data.end(), payload.begin(), payload.end());
  const std::vector<std::byte> crc = words(crc32c(out.data));
  out.data.insert(out.data.end(), crc.begin(), crc.end());
  out.frame_bytes = static_cast<uint32_t>(out.data.size());
  return out;
}

Hand ack_of(uint32_t psn, uint16_t cell, AckCode code = AckCode::kAck, uint32_t messages = 1) {
  return {.opcode = code == AckCode::kAck ? Opcode::kAck : Opcode::kNak,
          .psn = psn,
          .answer = true,
          .parts = words(psn, cell, static_cast<uint8_t>(code), uint8_t{0}, messages)};
}

class RoceTranslation : public ::testing::Test {
 protected:
  std::vector<CapturedFrame> take(const Hand& hand) { return take_raw(make(hand)); }
  std::vector<CapturedFrame> take_raw(const CapturedFrame& cell) {
    std::vector<CapturedFrame> out;
    translator.take(cell, out);
    for (const CapturedFrame& frame : out) check(frame);
    return out;
  }
  /// The only frame.
  CapturedFrame one(const Hand& hand) {
    std::vector<CapturedFrame> out = take(hand);
    EXPECT_EQ(out.size(), 1U);
    return out.empty() ? CapturedFrame{} : out.front();
  }
  static void check(const CapturedFrame& frame) {
    EXPECT_EQ(frame.frame_bytes, frame.data.size());
    if (load_be<uint16_t>(frame.data.data() + 12) == kEtherTypeOther) return;
    const auto icrc = roce_icrc(frame.data);
    EXPECT_TRUE(std::equal(icrc.begin(), icrc.end(), frame.data.end() - kIcrcBytes));
  }
  static uint8_t opcode(const CapturedFrame& frame) { return static_cast<uint8_t>(frame.data[kBase]); }
  static uint32_t psn(const CapturedFrame& frame) {
    return load_be<uint32_t>(frame.data.data() + kBase + 8) & 0xFFFFFF;
  }
  static bool asks(const CapturedFrame& frame) {
    return (frame.data[kBase + 8] & std::byte{0x80}) != std::byte{0};
  }
  template <class T>
  static T word(const CapturedFrame& frame, size_t at) {
    return load_be<T>(frame.data.data() + kHeaders + at);
  }
  static size_t payload_bytes(const CapturedFrame& frame, size_t headers) {
    return frame.data.size() - kHeaders - headers - kIcrcBytes;
  }

  RoceTranslator translator{kCellPayload};
};

TEST_F(RoceTranslation, addresses_are_those_of_the_lids) {
  const CapturedFrame frame = one({.flags2 = kCell2Solicited});
  EXPECT_EQ(std::vector(frame.data.begin(), frame.data.begin() + 14),
            words(uint16_t{0x0200}, uint16_t{1}, uint16_t{2}, uint16_t{0x0200}, uint16_t{1}, uint16_t{1},
                  uint16_t{0x0800}));
  EXPECT_EQ(load_be<uint32_t>(frame.data.data() + 26), 0x0A570001U);
  EXPECT_EQ(load_be<uint32_t>(frame.data.data() + 30), 0x0A570002U);
  EXPECT_EQ(load_be<uint16_t>(frame.data.data() + 36), kRocePort);
  EXPECT_EQ(load_be<uint16_t>(frame.data.data() + kBase), 0x04C0) << "Send only, solicited, migrated";
  EXPECT_EQ(load_be<uint32_t>(frame.data.data() + kBase + 4), 0x222U);
  EXPECT_FALSE(asks(frame));
}

TEST_F(RoceTranslation, a_send_keeps_its_message_over_packets) {
  const uint8_t more = kCell2More;
  EXPECT_EQ(opcode(one({.psn = 100, .flags = kCellFirst, .flags2 = more, .bytes = kCellPayload})), 0x00);
  EXPECT_EQ(opcode(one({.psn = 100, .cell = 1, .flags = kCellLast, .flags2 = more, .bytes = kCellPayload})),
            0x01);
  const uint8_t rest = kCell2Continues;
  EXPECT_EQ(opcode(one({.psn = 101, .flags = kCellFirst, .flags2 = rest, .bytes = kCellPayload})), 0x01);
  const CapturedFrame last = one({.psn = 101,
                                  .cell = 1,
                                  .flags = kCellLast | kCellIdata | kCellAckWanted,
                                  .flags2 = kCell2Continues | kCell2Solicited,
                                  .bytes = 3,
                                  .parts = words(0xCAFE0001U)});
  EXPECT_EQ(opcode(last), 0x03);
  EXPECT_EQ(word<uint32_t>(last, 0), 0xCAFE0001U);
  EXPECT_EQ(payload_bytes(last, 4), 4U) << "three bytes and a pad";
  EXPECT_TRUE(asks(last));
  EXPECT_EQ(psn(last), 103U);
}

TEST_F(RoceTranslation, numbers_step_with_each_frame_and_repeats_keep_theirs) {
  const Hand first{.psn = 0xFFFFFF, .flags = kCellFirst, .bytes = kCellPayload};
  EXPECT_EQ(psn(one(first)), 0xFFFFFFU) << "begins with the connection's own";
  EXPECT_EQ(psn(one({.psn = 0xFFFFFF, .cell = 1, .flags = 0, .bytes = kCellPayload})), 0U);
  EXPECT_EQ(psn(one({.psn = 0xFFFFFF, .cell = 2, .flags = kCellLast})), 1U);
  EXPECT_EQ(psn(one({.psn = 0})), 2U);
  EXPECT_EQ(psn(one({.psn = 1})), 3U);
  EXPECT_EQ(psn(one(first)), 0xFFFFFFU);
  EXPECT_EQ(psn(one({.psn = 0xFFFFFF, .cell = 1, .flags = 0, .bytes = kCellPayload})), 0U);
  EXPECT_EQ(psn(one({.psn = 2})), 4U);
  EXPECT_EQ(psn(one({.psn = 0x800})), 0x800U) << "far away: the queue pair began anew";
}

TEST_F(RoceTranslation, a_packet_whose_end_was_lost_leaves_room_for_one_frame) {
  EXPECT_EQ(psn(one({.psn = 10, .flags = kCellFirst, .bytes = kCellPayload})), 10U);
  EXPECT_EQ(psn(one({.psn = 11})), 12U);
  EXPECT_EQ(psn(one({.psn = 10, .cell = 1, .flags = kCellLast})), 11U);
}

TEST_F(RoceTranslation, a_write_says_its_length_when_the_last_cell_of_its_packet_was_seen) {
  const auto va = words(uint64_t{0x7F00'0000'1000}, 0x1234U);
  EXPECT_TRUE(
      take({.opcode = Opcode::kRdmaWrite, .flags = kCellFirst | kCellVa, .bytes = kCellPayload, .parts = va})
          .empty());
  EXPECT_TRUE(take({.opcode = Opcode::kRdmaWrite, .cell = 1, .flags = 0, .bytes = kCellPayload}).empty());
  EXPECT_TRUE(take(ack_of(99, 0)).empty()) << "what came later waits behind it";
  const std::vector<CapturedFrame> out = take({.opcode = Opcode::kRdmaWrite,
                                               .cell = 2,
                                               .flags = kCellLast | kCellIdata,
                                               .bytes = 10,
                                               .parts = words(7U)});
  ASSERT_EQ(out.size(), 4U);
  EXPECT_EQ(opcode(out[0]), 0x06);
  EXPECT_EQ(word<uint64_t>(out[0], 0), 0x7F00'0000'1000U);
  EXPECT_EQ(word<uint32_t>(out[0], 8), 0x1234U);
  EXPECT_EQ(word<uint32_t>(out[0], 12), 2 * kCellPayload + 10);
  EXPECT_EQ(payload_bytes(out[0], 16), kCellPayload);
  EXPECT_EQ(opcode(out[1]), 0x07);
  EXPECT_EQ(opcode(out[2]), 0x11);
  EXPECT_EQ(opcode(out[3]), 0x09);
  EXPECT_EQ(word<uint32_t>(out[3], 0), 7U);
  for (const CapturedFrame& frame : out) EXPECT_EQ(frame.note, "");
}

TEST_F(RoceTranslation, a_write_of_one_cell_goes_at_once) {
  const CapturedFrame only = one({.opcode = Opcode::kRdmaWrite,
                                  .flags = kWholeCell | kCellVa | kCellIdata,
                                  .flags2 = kCell2More,
                                  .bytes = 8,
                                  .parts = words(uint64_t{0x1000}, 0x99U, 0xABCDU)});
  EXPECT_EQ(opcode(only), 0x0B);
  EXPECT_EQ(word<uint32_t>(only, 12), 8U);
  EXPECT_EQ(word<uint32_t>(only, 16), 0xABCDU);
}

TEST_F(RoceTranslation, a_write_whose_end_does_not_come_is_not_waited_for_long) {
  const Hand first{.opcode = Opcode::kRdmaWrite,
                   .flags = kCellFirst | kCellVa,
                   .bytes = kCellPayload,
                   .parts = words(uint64_t{0x1000}, 1U)};
  EXPECT_TRUE(take(first).empty());
  std::vector<CapturedFrame> out;
  translator.idle(1'000'000 + RoceTranslator::kWaitNs - 1, out);
  EXPECT_TRUE(out.empty());
  translator.idle(1'000'000 + RoceTranslator::kWaitNs, out);
  ASSERT_EQ(out.size(), 1U);
  check(out[0]);
  EXPECT_EQ(word<uint32_t>(out[0], 12), kCellPayload) << "what was seen of it";
  EXPECT_NE(out[0].note.find("its last cell was not seen"), std::string::npos);
  EXPECT_EQ(take({.opcode = Opcode::kRdmaWrite, .cell = 1, .flags = kCellLast, .bytes = 1}).size(), 1U);
  const CapturedFrame again = one(first);
  EXPECT_EQ(word<uint32_t>(again, 12), kCellPayload + 1) << "a repeat knows it";
}

TEST_F(RoceTranslation, a_read_takes_as_many_numbers_as_its_answer_has_frames) {
  const uint32_t length = 2 * kCellPayload + 1;
  const CapturedFrame request =
      one({.opcode = Opcode::kRdmaReadRequest,
           .psn = 50,
           .payload = words(0x11U, uint64_t{0}, length, 0x77U, uint64_t{0xABC000}, 3U)});
  EXPECT_EQ(opcode(request), 0x0C);
  EXPECT_EQ(word<uint64_t>(request, 0), 0xABC000U);
  EXPECT_EQ(word<uint32_t>(request, 8), 0x77U);
  EXPECT_EQ(word<uint32_t>(request, 12), length);
  EXPECT_EQ(payload_bytes(request, 16), 0U);
  EXPECT_EQ(psn(one({.psn = 51})), 53U);
  const auto sink = words(uint64_t{0}, 0x11U);
  const Hand answer{.opcode = Opcode::kRdmaReadResponse, .psn = 50, .bytes = kCellPayload, .answer = true};
  Hand first = answer;
  first.flags = kCellFirst | kCellVa;
  first.parts = sink;
  Hand middle = answer;
  middle.cell = 1;
  middle.flags = 0;
  Hand last = answer;
  last.cell = 2;
  last.flags = kCellLast;
  last.bytes = 1;
  EXPECT_EQ(opcode(one(first)), 0x0D);
  EXPECT_EQ(payload_bytes(one(first), 4), kCellPayload) << "behind an AETH";
  EXPECT_EQ(opcode(one(middle)), 0x0E);
  EXPECT_EQ(payload_bytes(one(middle), 0), kCellPayload);
  EXPECT_EQ(opcode(one(last)), 0x0F);
  EXPECT_EQ(psn(one(last)), 52U);
  first.flags = kWholeCell | kCellVa;
  EXPECT_EQ(opcode(one(first)), 0x10);
}

TEST_F(RoceTranslation, atomic_operations) {
  const auto request = [](uint8_t operation) {
    return words(uint64_t{0x8000}, 0x55U, operation, uint8_t{8}, uint16_t{0}, uint64_t{2}, uint64_t{3});
  };
  const CapturedFrame swap = one({.opcode = Opcode::kFetchOpRequest, .psn = 5, .payload = request(1)});
  EXPECT_EQ(opcode(swap), 0x13);
  EXPECT_EQ(word<uint64_t>(swap, 0), 0x8000U);
  EXPECT_EQ(word<uint32_t>(swap, 8), 0x55U);
  EXPECT_EQ(word<uint64_t>(swap, 12), 3U) << "the new value";
  EXPECT_EQ(word<uint64_t>(swap, 20), 2U) << "what it is compared with";
  EXPECT_EQ(opcode(one({.opcode = Opcode::kFetchOpRequest, .psn = 6, .payload = request(2)})), 0x14);
  EXPECT_NE(one({.opcode = Opcode::kFetchOpRequest, .psn = 7, .payload = request(9)}).note, "");
  const CapturedFrame answer =
      one({.opcode = Opcode::kFetchOpResponse, .psn = 6, .answer = true, .payload = words(uint64_t{41})});
  EXPECT_EQ(opcode(answer), 0x12);
  EXPECT_EQ(psn(answer), 6U);
  EXPECT_EQ(word<uint64_t>(answer, 4), 41U);
}

/// Cells of answers do not carry the number of executed messages; the last acknowledgement does.
TEST_F(RoceTranslation, an_answer_tells_how_many_messages_were_executed) {
  const auto request =
      words(uint64_t{0x8000}, 0x55U, uint8_t{2}, uint8_t{8}, uint16_t{0}, uint64_t{2}, uint64_t{3});
  const auto executed = [&](uint32_t psn) {
    (void)one({.opcode = Opcode::kFetchOpRequest, .psn = psn, .payload = request});
    const CapturedFrame answer =
        one({.opcode = Opcode::kFetchOpResponse, .psn = psn, .answer = true, .payload = words(uint64_t{41})});
    return word<uint32_t>(answer, 0) & 0xFFFFFF;
  };
  EXPECT_EQ(executed(100), 0U);
  (void)one(ack_of(100, 0, AckCode::kAck, 7));
  EXPECT_EQ(executed(101), 7U);
  Hand response{.opcode = Opcode::kRdmaReadResponse, .psn = 101, .answer = true};
  response.flags = kWholeCell | kCellVa;
  response.parts = words(uint64_t{0}, 0x11U);
  EXPECT_EQ(word<uint32_t>(one(response), 0) & 0xFFFFFF, 7U);
}

TEST_F(RoceTranslation, acknowledgements_name_the_last_frame_of_the_cell) {
  EXPECT_EQ(psn(one({.psn = 20, .flags = kCellFirst, .bytes = kCellPayload})), 20U);
  EXPECT_EQ(psn(one({.psn = 20, .cell = 1, .flags = kCellLast})), 21U);
  EXPECT_EQ(psn(one({.psn = 21})), 22U);
  const CapturedFrame ack = one(ack_of(21, 0, AckCode::kAck, 2));
  EXPECT_EQ(opcode(ack), 0x11);
  EXPECT_EQ(psn(ack), 22U);
  EXPECT_EQ(word<uint32_t>(ack, 0), 0x1F000002U);
  EXPECT_EQ(psn(one(ack_of(20, 0))), 20U);
  EXPECT_EQ(psn(one(ack_of(20, 1))), 21U);
  EXPECT_EQ(psn(one(ack_of(19, 0))), 19U) << "nothing has arrived";
  (void)one({.psn = 22, .flags = kCellFirst, .bytes = kCellPayload});
  EXPECT_EQ(psn(one(ack_of(22, 1))), 24U) << "of a cell that has not been seen";
}

TEST_F(RoceTranslation, refusals_have_their_syndromes) {
  (void)one({.psn = 20, .flags = kCellFirst, .bytes = kCellPayload});
  (void)one({.psn = 20, .cell = 1, .flags = kCellLast});
  const std::pair<AckCode, uint32_t> codes[] = {{AckCode::kSequenceError, 0x60},
                                                {AckCode::kRemoteAccess, 0x62},
                                                {AckCode::kNotSupported, 0x61},
                                                {AckCode::kRemoteOperation, 0x63},
                                                {AckCode::kPacketCrc, 0x60}};
  for (const auto& [code, syndrome] : codes) {
    const CapturedFrame nak = one(ack_of(20, 0, code));
    EXPECT_EQ(word<uint32_t>(nak, 0) >> 24, syndrome);
    EXPECT_EQ(psn(nak), 20U);
    EXPECT_EQ(nak.note.empty(), code != AckCode::kPacketCrc) << "InfiniBand has no such refusal";
  }
  EXPECT_EQ(psn(one(ack_of(20, 1, AckCode::kSequenceError))), 21U) << "the frame that is wanted";
  const CapturedFrame later = one(ack_of(20, 14, AckCode::kReceiverNotReady));
  EXPECT_EQ(word<uint32_t>(later, 0) >> 24, 0x2EU) << "with its timer";
  EXPECT_EQ(psn(later), 20U);
}

TEST_F(RoceTranslation, selective_blocks_become_a_comment) {
  (void)one({.psn = 20});
  CapturedFrame ack = make(ack_of(20, 0));
  ack.data.resize(ack.data.size() - kCrcBytes);
  const auto block = words(uint32_t{22}, uint16_t{0}, uint16_t{0}, uint64_t{5});
  ack.data.insert(ack.data.end(), block.begin(), block.end());
  store_be(ack.data.data() + 30, static_cast<uint16_t>(block.size()));
  const auto crc = words(crc32c(ack.data));
  ack.data.insert(ack.data.end(), crc.begin(), crc.end());
  const std::vector<CapturedFrame> out = take_raw(ack);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].note, "has also packet 0x16 cells from 0: 0x5");
}

TEST_F(RoceTranslation, datagrams_carry_q_key_and_sender) {
  const CapturedFrame only =
      one({.opcode = Opcode::kUdSend, .psn = 3, .parts = words(0x11111111U, uint16_t{0x8001}, uint16_t{0})});
  EXPECT_EQ(opcode(only), 0x64);
  EXPECT_EQ(load_be<uint16_t>(only.data.data() + kBase + 2), 0x8001);
  EXPECT_EQ(word<uint32_t>(only, 0), 0x11111111U);
  EXPECT_EQ(word<uint32_t>(only, 4), 0x111U);
  EXPECT_EQ(psn(only), 3U);
  const CapturedFrame with = one({.opcode = Opcode::kUdSend,
                                  .flags = kWholeCell | kCellIdata,
                                  .parts = words(1U, uint16_t{0}, uint16_t{0}, 0xABU)});
  EXPECT_EQ(opcode(with), 0x65);
  EXPECT_EQ(word<uint32_t>(with, 8), 0xABU);
}

TEST_F(RoceTranslation, the_base_header_has_the_flags_of_the_cell) {
  constexpr uint8_t kSolicited = 0x80;
  constexpr uint8_t kMigrated = 0x40;
  for (const bool datagram : {false, true}) {
    Hand hand{.opcode = datagram ? Opcode::kUdSend : Opcode::kSend};
    if (datagram) hand.parts = words(1U, uint16_t{0}, uint16_t{0});
    const auto flags = [&](uint8_t flags2) {
      hand.flags2 = flags2;
      return static_cast<uint8_t>(one(hand).data[kBase + 1]) & (kSolicited | kMigrated);
    };
    EXPECT_EQ(flags(0), kMigrated);
    EXPECT_EQ(flags(kCell2Solicited), kSolicited | kMigrated);
    EXPECT_EQ(flags(kCell2MayMigrate), 0);
  }
}

TEST_F(RoceTranslation, a_datagram_with_a_global_header_goes_by_ipv6) {
  GlobalHeaderWire global =
      make_global_header(make_gid(SubnetId(1), Guid(1)), make_gid(SubnetId(1), Guid(2)));
  global.destination[0] = std::byte{0xFF};
  std::vector<std::byte> parts(sizeof global);
  std::memcpy(parts.data(), &global, sizeof global);
  const auto rest = words(1U, uint16_t{0}, uint16_t{0});
  parts.insert(parts.end(), rest.begin(), rest.end());
  const CapturedFrame frame = one({.opcode = Opcode::kUdSend,
                                   .flags = kWholeCell | kCellGlobal,
                                   .parts = parts,
                                   .dest_qpn = Qpn(0xFFFFFF)});
  EXPECT_EQ(load_be<uint16_t>(frame.data.data() + 12), kEtherTypeIpv6);
  EXPECT_EQ(load_be<uint16_t>(frame.data.data()), 0x3333) << "of a multicast group";
  EXPECT_EQ(std::memcmp(frame.data.data() + 22, &global.source, 32), 0);
  EXPECT_EQ(static_cast<uint8_t>(frame.data[kBase + 20]), 0x64);
}

TEST_F(RoceTranslation, a_connection_request_says_that_cells_are_those_of_uc) {
  const MadBytes mad = encode_cm({.body = CmReq{.qpn = 0x111, .service = kCmServiceUc}});
  (void)one({.opcode = Opcode::kUdSend,
             .parts = words(0x80010000U, uint16_t{0}, uint16_t{0}),
             .payload = {mad.begin(), mad.end()},
             .dest_qpn = kQpnGsi});
  EXPECT_EQ(opcode(one({})), 0x24);
}

TEST_F(RoceTranslation, a_datagram_to_a_management_queue_pair_that_is_no_mad_says_so) {
  const MadBytes mad = encode_cm({.body = CmReq{.qpn = 0x111, .service = kCmServiceUc}});
  std::vector<std::byte> other(mad.begin(), mad.end());
  other[0] = std::byte{2};  // of another version
  const std::vector<std::byte> shorter(mad.begin(), mad.end() - 4);
  for (const std::vector<std::byte>& payload : {other, shorter}) {
    const CapturedFrame frame = one({.opcode = Opcode::kUdSend,
                                     .parts = words(0x80010000U, uint16_t{0}, uint16_t{0}),
                                     .payload = payload,
                                     .dest_qpn = kQpnGsi});
    EXPECT_EQ(load_be<uint16_t>(frame.data.data() + 12), kEtherTypeOther);
    EXPECT_THAT(frame.note, ::testing::HasSubstr("a management queue pair that is none"));
  }
  EXPECT_EQ(opcode(one({})), 0x04) << "it has taught nothing";
}

/// Numbers of queue pairs are used again.
TEST_F(RoceTranslation, of_two_connection_requests_of_a_number_the_last_one_counts) {
  for (const auto& [service, sends] :
       {std::pair{kCmServiceUc, 0x24}, std::pair{kCmServiceRc, 0x04}, std::pair{kCmServiceUc, 0x24}}) {
    const MadBytes mad = encode_cm({.body = CmReq{.qpn = 0x111, .service = service}});
    (void)one({.opcode = Opcode::kUdSend,
               .parts = words(0x80010000U, uint16_t{0}, uint16_t{0}),
               .payload = {mad.begin(), mad.end()},
               .dest_qpn = kQpnGsi});
    EXPECT_EQ(opcode(one({})), sends);
  }
}

TEST_F(RoceTranslation, a_session_says_it_of_both_its_channels) {
  SessionMad request{.kind = CmAttribute::kReq, .nonce = 5};
  request.offer = {.mode = static_cast<uint8_t>(TransferMode::kSendReceive),
                   .channels = 2,
                   .control = {.qpn = Qpn(0x222), .psn = Psn(1)},
                   .data = {.qpn = Qpn(0x111), .psn = Psn(2)}};
  const MadBytes mad = encode_session_mad(request);
  (void)one({.opcode = Opcode::kUdSend,
             .parts = words(0x80010000U, uint16_t{0}, uint16_t{0}),
             .payload = {mad.begin(), mad.end()},
             .dest_qpn = kQpnGsi});
  EXPECT_EQ(opcode(one({})), 0x24);
}

TEST_F(RoceTranslation, xrc_and_its_answers_keep_their_service) {
  const CapturedFrame send = one({.opcode = Opcode::kXrcSend, .parts = words(0x77U)});
  EXPECT_EQ(opcode(send), 0xA4);
  EXPECT_EQ(word<uint32_t>(send, 0), 0x77U);
  EXPECT_EQ(opcode(one(ack_of(100, 0))), 0xB1);
}

TEST_F(RoceTranslation, rd_has_its_contexts) {
  const CapturedFrame send =
      one({.opcode = Opcode::kRdSend, .psn = 9, .parts = words(0x33U, uint16_t{0}, uint16_t{0})});
  EXPECT_EQ(opcode(send), 0x44);
  EXPECT_EQ(word<uint32_t>(send, 0), 1U) << "the sender's";
  EXPECT_EQ(word<uint32_t>(send, 4), 0x33U);
  const CapturedFrame ack = one(ack_of(9, 0));
  EXPECT_EQ(opcode(ack), 0x51);
  EXPECT_EQ(word<uint32_t>(ack, 0), 1U);
}

TEST_F(RoceTranslation, a_cell_larger_than_the_largest_path_mtu_is_two_frames) {
  translator = RoceTranslator(8192);
  const std::vector<CapturedFrame> first =
      take({.psn = 7, .flags = kCellFirst | kCellAckWanted, .bytes = 8192});
  ASSERT_EQ(first.size(), 2U);
  EXPECT_FALSE(asks(first[0]));
  EXPECT_TRUE(asks(first[1])) << "an acknowledgement is asked for once, by the last frame";
  EXPECT_EQ(opcode(first[0]), 0x00);
  EXPECT_EQ(opcode(first[1]), 0x01);
  EXPECT_EQ(psn(first[1]), 8U);
  const CapturedFrame last = one({.psn = 7, .cell = 1, .flags = kCellLast, .bytes = 10});
  EXPECT_EQ(opcode(last), 0x02);
  EXPECT_EQ(psn(last), 9U);
  EXPECT_EQ(psn(one({.psn = 8})), 10U);
  EXPECT_EQ(psn(one(ack_of(7, 0))), 8U);
  EXPECT_EQ(psn(one(ack_of(7, 1))), 9U);
}

TEST_F(RoceTranslation, notes_of_the_switch_stay) {
  EXPECT_EQ(one({.note = "lost here: fault 1 (drop)"}).note, "lost here: fault 1 (drop)");
}

TEST_F(RoceTranslation, what_is_no_cell_stands_whole_in_a_frame_that_says_why) {
  CapturedFrame cell = make({});
  cell.data.back() ^= std::byte{1};
  const std::vector<CapturedFrame> out = take_raw(cell);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].note, "no valid cell: crc");
  EXPECT_EQ(load_be<uint16_t>(out[0].data.data() + 12), kEtherTypeOther);
  EXPECT_TRUE(std::equal(cell.data.begin(), cell.data.end(), out[0].data.begin() + 14, out[0].data.end()));
  cell.data.clear();
  EXPECT_EQ(take_raw(cell).at(0).note, "no valid cell: too short");
  EXPECT_EQ(one({.opcode = Opcode::kStreamSegment}).note, "RoCE has no such operation");
  EXPECT_EQ(one({.opcode = Opcode::kUdSend,
                 .parts = words(0x80010000U, uint16_t{0}, uint16_t{0}),
                 .dest_qpn = kQpnGsi})
                .note,
            "a datagram to a management queue pair that is none");
}

TEST_F(RoceTranslation, a_raw_ipv6_packet_is_one_again) {
  GlobalHeaderWire global =
      make_global_header(make_gid(SubnetId(1), Guid(1)), make_gid(SubnetId(1), Guid(2)));
  global.next_header = 59;  // none
  global.payload_bytes.set(99);
  std::vector<std::byte> parts(sizeof global);
  std::memcpy(parts.data(), &global, sizeof global);
  std::vector<CapturedFrame> out;
  translator.take(
      make({.opcode = Opcode::kRaw, .flags = kWholeCell | kCellGlobal, .bytes = 10, .parts = parts}), out);
  ASSERT_EQ(out.size(), 1U);
  global.payload_bytes.set(10);
  EXPECT_EQ(load_be<uint16_t>(out[0].data.data() + 12), kEtherTypeIpv6);
  EXPECT_EQ(out[0].data.size(), kEthernetHeaderBytes + sizeof global + 10);
  EXPECT_EQ(std::memcmp(out[0].data.data() + kEthernetHeaderBytes, &global, sizeof global), 0);
}

TEST_F(RoceTranslation, memory_is_bounded_whatever_comes) {
  const auto va = words(uint64_t{0x1000}, 1U);
  size_t frames = 0;
  for (uint32_t i = 0; i < 3 * RoceTranslator::kWaitingFramesMax; ++i)
    frames +=
        take({.opcode = Opcode::kRdmaWrite, .psn = i, .flags = kCellFirst | kCellVa, .bytes = 1, .parts = va})
            .size();
  EXPECT_GE(frames, 2 * RoceTranslator::kWaitingFramesMax);
  std::vector<CapturedFrame> out;
  translator.finish(out);
  EXPECT_EQ(frames + out.size(), 3 * RoceTranslator::kWaitingFramesMax) << "none is lost";
}

/// As many as can be kept: none of them loses its numbers before another one comes.
TEST_F(RoceTranslation, the_most_flows_keep_their_numbers) {
  (void)one({.psn = 5, .flags = kCellFirst, .bytes = kCellPayload});
  EXPECT_EQ(psn(one({.psn = 5, .cell = 1, .flags = kCellLast})), 6U);
  for (uint32_t i = 1; i < RoceTranslator::kFlowsMax; ++i) (void)one({.dest_qpn = Qpn(0x1000 + i)});
  EXPECT_EQ(psn(one({.psn = 6})), 7U);
  (void)one({.dest_qpn = Qpn(0x1000)});
  EXPECT_EQ(psn(one({.psn = 7})), 7U) << "all of them begin anew";
}

}  // namespace
}  // namespace weft::tools
