// A process that ends right after it has sent: over shared memory its last cells still go on.
#include <gtest/gtest.h>

#include "fabric/link/link_cell_port.h"
#include "fabric/link/link_connect.h"
#include "fabric/switch/admission.h"
#include "fabric/switch/shm_acceptor.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

/// An endnode that can end.
struct Ending {
  Ending(const std::string& endpoint, Guid guid, RandomSource& random) {
    LinkEndpointConfig config;
    config.link = small_switch().link;
    config.link.guid = guid;
    config.endpoint = endpoint;
    link = std::move(connect_link(config, random).value());
    port = std::make_unique<LinkCellPort>(link->link());
  }
  std::unique_ptr<LinkConnection> link;
  std::unique_ptr<LinkCellPort> port;
};

TEST(LastCells, of_an_endnode_that_has_ended_are_still_passed_on) {
  ManualClock clock;
  TempDir dir;
  SeededRandom random(1);
  Switch fabric(small_switch());
  Admission admission(fabric, {{"a", Guid(0xA), Lid(1)}, {"b", Guid(0xB), Lid(2)}});
  const auto acceptor = std::move(ShmAcceptor::create(dir.path() + "/s.sock", admission).value());
  auto sender = std::make_unique<Ending>("shm:" + dir.path() + "/s.sock", Guid(0xA), random);
  Ending receiver("shm:" + dir.path() + "/s.sock", Guid(0xB), random);
  const auto turn_of_switch = [&] {
    clock.advance(1ms);
    acceptor->poll(clock.now());
    fabric.poll(clock.now());
  };
  for (int turns = 0; turns < 50; ++turns) {
    turn_of_switch();
    for (Ending* node : {sender.get(), &receiver}) {
      node->port->poll(clock.now());
      node->port->flush(clock.now());
    }
  }
  ASSERT_TRUE(sender->port->up() && receiver.port->up());

  const std::vector<std::byte> cell = make_cell({.dlid = Lid(2)});
  const auto bytes = static_cast<uint32_t>(cell.size());
  std::byte* to = sender->port->claim(VirtualLane(0), bytes);
  ASSERT_NE(to, nullptr);
  std::memcpy(to, cell.data(), cell.size());
  sender->port->commit(VirtualLane(0), bytes, cell_crc(cell));
  sender->port->flush(clock.now());
  sender.reset();
  clock.advance(1s);  // the switch has slept, and looks for its peers first
  turn_of_switch();
  turn_of_switch();
  receiver.port->poll(clock.now());
  EXPECT_EQ(receiver.port->receive().size(), 1U);
  // And then the link is gone.
  for (int turns = 0; turns < 100; ++turns) turn_of_switch();
  EXPECT_NE(admission.engine(0).state(), LinkState::kUp);
}

}  // namespace
}  // namespace weft::test
