// tools/fault/fault_control.h -- sets, lists and clears faults in the switches of a running fabric, and finds
// the ports and endnodes that a target of `weft fault` names. docs/faults.md.
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
#include "tools/fault/fault_words.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {

/// Place of a rule: a port of a running switch, all of its ports, or the endnode with a GUID.
struct FaultPlace {
  std::string node;   // name of the switch
  uint16_t port = 0;  // 0: every port
  uint16_t lid = 0;
  uint64_t guid = 0;  // GUID of a program: the rule ends with its link; 0: none
  std::string peer;   // name of the endnode at the port, or of the one to come
};

/// A rule of a switch, or of the memory windows of a program.
struct SetFault {
  std::string node;  // name of the switch or of the program
  control::FaultInfo fault;
  bool windows = false;  // it strikes DMA requests, not cells

  /// SWITCH:NUMBER or PROGRAM:NUMBER, the name for `weft fault clear`.
  [[nodiscard]] std::string name() const;
};

class FaultControl {
 public:
  explicit FaultControl(StateDir dir, Duration answer_timeout = std::chrono::seconds(3))
      : dir_(std::move(dir)), record_(dir_.load()), answer_timeout_(answer_timeout) {}

  /// Asks the switches for the endnodes at their ports, and looks which programs have memory windows.
  Status look();
  /// The places that `target` names; with `prepare` it may be a program that has not started.
  Result<std::vector<FaultPlace>> find(const std::string& target, bool prepare);
  /// Sets the rule at all of its places, or at none on an error: at switches, and in the memory windows of
  /// programs. If `only` is not empty, places at other switches are skipped. Chooses a seed if the order has
  /// none.
  Result<std::vector<SetFault>> set(FaultOrder order, const std::string& only = {});
  /// What set() did not do because it means nothing for memory windows: one line for each program.
  [[nodiscard]] const std::vector<std::string>& notes() const { return notes_; }
  /// Rules of all switches and programs that look() found.
  Result<std::vector<SetFault>> list();
  /// Rules of one switch; works without look().
  Result<std::vector<SetFault>> list_of(const std::string& node);
  /// Clears rule `id` of a switch or program; 0: all rules.
  Status clear(const std::string& node, uint32_t id);

  [[nodiscard]] const std::vector<std::string>& switches() const { return switches_; }
  /// Programs whose memory windows take orders.
  [[nodiscard]] std::vector<std::string> programs() const;
  /// Ports of the switches with their endnodes.
  [[nodiscard]] const std::vector<FaultPlace>& places() const { return places_; }
  [[nodiscard]] const RunRecord& record() const { return record_; }
  [[nodiscard]] const StateDir& dir() const { return dir_; }
  /// "s1:2 (h1)", "s1", "s1 (one, which has not joined)".
  [[nodiscard]] std::string at(const SetFault& one) const;
  /// "fault s1:1 at s1:2 (h1): drop ...".
  [[nodiscard]] std::string describe(const SetFault& one) const;

 private:
  Result<std::vector<control::FaultInfo>> ask(const std::string& node,
                                              const control::ControlRequest& request);
  Status strike_windows(const std::vector<FaultPlace>& places, const FaultRule& rule,
                        std::vector<SetFault>& done);
  Result<FaultPlace> prepared(const std::string& name);

  StateDir dir_;
  RunRecord record_;
  Duration answer_timeout_;
  control::ControlClient client_;
  std::vector<std::string> switches_;
  std::vector<FaultPlace> places_;
  std::map<uint64_t, std::string> names_;     // of programs, by GUID
  std::map<std::string, std::string> doors_;  // of programs with memory windows, by name
  std::vector<std::string> notes_;
};

}  // namespace weft::tools
