// Shared-memory links between an acceptor and connectors in one process, then against hostile and frozen
// peers.
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/shared_region.h"
#include "fabric/carrier/slot_ring.h"
#include "fabric/carrier/unix_socket.h"
#include "tests/support/switch_box.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace fabric;
namespace {

class ShmLink : public ::testing::Test {
 protected:
  std::string socket_path() const { return dir.path() + "/s.sock"; }

  std::unique_ptr<LinkConnection> join(uint64_t guid, uint16_t lid = 0) {
    return std::move(connect_link(box.endpoint(Guid(guid), Lid(lid)), random).value());
  }
  void step() {
    clock.advance(1ms);
    box.poll(clock.now());
    for (LinkCellPort* port : ports) {
      port->poll(clock.now());
      const std::span<const RxCell> cells = port->receive();
      for (const RxCell& cell : cells) received.emplace_back(cell.bytes.begin(), cell.bytes.end());
      if (!cells.empty()) port->release();
      port->flush(clock.now());
    }
  }
  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
  }
  uint64_t refused(AdmissionCounter counter) { return admission.counters().get(counter); }

  TempDir dir;
  SeededRandom random{1};
  ManualClock clock;
  SwitchBox box{"shm:" + socket_path(), small_switch(), nodes_with({Guid(0xA), Guid(0xB)})};
  Switch& fabric = box.core;
  Admission& admission = box.admission;
  std::unique_ptr<Pollable>& acceptor = box.acceptor;
  std::vector<LinkCellPort*> ports;
  std::vector<std::vector<std::byte>> received;
};

TEST_F(ShmLink, joins_and_carries_cells) {
  const auto a = join(0xA, 1);
  const auto b = join(0xB);
  LinkCellPort port_a(a->link());
  LinkCellPort port_b(b->link());
  ports = {&port_a, &port_b};
  run(20);
  ASSERT_TRUE(port_a.up());
  ASSERT_TRUE(port_b.up());
  EXPECT_EQ(port_b.info().lid, Lid(2));
  EXPECT_EQ(a->link().carrier_kind(), "shm");
  const std::vector<std::byte> cell = make_cell({});
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(send_cell(port_a, cell));
    run(2);
  }
  run(5);
  ASSERT_EQ(received.size(), 1000U);
  EXPECT_EQ(received.front(), cell);
}

/// True when the link's descriptors end a sleep.
bool is_woken(const LinkEngine& link) {
  std::vector<pollfd> fds;
  link.wait_fds(fds);
  return ::poll(fds.data(), fds.size(), 0) > 0;
}

/// A few acknowledgements are left in the ring for the peer's next wake-up; many wake it, for a sender that
/// waits.
TEST_F(ShmLink, a_sleeping_peer_is_not_woken_for_a_few_acknowledgements) {
  const auto a = join(0xA);
  const auto b = join(0xB);
  LinkCellPort port_a(a->link());
  LinkCellPort port_b(b->link());
  ports = {&port_a, &port_b};
  run(20);
  const std::vector<std::byte> cell = make_cell({});
  for (const auto& [cells, woken] : {std::pair(1, false), std::pair(4, false), std::pair(9, true)}) {
    for (int i = 0; i < cells; ++i) ASSERT_TRUE(send_cell(port_a, cell));
    port_a.flush(clock.now());
    port_a.poll(clock.now());
    ASSERT_TRUE(port_a.prepare_sleep());
    EXPECT_EQ(port_a.deadline() == kNever, !woken) << "no probe for what is in shared memory";
    acceptor->finish_sleep();  // the switch wakes, and hears whose cells have come
    acceptor->poll(clock.now());
    fabric.poll(clock.now());
    ASSERT_TRUE(fabric.prepare_sleep());
    EXPECT_EQ(is_woken(a->link()), woken) << cells;
    fabric.finish_sleep();
    port_a.finish_sleep();
    clock.advance(500ms);
    EXPECT_TRUE(port_a.receive().empty());
    EXPECT_EQ(a->link().unacknowledged(), 0U) << cells;
    EXPECT_EQ(a->link().counters().get(LinkCounter::kProbesSent), 0U);
    run(5);
  }
}

