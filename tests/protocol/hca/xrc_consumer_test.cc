// XRC domains as a consumer has them: who opens by one file shares one.
#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

TEST_F(TwoDevices, who_opens_an_xrc_domain_by_the_same_file_shares_it) {
  const hca::XrcFile file{.device = 1, .inode = 2};
  hca::Context& one = *b().context;
  hca::Context& other = *b().device.open().object;
  EXPECT_EQ(one.open_xrcd({.file = file, .create = false}).answer, Answer::kAgain);
  hca::XrcDomain* first = one.open_xrcd({.file = file}).object;
  EXPECT_EQ(one.open_xrcd({.file = file, .exclusive = true}).answer, Answer::kInvalid);
  hca::XrcDomain* second = other.open_xrcd({.file = file, .create = false}).object;
  hca::XrcDomain* alone = one.open_xrcd({}).object;
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(first->id(), second->id());
  EXPECT_NE(first->id(), alone->id());
  EXPECT_NE(one.open_xrcd({.file = hca::XrcFile{.device = 1, .inode = 3}}).object->id(), first->id());
  // The last who has it open ends it.
  EXPECT_EQ(one.destroy(first), Answer::kOk);
  first = one.open_xrcd({.file = file, .create = false}).object;
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(one.destroy(first), Answer::kOk);
  EXPECT_EQ(other.destroy(second), Answer::kOk);
  EXPECT_EQ(one.open_xrcd({.file = file, .create = false}).answer, Answer::kAgain);
  b().device.close(&other);
}

}  // namespace
}  // namespace weft::test
