// Which paths are RDMA's, and what stands in for them.
#include "preload/paths.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/preload/fake_engine.h"

namespace weft::test {
using namespace preload;
namespace {

TEST(Paths, each_kind_to_the_letter) {
  EXPECT_EQ(kind_of(nullptr), PathKind::kOther);
  EXPECT_EQ(kind_of(""), PathKind::kOther);
  EXPECT_EQ(kind_of("dev/infiniband"), PathKind::kOther);
  EXPECT_EQ(kind_of("/dev/infiniban"), PathKind::kOther);
  EXPECT_EQ(kind_of("/dev/infiniband"), PathKind::kDevices);
  EXPECT_EQ(kind_of("/dev/infiniband/"), PathKind::kDevices);
  EXPECT_EQ(kind_of("/dev/infiniband_other"), PathKind::kOther);
  EXPECT_EQ(kind_of("/dev/infiniband/u"), PathKind::kDevice);
  EXPECT_EQ(kind_of("/dev/infiniband/uverbs0"), PathKind::kDevice);
  EXPECT_EQ(kind_of("/dev/infiniband/rdma_cm"), PathKind::kManager);
  EXPECT_EQ(kind_of("/dev/infiniband/rdma_cm2"), PathKind::kDevice);
  EXPECT_EQ(kind_of("/dev/null"), PathKind::kOther);
  for (const std::string below : {"infiniband", "infiniband_verbs", "misc/rdma_cm"}) {
    const std::string path = "/sys/class/" + below;
    EXPECT_EQ(kind_of(path.c_str()), PathKind::kSystem);
    EXPECT_EQ(kind_of((path + "/").c_str()), PathKind::kSystem);
    EXPECT_EQ(kind_of((path + "/more").c_str()), PathKind::kSystem);
    EXPECT_EQ(kind_of((path + "_other").c_str()), PathKind::kOther);
    EXPECT_EQ(kind_of(path.substr(0, path.size() - 1).c_str()), PathKind::kOther);
  }
  EXPECT_EQ(kind_of("/sys/class/net"), PathKind::kOther);
  EXPECT_EQ(kind_of("/sys/class/misc"), PathKind::kOther);
}

TEST(Paths, what_stands_in_for_each) {
  PathRoom room;
  fake_engine() = {.root = "/run/files"};
  EXPECT_STREQ(stand_in("/dev/infiniband/rdma_cm", room), "/dev/null");
  EXPECT_STREQ(stand_in("/dev/infiniband/uverbs0", room), "/dev/null");
  EXPECT_STREQ(stand_in("/dev/infiniband/", room), "/run/files/dev/infiniband/");
  EXPECT_STREQ(stand_in("/sys/class/infiniband/weft0", room), "/run/files/class/infiniband/weft0");
  EXPECT_STREQ(stand_in("/etc/hosts", room), "/etc/hosts");
  fake_engine().root.clear();
  EXPECT_STREQ(stand_in("/sys/class/infiniband/weft0", room), "/empty/class/infiniband/weft0")
      << "the machine's own devices are hidden";
}

/// The path and its zero fill the room to the byte; one more does not fit, and nothing stands in.
TEST(Paths, the_longest_that_fits) {
  PathRoom room;
  fake_engine() = {.root = "/run/files"};
  const std::string head = "/sys/class/infiniband/";
  const size_t left = sizeof room.text - 1 - fake_engine().root.size() - (head.size() - 4);
  const std::string longest = head + std::string(left, 'x');
  EXPECT_EQ(stand_in(longest.c_str(), room), room.text);
  EXPECT_EQ(std::string(room.text), fake_engine().root + longest.substr(4));
  const std::string longer = longest + "x";
  EXPECT_EQ(stand_in(longer.c_str(), room), longer.c_str());
}

}  // namespace
}  // namespace weft::test
