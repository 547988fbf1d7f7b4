// What a device says for the QPs that its process leaves as they are when it ends.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <vector>

#include "tests/support/two_devices.h"

namespace weft::test {
using adapter::WcStatus;
using hca::Answer;
namespace {

using namespace std::chrono_literals;

class Finish : public TwoDevices {
 protected:
  ~Finish() override { pipe.set_filter(nullptr); }  // the devices end after it
  /// a() sends and b() receives and acknowledges.
  void send_and_receive() {
    ASSERT_EQ(b().recv(*qps[1], 1), Answer::kOk);
    ASSERT_EQ(a().send(*qps[0], 1), Answer::kOk);
    ASSERT_EQ(next(*b().cq).status, WcStatus::kSuccess);
    help(2, Duration{});
  }
  /// The next cells of b() are lost.
  void lose(int cells) {
    losses = cells;
    pipe.set_filter([this](int from, std::vector<std::byte>&) {
      return from == 1 && losses > 0 ? (--losses, Verdict::kDrop) : Verdict::kPass;
    });
  }

  std::array<hca::Qp*, 2> qps = connected();
  int losses = 0;
};

/// Neither acknowledgement reaches the sender. The first is repeated when it asks again; nobody is there to
/// repeat the second when the process has ended.
TEST_F(Finish, says_last_words_several_times_where_cells_were_lost) {
  lose(1);
  send_and_receive();
  help(1000, 1ms);
  ASSERT_EQ(next(*a().cq).status, WcStatus::kSuccess);
  lose(3);
  send_and_receive();
  ASSERT_EQ(losses, 2);
  EXPECT_EQ(next(*a().cq).status, WcStatus::kGeneral) << "not yet";
  EXPECT_TRUE(b().device.finish());
  EXPECT_EQ(losses, 0);
  EXPECT_EQ(next(*a().cq).status, WcStatus::kSuccess);
}

}  // namespace
}  // namespace weft::test
