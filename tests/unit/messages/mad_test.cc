#include "messages/mad/mad.h"

#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "base/endian.h"
#include "base/rng.h"
#include "messages/mad/cm.h"
#include "messages/mad/endnode.h"

namespace weft {
namespace {

CmReq full_request() {
  CmReq req{.local_id = 0xA1A2A3A4,
            .service_id = 0x0000000001061234,
            .ca_guid = 0x1122334455667788,
            .qpn = 0xABCDEF,
            .psn = 0x123456,
            .responder_resources = 3,
            .initiator_depth = 4,
            .service = kCmServiceUc,
            .flow_control = 1,
            .retry_count = 7,
            .rnr_retry = 6,
            .srq = 1,
            .local_response_timeout = 20,
            .remote_response_timeout = 21,
            .max_retries = 15,
            .pkey = 0xFFFF,
            .path_mtu = 5};
  req.path = {.local_lid = 2,
              .remote_lid = 3,
              .flow_label = 0x12345,
              .rate = 6,
              .traffic_class = 9,
              .hop_limit = 64,
              .sl = 10,
              .subnet_local = 1,
              .ack_timeout = 19};
  req.private_data[0] = std::byte{0x5A};
  req.private_data[91] = std::byte{0xA5};
  return req;
}

/// What is read at all is written back bit by bit: of a message with one byte of noise the decoder lets
/// through what the message carries.
template <class Mad, class Decode, class Encode>
void expect_exact(const Mad& mad, Decode decode, Encode encode) {
  SeededRandom random(7);
  const MadBytes frame = encode(mad);
  Mad back;
  ASSERT_EQ(decode(frame, back), MadError::kNone);
  EXPECT_EQ(back, mad);
  int let_through = 0;
  for (int i = 0; i < 400; ++i) {
    MadBytes wire = frame;
    const size_t at = kMadHeaderBytes + random.below(kMadBytes - kMadHeaderBytes);
    wire[at] = static_cast<std::byte>(random.next());
    if (decode(wire, back) != MadError::kNone) continue;
    ++let_through;
    EXPECT_EQ(encode(back), wire);
  }
  EXPECT_GT(let_through, 0);
}

TEST(Mad, every_message_survives_the_wire_at_random) {
  const std::tuple<CmReq, CmMra, CmRej, CmRep, CmRtu, CmDreq, CmDrep, CmSidrReq, CmSidrRep> cm;
  std::apply(
      [](const auto&... body) {
        (expect_exact(CmMad{.transaction = 5, .body = body}, decode_cm, encode_cm), ...);
      },
      cm);
  const std::tuple<WhoHas, Has, IsThere> endnode;
  std::apply(
      [](const auto&... body) {
        (expect_exact(EndnodeMad{.transaction = 5, .body = body}, decode_endnode, encode_endnode), ...);
      },
      endnode);
}

TEST(Mad, a_header_lies_as_infiniband_has_it) {
  const MadHeader header{.mad_class = MadClass::kSubnetDirected,
                         .class_version = 1,
                         .method = MadMethod::kGetResponse,
                         .status = 0x8000,
                         .of_class = 0x0102,
                         .transaction = 0x0102030405060708,
                         .attribute = 0x11,
                         .modifier = 0xDEADBEEF};
  MadBytes wire{};
  encode_mad_header(header, wire);
  EXPECT_EQ(load_be<uint64_t>(&wire[0]), 0x0181018180000102U);
  EXPECT_EQ(load_be<uint64_t>(&wire[8]), 0x0102030405060708U);
  EXPECT_EQ(load_be<uint64_t>(&wire[16]), 0x00110000DEADBEEFU);
  MadHeader back;
  ASSERT_EQ(decode_mad_header(wire, back), MadError::kNone);
  EXPECT_EQ(back, header);
  wire[18] = std::byte{1};
  EXPECT_EQ(decode_mad_header(wire, back), MadError::kReserved);
}

TEST(CmMad, a_request_lies_as_infiniband_has_it) {
  const CmMad full{.transaction = 0x0102030405060708, .body = full_request()};
  const MadBytes wire = encode_cm(full);
  const auto u32 = [&](size_t at) { return load_be<uint32_t>(&wire[at]); };
  EXPECT_EQ(u32(0), 0x01070203U);
  EXPECT_EQ(u32(16), 0x00100000U);
  EXPECT_EQ(u32(24), 0xA1A2A3A4U);
  EXPECT_EQ(u32(36), 0x01061234U);
  EXPECT_EQ(u32(56), 0xABCDEF03U);                         // QPN, responder resources
  EXPECT_EQ(u32(60), 4U);                                  // initiator depth
  EXPECT_EQ(u32(64), (21U << 3) | (1U << 1) | 1U);         // timeout, service, flow control
  EXPECT_EQ(u32(68), (0x123456U << 8) | (20U << 3) | 7U);  // PSN, timeout, retries
  EXPECT_EQ(u32(72), 0xFFFF0000U | 0x5600U | 0xF8U);       // P_Key, MTU and RNR retries, CM retries, SRQ
  EXPECT_EQ(u32(76), 0x00020003U);                         // LIDs
  EXPECT_EQ(u32(112), (0x12345U << 12) | 6U);              // flow label, rate
  EXPECT_EQ(u32(116), 0x0940A800U | (19U << 3));           // class, hops, SL, local, timeout
  EXPECT_EQ(wire[164], std::byte{0x5A});
  EXPECT_EQ(wire[255], std::byte{0xA5});
  CmMad back;
  ASSERT_EQ(decode_cm(wire, back), MadError::kNone);
  EXPECT_EQ(back, full);
}

TEST(CmMad, replies_lie_as_infiniband_has_them) {
  const MadBytes rep = encode_cm({.body = CmRep{.local_id = 1,
                                                .remote_id = 2,
                                                .ca_guid = 3,
                                                .qpn = 4,
                                                .psn = 5,
                                                .responder_resources = 6,
                                                .initiator_depth = 7,
                                                .flow_control = 1,
                                                .rnr_retry = 7,
                                                .srq = 1,
                                                .ack_delay = 15}});
  const auto u32 = [](const MadBytes& wire, size_t at) { return load_be<uint32_t>(&wire[at]); };
  EXPECT_EQ(u32(rep, 36), 4U << 8);
  EXPECT_EQ(u32(rep, 44), 5U << 8);
  EXPECT_EQ(u32(rep, 48), 0x06070000U | 0x7900U | 0xF0U);
  EXPECT_EQ(u32(rep, 56), 3U);
  const MadBytes rej = encode_cm({.body = CmRej{.about = 1, .reason = 28}});
  EXPECT_EQ(u32(rej, 32), 0x4000001CU);
  const MadBytes mra = encode_cm({.body = CmMra{.about = 1, .service_timeout = 24}});
  EXPECT_EQ(u32(mra, 32), 0x40C00000U);
  const MadBytes sidr = encode_cm({.body = CmSidrRep{.status = 1, .qpn = 7, .service_id = 9, .qkey = 8}});
  EXPECT_EQ(u32(sidr, 28), 0x01000000U);
  EXPECT_EQ(u32(sidr, 32), 7U << 8);
  EXPECT_EQ(u32(sidr, 40), 9U);
  EXPECT_EQ(u32(sidr, 44), 8U);
}

TEST(EndnodeMad, a_process_is_named) {
  const EndnodeMad mad{
      .transaction = 1,
      .body = IsThere{.process = {.incarnation = 0x0102030405060708, .space = 2, .started = 3, .pid = 4}}};
  const MadBytes wire = encode_endnode(mad);
  EXPECT_EQ(load_be<uint64_t>(&wire[24]), 0x0102030405060708U);
  EXPECT_EQ(load_be<uint64_t>(&wire[32]), 2U);
  EXPECT_EQ(load_be<uint64_t>(&wire[40]), 3U);
  EXPECT_EQ(load_be<uint32_t>(&wire[48]), 4U);
  EndnodeMad back;
  ASSERT_EQ(decode_endnode(wire, back), MadError::kNone);
  EXPECT_EQ(back, mad);
  MadBytes question = encode_endnode({.transaction = 1, .body = WhoIsThere()});
  ASSERT_EQ(decode_endnode(question, back), MadError::kNone);
  question[24] = std::byte{1};
  EXPECT_EQ(decode_endnode(question, back), MadError::kReserved);
}

TEST(CmMad, what_is_wrong_is_named) {
  const MadBytes good = encode_cm({.body = full_request()});
  CmMad out;
  EXPECT_EQ(decode_cm(std::span(good).first(255), out), MadError::kLength);
  const auto changed = [&](size_t at, uint8_t bits) {
    MadBytes bad = good;
    bad[at] ^= std::byte{bits};
    return decode_cm(bad, out);
  };
  EXPECT_EQ(changed(0, 2), MadError::kHeader);
  EXPECT_EQ(changed(1, 1), MadError::kHeader);
  EXPECT_EQ(changed(2, 1), MadError::kHeader);
  EXPECT_EQ(changed(3, 0x80), MadError::kHeader);
  EXPECT_EQ(changed(17, 0x80), MadError::kKind);
  EXPECT_EQ(changed(5, 1), MadError::kReserved);
  EXPECT_EQ(changed(28, 1), MadError::kReserved);
  EXPECT_EQ(changed(130, 1), MadError::kReserved) << "an alternate path";
  EXPECT_EQ(out, CmMad{}) << "set on success only";
  EXPECT_EQ(decode_cm(good, out), MadError::kNone);
}

TEST(CmMad, names_of_errors) {
  for (size_t i = 0; i < static_cast<size_t>(MadError::kCount); ++i)
    EXPECT_NE(to_string(static_cast<MadError>(i)), "?");
  EXPECT_EQ(to_string(MadError::kCount), "?");
}

}  // namespace
}  // namespace weft
