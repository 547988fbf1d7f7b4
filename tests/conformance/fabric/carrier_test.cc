// The same traffic over every carrier: what is above the link does not notice what is below it
// (SAN-LAYER-01).
#include <gtest/gtest.h>
#include <unistd.h>

#include <map>
#include <thread>

#include "fabric/admission.h"
#include "fabric/link_connect.h"
#include "fabric/shm_acceptor.h"
#include "fabric/zmq_acceptor.h"
#include "tests/support/requirement.h"
#include "tests/support/temp_dir.h"
#include "tests/support/test_fabric.h"

namespace weft::test {
namespace {

struct Kind {
  const char* name;
  const char* endpoint;  // prefix of a path, or loopback tcp
  uint32_t flit_payload_bytes;
  uint32_t credits;
};

class Carriers : public ::testing::TestWithParam<Kind> {
 protected:
  Carriers()
      : fabric(switch_config()), admission(fabric, {{"a", Guid(0xA), Lid(1)}, {"b", Guid(0xB), Lid(2)}}) {
    const std::string kind = GetParam().endpoint;
    endpoint =
        kind.starts_with("tcp") ? kind + std::to_string(20000 + getpid() % 20000) : kind + dir.path() + "/s";
    if (kind.starts_with("shm")) {
      acceptors.push_back(std::move(ShmAcceptor::create(dir.path() + "/s", admission).value()));
    } else {
      ZmqAcceptorConfig config;
      config.endpoints = {endpoint};
      acceptors.push_back(std::move(ZmqAcceptor::create(config, admission).value()));
    }
    for (uint64_t node = 0; node < 2; ++node) {
      LinkEndpointConfig config;
      config.link = switch_config().link;
      config.link.guid = Guid(0xA + node);
      config.endpoint = endpoint;
      links.push_back(std::move(connect_link(config, random).value()));
      ports.push_back(std::make_unique<LinkCellPort>(links.back()->link()));
    }
  }
  static SwitchConfig switch_config() {
    SwitchConfig config = small_switch(GetParam().flit_payload_bytes, GetParam().credits);
    config.link.cut_through = true;
    return config;
  }
  void step() {
    const Instant now = clock.now();
    for (auto& acceptor : acceptors) acceptor->poll(now);
    fabric.poll(now);
    for (size_t i = 0; i < ports.size(); ++i) {
      ports[i]->poll(now);
      const std::span<const RxCell> cells = ports[i]->receive();
      for (const RxCell& cell : cells) {
        CellView view;
        EXPECT_EQ(decode_cell(cell.bytes, CrcCheck::kVerify, view), CellError::kNone);
        EXPECT_EQ(view.psn.value(), received[i][cell.vl.value()]++);
      }
      if (!cells.empty()) ports[i]->release();
      ports[i]->flush(now);
    }
  }
  bool send(size_t node, uint32_t lane) {
    const auto vl = VirtualLane(static_cast<uint8_t>(lane));
    const std::vector<std::byte> cell =
        make_cell({.dlid = Lid(static_cast<uint16_t>(2 - node)),
                   .slid = Lid(static_cast<uint16_t>(node + 1)),
                   .vl = vl,
                   .number = sent[node][lane],
                   .payload_bytes = static_cast<uint32_t>(random.below(257))});
    std::byte* to = ports[node]->claim(vl, static_cast<uint32_t>(cell.size()));
    if (to == nullptr) return false;
    std::memcpy(to, cell.data(), cell.size());
    ports[node]->commit(vl, static_cast<uint32_t>(cell.size()), cell_crc(cell));
    ++sent[node][lane];
    return true;
  }

  TempDir dir;
  SeededRandom random{3};
  MonotonicClock clock;
  std::string endpoint;
  Switch fabric;
  Admission admission;
  std::vector<std::unique_ptr<Pollable>> acceptors;
  std::vector<std::unique_ptr<LinkConnection>> links;
  std::vector<std::unique_ptr<LinkCellPort>> ports;
  std::array<std::map<uint32_t, uint32_t>, 2> sent;
  std::array<std::map<uint32_t, uint32_t>, 2> received;
};

INSTANTIATE_TEST_SUITE_P(Kinds, Carriers,
                         ::testing::Values(Kind{"shm", "shm:", 0, 32}, Kind{"shm_96", "shm:", 96, 32},
                                           Kind{"shm_one_credit", "shm:", 0, 1}, Kind{"ipc", "ipc://", 0, 32},
                                           Kind{"ipc_96_one_credit", "ipc://", 96, 1},
                                           Kind{"tcp", "tcp://127.0.0.1:", 0, 32}),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST_P(Carriers, SAN_LAYER_01_carrier_is_exchangeable_without_change_above) {
  covers("SAN-LAYER-01 SAN-FLIT-06");
  const Instant end = clock.now() + 30s;
  while (!(ports[0]->up() && ports[1]->up()) && clock.now() < end) {
    step();
    std::this_thread::sleep_for(100us);
  }
  ASSERT_TRUE(ports[0]->up() && ports[1]->up());
  constexpr uint32_t kCells = 1500;
  uint32_t total = 0;
  const auto arrived = [&] {
    uint32_t sum = 0;
    for (const auto& node : received) {
      for (const auto& [lane, count] : node) sum += count;
    }
    return sum;
  };
  while (arrived() < 2 * kCells && clock.now() < end) {
    for (size_t node = 0; node < 2 && total < 2 * kCells; ++node) {
      if (send(node, static_cast<uint32_t>(random.below(4)))) ++total;
    }
    step();
  }
  EXPECT_EQ(arrived(), 2 * kCells);
  for (PortNumber port = 1; port <= 2; ++port) {
    for (auto c = static_cast<size_t>(kFirstDrop); c < static_cast<size_t>(SwitchPortCounter::kCount); ++c) {
      EXPECT_EQ(fabric.port(port).counters.get(static_cast<SwitchPortCounter>(c)), 0U)
          << CounterLabels<SwitchPortCounter>::kLabels[c];
    }
  }
  EXPECT_EQ(received[1], sent[0]);
  EXPECT_EQ(received[0], sent[1]);
  EXPECT_EQ(links[0]->link().incarnation(), 1U);
}

}  // namespace
}  // namespace weft::test
