// weft capture: makes a driver half copy its frames, or a switch the cells of a port, into a ring, and writes
// them to a pcapng file.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "base/command_line.h"
#include "control/control_client.h"
#include "fabric/link/limits.h"
#include "tools/capture/capture_copier.h"
#include "tools/capture/capture_place.h"
#include "tools/capture/name_wait.h"
#include "tools/capture/pcapng_writer.h"
#include "tools/capture/running_capture.h"
#include "tools/commands/command.h"
#include "tools/launch/fabric_choice.h"
#include "tools/launch/used_fabric.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kCaptureLookAgain = 10ms;  // while waiting for a program to start

std::atomic<bool> interrupted{false};

struct CaptureOptions {
  std::string fabric;
  std::string output;
  Arguments node;
  CaptureWish wish;
  uint64_t count = 0;
  uint32_t keep = 0;
  uint32_t duration_s = 0;
};

/// The fabric, and our registered use of it if the capture has started it.
struct CapturedFabric {
  StateDir dir;
  UniqueFd use;
};

/// The fabric to capture. A capture may begin before the first program starts, so if no fabric runs, the
/// default fabric of `weft run` is started.
Result<CapturedFabric> captured_fabric(const std::string& name) {
  Result<StateDir> running = chosen_fabric(name);
  if (running.ok()) return CapturedFabric{std::move(running).value(), {}};
  if (Result<SeenFabrics> seen = SeenFabrics::look(); name.empty() && seen.ok() && seen->any_runs())
    return running.error();
  Result<UsedFabric> used = use_fabric(name);
  if (!used.ok()) return used.error();
  return CapturedFabric{std::move(used->dir), std::move(used->use)};
}

void say(const std::string& line) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

/// The output: a file, or a copy of standard output.
Result<UniqueFd> open_output(const std::string& path) {
  if (path.empty() || path == "-") return UniqueFd(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
  UniqueFd file(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file.valid()) return errno_error("cannot create " + path, errno);
  return file;
}

/// One capture, from request to summary.
class CaptureRun {
 public:
  CaptureRun(const CaptureOptions& options, CapturedFabric& fabric) : options_(options), fabric_(fabric) {
    limits_.frames = options.count;
    limits_.interrupted = &interrupted;
    if (options.duration_s != 0)
      limits_.end = MonotonicClock().now() + std::chrono::seconds(options.duration_s);
  }

  Status run();

 private:
  Status capture_place(const CapturePlace& place);
  Status capture_name(const std::string& why);
  Result<PcapngWriter> open_writer(const std::vector<std::string>& names, CaptureContent content);
  Status copy(PcapngWriter& out, CaptureRing& ring, const CapturePlace& place,
              const std::vector<CapturedFrame>& early);

  const CaptureOptions& options_;
  CapturedFabric& fabric_;
  control::ControlClient client_;
  CopyLimits limits_;
};

Result<PcapngWriter> CaptureRun::open_writer(const std::vector<std::string>& names, CaptureContent content) {
  Result<UniqueFd> fd = open_output(options_.output);
  if (!fd.ok()) return fd.error();
  PcapngWriter out(std::move(fd).value(), names, content, options_.keep);
  out.flush();  // the reader may wait for the start of the file
  return out;
}

Status CaptureRun::copy(PcapngWriter& out, CaptureRing& ring, const CapturePlace& place,
                        const std::vector<CapturedFrame>& early) {
  const uint32_t cell_payload = fabric_.dir.load().cell_payload;
  CaptureCopier copier(out, place, limits_,
                       cell_payload == 0 ? fabric::kCellPayloadBytesDefault : cell_payload);
  copier.take_early(early);
  Status done = copier.run(ring, fabric_.dir);
  std::string summary = fmt::format("{} {} captured", copier.written(), content_word(place.content));
  if (ring.dropped() != 0)
    summary += fmt::format(", {} {} missed: they came faster than they could be written", ring.dropped(),
                           place.content == CaptureContent::kFrames ? "more" : "cells");
  if (copier.node_ended()) summary += fmt::format("; '{}' has ended", place.node.name);
  say(summary + "\n");
  return done;
}

/// Captures a known place. Cells to be translated must be kept whole, so --snaplen then only limits the
/// output.
Status CaptureRun::capture_place(const CapturePlace& place) {
  const bool packets = place.content == CaptureContent::kPackets;
  Result<RunningCapture> capture =
      RunningCapture::start(client_, fabric_.dir,
                            {.taker = place.taker,
                             .interface = place.interface,
                             .keep = packets ? 0 : options_.keep,
                             .ring_bytes = place.content == CaptureContent::kFrames ? 0 : kCellRingBytes});
  if (!capture.ok()) return capture.error();
  Result<PcapngWriter> out = open_writer(place.names, place.content);
  if (!out.ok()) return out.error();
  return copy(*out, capture->ring(), place, {});
}

/// Captures a program that has not started. `why`: the error that no program has this name.
Status CaptureRun::capture_name(const std::string& why) {
  Result<NameWait> wait = NameWait::start(client_, fabric_.dir, options_.wish);
  if (!wait.ok()) return Error{why};
  Result<PcapngWriter> out = open_writer({options_.wish.target}, options_.wish.cell_content());
  if (!out.ok()) return out.error();
  say(fmt::format("weft capture: {}; waiting for a program of that name, Ctrl-C ends the capture\n", why));
  while (!interrupted && MonotonicClock().now() < limits_.end) {
    Result<std::optional<Arrival>> arrival = wait->look(client_, fabric_.dir);
    if (!arrival.ok()) return arrival.error();
    if (arrival->has_value()) {
      RunningCapture capture = wait->take_capture(**arrival);
      return copy(*out, capture.ring(), (*arrival)->place, (*arrival)->early);
    }
    std::this_thread::sleep_for(kCaptureLookAgain);
  }
  say(fmt::format("0 {} captured\n", content_word(options_.wish.cell_content())));
  return {};
}

Status CaptureRun::run() {
  Result<CapturePlace> place = find_capture_place(client_, fabric_.dir, options_.wish);
  if (place.ok()) return capture_place(*place);
  const RunRecord record = fabric_.dir.load();
  const bool is_port = options_.wish.target.find(':') != std::string::npos;
  if (is_port || chosen_node(record, options_.wish.target).ok()) return place.error();
  return capture_name(place.error().text);
}

int run(const CaptureOptions& options) {
  Result<CapturedFabric> fabric = captured_fabric(options.fabric);
  if (!fabric.ok()) return failure("capture", fabric.error().text);
  signal(SIGINT, [](int) { interrupted = true; });
  signal(SIGTERM, [](int) { interrupted = true; });
  signal(SIGPIPE, SIG_IGN);  // the failing write reports it
  const Status done = CaptureRun(options, *fabric).run();
  return done.ok() ? kExitDone : failure("capture", done.error().text);
}

}  // namespace

