// HELLO, WELCOME and REFUSE, built by hand.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "fabric/link/link_handshake.h"
#include "tests/support/reason_table.h"

namespace weft::test {
using namespace fabric;
namespace {

using Bytes = std::vector<std::byte>;

Bytes hello_bytes() {
  LinkConfig config;
  config.guid = Guid(0x1122334455667788);
  config.lid = Lid(7);
  const LinkHelloWire wire = encode_link_hello(make_hello(config, 0xAABB));
  const std::span<const std::byte> bytes = bytes_of(wire);
  return {bytes.begin(), bytes.end()};
}

/// A HELLO with changed bytes from `offset` on, or cut after `length` bytes.
struct Mistake {
  LinkHelloError reason;
  size_t offset;
  std::array<int, 4> values;  // -1: unchanged
  size_t length = 64;
};

constexpr std::array kMistakes{
    Mistake{LinkHelloError::kLength, 0, {-1, -1, -1, -1}, 63},
    Mistake{LinkHelloError::kMagic, 0, {0, -1, -1, -1}},
    Mistake{LinkHelloError::kKind, 4, {4, -1, -1, -1}},
    Mistake{LinkHelloError::kReserved, 60, {-1, -1, -1, 1}},  // P_Keys in a HELLO
    Mistake{LinkHelloError::kReserved, 48, {1, -1, -1, -1}},  // an earlier nonce without "any port"
    Mistake{LinkHelloError::kReserved, 44, {-1, -1, -1, 1}},
    Mistake{LinkHelloError::kReserved, 14, {0x80, -1, -1, -1}},
    Mistake{LinkHelloError::kReserved, 14, {-1, 8, -1, -1}},
    Mistake{LinkHelloError::kVersion, 6, {0, 2, 0, 1}},
    Mistake{LinkHelloError::kVersion, 14, {-1, 4, -1, -1}},     // any port, though it accepts version 1
    Mistake{LinkHelloError::kRange, 5, {1, -1, -1, -1}},        // a HELLO with a refusal
    Mistake{LinkHelloError::kRange, 10, {0xFF, 0xFF, -1, -1}},  // LID
    Mistake{LinkHelloError::kRange, 36, {0, 0, 0, 16}},         // cell payload
    Mistake{LinkHelloError::kRange, 40, {0, 16, -1, -1}},       // lanes
    Mistake{LinkHelloError::kRange, 42, {0, 0, -1, -1}},        // credits
};
static_assert(names_every_reason(kMistakes, LinkHelloError::kLength, LinkHelloError::kCount));

TEST(LinkHello, layout_is_as_written) {
  const Bytes bytes = hello_bytes();
  ASSERT_EQ(bytes.size(), 64U);
  EXPECT_EQ(std::memcmp(bytes.data(), "WEFT\x01\x00\x00\x01\x00\x02\x00\x07", 12), 0);
  EXPECT_EQ(std::memcmp(bytes.data() + 16, "\x11\x22\x33\x44\x55\x66\x77\x88", 8), 0);
  LinkHello out;
  ASSERT_EQ(decode_link_hello(bytes, out), LinkHelloError::kNone);
  EXPECT_EQ(out.guid, Guid(0x1122334455667788));
  EXPECT_EQ(out.boot_nonce, 0xAABBU);
  EXPECT_EQ(out.flit_payload_bytes, cell_bytes_max(kCellPayloadBytesDefault));
}

TEST(LinkHello, each_mistake_has_its_name) {
  for (const Mistake& one : kMistakes) {
    Bytes bytes = hello_bytes();
    for (size_t i = 0; i < one.values.size(); ++i) {
      if (one.values[i] >= 0) bytes[one.offset + i] = static_cast<std::byte>(one.values[i]);
    }
    LinkHello out;
    EXPECT_EQ(decode_link_hello(std::span(bytes).first(one.length), out), one.reason)
        << "offset " << one.offset;
  }
}

TEST(LinkHello, what_came_with_version_2_is_refused_before_it) {
  LinkHello welcome;
  welcome.kind = LinkMessageKind::kWelcome;
  welcome.flit_payload_bytes = cell_bytes_max(kCellPayloadBytesDefault);
  welcome.cell_payload_bytes = kCellPayloadBytesDefault;
  welcome.lanes = welcome.credits_per_lane = 4;
  for (const uint16_t version : {uint16_t{1}, uint16_t{2}}) {
    welcome.version_min = welcome.version_max = version;
    for (const bool identity : {false, true}) {
      welcome.identity = identity ? 1 : 0;
      welcome.pkeys[0] = identity ? 0 : kPkeyDefault;
      LinkHello out;
      const LinkHelloError error = decode_link_hello(bytes_of(encode_link_hello(welcome)), out);
      EXPECT_EQ(error, version == 1 ? LinkHelloError::kReserved : LinkHelloError::kNone);
      if (version == 2) {
        EXPECT_EQ(out.pkeys, welcome.pkeys);
      }
    }
  }
  welcome.flags = kLinkAnyPort;  // only a HELLO may have it
  EXPECT_EQ(decode_link_hello(bytes_of(encode_link_hello(welcome)), welcome), LinkHelloError::kReserved);
}

LinkHelloError judge(const LinkHello& hello) {
  LinkHello out;
  return decode_link_hello(bytes_of(encode_link_hello(hello)), out);
}

/// A message that names `value` in one of its fields.
template <class Field>
LinkHelloError judge_with(Field LinkHello::*field, uint32_t value) {
  LinkHello hello = make_hello(LinkConfig{}, 1);
  hello.*field = Field(static_cast<decltype(Field{} + 0)>(value));
  return judge(hello);
}

TEST(LinkHello, each_bound_of_a_field_is_the_last_good_value) {
  const auto lanes = [](uint32_t value) { return judge_with(&LinkHello::lanes, value); };
  const auto credits = [](uint32_t value) { return judge_with(&LinkHello::credits_per_lane, value); };
  const auto cell = [](uint32_t value) { return judge_with(&LinkHello::cell_payload_bytes, value); };
  const auto flit = [](uint32_t value) { return judge_with(&LinkHello::flit_payload_bytes, value); };
  const auto lid = [](uint32_t value) {
    LinkHello hello = make_hello(LinkConfig{}, 1);
    hello.lid = Lid(static_cast<uint16_t>(value));
    return judge(hello);
  };
  const auto expect = [](const char* field, const auto& judged, uint32_t least, uint32_t most) {
    EXPECT_EQ(judged(least), LinkHelloError::kNone) << field;
    EXPECT_EQ(judged(most), LinkHelloError::kNone) << field;
    if (least != 0) {
      EXPECT_EQ(judged(least - 1), LinkHelloError::kRange) << field;
    }
    EXPECT_EQ(judged(most + 1), LinkHelloError::kRange) << field;
  };
  expect("lanes", lanes, 1, 15);
  expect("credits", credits, 1, 32767);
  expect("cell payload", cell, kCellPayloadBytesMin, kCellPayloadBytesMax);
  expect("flit payload", flit, kFlitPayloadBytesMin, cell_bytes_max(kCellPayloadBytesMax));
  expect("LID", lid, 0, kLidMax);
}

TEST(LinkHello, a_welcome_names_one_version_and_a_refusal_its_reason) {
  LinkHello hello = make_hello(LinkConfig{}, 1);
  hello.version_min = 1;
  hello.version_max = 2;
  EXPECT_EQ(judge(hello), LinkHelloError::kNone);
  hello.kind = LinkMessageKind::kWelcome;
  EXPECT_EQ(judge(hello), LinkHelloError::kVersion);
  hello.version_max = 1;
  EXPECT_EQ(judge(hello), LinkHelloError::kNone);
  hello.kind = LinkMessageKind::kRefuse;
  EXPECT_EQ(judge(hello), LinkHelloError::kRange) << "a refusal without a reason";
  hello.refusal = LinkRefusal::kNoLid;
  EXPECT_EQ(judge(hello), LinkHelloError::kNone);
  hello.lanes = 0;
  EXPECT_EQ(judge(hello), LinkHelloError::kNone) << "a refusal offers nothing";
  hello.refusal = LinkRefusal::kCount;
  EXPECT_EQ(judge(hello), LinkHelloError::kRange) << "a reason of a later version";
}

TEST(LinkConfiguration, each_bound_of_a_setting_is_the_last_good_value) {
  const auto expect = [](uint32_t LinkConfig::*setting, uint32_t least, uint32_t most) {
    const auto good = [setting](uint32_t value) {
      LinkConfig config;
      config.*setting = value;
      return check_link_config(config).ok();
    };
    EXPECT_FALSE(good(least - 1)) << least;
    EXPECT_TRUE(good(least)) << least;
    EXPECT_TRUE(good(most)) << most;
    EXPECT_FALSE(good(most + 1)) << most;
  };
  expect(&LinkConfig::lanes, 1, kDataLanesMax);
  expect(&LinkConfig::credits_per_lane, 1, kCreditsPerLaneMax);
  expect(&LinkConfig::cell_payload_bytes, kCellPayloadBytesMin, kCellPayloadBytesMax);
  expect(&LinkConfig::flit_payload_bytes, kFlitPayloadBytesMin, cell_bytes_max(kCellPayloadBytesDefault));
}

class Negotiation : public ::testing::Test {
 protected:
  LinkRefusal answer() { return answer_hello(own, hello, {Lid(7), 3, SubnetId(1)}, welcome, params); }
  LinkConfig own;
  LinkConfig theirs;
  LinkHello hello = make_hello(theirs, 1);
  LinkHello welcome;
  LinkParams params;
};

TEST_F(Negotiation, the_smaller_counts_win_and_sizes_must_agree) {
  hello.lanes = 2;
  hello.credits_per_lane = 1000;
  ASSERT_EQ(answer(), LinkRefusal::kNone);
  EXPECT_EQ(params.lanes, 2U);
  EXPECT_EQ(params.credits_per_lane, own.credits_per_lane);
  EXPECT_EQ(params.lid, Lid(7));
  LinkParams joined;
  ASSERT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kNone);
  EXPECT_EQ(joined.switch_port, 3);
  EXPECT_EQ(joined.subnet, SubnetId(1));
  EXPECT_EQ(welcome.boot_nonce, 1U);
  hello.cell_payload_bytes = 256;
  EXPECT_EQ(answer(), LinkRefusal::kCellPayload);
  hello = make_hello(theirs, 1);
  hello.flit_payload_bytes = 96;
  EXPECT_EQ(answer(), LinkRefusal::kFlitPayload);
}

TEST_F(Negotiation, versions_must_meet) {
  hello.version_min = hello.version_max = kLinkVersionMax + 1;
  EXPECT_EQ(answer(), LinkRefusal::kVersion);
  hello.version_min = kLinkVersionMin;
  EXPECT_EQ(answer(), LinkRefusal::kNone);
  EXPECT_EQ(welcome.version_max, kLinkVersionMax);
}

TEST_F(Negotiation, a_peer_of_version_1_is_told_nothing_of_version_2) {
  hello.guid = Guid(7);
  ASSERT_EQ(answer(), LinkRefusal::kNone);
  EXPECT_EQ(welcome.identity, 7U);
  EXPECT_EQ(welcome.pkeys[0], kPkeyDefault);
  hello.version_max = 1;
  ASSERT_EQ(answer(), LinkRefusal::kNone);
  EXPECT_EQ(welcome.version_max, 1);
  EXPECT_EQ(welcome.identity, 0U);
  EXPECT_EQ(welcome.pkeys[0], 0);
  LinkParams joined;
  ASSERT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kNone);
  EXPECT_EQ(joined.pkeys[0], kPkeyDefault) << "the partition that there always is";
  theirs.any_port = true;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kVersion)
      << "a WELCOME of version 1 carries no identity";
}

