// verbs/process/settings.h -- the environment variables of docs/verbs.md, read and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "fabric/link/limits.h"
#include "messages/cell.h"
#include "messages/ids.h"

namespace weft::verbs {

struct Settings {
  std::string endpoint;  // endpoint of the switch
  std::string name;      // name of this node
  std::string dir;       // directory for its files; empty: no files are made
  Lid lid{};             // set together with `guid`; without them a spare port assigns both
  Guid guid{};
  uint64_t identity = 0;     // not 0: keep LID and GUID on a spare port (fabric::LinkConfig::identity)
  std::string curve_secret;  // path of a file
  std::string curve_server;  // path of a file
  uint32_t cell_payload_bytes = fabric::kCellPayloadBytesDefault;
  uint32_t flit_payload_bytes = 0;
  Duration silence{};                         // of a ZeroMQ link; 0: as the kind of endpoint has it
  bool strict_memory = false;                 // transfers to and from unmapped memory fail
  uint8_t adapters = 1;                       // NICs of this computer, each with a link of its own
  std::vector<std::string> more_endpoints{};  // switches of the further NICs, in turn; empty: `endpoint`
  std::string direct_dir;   // `dir`, if programs of this machine make memory windows; empty: they do not
  std::string direct_file;  // shared with one other program, for a memory window to it; empty: none
  uint32_t direct_file_side = 0;
  bool roce = false;  // the port reports Ethernet and has RoCE GIDs
};

/// Fails with one line that names the variable.
Result<Settings> read_settings();

/// Name of the device, the same before and after joining.
[[nodiscard]] std::string device_name();

}  // namespace weft::verbs
