// weft capture: asks a driver half to copy its frames into a ring, and makes a pcapng file of them.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <optional>
#include <thread>

#include "base/capture_ring.h"
#include "base/command_line.h"
#include "fabric/control_client.h"
#include "tools/command.h"
#include "tools/pcapng_writer.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

std::atomic<bool> interrupted{false};

struct CaptureOptions {
  std::string fabric;
  std::string output;
  Arguments node;
  uint64_t count = 0;
  uint32_t keep = 0;
  uint32_t duration_s = 0;
};

/// Reads the ring until the count, the time or Ctrl-C; the number of frames written.
Result<uint64_t> copy_frames(CaptureRing& ring, PcapngWriter& out, const CaptureOptions& options) {
  const Instant end =
      options.duration_s == 0 ? kNever : MonotonicClock().now() + std::chrono::seconds(options.duration_s);
  CapturedFrame frame;
  uint64_t frames = 0;
  while (options.count == 0 || frames < options.count) {
    switch (ring.read(frame)) {
      case CaptureRing::ReadResult::kFrame:
        if (!out.frame(frame)) return Error{"cannot write " + options.output};
        ++frames;
        break;
      case CaptureRing::ReadResult::kEmpty:
        if (interrupted || MonotonicClock().now() >= end) return frames;
        out.flush();
        std::this_thread::sleep_for(5ms);
        break;
      case CaptureRing::ReadResult::kBroken:
        return Error{"the capture ring is damaged"};
    }
  }
  return frames;
}

int run(const CaptureOptions& options) {
  Result<StateDir> dir = chosen_fabric(options.fabric);
  if (!dir.ok()) return failure("capture", dir.error().text);
  Result<RecordedProcess> node = chosen_node(dir.value().load(), options.node[0]);
  if (!node.ok()) return failure("capture", node.error().text);
  PcapngWriter out(options.output == "-" ? "/dev/stdout" : options.output, node.value().name);
  if (!out.good()) return failure("capture", errno_error("cannot create " + options.output, errno).text);
  signal(SIGINT, [](int) { interrupted = true; });
  signal(SIGTERM, [](int) { interrupted = true; });

  const std::string control = dir.value().file(node.value().name + ".ctl");
  const std::string path = dir.value().file(node.value().name + ".capture");
  ControlClient client;
  ControlRequest request;
  request.action = ControlAction::kCaptureStart;
  request.capture = {path, options.keep, 0};
  if (Result<ControlReply> reply = client.ask(control, request, 3s); !reply.ok())
    return failure("capture", reply.error().text);
  Result<CaptureRing> ring = CaptureRing::open(path);
  unlink(path.c_str());
  Result<uint64_t> frames =
      ring.ok() ? copy_frames(ring.value(), out, options) : Result<uint64_t>(ring.error());
  request.action = ControlAction::kCaptureStop;
  (void)client.ask(control, request, 3s).ok();
  if (!frames.ok()) return failure("capture", frames.error().text);
  out.flush();
  const std::string summary =
      fmt::format("{} frames, {} found no room\n", frames.value(), ring.value().dropped());
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, summary.data(), summary.size());
  return kExitDone;
}

}  // namespace

int command_capture(const Arguments& arguments) {
  CaptureOptions options;
  CommandLine line(
      "weft capture", "weft capture [options] NODE -o FILE.pcapng",
      "Writes the Ethernet frames that pass a host's or unit's driver, both ways, to a pcapng file until "
      "Ctrl-C. GSO frames appear\nas the one large frame they are. A slow disk makes frames drop from "
      "the capture, never from the fabric.");
  line.text("fabric,f", "NAME", options.fabric, "which one, when several run");
  line.text("output,o", "FILE", options.output, "where to; - is standard output");
  line.number("count,c", "N", options.count, 0, UINT64_MAX, "ends after so many frames");
  line.number("duration,t", "SECONDS", options.duration_s, 0, 1'000'000, "ends after so long");
  line.number("snaplen,s", "BYTES", options.keep, 0, 65'535, "keeps only so much of each frame");
  line.words("NODE", options.node, 1, 1);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  if (options.output.empty()) return line.wrong_use("the file is missing: -o FILE.pcapng");
  return run(options);
}

}  // namespace weft
