// QP0 and QP1 of a port: which datagram arrives at which, by which lane, and under which keys.
#include "management/mad_queue_pair.h"

#include <gtest/gtest.h>

#include <memory>

#include "adapter/adapter.h"
#include "base/clock.h"
#include "base/rng.h"
#include "management/dispatcher.h"
#include "tests/support/pipe_port.h"

namespace weft::management {
namespace {

/// Two endnodes with both management QPs.
class MadQueuePairTest : public ::testing::Test {
 protected:
  struct End {
    std::unique_ptr<adapter::ChannelAdapter> adapter;
    std::unique_ptr<MadQueuePair> smi;
    std::unique_ptr<MadQueuePair> gsi;
  };

  MadQueuePairTest() : pipe_(1024) {
    for (int i = 0; i < 2; ++i) {
      End& end = ends_[i];
      end.adapter = std::make_unique<adapter::ChannelAdapter>(
          adapter::AdapterConfig{.guid = Guid(0x1001U + static_cast<unsigned>(i))}, random_);
      end.adapter->ports().attach(pipe_.end(i));
      end.smi = std::make_unique<MadQueuePair>(*end.adapter, uint8_t{1});
      end.gsi = std::make_unique<MadQueuePair>(*end.adapter, uint8_t{1});
      EXPECT_TRUE(end.smi->open(kQpnSmi).ok());
      EXPECT_TRUE(end.gsi->open(kQpnGsi).ok());
    }
    run();
  }
  void run() {
    for (int i = 0; i < 10; ++i) {
      for (const End& end : ends_) end.adapter->poll(clock_.now());
      clock_.advance(std::chrono::microseconds(10));
    }
  }
  static MadBytes question(MadClass mad_class) {
    MadBytes bytes{};
    encode_mad_header({.mad_class = mad_class,
                       .class_version = 1,
                       .method = MadMethod::kGet,
                       .transaction = 0x55,
                       .attribute = 0x11},
                      bytes);
    return bytes;
  }

  ManualClock clock_;
  SeededRandom random_{4};
  test::Pipe pipe_;
  End ends_[2];
};

TEST_F(MadQueuePairTest, a_datagram_of_qp0_goes_to_qp0_by_lane_15) {
  ASSERT_TRUE(ends_[0].smi->send(Lid(2), question(MadClass::kSubnetLid)));
  run();
  MadDatagram got;
  EXPECT_FALSE(ends_[1].gsi->receive(got));
  ASSERT_TRUE(ends_[1].smi->receive(got));
  EXPECT_EQ(got.from, Lid(1));
  EXPECT_EQ(got.bytes.size(), kMadBytes);
  ASSERT_EQ(pipe_.trace().size(), 1U);
  const CellView& cell = pipe_.trace().front().view;
  EXPECT_EQ(cell.vl, kVlManagement);
  EXPECT_EQ(cell.dest_qpn, kQpnSmi);
  EXPECT_EQ(cell.src_qpn, kQpnSmi);
  EXPECT_EQ(cell.qkey, kQkeySmi);
}

TEST_F(MadQueuePairTest, a_datagram_of_qp1_goes_to_qp1_by_the_lane_of_its_service_level) {
  ASSERT_TRUE(ends_[0].gsi->send(Lid(2), question(MadClass::kPerformance)));
  run();
  MadDatagram got;
  EXPECT_FALSE(ends_[1].smi->receive(got));
  ASSERT_TRUE(ends_[1].gsi->receive(got));
  ASSERT_EQ(pipe_.trace().size(), 1U);
  EXPECT_EQ(pipe_.trace().front().view.vl, VirtualLane(0));
  EXPECT_EQ(pipe_.trace().front().view.qkey, kQkeyGsi);
}

TEST_F(MadQueuePairTest, subnet_management_has_no_partitions) {
  const uint16_t other[] = {0x8005, 0x8005};
  ASSERT_TRUE(ends_[1].adapter->ports().set_pkeys(1, other));
  ASSERT_TRUE(ends_[0].gsi->send(Lid(2), question(MadClass::kPerformance)));
  ASSERT_TRUE(ends_[0].smi->send(Lid(2), question(MadClass::kSubnetLid)));
  run();
  MadDatagram got;
  EXPECT_FALSE(ends_[1].gsi->receive(got)) << "the partition is not one of the port";
  EXPECT_TRUE(ends_[1].smi->receive(got));
}

TEST_F(MadQueuePairTest, each_port_has_each_once) {
  for (const Qpn number : {kQpnSmi, kQpnGsi}) {
    MadQueuePair second(*ends_[0].adapter, 1);
    EXPECT_FALSE(second.open(number).ok()) << "taken";
    MadQueuePair absent(*ends_[0].adapter, 2);
    EXPECT_FALSE(absent.open(number).ok()) << "there is no port 2";
  }
  ends_[0].smi->close();
  EXPECT_TRUE(ends_[0].smi->open(kQpnSmi).ok()) << "the place is free again";
}

/// Datagrams beyond the receive slots are lost. A slot whose datagram was taken has room for another one.
TEST_F(MadQueuePairTest, each_receive_slot_serves_again_and_again) {
  const auto burst = [this] {
    for (int i = 0; i < 300; ++i) {
      EXPECT_TRUE(ends_[0].gsi->send(Lid(2), question(MadClass::kPerformance)));
      run();
    }
    uint32_t taken = 0;
    for (MadDatagram got; ends_[1].gsi->receive(got);) ++taken;
    return taken;
  };
  const uint32_t slots = burst();
  EXPECT_GT(slots, 1U);
  EXPECT_LT(slots, 300U);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(burst(), slots);
}

/// What was on its way when it was closed takes no room.
TEST_F(MadQueuePairTest, one_that_is_opened_again_sends_as_many_as_before) {
  MadQueuePair& gsi = *ends_[0].gsi;
  const auto send_all = [&] {
    uint32_t sent = 0;
    while (gsi.send(Lid(2), question(MadClass::kPerformance))) ++sent;
    return sent;
  };
  const uint32_t room = send_all();
  ASSERT_GT(room, 1U);
  gsi.close();
  ASSERT_TRUE(gsi.open(kQpnGsi).ok());
  EXPECT_EQ(send_all(), room);
}

TEST_F(MadQueuePairTest, a_question_to_qp0_without_an_agent_is_answered_from_qp0) {
  Dispatcher dispatcher(*ends_[1].smi);
  ASSERT_TRUE(ends_[0].smi->send(Lid(2), question(MadClass::kSubnetLid)));
  run();
  MadDatagram got;
  ASSERT_TRUE(ends_[1].smi->receive(got));
  EXPECT_EQ(dispatcher.dispatch(clock_.now(), got.from, got.bytes), MadFate::kUnclaimed);
  run();
  ASSERT_TRUE(ends_[0].smi->receive(got));
  MadHeader answer;
  ASSERT_EQ(decode_mad_header(got.bytes, answer), MadError::kNone);
  EXPECT_EQ(answer.method, MadMethod::kGetResponse);
  EXPECT_EQ(answer.status, kMadStatusUnsupported);
  EXPECT_EQ(answer.transaction, 0x55U);
}

}  // namespace
}  // namespace weft::management
