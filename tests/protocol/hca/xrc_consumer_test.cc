// XRC domains from the consumer's side: opening the same file gives the same domain.
#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

TEST_F(TwoDevices, the_same_file_opens_the_same_xrc_domain) {
  const hca::XrcFile file{.device = 1, .inode = 2};
  hca::Context& one = *b().context;
  hca::Context& other = *b().device.open().object;
  EXPECT_EQ(one.open_xrcd({.file = file, .create = false}).answer(), Answer::kAgain);
  hca::XrcDomain* first = one.open_xrcd({.file = file}).object;
  EXPECT_EQ(one.open_xrcd({.file = file, .exclusive = true}).answer(), Answer::kTaken);
  hca::XrcDomain* second = other.open_xrcd({.file = file, .create = false}).object;
  hca::XrcDomain* alone = one.open_xrcd({}).object;
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(first->id(), second->id());
  EXPECT_NE(first->id(), alone->id());
  EXPECT_NE(one.open_xrcd({.file = hca::XrcFile{.device = 1, .inode = 3}}).object->id(), first->id());
  // The last close ends the domain.
  EXPECT_EQ(one.destroy(first), Answer::kOk);
  first = one.open_xrcd({.file = file, .create = false}).object;
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(one.destroy(first), Answer::kOk);
  EXPECT_EQ(other.destroy(second), Answer::kOk);
  EXPECT_EQ(one.open_xrcd({.file = file, .create = false}).answer(), Answer::kAgain);
  b().device.close(&other);
}

TEST_F(TwoDevices, an_xrc_target_ends_with_its_last_handle) {
  const hca::XrcFile file{.device = 1, .inode = 2};
  hca::Context& one = *b().context;
  hca::Context& other = *b().device.open().object;
  hca::XrcDomain* first = one.open_xrcd({.file = file}).object;
  hca::XrcDomain* second = other.open_xrcd({.file = file}).object;
  hca::XrcDomain* alone = other.open_xrcd({}).object;
  hca::Qp* made = one.create_target(*first, {}).object;
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(other.open_target(*alone, made->number()).answer(), Answer::kNoSuchObject) << "of another domain";
  EXPECT_EQ(other.open_target(*first, made->number()).answer(), Answer::kForeignObject)
      << "of another context";
  EXPECT_EQ(other.open_target(*second, Qpn(0x777)).answer(), Answer::kNoSuchObject);
  hca::Qp* opened = other.open_target(*second, made->number()).object;
  ASSERT_NE(opened, nullptr);
  EXPECT_EQ(opened->number(), made->number());
  EXPECT_EQ(other.destroy(second), Answer::kBusy) << "the handle is a user of the domain";
  // Both objects are the same QP.
  adapter::QpAttr attr;
  attr.state = adapter::QpState::kInit;
  attr.port = 1;
  constexpr uint32_t kMask =
      adapter::kQpAttrState | adapter::kQpAttrPkeyIndex | adapter::kQpAttrPort | adapter::kQpAttrAccess;
  ASSERT_EQ(opened->modify(attr, kMask), Answer::kOk);
  adapter::QpConfig config;
  ASSERT_EQ(made->query(attr, config), Answer::kOk);
  EXPECT_EQ(attr.state, adapter::QpState::kInit);
  // The creator destroys its object first: the QP stays and can be opened again.
  const Qpn number = made->number();
  EXPECT_EQ(one.destroy(made), Answer::kOk);
  EXPECT_EQ(one.destroy(first), Answer::kOk);
  ASSERT_EQ(opened->query(attr, config), Answer::kOk);
  EXPECT_EQ(attr.state, adapter::QpState::kInit);
  hca::Qp* again = other.open_target(*second, number).object;
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(other.destroy(opened), Answer::kOk);
  EXPECT_EQ(other.destroy(again), Answer::kOk);
  EXPECT_EQ(other.open_target(*second, number).answer(), Answer::kNoSuchObject) << "the last handle ended it";
  b().device.close(&other);
}

TEST_F(TwoDevices, a_queue_that_cannot_serve_a_qp_is_a_wrong_argument_not_a_lack_of_memory) {
  hca::Context& one = *b().context;
  hca::XrcDomain* domain = one.open_xrcd({}).object;
  hca::Srq* of_domain = one.create_srq(*b().pd, 4, 1, nullptr, {.domain = domain, .cq = b().cq}).object;
  hca::Srq* plain = one.create_srq(*b().pd, 4, 1).object;
  ASSERT_TRUE(of_domain != nullptr && plain != nullptr);
  hca::QpInit init{.send_cq = b().cq, .recv_cq = b().cq, .srq = of_domain};
  EXPECT_EQ(one.create_qp(*b().pd, init).answer(), Answer::kNotOfService);
  init.srq = plain;
  init.config.type = adapter::QpType::kXrcSend;
  EXPECT_EQ(one.create_qp(*b().pd, init).answer(), Answer::kNotOfService);
  init.config.type = adapter::QpType::kRc;
  EXPECT_EQ(one.create_qp(*b().pd, init).answer(), Answer::kOk);
}

TEST(EventKinds, have_the_numbers_of_the_verbs) {
  EXPECT_EQ(hca::kind_of(adapter::AsyncEventKind::kSrqError), hca::EventKind::kSrqError);
  EXPECT_EQ(static_cast<int>(hca::EventKind::kSrqError), 14);
  EXPECT_EQ(hca::kind_of(adapter::AsyncEventKind::kSrqLimit), hca::EventKind::kSrqLimitReached);
  EXPECT_EQ(hca::kind_of(adapter::AsyncEventKind::kPageFault), std::nullopt);
}

}  // namespace
}  // namespace weft::test