int command_capture(const Arguments& arguments) {
  CaptureOptions options;
  CommandLine line(
      "weft capture", "weft capture [options] NODE [-o FILE.pcapng]",
      "Writes the traffic of a node to a pcapng file, or to standard output for another program, until the "
      "node ends or Ctrl-C.\nFor a program or a port SWITCH:NUMBER: its cells, translated to RoCE v2 packets "
      "for Wireshark and tshark. If the program has\nnot started, the command waits for it; if no fabric "
      "runs, it starts the default fabric of weft run. For a host\nor unit: the Ethernet frames of its "
      "interfaces; a GSO frame appears as one large frame. If the reader is slow, the\ncapture loses frames, "
      "the fabric does not.\n  weft capture NAME | tshark -r -");
  line.text("fabric,f", "NAME", options.fabric, "which fabric, when several run");
  line.text("output,o", "FILE", options.output,
            "output file; - is standard output (the default, if that is no terminal)");
  line.text("interface,i", "NAME", options.wish.interface, "only this interface of the node (all)");
  line.flag("packets", options.wish.packets, "for a host or unit: RoCE packets at its switch, not frames");
  line.flag("cells", options.wish.cells, "cells in Weft's own format, not frames or packets");
  line.number("count,c", "N", options.count, 0, UINT64_MAX, "ends after this many frames");
  line.number("duration,t", "SECONDS", options.duration_s, 0, 1'000'000, "ends after this time");
  line.number("snaplen,s", "BYTES", options.keep, 0, 65'535, "keeps at most this many bytes of each frame");
  line.words("NODE", options.node, 1, 1);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  if (options.output.empty() && isatty(STDOUT_FILENO) == 1)
    return line.wrong_use(
        "standard output is a terminal: name a file with -o FILE.pcapng, or add a pipe: weft capture NAME | "
        "tshark -r -");
  options.wish.target = options.node.front();
  return run(options);
}

}  // namespace weft::tools
