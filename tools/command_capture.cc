// weft capture: asks a driver half to copy its frames into a ring, or a switch the cells of a port, and makes
// a pcapng file of them.
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
#include "base/parse_number.h"
#include "control/control_client.h"
#include "tools/command.h"
#include "tools/pcapng_writer.h"
#include "tools/program_list.h"

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
  bool cells = false;
};

/// What is captured, and by whom.
struct CapturePlace {
  RecordedProcess node;            // the capture ends with it
  std::string taker;               // the process that takes the copies
  std::string interface;           // of the taker; empty: all
  std::vector<std::string> names;  // of the interfaces, as the file has them
  uint32_t first = 0;              // the taker's number of the first of them
  CaptureContent content = CaptureContent::kFrames;
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
    return Error{
        fmt::format("no frames pass through node '{}'; capture a host, a unit, a program or a port, "
                    "as {}:1",
                    node, node)};
  return names;
}

/// The cells of one port of a switch.
CapturePlace cells_at(const RecordedProcess& node, const std::string& switch_name, uint32_t port) {
  return {node, switch_name, std::to_string(port), {node.name}, port - 1, CaptureContent::kCells};
}

/// The port that a node of the topology, or a program, is on.
Result<CapturePlace> cells_of(control::ControlClient& client, const StateDir& dir, const RunRecord& record,
                              const RecordedProcess& node) {
  for (const RecordedPort& port : record.ports)
    if (port.peer == node.name) return cells_at(node, port.node, port.number);
  Result<SpareView> view = look_at_spare_ports(client, dir, record);
  if (!view.ok()) return view.error();
  for (const ProgramNode& program : running_programs(dir)) {
    if (program.name != node.name) continue;
    for (const Guest& guest : view->guests)
      if (guest.guid == program.guid) return cells_at(node, guest.node, guest.port);
  }
  return Error{fmt::format("'{}' is on no port of a switch now", node.name)};
}

/// SWITCH:PORT, a node of the topology, or a program.
Result<CapturePlace> chosen_place(control::ControlClient& client, const StateDir& dir,
                                  const CaptureOptions& options) {
  const std::string& target = options.node[0];
  const RunRecord record = dir.load();
  const size_t colon = target.rfind(':');
  if (colon != std::string::npos) {
    Result<RecordedProcess> node = chosen_node(record, target.substr(0, colon));
    if (!node.ok()) return node.error();
    const auto port = parse_number<uint32_t>(target.substr(colon + 1));
    if (node->program != "weft-switch" || !port || *port == 0)
      return Error{fmt::format("'{}' is no port: name one as SWITCH:NUMBER", target)};
    CapturePlace place = cells_at(*node, node->name, *port);
    place.names = {target};
    return place;
  }
  Result<RecordedProcess> node = chosen_process(dir, record, target);
  if (!node.ok()) return node.error();
  const bool listed = chosen_node(record, target).ok();
  if (!listed || options.cells) return cells_of(client, dir, record, *node);
  Result<std::vector<std::string>> names = interfaces_of(client, dir.file(target + ".ctl"), target);
  if (!names.ok()) return names.error();
  return CapturePlace{*node, target, options.interface, *names, 0, CaptureContent::kFrames};
}

/// Reads the ring into the file until the count, the time or Ctrl-C.
class Copier {
 public:
  Copier(CaptureRing& ring, PcapngWriter& out, const CapturePlace& place, const CaptureOptions& options)
      : ring_(ring), out_(out), place_(place), options_(options) {}

  Status run();
  [[nodiscard]] uint64_t frames() const { return frames_; }

 private:
  [[nodiscard]] bool time_is_up(Instant now) const { return interrupted || now >= end_; }
  void say_that_we_wait(Instant now);
  /// Of a program whose number is not known here nobody can say so.
  [[nodiscard]] bool has_ended() const {
    return place_.node.pid != 0 && !is_running(place_.node.pid, place_.node.start_ticks);
  }

  CaptureRing& ring_;
  PcapngWriter& out_;
  const CapturePlace& place_;
  const CaptureOptions& options_;
  Instant end_ = kNever;
  Instant silent_at_ = kNever;
  uint64_t frames_ = 0;
};