TEST_F(Negotiation, a_switch_that_stores_cells_refuses_too_few_credits_for_one) {
  own.cell_payload_bytes = theirs.cell_payload_bytes = 256;
  own.flit_payload_bytes = theirs.flit_payload_bytes = 96;
  own.is_switch = true;
  theirs.credits_per_lane = 3;
  hello = make_hello(theirs, 1);
  EXPECT_TRUE(check_link_config(theirs).ok()) << "an endnode stores nothing";
  EXPECT_EQ(answer(), LinkRefusal::kCredits);
  own.cut_through = true;
  EXPECT_EQ(answer(), LinkRefusal::kNone);
  theirs.is_switch = true;
  EXPECT_FALSE(check_link_config(theirs).ok());
  theirs.cut_through = true;
  EXPECT_TRUE(check_link_config(theirs).ok());
}

TEST_F(Negotiation, a_joining_switch_that_stores_cells_refuses_too_few_credits_for_one) {
  own.cell_payload_bytes = theirs.cell_payload_bytes = 256;
  own.flit_payload_bytes = theirs.flit_payload_bytes = 96;
  own.is_switch = theirs.is_switch = own.cut_through = true;
  own.credits_per_lane = 3;
  hello = make_hello(theirs, 1);
  ASSERT_EQ(answer(), LinkRefusal::kNone) << "the accepting switch passes cells on as they come";
  LinkParams joined;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kCredits);
  theirs.cut_through = true;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kNone);
}

