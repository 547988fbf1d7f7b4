// Endnodes that name no port join over every carrier, through the connectors and acceptors of the processes,
// and two of one process are two endnodes. ZeroMQ has threads of its own, so these tests run in real time --
// until something has happened, never for a given time.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "fabric/carrier/link_connect.h"
#include "fabric/carrier/shm_connector.h"
#include "fabric/carrier/zmq_connector.h"
#include "fabric/link/link_cell_port.h"
#include "fabric/switch/admission.h"
#include "fabric/switch/shm_acceptor.h"
#include "fabric/switch/zmq_acceptor.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

constexpr uint32_t kSparePorts = 3;

class SpareLinks : public ::testing::TestWithParam<LinkKind> {
 protected:
  void SetUp() override {
    skip_what_a_sanitizer_misreads(GetParam());
    tcp_port = std::to_string(20000 + getpid() % 20000);
    start();
  }
  void start() {
    SwitchConfig config = small_switch();
    core = std::make_unique<Switch>(config);
    const SpareConfig spare{.ports = kSparePorts, .first_lid = Lid(100), .rest = 300ms};
    admission =
        std::make_unique<Admission>(*core, std::vector<NodeEntry>{{"a", Guid(0xA), Lid(1)}}, spare, random);
    if (GetParam() == LinkKind::kShm) {
      acceptor = std::move(ShmAcceptor::create(path(), *admission).value());
      return;
    }
    ZmqAcceptorConfig listen;
    listen.endpoints = {endpoint()};
    if (GetParam() == LinkKind::kTcp) {
      listen.keys = switch_keys;
      listen.allowed = {{"a", Guid(0xA), a_keys.public_key}, {"guest", Guid{}, guest_keys.public_key}};
    }
    acceptor = std::move(ZmqAcceptor::create(listen, *admission).value());
  }
  void stop() {
    acceptor.reset();
    core.reset();
    admission.reset();
  }
  std::string path() const { return dir.path() + "/s"; }
  std::string endpoint() const {
    return GetParam() == LinkKind::kTcp ? "tcp://127.0.0.1:" + tcp_port : "ipc://" + path();
  }

  struct Guest {
    explicit Guest(std::unique_ptr<LinkSupervisor> supervisor)
        : link(LinkTimers{}, std::move(supervisor)), port(link.link()) {}
    LinkConnection link;
    LinkCellPort port;
    uint32_t received = 0;
  };
  std::unique_ptr<Guest> join(const CurveKeyPair& keys) {
    LinkConfig config = small_switch().link;
    config.guid = Guid{};
    config.any_port = true;
    if (GetParam() == LinkKind::kShm)
      return std::make_unique<Guest>(make_shm_connector(path(), config, random));
    ZmqConnectorConfig zmq{config, endpoint(), {}, {}, {}};
    if (GetParam() == LinkKind::kTcp) {
      zmq.own_keys = keys;
      zmq.server_public_key = switch_keys.public_key;
    }
    return std::make_unique<Guest>(std::move(make_zmq_connector(zmq, random).value()));
  }
  bool until(const std::vector<Guest*>& guests, const std::function<bool()>& done) {
    for (const Instant end = clock.now() + 20s; clock.now() < end;) {
      const Instant now = clock.now();
      if (acceptor != nullptr) acceptor->poll(now);
      if (core != nullptr) core->poll(now);
      for (Guest* guest : guests) {
        guest->port.poll(now);
        const std::span<const RxCell> cells = guest->port.receive();
        guest->received += static_cast<uint32_t>(cells.size());
        if (!cells.empty()) guest->port.release();
        guest->port.flush(now);
      }
      if (done()) return true;
      std::this_thread::sleep_for(100us);
    }
    return false;
  }
  void expect_talk(Guest& from, Guest& to) {
    const uint32_t before = to.received;
    uint32_t sent = 0;
    EXPECT_TRUE(until({&from, &to}, [&] {
      if (sent < 100 &&
          send_cell(from.port, make_cell({.dlid = to.port.info().lid, .slid = from.port.info().lid})))
        ++sent;
      return to.received == before + 100;
    })) << to.received - before;
  }

