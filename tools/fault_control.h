// tools/fault_control.h -- sets, lists and clears faults in the switches of a running fabric: which port or
// endnode a word of `weft fault` means, and what its switch says. docs/faults.md.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "control/control_client.h"
#include "tools/fault_words.h"
#include "tools/state_dir.h"

namespace weft::tools {

/// What a rule is for: a port of a running switch, all of them, or an endnode that comes and goes.
struct FaultPlace {
  std::string node;   // the switch
  uint16_t port = 0;  // 0: every port
  uint16_t lid = 0;
  uint64_t guid = 0;  // of a program: the rule ends with it
  std::string peer;   // who is there, or is to come
};

/// A rule of a switch.
struct SetFault {
  std::string node;  // the switch
  control::FaultInfo fault;

  /// SWITCH:NUMBER, as it is cleared by.
  [[nodiscard]] std::string name() const;
};

class FaultControl {
 public:
  explicit FaultControl(StateDir dir, Duration answer_timeout = std::chrono::seconds(3))
      : dir_(std::move(dir)), record_(dir_.load()), answer_timeout_(answer_timeout) {}

  /// Asks the switches who sits where.
  Status look();
  /// What a target names: with `prepare` also a program that has not started yet.
  Result<std::vector<FaultPlace>> find(const std::string& target, bool prepare);
  /// Sets a rule at each of its places, of switch `only` if that is not empty; at all or at none. A seed is
  /// chosen where the order has none.
  Result<std::vector<SetFault>> set(FaultOrder order, const std::string& only = {});
  /// Rules of all switches that look() has found.
  Result<std::vector<SetFault>> list();
  /// Those of one, which need not be looked at first.
  Result<std::vector<SetFault>> list_of(const std::string& node);
  /// Rule `id` of a switch; 0: all of it.
  Status clear(const std::string& node, uint32_t id);

  [[nodiscard]] const std::vector<std::string>& switches() const { return switches_; }
  /// Ports of the switches, and who is there.
  [[nodiscard]] const std::vector<FaultPlace>& places() const { return places_; }
  [[nodiscard]] const RunRecord& record() const { return record_; }
  [[nodiscard]] const StateDir& dir() const { return dir_; }
  /// "s1:2 (h1)", "s1", "s1 (one, which has not joined)".
  [[nodiscard]] std::string at(const std::string& node, const FaultRule& rule) const;
  /// "fault s1:1 at s1:2 (h1): drop ...".
  [[nodiscard]] std::string describe(const SetFault& one) const;

 private:
  Result<std::vector<control::FaultInfo>> ask(const std::string& node,
                                              const control::ControlRequest& request);
  Result<FaultPlace> prepared(const std::string& name);

  StateDir dir_;
  RunRecord record_;
  Duration answer_timeout_;
  control::ControlClient client_;
  std::vector<std::string> switches_;
  std::vector<FaultPlace> places_;
  std::map<uint64_t, std::string> names_;  // of programs, by GUID
};

}  // namespace weft::tools