TEST_F(Negotiation, a_welcome_beyond_the_offer_is_refused) {
  ASSERT_EQ(answer(), LinkRefusal::kNone);
  LinkParams joined;
  const LinkHello good = welcome;
  welcome.lanes = 5;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kCredits);
  welcome = good;
  ++welcome.credits_per_lane;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kCredits);
  welcome = good;
  welcome.version_min = welcome.version_max = kLinkVersionMax + 1;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kVersion);
  EXPECT_EQ(take_welcome(theirs, hello, joined), LinkRefusal::kVersion) << "a HELLO is no answer";
  welcome = good;
  welcome.cell_payload_bytes = 512;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kCellPayload);
  welcome = good;
  welcome.flit_payload_bytes = 96;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kFlitPayload);
  theirs.lid = Lid(9);
  EXPECT_EQ(take_welcome(theirs, good, joined), LinkRefusal::kLidInvalid);
  EXPECT_EQ(take_welcome(theirs, make_refusal(own, 1, LinkRefusal::kNoPort), joined), LinkRefusal::kNoPort);
}

TEST_F(Negotiation, an_endnode_that_has_a_name_is_not_given_another) {
  theirs.any_port = true;
  theirs.guid = Guid(9);
  hello = make_hello(theirs, 1);
  ASSERT_EQ(answer(), LinkRefusal::kNone);
  LinkParams joined;
  ASSERT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kNone);
  EXPECT_EQ(joined.local_guid, Guid(9));
  ++welcome.identity;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kNotOwner);
}