  TempDir dir;
  std::string tcp_port;
  SeededRandom random{static_cast<uint64_t>(getpid())};
  MonotonicClock clock;
  CurveKeyPair switch_keys = generate_curve_keys().value();
  CurveKeyPair a_keys = generate_curve_keys().value();
  CurveKeyPair guest_keys = generate_curve_keys().value();
  std::unique_ptr<Switch> core;
  std::unique_ptr<Admission> admission;
  std::unique_ptr<Pollable> acceptor;
};

TEST_P(SpareLinks, two_of_one_process_join_and_talk) {
  const std::unique_ptr<Guest> one = join(guest_keys);
  const std::unique_ptr<Guest> two = join(guest_keys);
  ASSERT_TRUE(until({one.get(), two.get()}, [&] { return one->port.up() && two->port.up(); }));
  EXPECT_NE(one->port.info().lid, two->port.info().lid);
  EXPECT_NE(one->port.info().guid, two->port.info().guid);
  EXPECT_EQ(one->port.info().pkeys[0], kPkeyDefault);
  expect_talk(*one, *two);
  expect_talk(*two, *one);
}

TEST_P(SpareLinks, who_loses_its_link_comes_back_as_itself) {
  const std::unique_ptr<Guest> one = join(guest_keys);
  ASSERT_TRUE(until({one.get()}, [&] { return one->port.up(); }));
  const CellPortInfo before = one->port.info();
  for (uint64_t incarnation = 2; incarnation < 4; ++incarnation) {
    one->link.link().take_down();
    ASSERT_TRUE(until({one.get()}, [&] { return one->port.up() && one->port.incarnation() == incarnation; }));
    EXPECT_EQ(one->port.info().lid, before.lid);
    EXPECT_EQ(one->port.info().guid, before.guid);
  }
  stop();
  ASSERT_TRUE(until({one.get()}, [&] { return !one->port.up(); }));
  start();
  ASSERT_TRUE(until({one.get()}, [&] { return one->port.up(); }));
  EXPECT_EQ(one->port.info().lid, before.lid) << "after the switch, too";
  EXPECT_EQ(one->port.info().guid, before.guid);
}

TEST_P(SpareLinks, a_port_is_free_when_its_endnode_has_gone) {
  std::vector<std::unique_ptr<Guest>> guests;
  std::vector<Guest*> all;
  for (uint32_t i = 0; i < kSparePorts; ++i) {
    guests.push_back(join(guest_keys));
    all.push_back(guests.back().get());
    ASSERT_TRUE(until(all, [&] { return all.back()->port.up(); }));
  }
  const std::unique_ptr<Guest> late = join(guest_keys);
  all.push_back(late.get());
  ASSERT_TRUE(until(all, [&] { return admission->counters().get(AdmissionCounter::kRefusedNoPort) != 0; }));
  EXPECT_FALSE(late->port.up());
  const Lid gone = guests.front()->port.info().lid;
  all.erase(all.begin());
  guests.erase(guests.begin());
  ASSERT_TRUE(until(all, [&] { return late->port.up(); }));
  EXPECT_NE(late->port.info().lid, gone);
}

TEST_P(SpareLinks, only_keys_that_stand_for_no_node_open_spare_ports) {
  if (GetParam() != LinkKind::kTcp) return SUCCEED() << "there are no keys";
  const CurveKeyPair stranger_keys = generate_curve_keys().value();
  const std::unique_ptr<Guest> node = join(a_keys);
  const std::unique_ptr<Guest> stranger = join(stranger_keys);
  const std::unique_ptr<Guest> guest = join(guest_keys);
  const auto count = [&](AdmissionCounter counter) { return admission->counters().get(counter); };
  ASSERT_TRUE(until({node.get(), stranger.get(), guest.get()}, [&] {
    return guest->port.up() && count(AdmissionCounter::kUnknownKey) != 0 &&
           count(AdmissionCounter::kRefusedNotAllowed) != 0;
  }));
  EXPECT_FALSE(node->port.up());
  EXPECT_FALSE(stranger->port.up());
}

INSTANTIATE_TEST_SUITE_P(Links, SpareLinks, ::testing::Values(LinkKind::kShm, LinkKind::kZmq, LinkKind::kTcp),
                         link_name);

}  // namespace
}  // namespace weft::test
