// tools/capture/capture_place.h -- the place of a `weft capture`: the frames of a host or unit, or the cells
// of a switch port, which may be a program's port.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/control_client.h"
#include "tools/capture/pcapng_writer.h"
#include "tools/launch/state_dir.h"
#include "tools/show/program_list.h"

namespace weft::tools {

/// The object of a capture, and the process that copies its frames or cells.
struct CapturePlace {
  RecordedProcess node;            // when this process ends, the capture ends
  bool listed = true;              // the process is in the fabric's record; false for a program
  std::string taker;               // name of the process that copies the frames
  std::string interface;           // interface of the taker; empty: all
  std::vector<std::string> names;  // names of the interfaces for the file
  uint32_t first = 0;              // the taker's number of the first of these interfaces
  CaptureContent content = CaptureContent::kFrames;
};

/// The user's request.
struct CaptureWish {
  std::string target;     // SWITCH:PORT, a node of the topology, or a program
  std::string interface;  // interface of a node; empty: all
  bool cells = false;     // cells in Weft's own form
  bool packets = false;   // of a host or unit: cells as RoCE packets instead of frames

  [[nodiscard]] CaptureContent cell_content() const noexcept {
    return cells ? CaptureContent::kCells : CaptureContent::kPackets;
  }
};

/// Fails when the target does not exist or is on no port.
Result<CapturePlace> find_capture_place(control::ControlClient& client, const StateDir& dir,
                                        const CaptureWish& wish);
/// The place of a program that has joined at the port of `guest`.
[[nodiscard]] CapturePlace place_of_program(const ProgramNode& program, const Guest& guest,
                                            const CaptureWish& wish);
/// True when the node has ended. If its process id is unknown here (another PID namespace), the lock on its
/// stats page decides.
[[nodiscard]] bool has_ended(const StateDir& dir, const CapturePlace& place);

}  // namespace weft::tools
