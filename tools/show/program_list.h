// tools/show/program_list.h -- endnodes of a fabric that no topology names: programs that joined with our
// library, found by their pages, and other endnodes on spare ports.
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
#include "tools/launch/state_dir.h"

namespace weft::tools {

/// A queue pair of a program, with service and state as words.
struct ProgramQp {
  uint32_t number = 0;
  std::string service;
  std::string state;
  uint16_t peer_lid = 0;
  uint32_t peer_number = 0;
  std::string way;  // "switch" or "window"
};

/// A running program of this machine.
struct ProgramNode {
  std::string name;                  // name of weft run --node, else PROGRAM-PID
  std::string program;               // name in /proc; empty when it is unknown
  pid_t pid = 0;                     // 0: the program runs in another PID namespace
  uint64_t guid = 0;                 // 0: the program has not joined yet
  std::vector<uint64_t> more_guids;  // of its second port and further ones
  uint32_t ipv4 = 0;  // address set by WEFT_IP, in host byte order; 0: the one derived from the LID
  uint64_t qps = 0;
  std::vector<ProgramQp> shown;  // the first of its QPs
};

/// Programs that hold their page, by name. A killed program disappears from the list at once.
[[nodiscard]] std::vector<ProgramNode> running_programs(const StateDir& dir);
/// Names of ended programs whose counters are still readable (at most kEndedProgramsMax,
/// tools/launch/program_files.h).
[[nodiscard]] std::vector<std::string> ended_programs(const StateDir& dir);
/// Path of the page with a program's counters.
[[nodiscard]] std::string program_page(const StateDir& dir, const std::string& name);

/// An endnode on a spare port, as its switch reports it.
struct Guest {
  std::string node;  // name of the switch
  uint16_t port = 0;
  uint16_t lid = 0;
  uint64_t guid = 0;
};

/// The spare ports of a fabric's switches.
struct SpareView {
  std::vector<Guest> guests;
  std::map<std::string, uint32_t> free;  // number of free spare ports by switch
};
/// Asks all switches with spare ports; fails when one does not answer.
Result<SpareView> look_at_spare_ports(control::ControlClient& client, const StateDir& dir,
                                      const RunRecord& record);

/// Adds the spare ports from a switch's answer to `view`.
void add_spare_ports(const std::string& node, const control::NodeInfo& info, SpareView& view);

/// Names of endnodes by GUID: lasting names and names of running programs. A program with several adapters
/// has further ports, NAME.2 and so on.
using GuestNames = std::map<uint64_t, std::string>;
[[nodiscard]] GuestNames guest_names(const StateDir& dir, const std::vector<ProgramNode>& programs);
/// The GUID in the name that a switch gives to an endnode on a spare port ("guest GUIDHEX").
[[nodiscard]] std::optional<uint64_t> guest_guid(std::string_view peer);

}  // namespace weft::tools
