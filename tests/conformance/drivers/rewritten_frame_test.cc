// The peer can write a pool element after the indication (decisions 2.16, section 4). Whatever it writes
// later,
// a driver half passes on only what it has checked.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/net/frame_writer.h"
#include "tests/support/driver_world.h"
#include "tests/support/requirement.h"

namespace weft::test {
namespace {

using Frames = std::vector<std::vector<std::byte>>;

/// The peer's second write at the worst moment: the frame is checked and its element still in use.
void rewrite_front(session::NetdevSession& session) {
  const session::InboundFrame* frame = session.front_frame();
  ASSERT_NE(frame, nullptr);
  std::byte* element = const_cast<std::byte*>(frame->bytes.data());
  std::fill_n(element, std::min<size_t>(frame->bytes.size(), kFrameHeadBytes), std::byte{0xFF});
}

class RewrittenFrame : public ::testing::Test {
 protected:
  RewrittenFrame() { world.run_until_open(); }

  DriverWorld world;
};

TEST_F(RewrittenFrame, the_unit_sends_the_head_it_has_checked) {
  covers("DECISIONS-2.16 DECISIONS-4");
  session::NetdevSession& session = *world.units[0].acceptor->sessions()[0];
  uint32_t rewritten = 0;
  world.nic().before_write = [&] {
    rewrite_front(session);
    ++rewritten;
  };
  const std::vector<std::byte> frame = make_ethernet(kLanMac, host_mac(0), 1, 1000);
  world.os().inject(frame);
  world.run();
  EXPECT_EQ(rewritten, 1U);
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{frame});
}

TEST_F(RewrittenFrame, the_host_delivers_the_head_it_has_checked) {
  covers("DECISIONS-2.16 DECISIONS-4");
  uint32_t rewritten = 0;
  world.os().before_write = [&] {
    rewrite_front(world.session());
    ++rewritten;
  };
  const std::vector<std::byte> frame = make_ethernet(host_mac(0), kLanMac, 2, 1000);
  world.nic().inject(frame);
  world.run();
  EXPECT_EQ(rewritten, 1U);
  EXPECT_EQ(DriverWorld::taken(world.os()), Frames{frame});
}

/// A head rewritten before the check is checked in its new form: a foreign source address does not pass.
TEST_F(RewrittenFrame, a_head_rewritten_while_the_nic_is_busy_is_checked_again) {
  covers("DECISIONS-2.16 DECISIONS-4");
  world.nic().writes_allowed = 0;
  world.os().inject(make_ethernet(kLanMac, host_mac(0), 3, 1000));
  world.run();
  EXPECT_GT(world.unit().counters().get(iou::UnitCounter::kNicBusyTurns), 0U);
  rewrite_front(*world.units[0].acceptor->sessions()[0]);
  world.nic().writes_allowed = 10;
  world.run();
  EXPECT_TRUE(world.nic().written.empty());
  EXPECT_EQ(world.unit().counters().get(iou::UnitCounter::kBadVnetHeader), 1U);
  EXPECT_EQ(world.session().state(), session::SessionState::kOpen);
}

TEST_F(RewrittenFrame, a_head_rewritten_while_the_os_is_busy_is_checked_again) {
  covers("DECISIONS-2.16 DECISIONS-4");
  world.os().writes_allowed = 0;
  world.nic().inject(make_ethernet(host_mac(0), kLanMac, 4, 1000));
  world.run();
  EXPECT_GT(world.host().counters().get(host::HostCounter::kOsBusyTurns), 0U);
  rewrite_front(world.session());
  world.os().writes_allowed = 10;
  world.run();
  EXPECT_TRUE(world.os().written.empty());
  EXPECT_EQ(world.host().counters().get(host::HostCounter::kBadVnetHeader), 1U);
  EXPECT_EQ(world.session().state(), session::SessionState::kOpen);
}

/// The copy for another host, made after the frame went to the LAN, has the head that was checked, not the
/// element's later content.
TEST(RewrittenCopy, another_host_gets_the_head_that_was_checked) {
  covers("DECISIONS-2.16 DECISIONS-4");
  DriverWorldConfig config;
  config.hosts = 2;
  DriverWorld world(config);
  world.run_until_open();
  session::NetdevSession* sender = nullptr;
  for (session::NetdevSession* session : world.units[0].acceptor->sessions())
    if (session->peer().mac == host_mac(0)) sender = session;
  ASSERT_NE(sender, nullptr);
  world.nic().before_write = [&] { rewrite_front(*sender); };
  const std::vector<std::byte> frame = make_ethernet(kMacBroadcast, host_mac(0), 5, 1000);
  world.os(0).inject(frame);
  world.run();
  EXPECT_EQ(DriverWorld::taken(world.nic()), Frames{frame});
  EXPECT_EQ(DriverWorld::taken(world.os(1)), Frames{frame});
}

}  // namespace
}  // namespace weft::test
