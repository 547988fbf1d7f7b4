// docs/topology.md names the program's limits; they are those that the code has.
#include "fabric/link/limits.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <sstream>
#include <string>

#include "base/loop_runner.h"
#include "base/text_file.h"
#include "base/time_span.h"
#include "control/management.h"
#include "fabric/carrier/limits.h"
#include "messages/flit.h"
#include "node/limits.h"
#include "node/spec.h"
#include "tools/topology/topology.h"

namespace weft::tools {
namespace {

/// Rows of the table under "## Limits": what, limit.
std::map<std::string, std::string> documented_limits(const std::string& text) {
  std::map<std::string, std::string> rows;
  std::istringstream lines(text.substr(text.find("## Limits")));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("## ") && !rows.empty()) break;
    const size_t middle = line.find(" | ");
    if (!line.starts_with("| ") || middle == std::string::npos || line.starts_with("| What |")) continue;
    rows[line.substr(2, middle - 2)] = line.substr(middle + 3, line.size() - middle - 5);
  }
  return rows;
}

TEST(Limits, the_document_has_those_of_the_code) {
  const char* source = std::getenv("WEFT_SOURCE");
  if (source == nullptr) GTEST_SKIP() << "WEFT_SOURCE is not set; ctest sets it to the source tree";
  const std::map<std::string, std::string> wanted{
      {"nodes of a fabric", fmt::format("{}", kTopologyNodesMax)},
      {"LIDs", fmt::format("1 to {}", kLidMax)},
      {"ports of a switch, one for each host, unit and link", fmt::format("{}", kTopologyPortsMax)},
      {"LIDs of spare ports",
       fmt::format("{} in all; at least {} for each port and {} for a switch", node::kSpareLidsTogetherMax,
                   fabric::spare_lids(100) / 100, fabric::spare_lids(1))},
      {"hosts of a unit",
       fmt::format("{}, {} unless `hosts` says more", node::kHostsPerUnitMax, node::kHostsPerUnitDefault)},
      {"ports (units) of a host", fmt::format("{}", node::kHostPortsMax)},
      {"receive pools of a node",
       fmt::format("{}, with {} elements of {} to {} bytes in all", node::kPoolsMax, kOwnElementsTogetherMax,
                   kOwnElementBytesMin, kPoolElementBytesMax)},
      {"addresses of an interface", fmt::format("{}", kAddressesMax)},
      {"MTU of an interface", fmt::format("{} to {} bytes", node::kMtuMin, node::kMtuMax)},
      {"name of a fabric, node or namespace", fmt::format("{} bytes", node::kNodeNameBytesMax)},
      {"name of an interface", fmt::format("{} bytes", node::kInterfaceNameBytesMax)},
      {"path of a socket", fmt::format("{} bytes", node::kSocketPathBytesMax)},
      {"data bytes of a cell",
       fmt::format("{} to {}, {} unless `cell_payload` says otherwise", kCellPayloadBytesMin,
                   kCellPayloadBytesMax, fabric::kCellPayloadBytesDefault)},
      {"data bytes of a flit", fmt::format("from {} on", kFlitPayloadBytesMin)},
      {"data lanes of a link",
       fmt::format("{}, {} unless `lanes` says otherwise", fabric::kDataLanesMax, fabric::kDataLanesDefault)},
      {"flit buffers of a lane", fmt::format("{}, {} unless `credits` says otherwise",
                                             fabric::kCreditsPerLaneMax, fabric::kCreditsPerLaneDefault)},
      {"silence of a link over ZeroMQ",
       fmt::format("{} s to {} s, {} over ipc and {} over tcp unless `silence` says otherwise",
                   fabric::kZmqSilenceMin / 1s, fabric::kZmqSilenceMax / 1s,
                   format_time_span(fabric::kZmqSilenceIpc), format_time_span(fabric::kZmqSilenceTcp))},
      {"core", fmt::format("0 to {}", kCoreMax)},
      {"frame lengths of `weft traffic`",
       fmt::format("60 to 9018 bytes, {} of them", control::kTrafficSizesMax)},
  };
  EXPECT_EQ(documented_limits(read_text_file(std::string(source) + "/docs/topology.md").value()), wanted);
}

}  // namespace
}  // namespace weft::tools
