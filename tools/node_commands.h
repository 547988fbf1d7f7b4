// tools/node_commands.h -- from a topology to the configuration of each process. Nothing is started or opened
// here, so tests read the result; node/spec_codec.h makes the command lines.
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
#include "tools/topology.h"

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
  node::NodeSpec spec;                        // without descriptors, which with_descriptors() adds
  std::vector<HandedDescriptor> descriptors;  // one per port of the process
  std::string netns;
  std::vector<std::string> peers;  // of a switch: who hangs on port 1, 2, ...

  [[nodiscard]] const char* program() const noexcept { return node::program_of(spec); }
  /// None for a switch.
  [[nodiscard]] Lid lid() const noexcept;
};

/// The configuration as the process gets it: `parent_fd` is its lifeline, `ports` the descriptors of its
/// ports, -1 for those that need none.
node::NodeSpec with_descriptors(node::NodeSpec spec, int parent_fd, const std::vector<int>& ports);

/// LID of every endnode by name. Nodes that `earlier` names keep theirs (decisions 2.15); new ones get the
/// next free number in file order, from 1.
std::map<std::string, Lid> assign_lids(const Topology& topology, const std::map<std::string, Lid>& earlier);

/// The table of a state directory: lines "GUIDHEX LID NAME". Empty when there is no file.
std::map<std::string, Lid> load_lids(const std::string& path);

/// The switch wants keys: it listens on TCP, and the topology has keys. They are used on loopback, too, where
/// other users could connect.
[[nodiscard]] bool has_curve(const Topology& topology, uint32_t switch_index);
/// Fails with the names of all nodes whose links need CURVE keys that are not in the topology's directory.
Status check_curve_keys(const Topology& topology);
/// Contents of the file that tells a switch who may join it with which key: lines "NAME GUIDHEX PUBLICKEY";
/// empty when it needs no keys.
Result<std::string> curve_allow_text(const Topology& topology, uint32_t switch_index);

/// Commands in the order of starting: switches, units, hosts. `state_dir` is where sockets and pages go.
std::vector<NodeCommand> node_commands(const Topology& topology, const std::map<std::string, Lid>& lids,
                                       const std::string& state_dir, LogLevel log_level);

}  // namespace weft::tools
