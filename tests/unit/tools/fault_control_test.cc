// Faults are set at all places that a target names, or at none. Two switches are played by their control
// endpoints.
#include "tools/fault/fault_control.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "control/control_server.h"
#include "tests/support/state_dir_fixture.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

/// The control endpoint of a switch with one port.
class PlayedSwitch final : public control::ControlHandler {
 public:
  PlayedSwitch(const StateDir& dir, std::string name, control::PortInfo port)
      : name_(std::move(name)), port_(std::move(port)) {
    server_ = std::move(control::ControlServer::open(dir.file(name_ + ".ctl"), *this).value());
    thread_ = std::thread([this] {
      while (!stop_) {
        server_->poll(MonotonicClock().now());
        std::this_thread::sleep_for(1ms);
      }
    });
  }
  ~PlayedSwitch() override { stop(); }
  /// The rules may be read afterwards.
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }

  [[nodiscard]] control::NodeInfo info() override {
    control::NodeInfo out;
    out.name = name_;
    out.ports = {port_};
    return out;
  }
  Result<std::vector<control::FaultInfo>> fault_add(const FaultRule& wish) override {
    if (refuses) return Error{"no room for a rule"};
    rules.push_back({.id = ++last_id_, .rule = wish});
    return rules;
  }
  Result<std::vector<control::FaultInfo>> fault_clear(uint32_t id) override {
    std::erase_if(rules, [id](const control::FaultInfo& one) { return one.id == id; });
    return rules;
  }
  std::atomic<bool> refuses{false};
  std::vector<control::FaultInfo> rules;

 private:
  std::string name_;
  control::PortInfo port_;
  uint32_t last_id_ = 0;
  std::atomic<bool> stop_{false};
  std::unique_ptr<control::ControlServer> server_;
  std::thread thread_;
};

class FaultControlTest : public test::StateDirFixture {
 protected:
  void SetUp() override {
    StateDirFixture::SetUp();
    StateDir dir = std::move(StateDir::create("f")).value();
    RunRecord record;
    for (const char* node : {"s1", "s2"})
      record.processes.push_back({node, "weft-switch", getpid(), process_start_ticks(getpid()), 0});
    ASSERT_TRUE(dir.save(record).ok());
    first_ = std::make_unique<PlayedSwitch>(dir, "s1", control::PortInfo{1, "up", 7, "guest 1234", "shm"});
    second_ = std::make_unique<PlayedSwitch>(dir, "s2", control::PortInfo{1, "up", 7, "guest 1234", "shm"});
    faults_ = std::make_unique<FaultControl>(std::move(dir), 10s);
    const Status looked = faults_->look();
    ASSERT_TRUE(looked.ok()) << looked.error().text;
  }
  void TearDown() override {
    first_.reset();
    second_.reset();
    faults_.reset();
    StateDirFixture::TearDown();
  }
  Result<std::vector<SetFault>> drop_at(const std::string& target) {
    FaultOrder order;
    order.target = target;
    order.kind = "drop";
    order.value = "1%";
    return faults_->set(order);
  }
  void stop() {
    first_->stop();
    second_->stop();
  }

  std::unique_ptr<PlayedSwitch> first_;
  std::unique_ptr<PlayedSwitch> second_;
  std::unique_ptr<FaultControl> faults_;
};

TEST_F(FaultControlTest, what_one_switch_refuses_is_set_at_none) {
  ASSERT_TRUE(drop_at("lid:7").ok());
  second_->refuses = true;
  EXPECT_FALSE(drop_at("lid:7").ok());
  stop();
  ASSERT_EQ(first_->rules.size(), 1U) << "the rule of the second order has been cleared";
  EXPECT_EQ(first_->rules[0].id, 1U);
  EXPECT_EQ(second_->rules.size(), 1U);
}

TEST_F(FaultControlTest, a_rule_for_a_port_strikes_any_endnode_there_and_one_for_a_program_only_it) {
  ASSERT_TRUE(drop_at("s1:1").ok());
  ASSERT_TRUE(drop_at("lid:7").ok());
  stop();
  ASSERT_EQ(first_->rules.size(), 2U);
  EXPECT_EQ(first_->rules[0].rule.guid, Guid(0));
  EXPECT_EQ(first_->rules[1].rule.guid, Guid(0x1234));
  EXPECT_EQ(second_->rules.size(), 1U);
}

}  // namespace
}  // namespace weft::tools
