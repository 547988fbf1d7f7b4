// What programs hear of peers that end, of their own device and of other programs on their host.
#include <cerrno>
#include <set>

#include "tests/protocol/rdma_cm/commands_fixture.h"

namespace weft::rdma_cm {
namespace {

TEST_F(CommandsTest, the_death_of_a_peer_is_the_end_of_its_connections) {
  establish();
  network.run(2s);
  EXPECT_EQ(a.event().event, ~0U) << "both are there";
  network.nodes.erase(2);
  a.knows_of[2] = Presence::kEnded;
  network.run(1100ms);
  rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kDisconnected));
  EXPECT_EQ(event.status, 0U);
  EXPECT_EQ(a.failed_qps, std::vector<uint32_t>{0x111}) << "what is posted there completes";
  ASSERT_EQ(a.disconnect(client), 0) << "as programs do then";
  network.run(2s);
  EXPECT_EQ(a.event().event, number(CmEvent::kTimewaitExit));
  EXPECT_EQ(a.endnode.watch().deadline(), kNever);
  EXPECT_EQ(a.endnode.watch().counters().get(PeerCounter::kEnded), 1U);
  a.destroy(client);
  EXPECT_EQ(a.endnode.manager().connections(), 0U);
}

TEST_F(CommandsTest, a_peer_of_another_host_is_waited_for) {
  establish();
  network.run(2s);
  network.nodes.erase(2);
  network.run(5s);
  EXPECT_EQ(a.event().event, ~0U) << "its switch may come back";
  network.run(6s);
  EXPECT_EQ(a.event().event, number(CmEvent::kDisconnected));
}

TEST_F(CommandsTest, the_device_changes_its_address_or_fails) {
  establish();
  static_cast<void>(a.create(0xA9));
  a.endnode.on_device(CmEvent::kAddressChange);
  rdma_ucm_event_resp event = a.event();
  EXPECT_EQ(event.event, number(CmEvent::kAddressChange));
  EXPECT_EQ(event.uid, 0xA0U);
  EXPECT_EQ(a.event().event, ~0U) << "who is on no device has no address to lose";
  b.endnode.on_device(CmEvent::kDeviceRemoval);
  std::set<uint64_t> told;
  for (event = b.event(); event.event != ~0U; event = b.event()) {
    EXPECT_EQ(event.event, number(CmEvent::kDeviceRemoval));
    told.insert(event.uid);
  }
  EXPECT_EQ(told, (std::set<uint64_t>{0xB0, 0xB1}));
}

}  // namespace
}  // namespace weft::rdma_cm
