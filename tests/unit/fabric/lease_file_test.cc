// The file in which the leases of spare ports outlive their switch.
#include "fabric/switch/lease_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace fabric;
namespace {

class LeaseFileTest : public ::testing::Test {
 protected:
  std::unique_ptr<LeaseStore> open() { return std::move(open_lease_file(path, spare).value()); }
  static Lease lease(uint32_t lid) {
    return {.lid = lid,
            .guid = Guid(0x100 + lid),
            .nonce = 1,
            .nonce_before = 2,
            .brought = 3,
            .free_at = kNever,
            .key = "alice"};
  }

  TempDir dir;
  std::string path = dir.path() + "/s1.leases";
  SpareConfig spare{.ports = 4, .first_lid = Lid(100), .lids = 1024};
};

TEST_F(LeaseFileTest, keeps_the_latest_lease_of_each_lid) {
  {
    const auto store = open();
    store->keep(lease(0));
    store->keep(lease(1023));
    store->keep(lease(600));
    Lease later = lease(600);
    later.free_at = Instant(7s);
    later.key = "";
    store->keep(later);
  }
  const std::vector<Lease> found = open()->load();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].lid, 0U);
  EXPECT_EQ(found[0].guid, Guid(0x100));
  EXPECT_EQ(found[0].nonce, 1U);
  EXPECT_EQ(found[0].nonce_before, 2U);
  EXPECT_EQ(found[0].brought, 3U);
  EXPECT_EQ(found[0].free_at, kNever);
  EXPECT_EQ(found[0].key, "alice");
  EXPECT_EQ(found[1].lid, 600U);
  EXPECT_EQ(found[1].free_at, Instant(7s));
  EXPECT_EQ(found[1].key, "");
  EXPECT_EQ(found[2].lid, 1023U);
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(LeaseFileTest, believes_no_record_that_is_damaged_or_in_another_place) {
  open()->keep(lease(0));
  open()->keep(lease(1));
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  std::array<char, 96> record{};
  ASSERT_EQ(pread(file.get(), record.data(), record.size(), 16), 96);
  ASSERT_EQ(pwrite(file.get(), record.data(), record.size(), 16 + 5 * 96), 96) << "that of LID 0 at 5";
  record[20] ^= 1;
  ASSERT_EQ(pwrite(file.get(), record.data(), record.size(), 16), 96);
  const std::vector<Lease> found = open()->load();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].lid, 1U);
}

TEST_F(LeaseFileTest, begins_anew_for_other_lids) {
  open()->keep(lease(0));
  spare.first_lid = Lid(200);
  EXPECT_TRUE(open()->load().empty());
  open()->keep(lease(3));
  EXPECT_EQ(open()->load().size(), 1U);
}

TEST_F(LeaseFileTest, is_ours_alone) {
  std::ofstream(path).put('x');
  ASSERT_EQ(chmod(path.c_str(), 0644), 0);
  EXPECT_NE(open_lease_file(path, spare).error().text.find("mode 0600"), std::string::npos);
  ASSERT_EQ(unlink(path.c_str()), 0);
  ASSERT_EQ(symlink((dir.path() + "/elsewhere").c_str(), path.c_str()), 0);
  EXPECT_FALSE(open_lease_file(path, spare).ok());
}

}  // namespace
}  // namespace weft::test
