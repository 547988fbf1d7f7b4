// What a program reaches of the state of its queue pairs (SAN-LMP-07): it changes it by modify() and posts
// alone, and queries give copies.
#include <gtest/gtest.h>

#include "tests/support/requirement.h"
#include "tests/support/two_devices.h"

namespace weft::test {
namespace {

using adapter::QpState;
using hca::Answer;

template <class T>
concept GivesItsState = requires(T& qp) {
  qp.pair();
}
|| requires(T& qp) {
  qp.pair_;
}
|| requires(T& qp) {
  qp.memory_;
}
|| requires(T& qp) {
  qp.handles_;
};
template <class T>
concept IsEntered = requires(T& qp, adapter::QueuePair* pair) {
  qp.enter(pair);
};
template <class T>
concept FailsAtWill = requires(T& qp) {
  qp.fail();
};
template <class T>
concept IsReleased = requires(T& object) {
  object.release();
}
|| requires(T& object) {
  object.abandon();
};

/// A class whose members are all in reach: the concepts above find them.
struct OpenPair {
  void enter(adapter::QueuePair* /*pair*/) {}
  void fail() {}
  void release() {}
  adapter::QueuePair* pair_ = nullptr;
};
static_assert(GivesItsState<OpenPair> && IsEntered<OpenPair>);
static_assert(FailsAtWill<OpenPair> && IsReleased<OpenPair>);
static_assert(!GivesItsState<hca::Qp> && !IsEntered<hca::Qp> && !FailsAtWill<hca::Qp>);
static_assert(!IsReleased<hca::Qp> && !IsReleased<hca::Object>, "only a context ends objects");

TEST_F(TwoDevices, a_program_has_copies_of_what_its_queue_pairs_are) {
  covers("SAN-LMP-07");
  const auto [near, far] = connected();
  adapter::QpAttr attr;
  adapter::QpConfig config;
  ASSERT_EQ(near->query(attr, config), Answer::kOk);
  ASSERT_EQ(attr.state, QpState::kRts);
  const adapter::QpConfig made = config;
  attr.state = QpState::kReset;
  attr.dest_qpn = Qpn(77);
  attr.dlid = Lid(99);
  config.type = adapter::QpType::kUd;
  config.send_wqes = 1;
  config.pd = {};
  adapter::QpAttr again;
  adapter::QpConfig kept;
  ASSERT_EQ(near->query(again, kept), Answer::kOk);
  EXPECT_EQ(again.state, QpState::kRts);
  EXPECT_EQ(again.dest_qpn, far->number());
  EXPECT_EQ(kept.type, adapter::QpType::kRc);
  EXPECT_EQ(kept.send_wqes, made.send_wqes);
  EXPECT_EQ(kept.pd, a().pd->id());
  a().memory[0] = std::byte{9};
  ASSERT_EQ(b().recv(*far, 1), Answer::kOk);
  ASSERT_EQ(a().send(*near, 2), Answer::kOk);
  EXPECT_EQ(next(*b().cq).status, adapter::WcStatus::kSuccess);
  EXPECT_EQ(b().memory[Consumer::kBytes / 2], std::byte{9}) << "it went to the peer of the adapter's state";
}

}  // namespace
}  // namespace weft::test
