// tools/topology/node_commands.h -- makes the configuration of each process from a topology. Starts and opens
// nothing, so that tests can examine the result; node/spec_codec.h makes the command lines.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "messages/ids.h"
#include "node/spec.h"
#include "node/spec_codec.h"
#include "tools/topology/topology.h"

namespace weft::tools {

enum class NodeRole : uint8_t { kSwitch, kUnit, kHost };
[[nodiscard]] std::string_view to_string(NodeRole role) noexcept;

/// A descriptor that the launcher opens for a port of the process.
struct HandedDescriptor {
  node::PortDescriptor kind = node::PortDescriptor::kNone;
  InterfaceSettings interface;
};

struct NodeCommand {
  std::string name;
  NodeRole role = NodeRole::kSwitch;
  node::NodeSpec spec;                        // descriptors are added by with_descriptors()
  std::vector<HandedDescriptor> descriptors;  // one per port of the process
  std::string netns;
  std::vector<std::string> peers;  // of a switch: names of the nodes at ports 1, 2, ...

  [[nodiscard]] const char* program() const noexcept { return node::program_of(spec); }
  /// kLidNone for a switch.
  [[nodiscard]] Lid lid() const noexcept;
};

/// The configuration that is passed to the process: `parent_fd` is its lifeline, `ports` has the descriptors
/// of its ports, -1 for a port that needs none.
node::NodeSpec with_descriptors(node::NodeSpec spec, int parent_fd, const std::vector<int>& ports);

/// LID of every endnode by name. Nodes in `earlier` keep theirs (decisions 2.15); new ones get the lowest
/// free number, in file order from 1.
std::map<std::string, Lid> assign_lids(const Topology& topology, const std::map<std::string, Lid>& earlier);

/// Reads the table of a state directory: lines "GUIDHEX LID NAME". Empty when there is no file.
std::map<std::string, Lid> load_lids(const std::string& path);

/// True when the switch needs keys: it listens on TCP, and the topology has keys. Keys are also used on
/// loopback, because other users of the machine could connect there.
[[nodiscard]] bool has_curve(const Topology& topology, uint32_t switch_index);
/// Fails with the names of all nodes whose links need CURVE keys that the topology's directory lacks.
Status check_curve_keys(const Topology& topology);
/// Content of the file that tells a switch the nodes that may join it, with their keys: lines "NAME GUIDHEX
/// PUBLICKEY". Empty when the switch needs no keys.
Result<std::string> curve_allow_text(const Topology& topology, uint32_t switch_index);

/// Commands in starting order: switches, units, hosts. `state_dir` is the directory for sockets and pages.
std::vector<NodeCommand> node_commands(const Topology& topology, const std::map<std::string, Lid>& lids,
                                       const std::string& state_dir, LogLevel log_level);

}  // namespace weft::tools
