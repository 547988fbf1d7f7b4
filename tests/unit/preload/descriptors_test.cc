// Which descriptors are channels: what is opened, copied, closed one by one and in ranges.
#include "preload/descriptors.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <climits>

#include "tests/unit/preload/fake_engine.h"

extern "C" void weft_keep_descriptor(int descriptor, int kept);
extern "C" int weft_keeps_descriptor(int descriptor);

namespace weft::test {
using namespace preload;
namespace {

class Descriptors : public ::testing::Test {
 protected:
  void SetUp() override { engine_ = {}; }
  void TearDown() override { release_range(0, kDescriptors); }
  /// A channel with this number. No file is behind it: the table alone is tested.
  int open(int number = 1000) {
    engine_.next = number;
    const int descriptor = open_channel(O_RDWR | O_CLOEXEC);
    EXPECT_EQ(descriptor, number);
    return descriptor;
  }

  FakeEngine& engine_ = fake_engine();
  using Numbers = std::vector<int>;
  using Moves = std::vector<std::pair<int, int>>;
};

/// The engine makes each with close-on-exec and lets it block.
TEST_F(Descriptors, a_channel_has_the_flags_that_it_was_opened_with) {
  for (const int flags : {O_RDWR, O_RDWR | O_CLOEXEC, O_RDWR | O_NONBLOCK}) {
    const int file = eventfd(0, EFD_CLOEXEC);
    engine_.next = file;
    ASSERT_EQ(open_channel(flags), file);
    EXPECT_EQ(fcntl(file, F_GETFD), (flags & O_CLOEXEC) != 0 ? FD_CLOEXEC : 0) << flags;
    EXPECT_EQ(fcntl(file, F_GETFL) & O_NONBLOCK, flags & O_NONBLOCK) << flags;
    EXPECT_TRUE(release(file));
    close(file);
  }
}

TEST_F(Descriptors, a_descriptor_that_was_closed_is_no_channel) {
  const int channel = open();
  EXPECT_EQ(channel_of(channel), channel);
  EXPECT_TRUE(release(channel)) << "the engine has closed it";
  EXPECT_EQ(channel_of(channel), -1);
  EXPECT_EQ(engine_.closed, (Numbers{channel}));
  EXPECT_EQ(engine_.awaited, (Numbers{channel}));
  EXPECT_FALSE(release(channel));
  EXPECT_EQ(engine_.closed, (Numbers{channel})) << "once";
}

TEST_F(Descriptors, a_copy_that_was_closed_is_no_channel_and_is_not_moved_to) {
  const int channel = open();
  copied(channel, 2000);
  copied(2000, 2001);
  EXPECT_EQ(channel_of(2001), channel);
  EXPECT_FALSE(release(2000)) << "the program's own close() does it";
  EXPECT_EQ(channel_of(2000), -1);
  EXPECT_TRUE(engine_.awaited.empty()) << "its reader may go on";
  EXPECT_TRUE(release(channel));
  EXPECT_EQ(engine_.moved, (Moves{{channel, 2001}}));
  EXPECT_EQ(channel_of(channel), -1);
  EXPECT_EQ(channel_of(2001), 2001);
  EXPECT_TRUE(release(2001));
  EXPECT_EQ(engine_.closed, (Numbers{2001}));
}

TEST_F(Descriptors, all_copies_of_a_channel_follow_its_move) {
  const int channel = open(1010);
  for (const int copy : {1000, 1005, 1020}) copied(channel, copy);
  EXPECT_TRUE(release(channel));
  EXPECT_EQ(engine_.moved, (Moves{{channel, 1000}}));
  for (const int copy : {1000, 1005, 1020}) EXPECT_EQ(channel_of(copy), 1000);
}

TEST_F(Descriptors, a_copy_of_something_else_replaces_a_channel) {
  const int channel = open();
  copied(channel, 2000);
  copied(3, 2000);
  EXPECT_EQ(channel_of(2000), -1);
  EXPECT_TRUE(release(channel));
  EXPECT_TRUE(engine_.moved.empty());
}

TEST_F(Descriptors, a_range_has_its_first_and_its_last_one) {
  const int channel = open();
  for (int copy = 2000; copy < 2005; ++copy) copied(channel, copy);
  release_range(2001, 2003);
  EXPECT_EQ(channel_of(2000), channel);
  for (int copy = 2001; copy < 2004; ++copy) EXPECT_EQ(channel_of(copy), -1) << copy;
  EXPECT_EQ(channel_of(2004), channel);
  release_range(2004, 2004);
  EXPECT_EQ(channel_of(2004), -1);
}

TEST_F(Descriptors, a_range_may_go_beyond_all_numbers) {
  const auto last = static_cast<int>(kDescriptors - 1);
  const int channel = open();
  copied(channel, last);
  copied(channel, last + 1);
  EXPECT_EQ(channel_of(last), channel);
  EXPECT_EQ(channel_of(last + 1), -1);
  release_range(2000, UINT_MAX);
  EXPECT_EQ(channel_of(last), -1);
  EXPECT_EQ(channel_of(channel), channel);
}

TEST_F(Descriptors, a_number_beyond_the_table_is_given_back) {
  engine_.next = static_cast<int>(kDescriptors);
  EXPECT_EQ(open_channel(O_RDWR | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EMFILE);
  EXPECT_EQ(engine_.closed, (Numbers{static_cast<int>(kDescriptors)}));
}

/// A range ends early when no channel is left; that must not come before the last.
TEST_F(Descriptors, what_the_engine_keeps_and_lets_go_hides_no_channel) {
  const int channel = open();
  weft_keep_descriptor(500, 1);
  weft_keep_descriptor(500, 1);
  EXPECT_TRUE(is_kept(500));
  EXPECT_EQ(channel_of(500), kKept - 1);
  EXPECT_EQ(next_kept(0, 1000), 500U);
  EXPECT_EQ(next_kept(501, 1000), kDescriptors);
  EXPECT_EQ(next_kept(0, 500), 500U);
  EXPECT_EQ(next_kept(0, 499), kDescriptors);
  EXPECT_FALSE(release(500)) << "the program must not close it";
  weft_keep_descriptor(500, 0);
  weft_keep_descriptor(500, 0);
  weft_keep_descriptor(channel, 0);
  EXPECT_FALSE(is_kept(500));
  EXPECT_EQ(channel_of(channel), channel) << "the engine does not keep it";
  release_range(0, UINT_MAX);
  EXPECT_EQ(engine_.closed, (Numbers{channel}));
}

TEST_F(Descriptors, a_copy_of_a_kept_descriptor_belongs_to_the_program) {
  static_cast<void>(open());
  weft_keep_descriptor(500, 1);
  copied(500, 501);
  EXPECT_FALSE(is_kept(501));
  EXPECT_EQ(channel_of(501), -1);
  weft_keep_descriptor(500, 0);
}

TEST_F(Descriptors, a_kept_descriptor_that_was_replaced_is_kept_no_more) {
  weft_keep_descriptor(500, 1);
  EXPECT_TRUE(is_known(500));
  EXPECT_EQ(weft_keeps_descriptor(500), 1);
  EXPECT_EQ(weft_keeps_descriptor(501), 0);
  EXPECT_FALSE(is_known(501));
  EXPECT_EQ(weft_keeps_descriptor(-1), 0);
  EXPECT_EQ(weft_keeps_descriptor(static_cast<int>(kDescriptors)), 0);
  copied(3, 500);
  EXPECT_EQ(weft_keeps_descriptor(500), 0);
  weft_keep_descriptor(500, 1);
  forget(500);
  EXPECT_EQ(weft_keeps_descriptor(500), 0);
  EXPECT_FALSE(is_kept(500)) << "the program may close it";
  const int channel = open();
  EXPECT_TRUE(is_known(channel));
  EXPECT_EQ(weft_keeps_descriptor(channel), 0);
}

/// The engine is loaded when the program first uses RDMA. A program that never does closes files too, also in
/// signal handlers, where nothing can be loaded.
TEST_F(Descriptors, closing_what_is_no_channel_does_not_ask_for_the_engine) {
  EXPECT_FALSE(release(3000));
  EXPECT_FALSE(release(-1));
  weft_keep_descriptor(500, 1);
  EXPECT_FALSE(release(500));
  release_range(0, UINT_MAX);
  copied(3, 3000);
  weft_keep_descriptor(500, 0);
  EXPECT_EQ(engine_.asked, 0);
  const int channel = open();
  EXPECT_EQ(engine_.asked, 1);
  EXPECT_FALSE(release(3000));
  EXPECT_EQ(engine_.asked, 1);
  EXPECT_TRUE(release(channel));
  EXPECT_EQ(engine_.asked, 2);
}

/// The child shares its parent's memory, in which it must neither load a library nor end a channel.
TEST_F(Descriptors, a_child_of_vfork_that_closes_a_channel_does_not_ask_for_the_engine) {
  const int channel = open();
  const pid_t child = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork): what launchers do
  if (child == 0) _exit(release(channel) ? 1 : 0);
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "the child's own close() does it";
  EXPECT_EQ(engine_.asked, 1) << "by the parent, which has opened it";
  EXPECT_EQ(channel_of(channel), channel);
}

}  // namespace
}  // namespace weft::test
