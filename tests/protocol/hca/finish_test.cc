// What a device sends at the end of its process for QPs that the process has not destroyed.
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
  ~Finish() override { pipe.set_filter(nullptr); }  // the devices are destroyed after this
  /// a() sends; b() receives and acknowledges.
  void send_and_receive() {
    ASSERT_EQ(b().recv(*qps[1], 1), Answer::kOk);
    ASSERT_EQ(a().send(*qps[0], 1), Answer::kOk);
    ASSERT_EQ(next(*b().cq).status, WcStatus::kSuccess);
    help(2, Duration{});
  }
  /// Drops the next cells of b().
  void lose(int cells) {
    losses = cells;
    pipe.set_filter([this](int from, std::vector<std::byte>&) {
      return from == 1 && losses > 0 ? (--losses, Verdict::kDrop) : Verdict::kPass;
    });
  }

  std::array<hca::Qp*, 2> qps = connected();
  int losses = 0;
};

/// Neither acknowledgement reaches the sender. The first one is repeated when the sender asks again. The
/// second
/// one must be sent several times at once, because the process has ended when the sender asks again.
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
