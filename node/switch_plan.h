// node/switch_plan.h -- turns the configuration of a switch into the parameters of its parts, and checks it
// against the key files.
#pragma once

#include <vector>

#include "fabric/carrier/link_connect.h"
#include "fabric/switch/admission.h"
#include "fabric/switch/switch.h"
#include "fabric/switch/zmq_acceptor.h"
#include "node/spec.h"

namespace weft::node {

/// A neighbour that this switch connects to.
struct SwitchJoin {
  size_t node = 0;  // index into SwitchPlan::nodes
  fabric::LinkEndpointConfig endpoint;
};

struct SwitchPlan {
  fabric::SwitchConfig config;
  std::vector<fabric::NodeEntry> nodes;  // endnodes, then neighbours: node i is on port i + 1
  fabric::SpareConfig spare;             // the ports behind them
  std::vector<SwitchJoin> joins;
  fabric::ZmqAcceptorConfig zmq;
};

/// The error text is for the user.
Result<SwitchPlan> plan_switch(const SwitchSpec& spec);

}  // namespace weft::node
