// How it works: time is virtual for every kind of link. Memory and shared memory deliver at once. ZeroMQ has
// threads of its own: after each half of a turn the fabric waits, in real time, until what was sent has
// arrived, so that a turn means the same everywhere.
#include "tests/support/test_fabric.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "base/log.h"

namespace weft::test {
namespace {

/// Only a machine that has stopped takes that long.
constexpr Duration kRealWaitMax = 20s;
/// Virtual time may run ahead of ZeroMQ's threads: silence is no death here.
constexpr Duration kSilence = 10min;

Guid node_guid(uint32_t node) {
  return Guid(0x100 + node);
}

template <typename Condition>
bool wait_until(Condition holds) {
  constexpr int kYields = 100;  // ZeroMQ's thread answers within tens of microseconds, if it gets a core
  const MonotonicClock clock;
  const Instant end = clock.now() + kRealWaitMax;
  for (int turn = 0; !holds(); ++turn) {
    if (clock.now() > end) return false;
    if (turn < kYields) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(100us);
    }
  }
  return true;
}

}  // namespace

std::string to_string(LinkKind kind) {
  switch (kind) {
    case LinkKind::kMem:
      return "mem";
    case LinkKind::kShm:
      return "shm";
    case LinkKind::kZmq:
      return "zmq";
    case LinkKind::kTcp:
      return "tcp";
  }
  return "?";
}

fabric::SwitchConfig small_switch(uint32_t flit_payload_bytes, uint32_t credits) {
  fabric::SwitchConfig config;
  config.ports = 4;
  config.link.guid = Guid(0x5);
  config.link.cell_payload_bytes = 256;
  config.link.flit_payload_bytes = flit_payload_bytes;
  config.link.credits_per_lane = credits;
  return config;
}

void send_flit(fabric::LinkEngine& from, const std::vector<std::byte>& cell, size_t index) {
  const size_t begin = index * from.params().flit_payload_bytes;
  const size_t bytes = std::min<size_t>(from.params().flit_payload_bytes, cell.size() - begin);
  const VirtualLane vl = CellHead(cell.data()).vl();
  std::byte* to = from.claim(vl);
  ASSERT_NE(to, nullptr);
  std::memcpy(to, cell.data() + begin, bytes);
  const int flags = (begin == 0 ? kFlitHead : 0) | (begin + bytes == cell.size() ? kFlitTail : 0);
  from.commit({vl, static_cast<uint8_t>(flags), static_cast<uint32_t>(bytes), 0});
}

TestFabric::TestFabric(const TestFabricConfig& config)
    : random(config.seed), received(config.nodes), nodes_(config.nodes), kind_(config.links) {
  log_setup("test", LogLevel::kError);
  for (uint32_t i = 0; i < config.nodes + config.trunks; ++i) {
    traces.push_back(std::make_unique<FlitTrace>(config.switching.link.flit_payload_bytes == 0));
  }
  if (kind_ == LinkKind::kMem) {
    plug(config);
  } else {
    join(config);
  }
}

TestFabric::~TestFabric() = default;

void TestFabric::plug(const TestFabricConfig& config) {
  sim::SimFabricConfig cables{.switching = config.switching,
                              .endnode_guid = node_guid(0),
                              .endnodes = config.nodes,
                              .far = config.far,
                              .trunks = config.trunks,
                              .receiver_rereads = config.receiver_rereads};
  cables.refine = [&](uint32_t link, fabric::MemoryCableConfig& cable) {
    if (link == 1 && config.node_lanes != 0) cable.ends[kNode].lanes = config.node_lanes;
    if (config.node_credits != 0) cable.ends[kNode].credits_per_lane = config.node_credits;
    if (link == 0 && config.first_is_a_switch) {
      cable.ends[kNode].is_switch = true;
      cable.ends[kNode].lid = cable.grant.lid = kLidNone;
    }
    cable.ring_slots = config.ring_slots;
    cable.faults[kNode] = cable.faults[kSwitch] = config.faults;
    cable.observer = traces[link].get();
  };
  cables_.emplace(cables, random);
  EXPECT_EQ(cables_->start(clock.now()), LinkRefusal::kNone);
  fabric = cables_->switch_at(0);
  if (config.first_is_a_switch) fabric->forwarding().set(Lid(9), 1);
  for (uint32_t i = 0; i < config.nodes; ++i)
    nodes.push_back(std::make_unique<fabric::LinkCellPort>(cables_->endnode(i)));
  step();
}

