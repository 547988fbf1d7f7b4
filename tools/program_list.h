// tools/program_list.h -- the endnodes of a fabric that no topology names: programs that joined by our
// library, from the pages they hold, and other endnodes on spare ports of a switch.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "control/control_client.h"
#include "tools/state_dir.h"

namespace weft::tools {

/// A queue pair of a program; service and state as the verbs number them.
struct ProgramQp {
  uint32_t number = 0;
  std::string service;
  std::string state;
  uint16_t peer_lid = 0;
  uint32_t peer_number = 0;
};

/// A program of this machine, while it lives.
struct ProgramNode {
  std::string name;     // of weft run --node, else PROGRAM-PID
  std::string program;  // as the system calls it; empty when it cannot be asked
  pid_t pid = 0;        // 0: it has none here, in another namespace of processes
  uint64_t guid = 0;    // 0: it has not joined yet
  uint32_t ipv4 = 0;    // that WEFT_IP gave it, in the order of the host; 0: the one of its LID
  uint64_t qps = 0;
  std::vector<ProgramQp> shown;  // of those, the first
};

/// Those that hold their page, by name. A program that was killed is gone from here at once.
[[nodiscard]] std::vector<ProgramNode> running_programs(const StateDir& dir);
/// Those that have ended and whose counters are still here, by name (kEndedProgramsMax in
/// tools/program_files.h).
[[nodiscard]] std::vector<std::string> ended_programs(const StateDir& dir);
/// Where the counters of a program are.
[[nodiscard]] std::string program_page(const StateDir& dir, const std::string& name);

/// An endnode on a spare port, as its switch sees it.
struct Guest {
  std::string node;  // the switch
  uint16_t port = 0;
  uint16_t lid = 0;
  uint64_t guid = 0;
};

/// What the switches of a fabric say of their spare ports.
struct SpareView {
  std::vector<Guest> guests;
  std::map<std::string, uint32_t> free;  // ports, by switch
};
/// Asks them; fails when one with spare ports does not answer.
Result<SpareView> look_at_spare_ports(control::ControlClient& client, const StateDir& dir,
                                      const RunRecord& record);

/// Adds the spare ports of a switch's answer to `view`.
void add_spare_ports(const std::string& node, const control::NodeInfo& info, SpareView& view);

/// Names by GUID: those that stay, and those of running programs.
using GuestNames = std::map<uint64_t, std::string>;
[[nodiscard]] GuestNames guest_names(const StateDir& dir, const std::vector<ProgramNode>& programs);
/// The GUID in what a switch calls an endnode of a spare port.
[[nodiscard]] std::optional<uint64_t> guest_guid(std::string_view peer);

}  // namespace weft::tools
