// verbs/settings.h -- the environment variables of docs/verbs.md, read and checked.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "fabric/link/limits.h"
#include "messages/cell.h"
#include "messages/ids.h"

namespace weft::verbs {

struct Settings {
  std::string endpoint;  // of the switch
  std::string name;      // of this node
  std::string dir;       // for its files; empty: none are made
  Lid lid{};             // with `guid`; without both a spare port gives them
  Guid guid{};
  uint64_t identity = 0;     // with both: of a spare port all the same (fabric::LinkConfig::identity)
  std::string curve_secret;  // files
  std::string curve_server;
  uint32_t cell_payload_bytes = fabric::kCellPayloadBytesDefault;
  uint32_t flit_payload_bytes = 0;
  bool strict_memory = false;  // transfers to and from memory that has gone fail
  bool roce = false;           // the port says Ethernet, and its GIDs are of RoCE version 2
};

/// Fails with one line that names the variable.
Result<Settings> read_settings();

/// Name of the device; the same before and after joining.
[[nodiscard]] std::string device_name();

}  // namespace weft::verbs
