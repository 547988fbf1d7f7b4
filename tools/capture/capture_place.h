// tools/capture/capture_place.h -- what `weft capture` takes: the frames of a host or unit, or the cells of a
// port of a switch, which may be that of a program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "control/control_client.h"
#include "tools/capture/pcapng_writer.h"
#include "tools/program_list.h"
#include "tools/state_dir.h"

namespace weft::tools {

/// What is captured, and by whom.
struct CapturePlace {
  RecordedProcess node;            // the capture ends with it
  bool listed = true;              // in the fabric's record; else a program
  std::string taker;               // the process that takes the copies
  std::string interface;           // of the taker; empty: all
  std::vector<std::string> names;  // of the interfaces, as the file has them
  uint32_t first = 0;              // the taker's number of the first of them
  CaptureContent content = CaptureContent::kFrames;
};

/// What people want to see.
struct CaptureWish {
  std::string target;     // SWITCH:PORT, a node of the topology, or a program
  std::string interface;  // of a node; empty: all
  bool cells = false;     // our cells as they are
  bool packets = false;   // of a host or unit, too, cells as RoCE packets

  [[nodiscard]] CaptureContent cell_content() const noexcept {
    return cells ? CaptureContent::kCells : CaptureContent::kPackets;
  }
};

/// Fails when there is no such node, switch or port.
Result<CapturePlace> find_capture_place(control::ControlClient& client, const StateDir& dir,
                                        const CaptureWish& wish);
/// The port of a program that has joined.
[[nodiscard]] CapturePlace place_of_program(const ProgramNode& program, const Guest& guest,
                                            const CaptureWish& wish);
/// The node of the place has ended. One whose process has no number here tells by its page.
[[nodiscard]] bool has_ended(const StateDir& dir, const CapturePlace& place);

}  // namespace weft::tools
