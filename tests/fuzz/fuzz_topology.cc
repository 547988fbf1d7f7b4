// Any text: a topology or one error line, never a crash.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "tools/topology/topology.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  const std::string_view text(reinterpret_cast<const char*>(data), bytes);
  const weft::Result<weft::tools::Topology> topology = weft::tools::parse_topology(text, "t.toml");
  if (!topology.ok() && (topology.error().text.empty() || !topology.error().text.starts_with("t.toml:")))
    std::abort();
  if (topology.ok() && topology.value().switches.empty()) std::abort();
  return 0;
}