void TestFabric::join(const TestFabricConfig& config) {
  const std::string path = dir_.path() + "/s";
  std::string where = (kind_ == LinkKind::kShm ? "shm:" : "ipc://") + path;
  if (kind_ == LinkKind::kTcp) where = fmt::format("tcp://127.0.0.1:{}", 20000 + getpid() % 20000);
  std::vector<Guid> guids;
  for (uint32_t i = 0; i < config.nodes; ++i) guids.push_back(node_guid(i));
  box_.emplace(where, config.switching, nodes_with(guids), kSilence);
  fabric = &box_->core;
  const uint32_t slot_bytes = kFlitHeaderBytes + cell_bytes_max(config.switching.link.cell_payload_bytes);
  for (uint32_t i = 0; i < config.nodes; ++i) {
    connections_.push_back(std::move(fabric::connect_link(box_->endpoint(guids[i]), random).value()));
    probes_.push_back(std::make_unique<LinkProbe>(*traces[i], random, slot_bytes));
    probes_[i]->watch(kNode, connections_[i]->link());
    probes_[i]->watch(kSwitch, box_->admission.engine(i));
    set_faults(i, kNode, config.faults);
    set_faults(i, kSwitch, config.faults);
    nodes.push_back(std::make_unique<fabric::LinkCellPort>(connections_[i]->link()));
  }
  const bool up = wait_until([&] {
    step(1ms);
    return std::all_of(nodes.begin(), nodes.end(), [](const auto& node) { return node->up(); });
  });
  EXPECT_TRUE(up) << "the links do not come up";
}

void TestFabric::step(Duration by) {
  clock.advance(by);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (nodes_[i].lent) continue;
    nodes[i]->poll(clock.now());
    if (!nodes_[i].frozen) take(i);
  }
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes_[i].lent) nodes[i]->flush(clock.now());
  }
  settle();
  fabric->poll(clock.now());
  if (cables_.has_value() && cables_->switches() > 1) cables_->switch_at(1)->poll(clock.now());
  settle();
}

void TestFabric::settle() {
  if (!box_.has_value()) return;
  box_->acceptor->poll(clock.now());
  if (kind_ == LinkKind::kShm || unsettled_) return;
  unsettled_ = !wait_until([&] {
    box_->acceptor->poll(clock.now());
    return std::all_of(probes_.begin(), probes_.end(), [](const auto& probe) { return probe->settled(); });
  });
  EXPECT_FALSE(unsettled_) << "ZeroMQ kept something";
}

void TestFabric::take(size_t node) {
  const std::span<const fabric::RxCell> cells = nodes[node]->receive();
  for (const fabric::RxCell& cell : cells) received[node].emplace_back(cell.bytes.begin(), cell.bytes.end());
  if (!cells.empty()) nodes[node]->release();
}

fabric::LinkEngine& TestFabric::link(uint32_t node, uint32_t end) {
  if (kind_ == LinkKind::kMem) return cable(node).end(end);
  return end == kNode ? connections_[node]->link() : box_->admission.engine(node);
}

void TestFabric::set_faults(uint32_t node, uint32_t from_end, const fabric::FlitFaults& faults) {
  if (kind_ == LinkKind::kMem) {
    cable(node).set_faults(from_end, faults);
  } else {
    probes_[node]->set_faults(from_end, faults);
  }
}

const fabric::FaultCounts& TestFabric::fault_counts(uint32_t node, uint32_t from_end) const {
  return kind_ == LinkKind::kMem ? cables_->cable(node).fault_counts(from_end)
                                 : probes_[node]->fault_counts(from_end);
}

uint64_t TestFabric::total(fabric::SwitchPortCounter counter) const {
  uint64_t sum = 0;
  for (uint32_t i = 0; i <= fabric->ports(); ++i) sum += count(i, counter);
  return sum;
}

uint64_t TestFabric::drops() const {
  uint64_t sum = 0;
  for (auto c = static_cast<size_t>(fabric::kFirstDrop);
       c < static_cast<size_t>(fabric::SwitchPortCounter::kCount); ++c) {
    sum += total(static_cast<fabric::SwitchPortCounter>(c));
  }
  return sum;
}

void TestFabric::expect_conserved() const {
  EXPECT_EQ(total(fabric::SwitchPortCounter::kCellsIn) + total(fabric::SwitchPortCounter::kCellsCopied),
            total(fabric::SwitchPortCounter::kCellsOut) + drops() + fabric->cells_held());
}

}  // namespace weft::test
