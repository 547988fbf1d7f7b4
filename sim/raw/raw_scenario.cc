#include "sim/raw/raw_scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "sim/adapter_counters.h"
#include "sim/counter_check.h"
#include "sim/raw/raw_pair.h"

namespace weft::sim {
namespace {

/// One endnode: an adapter without anything above it.
class RawEndnode final : public EndnodeApp {
 public:
  RawEndnode(RawNode& slot, uint32_t node, uint64_t incarnation, fabric::CellPort& port, uint64_t seed)
      : slot_(slot), random_(seed ^ (incarnation << 8 | node)), adapter_(config_of(node), random_) {
    adapter_.ports().attach(port);
    slot_.adapter = &adapter_;
    slot_.lid = Lid(static_cast<uint16_t>(node));
    slot_.pd = adapter_.alloc_pd().value();
  }
  ~RawEndnode() override { slot_.adapter = nullptr; }
  RawEndnode(const RawEndnode&) = delete;
  RawEndnode& operator=(const RawEndnode&) = delete;

  int poll(Instant now) noexcept override { return adapter_.poll(now); }
  [[nodiscard]] Instant deadline() const noexcept override { return adapter_.deadline(); }

 private:
  static adapter::AdapterConfig config_of(uint32_t node) {
    adapter::AdapterConfig config;
    config.guid = Guid(0x5745'4654'0000'0000ULL + node);
    config.limits.queue_pairs = 64;
    config.limits.completion_queues = 64;
    config.limits.keys = 256;
    return config;
  }

  RawNode& slot_;
  SeededRandom random_;
  adapter::ChannelAdapter adapter_;
};

/// The second port of an adapter. For the links it is an endnode of its own.
class SecondPort final : public EndnodeApp {
 public:
  SecondPort(RawNode& slot, const RawNode& first, uint32_t node, fabric::CellPort& port) : slot_(slot) {
    slot_.adapter = first.adapter;
    slot_.adapter->ports().attach(port);
    slot_.lid = Lid(static_cast<uint16_t>(node));
    slot_.pd = first.pd;
    slot_.port = 2;
  }
  ~SecondPort() override { slot_.adapter = nullptr; }
  SecondPort(const SecondPort&) = delete;
  SecondPort& operator=(const SecondPort&) = delete;

  int poll(Instant now) noexcept override { return slot_.adapter->poll(now); }
  [[nodiscard]] Instant deadline() const noexcept override { return slot_.adapter->deadline(); }

 private:
  RawNode& slot_;
};

class RawScenario final : public Scenario {
 public:
  explicit RawScenario(const WorldParts& parts)
      : plan_(parts.plan), counter_check_(parts.counter_check), nodes_(parts.plan.fabric.endnodes + 1) {
    for (const RawPairPlan& pair : plan_.raw_pairs) {
      pairs_.push_back(std::make_unique<RawPair>(pair, parts, nodes_[pair.nodes[0]], nodes_[pair.nodes[1]]));
    }
  }

  std::unique_ptr<EndnodeApp> start(uint32_t node, uint64_t incarnation, fabric::CellPort& port,
                                    Instant /*now*/) override {
    for (auto& pair : pairs_) pair->look_again();
    const uint32_t first = plan_.fabric.adapter_of(node);
    if (first != node) return std::make_unique<SecondPort>(nodes_[node], nodes_[first], node, port);
    return std::make_unique<RawEndnode>(nodes_[node], node, incarnation, port, plan_.seed);
  }
  void crash(uint32_t node, Instant now) override {
    for (auto& pair : pairs_) pair->node_crashed(node, now);
  }
  void freeze(uint32_t node, bool on, Instant now) override {
    if (node < nodes_.size()) nodes_[node].frozen = on;
    for (auto& pair : pairs_) pair->freeze_changed(now);
  }
  void link_change(uint32_t link, bool /*up*/, bool switch_death, Instant /*now*/) override {
    for (auto& pair : pairs_) pair->link_reset(link, switch_death);
  }
  uint32_t step(uint32_t polled, Instant now) override {
    polled = both_ports(polled);
    take_events(polled);
    uint32_t touched = 0;
    for (auto& pair : pairs_) touched |= pair->step(polled, now);
    return touched;
  }
  [[nodiscard]] Instant deadline() const override {
    Instant due = kNever;
    for (const auto& pair : pairs_) due = std::min(due, pair->deadline());
    return due;
  }
  void check(uint32_t /*worked*/, Instant /*now*/) override {}
  void check_counters(uint32_t node, Instant now) override {
    for (auto& pair : pairs_) pair->check_counters(node, now);
    const adapter::ChannelAdapter* adapter = nodes_[node].adapter;
    if (adapter == nullptr || plan_.fabric.adapter_of(node) != node) return;
    each_counters(*adapter, [&](std::string_view owner, const auto& counters) {
      counter_check_.check(fmt::format("node {}, {},", node, owner), counters, now);
    });
  }
  [[nodiscard]] bool recovered(Instant since) const override {
    return std::all_of(pairs_.begin(), pairs_.end(),
                       [since](const auto& pair) { return pair->recovered(since); });
  }
  [[nodiscard]] bool finished() const override {
    return std::all_of(pairs_.begin(), pairs_.end(), [](const auto& pair) { return pair->finished(); });
  }
  void trickle(Instant /*now*/) override {
    for (auto& pair : pairs_) pair->trickle();
  }
  void stop(Instant /*now*/) override {
    for (auto& pair : pairs_) pair->stop();
  }
  [[nodiscard]] bool drained() const override {
    return std::all_of(pairs_.begin(), pairs_.end(), [](const auto& pair) { return pair->drained(); });
  }

 private:
  /// Polling one port of an adapter polls the whole adapter.
  [[nodiscard]] uint32_t both_ports(uint32_t nodes) const noexcept {
    const uint32_t second = plan_.fabric.second_port;
    if (second == 0) return nodes;
    const uint32_t both = 1U << second | 1U << (second - 1);
    return (nodes & both) != 0 ? nodes | both : nodes;
  }
  void take_events(uint32_t polled) noexcept {
    for (uint32_t node = 1; node < nodes_.size(); ++node) {
      if ((polled >> node & 1) == 0 || nodes_[node].adapter == nullptr) continue;
      for (adapter::AsyncEvent event; nodes_[node].adapter->next_event(event);) {
        if (event.kind != adapter::AsyncEventKind::kSqDrained) continue;
        for (auto& pair : pairs_) pair->send_queue_drained(nodes_[node].adapter, event.qpn);
      }
    }
  }

  const WorldPlan& plan_;
  CounterCheck& counter_check_;
  std::vector<RawNode> nodes_;
  std::vector<std::unique_ptr<RawPair>> pairs_;
};

}  // namespace

std::unique_ptr<Scenario> make_raw_scenario(const WorldParts& parts) {
  return std::make_unique<RawScenario>(parts);
}

}  // namespace weft::sim
