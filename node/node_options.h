// node/node_options.h -- the options that weft-switch, weft-host and weft-iou share: who the process is,
// where its files go, and what its links offer.
#pragma once

#include <cstdint>
#include <string>

#include "base/command_line.h"
#include "base/loop_runner.h"
#include "base/result.h"
#include "control/management.h"
#include "fabric/link/link_handshake.h"

namespace weft::node {

struct NodeOptions {
  std::string name;
  std::string dir = ".";
  std::string log_level = "info";
  uint64_t guid = 0;
  uint32_t parent_fd = UINT32_MAX;  // none
  uint32_t core = kAnyCore;
  std::string curve_secret;  // file
  uint32_t cell_payload_bytes = fabric::kCellPayloadBytesDefault;
  uint32_t flit_payload_bytes = 0;
  uint32_t lanes = fabric::kDataLanesDefault;
  uint32_t credits = fabric::kCreditsPerLaneDefault;

  [[nodiscard]] int parent() const noexcept {
    return parent_fd == UINT32_MAX ? -1 : static_cast<int>(parent_fd);
  }
  /// DIR/NAME, to which the endings of its files are added.
  [[nodiscard]] std::string file_base() const { return dir + "/" + name; }
};

void declare_node_options(CommandLine& line, NodeOptions& out);
/// Checks what has no range of its own and sets up the log. The error text is for the user.
Status check_node_options(const std::string& program, const NodeOptions& options);
/// Binds the calling thread, which runs the loop, to --core if that was given. To be called when the links
/// are made: the threads of ZeroMQ run by then and are left where the process was allowed to run.
Status bind_loop(const NodeOptions& options);

/// What the ends of this process's links offer.
[[nodiscard]] fabric::LinkConfig link_config(const NodeOptions& options) noexcept;
/// What every program answers about itself on its control endpoint; the caller adds state, sessions and
/// ports.
[[nodiscard]] control::NodeInfo describe_node(const NodeOptions& options, const char* program);
/// What main() returns: 0, or 1 after logging why the program ended.
[[nodiscard]] int exit_code_of(const Status& ended);

}  // namespace weft::node