/// A program that ends right after its last Send: what it had published is forwarded before the port goes
/// down.
TEST_F(ShmLink, cells_sent_right_before_a_hang_up_arrive) {
  auto a = join(0xA);
  const auto b = join(0xB);
  auto port_a = std::make_unique<LinkCellPort>(a->link());
  LinkCellPort port_b(b->link());
  ports = {port_a.get(), &port_b};
  run(20);
  constexpr uint32_t kLast = 30;
  for (uint32_t i = 0; i < kLast; ++i) ASSERT_TRUE(send_cell(*port_a, make_cell({.number = i})));
  port_a->flush(clock.now());
  ports = {&port_b};
  port_a.reset();
  a.reset();
  clock.advance(1s);  // the switch looks for hang-ups before it looks for cells
  run(3);
  ASSERT_EQ(received.size(), kLast);
  EXPECT_EQ(cell_number(received.back()), kLast - 1);
  EXPECT_FALSE(fabric.port(1).up) << "and then it goes";
  EXPECT_EQ(admission.engine(0).counters().get(LinkCounter::kPeerGone), 1U);
}

/// What cannot be taken does not keep a dead link up.
TEST_F(ShmLink, a_link_whose_last_cells_nobody_takes_goes_down_all_the_same) {
  auto a = join(0xA);
  auto port_a = std::make_unique<LinkCellPort>(a->link());
  ports = {port_a.get()};
  run(20);
  ASSERT_TRUE(send_cell(*port_a, make_cell({})));
  port_a->flush(clock.now());
  ports.clear();
  port_a.reset();
  a.reset();
  LinkEngine& engine = admission.engine(0);
  clock.advance(1s);
  engine.poll(clock.now());
  EXPECT_EQ(engine.state(), LinkState::kUp);
  EXPECT_LE(engine.deadline(), clock.now()) << "nobody sleeps over it";
  clock.advance(50ms);
  engine.poll(clock.now());
  EXPECT_EQ(engine.state(), LinkState::kDown);
}

TEST_F(ShmLink, comes_back_when_either_side_returns) {
  auto a = join(0xA);
  auto port = std::make_unique<LinkCellPort>(a->link());
  ports = {port.get()};
  run(20);
  ASSERT_TRUE(port->up());
  // The endnode dies; its port notices, and takes the next incarnation.
  ports.clear();
  port.reset();
  a.reset();
  run(50);
  EXPECT_EQ(admission.engine(0).state(), LinkState::kDown);
  a = join(0xA);
  port = std::make_unique<LinkCellPort>(a->link());
  ports = {port.get()};
  run(50);
  EXPECT_EQ(admission.engine(0).incarnation(), 2U);
  EXPECT_TRUE(port->up());
  // The listener goes and comes back; living links stay.
  acceptor.reset();
  acceptor = std::move(ShmAcceptor::create(socket_path(), admission).value());
  admission.engine(0).take_down();
  run(300);
  EXPECT_TRUE(port->up());
  EXPECT_EQ(port->incarnation(), 2U);
  EXPECT_EQ(admission.engine(0).incarnation(), 3U);
}

TEST_F(ShmLink, refuses_strangers_and_doubles_by_name) {
  const auto a = join(0xA);
  const auto stranger = join(0xC);
  const auto wrong_lid = join(0xB, 9);
  const auto twice = join(0xA);
  for (int i = 0; i < 40; ++i) {
    step();
    for (const auto* link : {&a, &stranger, &wrong_lid, &twice}) (*link)->link().poll(clock.now());
  }
  EXPECT_EQ(a->link().state(), LinkState::kUp);
  EXPECT_EQ(stranger->link().state(), LinkState::kDown);
  EXPECT_EQ(wrong_lid->link().state(), LinkState::kDown);
  EXPECT_EQ(twice->link().state(), LinkState::kDown);
  EXPECT_GE(refused(AdmissionCounter::kRefusedNotAllowed), 1U);
  EXPECT_GE(refused(AdmissionCounter::kRefusedLidInvalid), 1U);
  EXPECT_GE(refused(AdmissionCounter::kRefusedLidTaken), 1U);
}

TEST_F(ShmLink, counts_silent_and_malformed_guests) {
  UniqueFd silent = std::move(connect_unix(socket_path()).value());
  UniqueFd babbler = std::move(connect_unix(socket_path()).value());
  const std::array<std::byte, 64> junk{};
  ASSERT_TRUE(send_packet(babbler.get(), junk, {}));
  UniqueFd giver = std::move(connect_unix(socket_path()).value());
  const LinkHelloWire hello = encode_link_hello(make_hello({}, 7));
  ASSERT_TRUE(send_packet(giver.get(), bytes_of(hello), std::array{giver.get()})) << "nobody wants it";
  run(1100);
  EXPECT_EQ(refused(AdmissionCounter::kSilent), 1U);
  EXPECT_EQ(refused(AdmissionCounter::kMalformed), 2U);
}

