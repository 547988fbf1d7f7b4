// What connection management says of its failures.
#include "rdma_cm/cm_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "rdma_cm/connection.h"

namespace weft::rdma_cm {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const IpAddress kAsked = make_ipv4(0x0A570002, 7471);

TEST(CmTexts, an_address_that_nobody_has) {
  const std::string text =
      describe({.event = CmEvent::kAddressError, .status = -ETIMEDOUT, .address = kAsked});
  EXPECT_THAT(
      text,
      StartsWith("ADDR_ERROR, status -110: 10.87.0.2 port 7471: no endnode of this fabric has answered"));
}

TEST(CmTexts, a_rejection_says_by_whom_and_why) {
  const CmFailure nobody{
      .event = CmEvent::kRejected, .status = kRejectInvalidService, .address = kAsked, .peer = Lid(2)};
  EXPECT_THAT(
      describe(nobody),
      StartsWith(
          "REJECTED, status 8: 10.87.0.2 port 7471 (LID 2): the endnode is there, and no program listens"));
  CmFailure other = nobody;
  other.status = kRejectConsumer;
  EXPECT_THAT(describe(other), HasSubstr("has called rdma_reject"));
  other.status = 12;
  EXPECT_THAT(describe(other), HasSubstr("status 12"));
  EXPECT_THAT(describe(other), HasSubstr("the peer refuses"));
}

TEST(CmTexts, a_request_that_is_turned_away) {
  EXPECT_THAT(
      describe({.address = kAsked, .peer = Lid(3), .turned_away = TurnedAway::kNobody}),
      StartsWith(
          "LID 3 asks for a connection to 10.87.0.2 port 7471: no program of this process listens there"));
}

TEST(CmTexts, a_request_that_is_turned_away_names_the_near_miss) {
  CmFailure failure{.address = kAsked,
                    .peer = Lid(3),
                    .turned_away = TurnedAway::kNotListening,
                    .listener = make_ipv4(0x7F000001, 12061)};
  EXPECT_THAT(describe(failure), HasSubstr("port 7471: an rdma_cm_id is bound there and does not listen"));
  failure.turned_away = TurnedAway::kBacklogFull;
  EXPECT_THAT(describe(failure), HasSubstr("the backlog of rdma_listen is full"));
  failure.turned_away = TurnedAway::kOtherAddress;
  EXPECT_THAT(describe(failure), HasSubstr("this program listens at 127.0.0.1 port 12061 only"));
  failure.turned_away = TurnedAway::kOtherService;
  EXPECT_THAT(describe(failure), HasSubstr("in another port space"));
  failure.turned_away = TurnedAway::kOtherQpType;
  EXPECT_THAT(describe(failure), HasSubstr("both sides need the same (rdma_create_ep: ai_qp_type"));
  failure.turned_away = TurnedAway::kFalseSource;
  EXPECT_THAT(describe(failure), HasSubstr("it claims to come from 127.0.0.1 port 12061, which"));
  failure.turned_away = TurnedAway::kSwappedPort;
  EXPECT_THAT(describe(failure), HasSubstr("listens at port 12061, which is the same number with its bytes"));
}

TEST(CmTexts, what_goes_well_is_no_failure) {
  EXPECT_FALSE(is_failure(CmEvent::kAddressResolved, 0));
  EXPECT_FALSE(is_failure(CmEvent::kEstablished, 0));
  EXPECT_FALSE(is_failure(CmEvent::kDisconnected, 0));
  EXPECT_FALSE(is_failure(CmEvent::kTimewaitExit, 0));
  EXPECT_TRUE(is_failure(CmEvent::kDisconnected, -ETIMEDOUT));
  EXPECT_TRUE(is_failure(CmEvent::kUnreachable, -ETIMEDOUT));
  EXPECT_TRUE(is_failure(CmEvent::kRejected, 28));
}

}  // namespace
}  // namespace weft::rdma_cm
