#include "messages/cm.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/rng.h"

namespace weft {
namespace {

CmMessage request() {
  return {.kind = CmKind::kReq,
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
                    .packet_bytes = 65536,
                    .message_bytes = 4096}};
}

std::vector<std::byte> encoded(const CmMessage& message) {
  std::vector<std::byte> out(kCmBytesMax);
  out.resize(encode_cm(message, out));
  return out;
}

CmError decode(const std::vector<std::byte>& in) {
  CmMessage out;
  return decode_cm(in, out);
}

TEST(Cm, every_kind_survives_the_wire) {
  CmMessage reply = request();
  reply.kind = CmKind::kRep;
  const CmMessage reject{
      .kind = CmKind::kRej, .nonce = 5, .offer = {}, .reason = 6, .version_min = 1, .version_max = 1};
  std::vector<CmMessage> all{request(), reply, reject};
  for (const CmKind kind : {CmKind::kRtu, CmKind::kDreq, CmKind::kDrep}) {
    all.push_back({.kind = kind, .nonce = 9, .offer = {}});
  }
  for (const CmMessage& message : all) {
    const std::vector<std::byte> wire = encoded(message);
    EXPECT_LE(wire.size(), kCmBytesMax);
    CmMessage back;
    ASSERT_EQ(decode_cm(wire, back), CmError::kNone) << to_string(message.kind);
    EXPECT_EQ(back, message) << to_string(message.kind);
  }
}

TEST(Cm, fields_stand_where_the_layout_says) {
  const std::vector<std::byte> wire = encoded(request());
  ASSERT_EQ(wire.size(), 80U);
  EXPECT_EQ(wire[1], std::byte{0x10});
  EXPECT_EQ(wire[8], std::byte{0x11});
  EXPECT_EQ(wire[20], std::byte{1});
  EXPECT_EQ(wire[23], std::byte{2});
  EXPECT_EQ(wire[25], std::byte{0x12});
  EXPECT_EQ(wire[48], std::byte{2});
  EXPECT_EQ(wire[53], std::byte{42});
}

TEST(Cm, refusals_have_their_own_names) {
  std::vector<std::byte> wire = encoded(request());
  EXPECT_EQ(decode({}), CmError::kTooShort);
  EXPECT_EQ(decode(std::vector<std::byte>(wire.begin(), wire.end() - 1)), CmError::kLength);
  const auto changed = [&](size_t at, int value) {
    std::vector<std::byte> copy = wire;
    copy[at] = static_cast<std::byte>(value);
    return decode(copy);
  };
  EXPECT_EQ(changed(3, 2), CmError::kVersion);
  EXPECT_EQ(changed(1, 0x11), CmError::kKind);
  EXPECT_EQ(changed(4, 1), CmError::kReserved);
  EXPECT_EQ(changed(55, 1), CmError::kReserved);
  EXPECT_EQ(changed(79, 1), CmError::kReserved);
  EXPECT_EQ(changed(24, 1), CmError::kBadValue);     // 25-bit QPN
  EXPECT_EQ(changed(28, 1), CmError::kBadValue);     // 25-bit PSN
  EXPECT_EQ(changed(23, 3), CmError::kBadValue);     // three channels
  EXPECT_EQ(changed(23, 1), CmError::kBadValue);     // one channel, yet a second QPN
  EXPECT_EQ(changed(16, 0xFF), CmError::kBadValue);  // lowest version above the highest
  CmMessage twice = request();
  twice.offer.data.qpn = twice.offer.control.qpn;
  EXPECT_EQ(decode(encoded(twice)), CmError::kBadValue) << "both channels on one queue pair";
}

TEST(Cm, bit_flips_are_survived) {
  SeededRandom random(3);
  for (int round = 0; round < 5000; ++round) {
    std::vector<std::byte> wire = encoded(request());
    wire[random.below(wire.size())] ^= static_cast<std::byte>(1U << random.below(8));
    wire.resize(random.below(2) == 0 ? wire.size() : random.below(wire.size() + 1));
    (void)decode(wire);
  }
}

}  // namespace
}  // namespace weft
