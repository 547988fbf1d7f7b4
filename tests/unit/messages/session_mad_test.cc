#include "messages/session_mad.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/endian.h"
#include "base/rng.h"

namespace weft {
namespace {

SessionMad request() {
  return {.kind = CmAttribute::kReq,
          .nonce = 0x1122334455667788,
          .offer = {.encoding = 1,
                    .mode = 1,
                    .idata_format = 1,
                    .channels = 2,
                    .control = {.qpn = Qpn(0x123456), .psn = Psn(0xFFFFFF)},
                    .data = {.qpn = Qpn(0x654321), .psn = Psn(1)},
                    .frame_bytes_max = kGsoFrameBytesMax,
                    .features = 7,
                    .mac = {2, 0, 0, 0, 0, 42},
                    .acks = 1,
                    .packet_bytes = 65536,
                    .message_bytes = 4096},
          .labels = {.local_id = 0xA1A2A3A4,
                     .local_lid = Lid(1),
                     .remote_lid = Lid(2),
                     .guid = Guid(0x1122334455667788)}};
}

MadError decode(const MadBytes& in) {
  SessionMad out;
  return decode_session_mad(in, out);
}

TEST(SessionMad, every_kind_survives_the_wire) {
  SessionMad reply = request();
  reply.kind = CmAttribute::kRep;
  reply.labels = {.local_id = 1, .remote_id = 2, .guid = Guid(3)};
  const SessionMad reject{
      .kind = CmAttribute::kRej, .nonce = 5, .reason = 6, .version_min = 1, .version_max = 1};
  std::vector<SessionMad> all{request(), reply, reject};
  for (const CmAttribute kind : {CmAttribute::kRtu, CmAttribute::kDreq, CmAttribute::kDrep}) {
    all.push_back({.kind = kind, .nonce = 9});
  }
  for (const SessionMad& message : all) {
    const MadBytes wire = encode_session_mad(message);
    SessionMad back;
    ASSERT_EQ(decode_session_mad(wire, back), MadError::kNone) << to_string(message.kind);
    EXPECT_EQ(back, message) << to_string(message.kind);
  }
}

/// What InfiniBand has a field for stands there, so that its tools understand it; the rest is private data.
TEST(SessionMad, a_request_is_one_of_connection_management) {
  const MadBytes wire = encode_session_mad(request());
  CmMad mad;
  ASSERT_EQ(decode_cm(wire, mad), MadError::kNone);
  EXPECT_EQ(mad.transaction, request().nonce);
  const auto& req = std::get<CmReq>(mad.body);
  EXPECT_EQ(req.service_id, kSessionServiceId);
  EXPECT_EQ(req.local_id, 0xA1A2A3A4U);
  EXPECT_EQ(req.qpn, 0x123456U);
  EXPECT_EQ(req.psn, 0xFFFFFFU);
  EXPECT_EQ(req.service, kCmServiceRc);
  EXPECT_EQ(req.path.local_lid, 1);
  EXPECT_EQ(req.path.remote_lid, 2);
  SessionMad unacknowledged = request();
  unacknowledged.offer.mode = static_cast<uint8_t>(TransferMode::kSendReceive);
  ASSERT_EQ(decode_cm(encode_session_mad(unacknowledged), mad), MadError::kNone);
  EXPECT_EQ(std::get<CmReq>(mad.body).service, kCmServiceUc);
}

constexpr size_t kPrivate = kMadBytes - sizeof(CmReq::private_data);

TEST(SessionMad, fields_stand_where_the_layout_says) {
  const MadBytes wire = encode_session_mad(request());
  EXPECT_EQ(load_be<uint16_t>(&wire[16]), 0x10);
  EXPECT_EQ(wire[kPrivate + 4], std::byte{1});
  EXPECT_EQ(wire[kPrivate + 7], std::byte{2});
  EXPECT_EQ(load_be<uint32_t>(&wire[kPrivate + 8]), 0x654321U);
  EXPECT_EQ(load_be<uint32_t>(&wire[kPrivate + 12]), 1U);
  EXPECT_EQ(load_be<uint32_t>(&wire[kPrivate + 16]), kGsoFrameBytesMax);
  EXPECT_EQ(load_be<uint32_t>(&wire[kPrivate + 20]), 7U);
  EXPECT_EQ(wire[kPrivate + 24], std::byte{2});
  EXPECT_EQ(wire[kPrivate + 29], std::byte{42});
  EXPECT_EQ(wire[kPrivate + 30], std::byte{1});
  EXPECT_EQ(load_be<uint32_t>(&wire[kPrivate + 32]), 65536U);
  EXPECT_EQ(load_be<uint32_t>(&wire[kPrivate + 36]), 4096U);
  const MadBytes rej = encode_session_mad({.kind = CmAttribute::kRej, .reason = 6, .version_min = 1});
  EXPECT_EQ(load_be<uint16_t>(&rej[34]), kRejectConsumer);
  EXPECT_EQ(load_be<uint32_t>(&rej[kMadBytes - sizeof(CmRej::private_data)]), 0x0006'0001U);
}

TEST(SessionMad, refusals_have_their_own_names) {
  const MadBytes wire = encode_session_mad(request());
  const auto changed = [&](size_t at, int value) {
    MadBytes copy = wire;
    copy[at] = static_cast<std::byte>(value);
    return decode(copy);
  };
  EXPECT_EQ(changed(2, 1), MadError::kHeader);
  EXPECT_EQ(changed(17, 0x11), MadError::kReserved) << "an MRA has no such fields";
  EXPECT_EQ(changed(39, 0x55), MadError::kKind) << "another service";
  EXPECT_EQ(changed(kPrivate + 31, 1), MadError::kReserved);
  EXPECT_EQ(changed(kMadBytes - 1, 1), MadError::kReserved);
  EXPECT_EQ(changed(kPrivate + 8, 1), MadError::kValue) << "25-bit QPN";
  EXPECT_EQ(changed(kPrivate + 12, 1), MadError::kValue) << "25-bit PSN";
  EXPECT_EQ(changed(kPrivate + 7, 3), MadError::kValue) << "three channels";
  EXPECT_EQ(changed(kPrivate + 7, 1), MadError::kValue) << "one channel, yet a second QPN";
  EXPECT_EQ(changed(kPrivate, 0xFF), MadError::kValue) << "lowest version above the highest";
  SessionMad twice = request();
  twice.offer.data.qpn = twice.offer.control.qpn;
  EXPECT_EQ(decode(encode_session_mad(twice)), MadError::kValue) << "both channels on one queue pair";
  EXPECT_EQ(decode(encode_cm({.body = CmMra()})), MadError::kKind);
  EXPECT_EQ(decode(encode_cm({.body = CmRej{.reason = kRejectInvalidService}})), MadError::kKind);
}

TEST(SessionMad, bit_flips_are_survived) {
  SeededRandom random(3);
  for (int round = 0; round < 5000; ++round) {
    MadBytes wire = encode_session_mad(request());
    wire[random.below(wire.size())] ^= static_cast<std::byte>(1U << random.below(8));
    (void)decode(wire);
  }
}

}  // namespace
}  // namespace weft