TEST_F(ShmLink, socket_needs_a_private_directory_and_no_living_listener) {
  EXPECT_FALSE(ShmAcceptor::create(socket_path(), admission).ok());
  const std::string open_dir = dir.path() + "/open";
  ASSERT_EQ(mkdir(open_dir.c_str(), 0755), 0);
  for (const mode_t mode : {0755U, 0750U, 0701U}) {
    ASSERT_EQ(chmod(open_dir.c_str(), mode), 0);
    EXPECT_FALSE(ShmAcceptor::create(open_dir + "/s.sock", admission).ok()) << mode;
  }
  struct stat info {};
  ASSERT_EQ(stat(socket_path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0U);
}

/// One switch and many endnodes over shared memory, most of which say nothing.
class ManyShmLinks : public ::testing::Test {
 protected:
  static constexpr uint32_t kNodes = 100;
  ManyShmLinks() {
    for (const Guid guid : guids()) nodes.push_back(std::make_unique<Station>(box.endpoint(guid), random));
  }
  static SwitchConfig many() {
    SwitchConfig config = small_switch();
    config.ports = kNodes;
    return config;
  }
  static std::vector<Guid> guids() {
    std::vector<Guid> out;
    for (uint32_t i = 0; i < kNodes; ++i) out.emplace_back(0x100 + i);
    return out;
  }
  void turn_of_switch(Duration by) {
    clock.advance(by);
    box.poll(clock.now());
  }
  size_t take(uint32_t node) {
    const size_t before = nodes[node]->received.size();
    nodes[node]->poll(clock.now());
    return nodes[node]->received.size() - before;
  }
  void send(uint32_t from, uint32_t to) {
    const auto lid = [](uint32_t node) { return Lid(static_cast<uint16_t>(node + 1)); };
    ASSERT_TRUE(nodes[from]->send({.dlid = lid(to), .slid = lid(from)}));
    nodes[from]->port.flush(clock.now());
  }

  TempDir dir;
  SeededRandom random{1};
  ManualClock clock;
  SwitchBox box{"shm:" + dir.path() + "/s.sock", many(), nodes_with(guids())};
  std::vector<std::unique_ptr<Station>> nodes;
};

TEST_F(ManyShmLinks, idle_ones_cost_nothing_and_wake_with_their_first_cell) {
  const auto up = [&] {
    return std::all_of(nodes.begin(), nodes.end(), [](const auto& node) { return node->port.up(); });
  };
  for (int i = 0; i < 2000 && !up(); ++i) {
    turn_of_switch(5ms);
    for (uint32_t node = 0; node < kNodes; ++node) take(node);
  }
  ASSERT_TRUE(up());
  for (int i = 0; i < 20; ++i) turn_of_switch(1ms);
  constexpr uint32_t kTurns = 500;
  const uint64_t looks = box.core.looks();
  size_t arrived = 0;
  for (uint32_t i = 0; i < kTurns; ++i) {
    send(0, 1);
    turn_of_switch(10us);
    arrived += take(1);
    take(0);
  }
  EXPECT_EQ(arrived, kTurns);
  EXPECT_LE(box.core.looks() - looks, kTurns * (many().links_awake + 2)) << "of links that are awake only";
  for (uint32_t node = 10; node + 1 < kNodes; node += 2) {
    send(node, node + 1);
    turn_of_switch(20us);
    ASSERT_EQ(take(node + 1), 1U) << "in the turn after its bell";
  }
}

TEST(SharedRegionTest, refuses_what_is_not_sealed_or_of_another_size) {
  Result<SharedRegion> region = SharedRegion::create("test", 10000);
  ASSERT_TRUE(region.ok());
  EXPECT_EQ(ftruncate(region->fd(), 4096), -1);
  EXPECT_TRUE(SharedRegion::adopt(UniqueFd(dup(region->fd())), 10000).ok());
  EXPECT_FALSE(SharedRegion::adopt(UniqueFd(dup(region->fd())), 20000).ok());
  UniqueFd unsealed(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), 12288), 0);
  EXPECT_FALSE(SharedRegion::adopt(std::move(unsealed), 10000).ok());
  const TempDir dir;
  FILE* file = fopen((dir.path() + "/f").c_str(), "w+");
  ASSERT_NE(file, nullptr);
  EXPECT_FALSE(SharedRegion::adopt(UniqueFd(dup(fileno(file))), 10000).ok());
  static_cast<void>(fclose(file));
}

