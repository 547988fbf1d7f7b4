// The queue pairs of a device on its page: listed from creation to destruction, and updated after a change
// and
// twice a second by the helper, without a call of the data path.
#include "hca/qp_page.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/stats_page.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using adapter::QpState;
using hca::Answer;
namespace {

class QpPageTest : public TwoDevices {
 protected:
  QpPageTest() : page_(StatsPage::create(path(), 2384).value()) {
    EXPECT_TRUE(a().device.publish(page_, "adapter"));
  }
  ~QpPageTest() override {
    for (auto& side : at) side.reset();  // the page outlives the device
  }
  [[nodiscard]] std::string path() const { return dir_.path() + "/p.stats"; }
  [[nodiscard]] std::map<std::string, uint64_t> shown() const {
    const auto page = read_stats_page(path()).value();
    return {page.begin(), page.end()};
  }
  void half_a_second() {
    clock.advance(hca::QpPage::kEvery);
    help(2);
  }

  TempDir dir_;
  StatsPage page_;
};

TEST_F(QpPageTest, shows_number_service_state_and_peer) {
  EXPECT_EQ(shown().at("qps"), 0U);
  hca::Qp* const qp = a().make_qp();
  EXPECT_EQ(shown().at("qps"), 1U);
  EXPECT_EQ(shown().at("qp.0.number"), qp->number().value());
  EXPECT_EQ(shown().at("qp.0.service"), static_cast<uint64_t>(adapter::QpType::kRc));
  EXPECT_EQ(shown().at("qp.0.qp_state"), static_cast<uint64_t>(QpState::kReset));
  hca::Qp* const peer = b().make_qp();
  connect(*qp, Lid(1), *peer, Lid(2));
  EXPECT_EQ(shown().at("qp.0.qp_state"), static_cast<uint64_t>(QpState::kRts));
  EXPECT_EQ(shown().at("qp.0.peer_lid"), 2U);
  EXPECT_EQ(shown().at("qp.0.peer_number"), peer->number().value());
  EXPECT_EQ(shown().at("qp.0.way"), 1U) << "by the switch";
}

TEST_F(QpPageTest, counters_are_updated_twice_a_second_and_not_with_each_message) {
  const auto qps = connected();
  half_a_second();
  ASSERT_EQ(b().recv(*qps[1], 1), Answer::kOk);
  ASSERT_EQ(a().send(*qps[0], 2), Answer::kOk);
  help(20);
  EXPECT_EQ(shown().at("qp.0.messages_sent"), 0U) << "not yet";
  half_a_second();
  EXPECT_EQ(shown().at("qp.0.messages_sent"), 1U);
  EXPECT_EQ(shown().at("qp.0.bytes_sent"), 64U);
}

TEST_F(QpPageTest, an_error_without_a_call_of_modify_is_shown) {
  const auto qps = connected();
  adapter::QpAttr attr{.state = QpState::kErr};
  ASSERT_EQ(qps[1]->modify(attr, adapter::kQpAttrState), Answer::kOk);
  ASSERT_EQ(a().send(*qps[0], 2), Answer::kOk);
  for (int i = 0; i < 400; ++i) help(10, 1ms);  // until its retries are used up
  EXPECT_EQ(shown().at("qp.0.qp_state"), static_cast<uint64_t>(QpState::kErr));
}

TEST_F(QpPageTest, the_place_of_a_qp_that_ended_is_empty_and_used_again) {
  hca::Qp* const first = a().make_qp();
  hca::Qp* const second = a().make_qp();
  ASSERT_EQ(a().context->destroy(first), Answer::kOk);
  EXPECT_EQ(shown().at("qps"), 1U);
  EXPECT_EQ(shown().at("qp.0.number"), 0U);
  EXPECT_EQ(shown().at("qp.0.service"), 0U);
  EXPECT_EQ(shown().at("qp.1.number"), second->number().value());
  hca::Qp* const third = a().make_qp();
  EXPECT_EQ(shown().at("qp.0.number"), third->number().value());
}

/// Otherwise the next QP at this place would begin with what this one has counted.
TEST_F(QpPageTest, the_counters_of_a_qp_end_with_it) {
  const auto qps = connected();
  ASSERT_EQ(b().recv(*qps[1], 1), Answer::kOk);
  ASSERT_EQ(a().send(*qps[0], 2), Answer::kOk);
  half_a_second();  // the message crosses
  half_a_second();
  ASSERT_EQ(shown().at("qp.0.messages_sent"), 1U);
  ASSERT_EQ(a().context->destroy(qps[0]), Answer::kOk);
  for (const auto& [name, value] : shown()) {
    if (name.starts_with("qp.0.")) {
      EXPECT_EQ(value, 0U) << name;
    }
  }
}

TEST_F(QpPageTest, more_than_are_shown_are_counted) {
  std::vector<hca::Qp*> all;
  for (size_t i = 0; i < hca::QpPage::kShown + 5; ++i) all.push_back(a().make_qp());
  EXPECT_EQ(shown().at("qps"), hca::QpPage::kShown + 5);
  for (hca::Qp* qp : all) ASSERT_EQ(a().context->destroy(qp), Answer::kOk);
  EXPECT_EQ(shown().at("qps"), 0U);
  for (const auto& [name, value] : shown()) {
    if (name.starts_with("qp.")) {
      EXPECT_EQ(value, 0U) << name;
    }
  }
}

}  // namespace
}  // namespace weft::test
