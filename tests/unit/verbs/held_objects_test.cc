// What an object keeps besides its place in the adapter: the file of an XRC domain, the number of a CQ.
#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <set>

#include "base/unique_fd.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

/// Descriptors of this process that mean the file.
int descriptors_of(const struct stat& file) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    struct stat other {};
    if (stat(entry.path().c_str(), &other) == 0 && other.st_dev == file.st_dev && other.st_ino == file.st_ino)
      ++count;
  }
  return count;
}

/// Otherwise another file may get its inode number, and then opens the same domain.
TEST_F(Verbs, an_xrc_domain_holds_its_file_while_it_is_open_and_no_lock_of_it) {
  const TempDir directory;
  const std::string path = directory.path() + "/domain";
  UniqueFd file(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  struct stat named {};
  ASSERT_EQ(fstat(file.get(), &named), 0);
  ASSERT_EQ(flock(file.get(), LOCK_EX), 0);
  ibv_xrcd_init_attr init{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = file.get(), .oflags = O_CREAT};
  ibv_xrcd* domain = ibv_open_xrcd(context, &init);
  ASSERT_NE(domain, nullptr);
  file = UniqueFd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(flock(file.get(), LOCK_EX | LOCK_NB), 0) << "the lock ended with the program's descriptor";
  file = UniqueFd();
  ASSERT_EQ(unlink(path.c_str()), 0);
  EXPECT_EQ(descriptors_of(named), 1);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
  EXPECT_EQ(descriptors_of(named), 0);
}

/// A CQ that only an SRQ of an XRC domain uses is in use too, and the line does not speak of QPs alone.
TEST_F(Verbs, a_cq_of_an_xrc_srq_is_in_use) {
  ibv_xrcd_init_attr of_domain{
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  ibv_xrcd* domain = ibv_open_xrcd(context, &of_domain);
  ASSERT_NE(domain, nullptr);
  ibv_srq_init_attr_ex init{.attr = {.max_wr = 4, .max_sge = 1}};
  init.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  init.srq_type = IBV_SRQT_XRC;
  init.pd = pd;
  init.xrcd = domain;
  init.cq = cq;
  ibv_srq* srq = ibv_create_srq_ex(context, &init);
  ASSERT_NE(srq, nullptr);
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(ibv_destroy_cq(cq), EBUSY);
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("XRC SRQs still use it: call ibv_destroy_qp or "),
            std::string::npos);
  EXPECT_EQ(ibv_destroy_srq(srq), 0);
  EXPECT_EQ(ibv_close_xrcd(domain), 0);
}

/// Lines about a CQ name it by its number.
TEST_F(Verbs, cqs_have_numbers) {
  std::set<uint32_t> numbers{0};
  for (int i = 0; i < 3; ++i) {
    ibv_cq* one = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ASSERT_NE(one, nullptr);
    EXPECT_TRUE(numbers.insert(one->handle).second) << one->handle;
    EXPECT_EQ(ibv_destroy_cq(one), 0);
  }
}

}  // namespace
}  // namespace weft::test
