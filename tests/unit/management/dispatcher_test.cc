// Which handler gets a management datagram, and what its sender hears when no handler does.
#include "management/dispatcher.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "messages/mad/cm.h"

namespace weft::management {
namespace {

struct Port final : MadPort {
  bool send(Lid to, const MadBytes& mad) noexcept override {
    sent.emplace_back(to, mad);
    return true;
  }
  bool flood(const MadBytes& /*mad*/) noexcept override { return false; }
  std::vector<std::pair<Lid, MadBytes>> sent;
};

struct Handler final : MadHandler {
  void on_mad(const MadArrival& mad) noexcept override { got.push_back(mad.header); }
  std::vector<MadHeader> got;
};

class DispatcherTest : public ::testing::Test {
 protected:
  static MadHeader header(MadClass mad_class, uint8_t version, MadMethod method) {
    return {.mad_class = mad_class,
            .class_version = version,
            .method = method,
            .transaction = 0x77,
            .attribute = 0x12,
            .modifier = 3};
  }
  MadFate say(const MadHeader& said) {
    MadBytes bytes{};
    encode_mad_header(said, bytes);
    bytes[200] = std::byte{9};
    return dispatcher.dispatch(Instant(), Lid(5), bytes);
  }

  Port port;
  Dispatcher dispatcher{port};
  Handler counters;
  Handler connections;
};

TEST_F(DispatcherTest, a_datagram_goes_by_class_version_and_method) {
  ASSERT_TRUE(dispatcher.claim(MadClass::kPerformance, 1, {MadMethod::kGet, MadMethod::kSet}, counters));
  ASSERT_TRUE(dispatcher.claim(MadClass::kConnection, 2, {MadMethod::kSend}, connections));
  const MadHeader get = header(MadClass::kPerformance, 1, MadMethod::kGet);
  EXPECT_EQ(say(get), MadFate::kTaken);
  EXPECT_EQ(say(header(MadClass::kConnection, 2, MadMethod::kSend)), MadFate::kTaken);
  ASSERT_EQ(counters.got.size(), 1U);
  EXPECT_EQ(counters.got.front(), get);
  EXPECT_EQ(connections.got.size(), 1U);
  EXPECT_EQ(say(header(MadClass::kPerformance, 1, MadMethod::kGetResponse)), MadFate::kUnclaimed);
  EXPECT_EQ(say(header(MadClass::kConnection, 1, MadMethod::kSend)), MadFate::kUnclaimed);
  EXPECT_EQ(counters.got.size() + connections.got.size(), 2U);
  EXPECT_TRUE(port.sent.empty()) << "neither an answer nor a Send waits for an answer";
}

TEST_F(DispatcherTest, a_question_of_no_agent_is_answered_not_supported) {
  for (const MadMethod method : {MadMethod::kGet, MadMethod::kSet}) {
    port.sent.clear();
    EXPECT_EQ(say(header(MadClass::kPerformance, 1, method)), MadFate::kUnclaimed);
    ASSERT_EQ(port.sent.size(), 1U);
    EXPECT_EQ(port.sent[0].first, Lid(5));
    MadHeader answer;
    ASSERT_EQ(decode_mad_header(port.sent[0].second, answer), MadError::kNone);
    MadHeader expected = header(MadClass::kPerformance, 1, MadMethod::kGetResponse);
    expected.status = kMadStatusUnsupported;
    EXPECT_EQ(answer, expected) << "class, transaction, attribute and modifier are the question's";
    EXPECT_EQ(port.sent[0].second[200], std::byte{9});
  }
}

TEST_F(DispatcherTest, what_is_claimed_is_claimed_once) {
  ASSERT_TRUE(dispatcher.claim(MadClass::kPerformance, 1, {MadMethod::kGet}, counters));
  EXPECT_FALSE(dispatcher.claim(MadClass::kPerformance, 1, {MadMethod::kSet, MadMethod::kGet}, connections));
  EXPECT_EQ(say(header(MadClass::kPerformance, 1, MadMethod::kSet)), MadFate::kUnclaimed)
      << "nothing of a refused claim holds";
  EXPECT_TRUE(dispatcher.claim(MadClass::kPerformance, 2, {MadMethod::kGet}, connections));
}

TEST_F(DispatcherTest, the_table_has_a_size) {
  for (size_t i = 0; i < Dispatcher::kClaimsMax; ++i)
    ASSERT_TRUE(dispatcher.claim(MadClass::kEndnode, static_cast<uint8_t>(i), {MadMethod::kSend}, counters));
  EXPECT_FALSE(dispatcher.claim(MadClass::kConnection, 2, {MadMethod::kSend}, counters));
}

TEST_F(DispatcherTest, a_bad_header_reaches_no_handler) {
  ASSERT_TRUE(dispatcher.claim(MadClass::kConnection, 2, {MadMethod::kSend}, connections));
  MadBytes bytes = encode_cm({.body = CmRtu()});
  EXPECT_EQ(dispatcher.dispatch(Instant(), Lid(5), std::span(bytes).first(255)), MadFate::kMalformed);
  bytes[0] = std::byte{2};
  EXPECT_EQ(dispatcher.dispatch(Instant(), Lid(5), bytes), MadFate::kMalformed);
  EXPECT_TRUE(connections.got.empty());
}

}  // namespace
}  // namespace weft::management
