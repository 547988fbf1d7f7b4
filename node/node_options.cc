#include "node/node_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/log.h"
#include "messages/cell.h"
#include "messages/link_hello.h"

namespace weft::node {

void declare_node_options(CommandLine& line, NodeOptions& out) {
  line.text("name", "NAME", out.name, "of this node; names its files in --dir");
  line.text("dir", "DIR", out.dir, "state directory, mode 0700: NAME.stats, NAME.ctl, of a switch NAME.sock");
  line.hex("guid", "HEX", out.guid, "GUID of this node, unique in the fabric");
  line.text("log-level", "LEVEL", out.log_level, "debug, info, warn or error (info)");
  line.number("parent-fd", "N", out.parent_fd, 0, INT32_MAX, "pipe whose end of file ends this process");
  line.number("core", "N", out.core, 0, kCoreMax, "core that the loop is bound to; ZeroMQ's threads are not");
  line.text("curve-secret", "FILE", out.curve_secret,
            "this node's secret key; needed for tcp beyond loopback");
  line.number("cell-payload", "BYTES", out.cell_payload_bytes, kCellPayloadBytesMin, kCellPayloadBytesMax,
              "data bytes per cell, the same in the whole fabric");
  line.number("flit-payload", "BYTES", out.flit_payload_bytes, 0, cell_bytes_max(kCellPayloadBytesMax),
              "bytes per flit; 0: a whole cell");
  line.number("lanes", "N", out.lanes, 1, fabric::kDataLanesMax, "data lanes");
  line.number("credits", "N", out.credits, 1, fabric::kCreditsPerLaneMax, "flit buffers per lane");
}

Status check_node_options(const std::string& program, const NodeOptions& options) {
  LogLevel level{};
  if (!parse_log_level(options.log_level, level)) return Error{"--log-level: debug, info, warn or error"};
  if (options.name.empty()) return Error{"--name is missing: the name of this node"};
  if (options.guid == 0) return Error{"--guid is missing: 16 hexadecimal digits, unique in the fabric"};
  log_setup(program, level);
  return {};
}

Status bind_loop(const NodeOptions& options) {
  if (bind_to_core(options.core)) return {};
  return Error{fmt::format("--core {}: not a core that this process may use; taskset -cp $$ shows which are",
                           options.core)};
}

fabric::LinkConfig link_config(const NodeOptions& options) noexcept {
  fabric::LinkConfig config;
  config.guid = Guid(options.guid);
  config.cell_payload_bytes = options.cell_payload_bytes;
  config.flit_payload_bytes = options.flit_payload_bytes;
  config.lanes = options.lanes;
  config.credits_per_lane = options.credits;
  return config;
}

control::NodeInfo describe_node(const NodeOptions& options, const char* program) {
  control::NodeInfo out;
  out.program = program;
  out.name = options.name;
  out.version = kProgramVersion;
  out.pid = static_cast<uint32_t>(::getpid());
  out.guid = options.guid;
  out.wire_version = kLinkVersionMax;
  out.ready = true;
  return out;
}

int exit_code_of(const Status& ended) {
  if (ended.ok()) return 0;
  log(LogLevel::kError, "{}", ended.error().text);
  return 1;
}

}  // namespace weft::node