/// Two threads over one mapping; run under the thread sanitizer too.
TEST(SlotRing, two_threads_lose_and_tear_nothing) {
  const RingGeometry shape{64, 32};
  struct Shared {
    RingControl control{};
    alignas(64) std::array<std::byte, 64 * 32> slots{};
  };
  const auto shared = std::make_unique<Shared>();
  constexpr uint64_t kCount = 200'000;
  std::thread producer([&] {
    RingProducer ring(shared->control, shared->slots.data(), shape);
    for (uint64_t next = 0; next < kCount;) {
      const TxRun run = ring.claim(0);
      const auto filled = static_cast<uint32_t>(std::min<uint64_t>({run.count, kCount - next, 8}));
      for (uint32_t i = 0; i < filled; ++i, ++next) {
        for (uint32_t word = 0; word < 8; ++word)
          std::memcpy(run.first + i * run.stride + word * 8, &next, 8);
      }
      ring.commit(filled);
      static_cast<void>(ring.publish());
      if (filled == 0) std::this_thread::yield();
    }
  });
  RingConsumer ring(shared->control, shared->slots.data(), shape);
  uint64_t expected = 0;
  while (expected < kCount) {
    std::array<RxSlot, 16> slots;
    const uint32_t got = ring.receive(slots);
    for (uint32_t i = 0; i < got; ++i, ++expected) {
      std::array<uint64_t, 8> words;
      std::memcpy(words.data(), slots[i].bytes, sizeof words);
      for (const uint64_t word : words) ASSERT_EQ(word, expected);
      ASSERT_EQ(slots[i].position, expected);
    }
    if (got != 0) ring.release(slots[got - 1].position + 1);
    if (got == 0) std::this_thread::yield();
  }
  producer.join();
  EXPECT_FALSE(ring.faulty());
}

TEST(SlotRing, sleeper_is_never_left_asleep) {
  const RingGeometry shape{64, 32};
  RingControl control{};
  alignas(64) std::array<std::byte, 64 * 32> slots{};
  constexpr int kRounds = 20'000;
  std::atomic<int> wakeups{0};
  std::atomic<bool> done{false};
  std::thread producer([&] {
    RingProducer ring(control, slots.data(), shape);
    for (int i = 0; i < kRounds;) {
      const TxRun run = ring.claim(0);
      if (run.count == 0) {
        std::this_thread::yield();
        continue;
      }
      ring.commit(1);
      ++i;
      if (ring.publish()) wakeups.fetch_add(1);
    }
    done = true;
  });
  RingConsumer ring(control, slots.data(), shape);
  for (int seen = 0, woken = 0; seen < kRounds;) {
    std::array<RxSlot, 16> got;
    const uint32_t count = ring.receive(got);
    seen += static_cast<int>(count);
    if (count != 0) {
      ring.release(got[count - 1].position + 1);
      continue;
    }
    if (!ring.prepare_sleep()) {
      ring.finish_sleep();
      continue;
    }
    // Asleep: only a wake-up may end this.
    while (wakeups.load() == woken) std::this_thread::yield();
    woken = wakeups.load();
    ring.finish_sleep();
  }
  producer.join();
  EXPECT_TRUE(done);
}

TEST(SlotRing, positions_a_peer_cannot_have_mark_it_faulty) {
  const RingGeometry shape{64, 32};
  RingControl control{};
  alignas(64) std::array<std::byte, 64 * 32> slots{};
  std::array<RxSlot, 64> out;
  RingConsumer consumer(control, slots.data(), shape);
  control.head = 33;
  EXPECT_EQ(consumer.receive(out), 0U);
  EXPECT_TRUE(consumer.faulty());
  control.head = 5;
  RingConsumer backwards(control, slots.data(), shape);
  EXPECT_EQ(backwards.receive(out), 5U);
  control.head = 3;
  EXPECT_EQ(backwards.receive(out), 0U);
  EXPECT_TRUE(backwards.faulty());
  RingProducer producer(control, slots.data(), shape);
  control.tail = 1;
  EXPECT_EQ(producer.claim(0).count, 32U);
  producer.commit(32);
  static_cast<void>(producer.publish());
  control.tail = 33;
  EXPECT_EQ(producer.claim(0).count, 0U);
  EXPECT_TRUE(producer.faulty());
  control.tail = 0;
  RingProducer unpublished(control, slots.data(), shape);
  unpublished.commit(16);
  control.tail = 1;  // within the ring, but of a slot that nobody has been shown
  EXPECT_EQ(unpublished.claim(16).count, 0U);
  EXPECT_TRUE(unpublished.faulty());
}

}  // namespace
}  // namespace weft::test