TEST_F(Negotiation, an_endnode_of_a_spare_port_must_be_given_a_guid_and_a_lid) {
  theirs.any_port = true;
  hello = make_hello(theirs, 1);
  hello.guid = Guid(9);
  ASSERT_EQ(answer(), LinkRefusal::kNone);
  LinkParams joined;
  ASSERT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kNone);
  const LinkHello good = welcome;
  welcome.identity = 0;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kVersion);
  welcome = good;
  welcome.lid = kLidNone;
  EXPECT_EQ(take_welcome(theirs, welcome, joined), LinkRefusal::kVersion);
}

/// An endnode that brings its identity has a name of its own, which no refusal takes away.
TEST_F(Negotiation, an_endnode_that_brought_its_identity_keeps_its_guid_when_refused) {
  theirs.any_port = true;
  theirs.guid = Guid(9);
  theirs.identity = 0x77;
  JoiningEnd end(theirs);
  LinkParams joined;
  EXPECT_EQ(end.hello(1).identity, 0x77U);
  EXPECT_EQ(end.take(make_refusal(own, 1, LinkRefusal::kNotOwner), joined), LinkRefusal::kNotOwner);
  EXPECT_EQ(end.hello(2).guid, Guid(9));
  EXPECT_EQ(end.hello(2).identity, 0x77U);
}

TEST_F(Negotiation, an_endnode_whose_identity_was_refused_claims_nothing_of_it) {
  theirs.any_port = true;
  theirs.guid = Guid(9);
  JoiningEnd end(theirs);
  hello = end.hello(1);
  ASSERT_EQ(answer(), LinkRefusal::kNone);
  ASSERT_NE(welcome.lid, kLidNone);
  LinkParams joined;
  ASSERT_EQ(end.take(welcome, joined), LinkRefusal::kNone);
  EXPECT_EQ(end.hello(2).lid, welcome.lid);
  EXPECT_EQ(end.take(make_refusal(own, 2, LinkRefusal::kNotOwner), joined), LinkRefusal::kNotOwner);
  const LinkHello next = end.hello(3);
  EXPECT_EQ(next.lid, kLidNone);
  EXPECT_EQ(next.guid, Guid{});
  EXPECT_EQ(next.identity, 0U);
}

}  // namespace
}  // namespace weft::test
