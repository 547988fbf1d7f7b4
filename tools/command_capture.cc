// weft capture: asks a driver half to copy its frames into a ring, and makes a pcapng file of them.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <optional>
#include <thread>

#include "base/capture_ring.h"
#include "base/command_line.h"
#include "control/control_client.h"
#include "tools/command.h"
#include "tools/pcapng_writer.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kAnswerTimeout = 3s;
constexpr Duration kLifeCheck = 200ms;
constexpr Duration kSilence = 1s;  // after so long without a frame we say that we wait

std::atomic<bool> interrupted{false};

struct CaptureOptions {
  std::string fabric;
  std::string output;
  std::string interface;
  Arguments node;
  uint64_t count = 0;
  uint32_t keep = 0;
  uint32_t duration_s = 0;
};

/// The names of a node's interfaces, with the node's own before them: a file may hold several nodes one day.
Result<std::vector<std::string>> interfaces_of(control::ControlClient& client, const std::string& control,
                                               const std::string& node) {
  Result<control::ControlReply> reply = client.ask(control, {}, kAnswerTimeout);
  if (!reply.ok()) return reply.error();
  std::vector<std::string> names;
  for (const std::string& name : reply.value().info.interfaces)
    names.push_back(fmt::format("{}:{}", node, name));
  if (names.empty())
    return Error{fmt::format("no frames pass through node '{}'; capture a host or a unit", node)};
  return names;
}

/// Reads the ring into the file until the count, the time or Ctrl-C.
class Copier {
 public:
  Copier(CaptureRing& ring, PcapngWriter& out, size_t interfaces, const CaptureOptions& options)
      : ring_(ring), out_(out), interfaces_(interfaces), options_(options) {}

  Status run(const RecordedProcess& node);
  [[nodiscard]] uint64_t frames() const { return frames_; }

 private:
  [[nodiscard]] bool time_is_up(Instant now) const { return interrupted || now >= end_; }
  void say_that_we_wait(const RecordedProcess& node, Instant now);

  CaptureRing& ring_;
  PcapngWriter& out_;
  size_t interfaces_;
  const CaptureOptions& options_;
  Instant end_ = kNever;
  Instant silent_at_ = kNever;
  uint64_t frames_ = 0;
};

/// Once: who captures an idle interface should not think that the tool hangs.
void Copier::say_that_we_wait(const RecordedProcess& node, Instant now) {
  if (now < silent_at_) return;
  silent_at_ = kNever;
  const std::string line = fmt::format(
      "weft capture: {} at node '{}'; waiting, Ctrl-C ends the capture\n",
      frames_ == 0 ? "no frames pass" : fmt::format("{} frames, and no more pass now", frames_), node.name);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

Status Copier::run(const RecordedProcess& node) {
  const MonotonicClock clock;
  if (options_.duration_s != 0) end_ = clock.now() + std::chrono::seconds(options_.duration_s);
  Instant life_check = clock.now() + kLifeCheck;
  silent_at_ = clock.now() + kSilence;
  CapturedFrame frame;
  while (options_.count == 0 || frames_ < options_.count) {
    switch (ring_.read(frame)) {
      case CaptureRing::ReadResult::kFrame:
        if (frame.port >= interfaces_) return Error{"the capture ring is damaged"};
        if (!out_.frame(frame)) return Error{"cannot write " + options_.output};
        ++frames_;
        if (silent_at_ != kNever) silent_at_ = clock.now() + kSilence;
        break;
      case CaptureRing::ReadResult::kEmpty:
        if (time_is_up(clock.now())) return {};
        out_.flush();
        say_that_we_wait(node, clock.now());
        if (clock.now() >= life_check && !is_running(node.pid, node.start_ticks))
          return Error{fmt::format("node '{}' has ended, and the capture with it", node.name)};
        if (clock.now() >= life_check) life_check = clock.now() + kLifeCheck;
        std::this_thread::sleep_for(5ms);
        break;
      case CaptureRing::ReadResult::kBroken:
        return Error{"the capture ring is damaged"};
    }
  }
  return {};
}

/// The capture itself, from the open ring to the summary.
int copy_frames(CaptureRing& ring, const RecordedProcess& node, const std::vector<std::string>& names,
                const CaptureOptions& options) {
  PcapngWriter out(options.output == "-" ? "/dev/stdout" : options.output, names);
  if (!out.good()) return failure("capture", errno_error("cannot create " + options.output, errno).text);
  Copier copier(ring, out, names.size(), options);
  const Status done = copier.run(node);
  out.flush();
  std::string summary = fmt::format("{} frames captured", copier.frames());
  if (ring.dropped() != 0)
    summary += fmt::format(", {} more missed: they came faster than they could be written", ring.dropped());
  summary += '\n';
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, summary.data(), summary.size());
  return done.ok() ? kExitDone : failure("capture", done.error().text);
}

int run(const CaptureOptions& options) {
  Result<StateDir> dir = chosen_fabric(options.fabric);
  if (!dir.ok()) return failure("capture", dir.error().text);
  Result<RecordedProcess> node = chosen_node(dir.value().load(), options.node[0]);
  if (!node.ok()) return failure("capture", node.error().text);
  const std::string& name = node.value().name;
  const std::string control = dir.value().file(name + ".ctl");
  control::ControlClient client;
  Result<std::vector<std::string>> names = interfaces_of(client, control, name);
  if (!names.ok()) return failure("capture", names.error().text);
  signal(SIGINT, [](int) { interrupted = true; });
  signal(SIGTERM, [](int) { interrupted = true; });

  control::ControlRequest request;
  request.action = control::ControlAction::kCaptureStart;
  request.capture = {dir.value().file(fmt::format("{}.capture.{}", name, getpid())), options.keep, 0,
                     options.interface, static_cast<uint32_t>(getpid())};
  if (Result<control::ControlReply> reply = client.ask(control, request, kAnswerTimeout); !reply.ok())
    return failure("capture", reply.error().text);
  Result<CaptureRing> ring = CaptureRing::open(request.capture.path);
  unlink(request.capture.path.c_str());
  const int code = ring.ok() ? copy_frames(ring.value(), node.value(), names.value(), options)
                             : failure("capture", ring.error().text);
  request.action = control::ControlAction::kCaptureStop;
  (void)client.ask(control, request, kAnswerTimeout).ok();
  return code;
}

}  // namespace

int command_capture(const Arguments& arguments) {
  CaptureOptions options;
  CommandLine line(
      "weft capture", "weft capture [options] NODE -o FILE.pcapng",
      "Writes the Ethernet frames that pass the interfaces of a host or unit, both ways, to a pcapng file "
      "until "
      "Ctrl-C. GSO frames\nappear as the one large frame they are. A slow disk makes frames drop from "
      "the capture, never from the fabric.");
  line.text("fabric,f", "NAME", options.fabric, "which one, when several run");
  line.text("output,o", "FILE", options.output, "where to; - is standard output");
  line.text("interface,i", "NAME", options.interface, "only this one of the node's interfaces (all)");
  line.number("count,c", "N", options.count, 0, UINT64_MAX, "ends after so many frames");
  line.number("duration,t", "SECONDS", options.duration_s, 0, 1'000'000, "ends after so long");
  line.number("snaplen,s", "BYTES", options.keep, 0, 65'535, "keeps only so much of each frame");
  line.words("NODE", options.node, 1, 1);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  if (options.output.empty()) return line.wrong_use("the file is missing: -o FILE.pcapng");
  return run(options);
}

}  // namespace weft::tools
