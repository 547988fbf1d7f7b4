// tools/node_commands.h -- from a topology to the command lines of weft-switch, weft-host and weft-iou. Pure
// text: no process is started and nothing is opened, so tests read the result.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "messages/ids.h"
#include "tools/topology.h"

namespace weft::tools {

enum class NodeRole : uint8_t { kSwitch, kUnit, kHost };
[[nodiscard]] std::string_view to_string(NodeRole role) noexcept;

/// A descriptor that the launcher opens and the program gets by `option NUMBER`.
struct HandedDescriptor {
  enum class Kind : uint8_t { kTap, kPacket, kNone };  // kNone: -1 in the place of a port that needs none
  Kind kind = Kind::kTap;
  std::string option;  // "--os-fd", "--nic-fd"
  InterfaceSettings interface;
};

struct NodeCommand {
  std::string name;
  NodeRole role = NodeRole::kSwitch;
  std::string program;
  std::vector<std::string> arguments;  // without --parent-fd and the descriptors
  std::vector<HandedDescriptor> descriptors;
  std::string netns;
  Lid lid;                         // none for a switch
  std::vector<std::string> peers;  // of a switch: who hangs on port 1, 2, ...
};

/// LID of every endnode by name. Nodes that `earlier` names keep theirs (decisions 2.15); new ones get the
/// next free number in file order, from 1.
std::map<std::string, Lid> assign_lids(const Topology& topology, const std::map<std::string, Lid>& earlier);

/// The table of a state directory: lines "GUIDHEX LID NAME". Empty when there is no file.
std::map<std::string, Lid> load_lids(const std::string& path);

/// Fails with the names of all nodes whose links need CURVE keys that are not in the topology's directory.
Status check_curve_keys(const Topology& topology);
/// Contents of the file that tells a switch who may join it with which key: lines "NAME GUIDHEX PUBLICKEY";
/// empty when it needs no keys.
Result<std::string> curve_allow_text(const Topology& topology, uint32_t switch_index);

/// Commands in the order of starting: switches, units, hosts. `state_dir` is where sockets and pages go.
std::vector<NodeCommand> node_commands(const Topology& topology, const std::map<std::string, Lid>& lids,
                                       const std::string& state_dir, const std::string& log_level);

}  // namespace weft::tools
