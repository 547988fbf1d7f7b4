// Failures of a device: its sink gets each one after the lock was released, and its page shows the latest.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/stats_page.h"
#include "messages/failure.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

/// Calls the device from the sink: this would deadlock if the lock were held.
class CallingSink final : public hca::FailureSink {
 public:
  explicit CallingSink(hca::Device& device) : device_(device) {}
  void failed(const Failure& failure) noexcept override {
    begun = true;
    if (slow) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(slow || device_.answers(Duration{}));
    failures.push_back(failure);
    ++done;
  }
  std::vector<Failure> failures;
  std::atomic<bool> begun{false};
  std::atomic<int> done{0};
  bool slow = false;

 private:
  hca::Device& device_;
};

class FailureSinkTest : public TwoDevices {
 protected:
  FailureSinkTest() : page_(StatsPage::create(path(), 2384).value()) {
    EXPECT_TRUE(a().device.publish(page_, "adapter"));
    a().device.set_failure_sink(&sink_);
  }
  ~FailureSinkTest() override {
    for (auto& side : at) side.reset();  // page and sink outlive the device
  }
  [[nodiscard]] std::string path() const { return dir_.path() + "/p.stats"; }
  [[nodiscard]] std::map<std::string, uint64_t> shown() const {
    const auto page = read_stats_page(path()).value();
    return {page.begin(), page.end()};
  }
  /// Posts a send from memory that is not registered.
  void post_bad(hca::Qp& qp, uint64_t wr_id) {
    adapter::Sge from = a().sge(0, 64);
    from.addr += Consumer::kBytes;
    const adapter::SendRequest request{
        .wr_id = wr_id, .flags = adapter::kSendSignaled, .sges = std::span(&from, 1)};
    size_t posted = 0;
    ASSERT_EQ(qp.post_send(std::span(&request, 1), posted), Answer::kOk);
  }
  void fail_one(uint64_t wr_id) {
    post_bad(*connected()[0], wr_id);
    help(2);
  }

  TempDir dir_;
  StatsPage page_;
  CallingSink sink_{a().device};
};

TEST_F(FailureSinkTest, hears_of_each_failure_once_and_without_the_lock) {
  fail_one(7);
  fail_one(8);
  ASSERT_EQ(sink_.failures.size(), 2U);
  EXPECT_EQ(sink_.failures[0].reason, Reason::kLocalOutOfBounds);
  EXPECT_EQ(sink_.failures[0].wr_id, 7U);
  EXPECT_EQ(sink_.failures[1].wr_id, 8U);
}

TEST_F(FailureSinkTest, the_page_shows_the_latest) {
  EXPECT_EQ(shown().at("failed.0.number"), 0U);
  for (uint64_t i = 1; i <= kFailuresShown + 1; ++i) fail_one(100 + i);
  EXPECT_EQ(shown().at("failed.0.number"), kFailuresShown + 1);
  EXPECT_EQ(shown().at("failed.0.wr_id"), 100 + kFailuresShown + 1);
  EXPECT_EQ(shown().at("failed.1.number"), 2U);
  EXPECT_EQ(shown().at("failed.1.vendor_err"), rule_of(Reason::kLocalOutOfBounds).code);
  EXPECT_EQ(shown().at("failed.1.status"), static_cast<uint64_t>(adapter::WcStatus::kLocalProtection));
}

/// Another thread that drives may have found the failure and not reported it yet. A program that exits
/// because of
/// the completion must not exit before the report.
TEST_F(FailureSinkTest, has_heard_of_everything_when_the_process_ends) {
  sink_.slow = true;
  hca::Qp& qp = *connected()[0];
  std::thread driver([&] { post_bad(qp, 7); });
  while (!sink_.begun) std::this_thread::yield();
  static_cast<void>(a().device.finish());
  EXPECT_EQ(sink_.done, 1);
  driver.join();
}

}  // namespace
}  // namespace weft::test
