// node/switch_options.h -- the command line of weft-switch, checked and turned into what the process is
// built of.
#pragma once

#include <string>
#include <vector>

#include "fabric/link/link_connect.h"
#include "fabric/switch/admission.h"
#include "fabric/switch/switch.h"
#include "fabric/switch/zmq_acceptor.h"
#include "node/node_options.h"

namespace weft::node {

struct SwitchOptions : NodeOptions {
  std::vector<std::string> nodes;
  std::vector<std::string> neighbours;
  std::vector<std::string> joins;
  std::vector<std::string> neighbour_keys;
  std::vector<std::string> listen;
  std::string curve_allow;
  uint32_t ports = 0;
  bool cut_through = false;
};
void declare_switch_options(CommandLine& line, SwitchOptions& out);

/// A neighbour that this switch connects to.
struct SwitchJoin {
  size_t node = 0;  // index into SwitchPlan::nodes
  fabric::LinkEndpointConfig endpoint;
};

struct SwitchPlan {
  fabric::SwitchConfig config;
  std::vector<fabric::NodeEntry> nodes;  // endnodes, then neighbours: node i is on port i + 1
  std::vector<SwitchJoin> joins;
  fabric::ZmqAcceptorConfig zmq;
};

/// Checks the options and what the key files say. The error text is for the user.
Result<SwitchPlan> plan_switch(const SwitchOptions& options);

}  // namespace weft::node