/// Once: who captures an idle interface should not think that the tool hangs.
void Copier::say_that_we_wait(Instant now) {
  if (now < silent_at_) return;
  silent_at_ = kNever;
  const std::string line = fmt::format(
      "weft capture: {} at node '{}'; waiting, Ctrl-C ends the capture\n",
      frames_ == 0 ? fmt::format("no {} pass", content_word(place_.content))
                   : fmt::format("{} {}, and no more pass now", frames_, content_word(place_.content)),
      place_.node.name);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

Status Copier::run() {
  const MonotonicClock clock;
  if (options_.duration_s != 0) end_ = clock.now() + std::chrono::seconds(options_.duration_s);
  Instant life_check = clock.now() + kLifeCheck;
  silent_at_ = clock.now() + kSilence;
  CapturedFrame frame;
  while (options_.count == 0 || frames_ < options_.count) {
    switch (ring_.read(frame)) {
      case CaptureRing::ReadResult::kFrame:
        frame.port -= place_.first;
        if (frame.port >= place_.names.size()) return Error{"the capture ring is damaged"};
        if (!out_.frame(frame)) return Error{"cannot write " + options_.output};
        ++frames_;
        if (silent_at_ != kNever) silent_at_ = clock.now() + kSilence;
        break;
      case CaptureRing::ReadResult::kEmpty:
        if (time_is_up(clock.now())) return {};
        out_.flush();
        say_that_we_wait(clock.now());
        if (clock.now() >= life_check && has_ended())
          return Error{fmt::format("node '{}' has ended, and the capture with it", place_.node.name)};
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
int copy_frames(CaptureRing& ring, const CapturePlace& place, const CaptureOptions& options) {
  PcapngWriter out(options.output == "-" ? "/dev/stdout" : options.output, place.names, place.content);
  if (!out.good()) return failure("capture", errno_error("cannot create " + options.output, errno).text);
  Copier copier(ring, out, place, options);
  const Status done = copier.run();
  out.flush();
  std::string summary = fmt::format("{} {} captured", copier.frames(), content_word(place.content));
  if (ring.dropped() != 0)
    summary += fmt::format(", {} more missed: they came faster than they could be written", ring.dropped());
  summary += '\n';
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, summary.data(), summary.size());
  return done.ok() ? kExitDone : failure("capture", done.error().text);
}

int run(const CaptureOptions& options) {
  Result<StateDir> dir = chosen_fabric(options.fabric);
  if (!dir.ok()) return failure("capture", dir.error().text);
  control::ControlClient client;
  Result<CapturePlace> place = chosen_place(client, dir.value(), options);
  if (!place.ok()) return failure("capture", place.error().text);
  const std::string control = dir.value().file(place->taker + ".ctl");
  signal(SIGINT, [](int) { interrupted = true; });
  signal(SIGTERM, [](int) { interrupted = true; });

  control::ControlRequest request;
  request.action = control::ControlAction::kCaptureStart;
  request.capture = {dir.value().file(fmt::format("{}.capture.{}", place->taker, getpid())), options.keep, 0,
                     place->interface, static_cast<uint32_t>(getpid())};
  if (Result<control::ControlReply> reply = client.ask(control, request, kAnswerTimeout); !reply.ok())
    return failure("capture", reply.error().text);
  Result<CaptureRing> ring = CaptureRing::open(request.capture.path);
  unlink(request.capture.path.c_str());
  const int code =
      ring.ok() ? copy_frames(ring.value(), *place, options) : failure("capture", ring.error().text);
  request.action = control::ControlAction::kCaptureStop;
  (void)client.ask(control, request, kAnswerTimeout).ok();
  return code;
}

}  // namespace

int command_capture(const Arguments& arguments) {
  CaptureOptions options;
  CommandLine line("weft capture", "weft capture [options] NODE -o FILE.pcapng",
                   "Writes the Ethernet frames that pass the interfaces of a host or unit, both ways, to a "
                   "pcapng file until "
                   "Ctrl-C. GSO frames\nappear as the one large frame they are. Of a program, a port "
                   "SWITCH:NUMBER, and with "
                   "--cells of a host or unit, too,\nit writes the cells that pass its switch. A slow disk "
                   "makes frames drop "
                   "from the capture, never from the fabric.");
  line.text("fabric,f", "NAME", options.fabric, "which one, when several run");
  line.text("output,o", "FILE", options.output, "where to; - is standard output");
  line.text("interface,i", "NAME", options.interface, "only this one of the node's interfaces (all)");
  line.flag("cells", options.cells, "of a host or unit: cells at its switch, not frames");
  line.number("count,c", "N", options.count, 0, UINT64_MAX, "ends after so many frames");
  line.number("duration,t", "SECONDS", options.duration_s, 0, 1'000'000, "ends after so long");
  line.number("snaplen,s", "BYTES", options.keep, 0, 65'535, "keeps only so much of each frame");
  line.words("NODE", options.node, 1, 1);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  if (options.output.empty()) return line.wrong_use("the file is missing: -o FILE.pcapng");
  return run(options);
}

}  // namespace weft::tools
