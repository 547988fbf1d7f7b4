#include "tools/capture/capture_copier.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <thread>

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLifeCheck = 200ms;
constexpr Duration kSilence = 1s;  // after this time without a frame we print that we wait
constexpr Duration kPause = 5ms;

uint64_t wall_clock_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

}  // namespace

/// Prints once that the capture waits, so that an idle interface does not look like a hanging tool.
void CaptureCopier::say_that_we_wait(Instant now) {
  if (now < silent_at_) return;
  silent_at_ = kNever;
  const std::string line = fmt::format(
      "weft capture: {} at node '{}'; waiting, Ctrl-C ends the capture\n",
      written_ == 0 ? fmt::format("no {} yet", content_word(place_.content))
                    : fmt::format("{} {} so far, none now", written_, content_word(place_.content)),
      place_.node.name);
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

void CaptureCopier::write(const CapturedFrame& frame) {
  if (enough()) return;
  out_.frame(frame);
  ++written_;
}

void CaptureCopier::write_ready() {
  for (const CapturedFrame& frame : ready_) write(frame);
  ready_.clear();
}

void CaptureCopier::take(CapturedFrame& frame) {
  frame.port -= place_.first;
  if (frame.port >= place_.names.size()) return;  // belongs to another port of the same taker
  if (place_.content != CaptureContent::kPackets) return write(frame);
  translator_.take(frame, ready_);
  write_ready();
}

void CaptureCopier::take_early(const std::vector<CapturedFrame>& early) {
  for (CapturedFrame frame : early) take(frame);
}

/// Called while the ring is empty: writes frames that have waited long enough and sleeps. False when the
/// capture is to end.
bool CaptureCopier::rest(const StateDir& dir) {
  const Instant now = clock_.now();
  if (node_ended_ || *limits_.interrupted || now >= limits_.end) return false;
  translator_.idle(wall_clock_ns(), ready_);
  write_ready();
  if (!out_.flush()) return false;
  say_that_we_wait(now);
  if (now >= life_check_) {
    node_ended_ = has_ended(dir, place_);  // after that the ring is read once more
    life_check_ = now + kLifeCheck;
  }
  if (!node_ended_) std::this_thread::sleep_for(kPause);
  return true;
}

Status CaptureCopier::run(CaptureRing& ring, const StateDir& dir) {
  life_check_ = clock_.now() + kLifeCheck;
  silent_at_ = clock_.now() + kSilence;
  CapturedFrame frame;
  while (!enough()) {
    const CaptureRing::ReadResult result = ring.read(frame);
    if (result == CaptureRing::ReadResult::kBroken) return Error{"the capture ring is damaged"};
    if (result == CaptureRing::ReadResult::kEmpty) {
      if (!rest(dir)) break;
      continue;
    }
    const uint64_t before = written_;
    take(frame);
    if (silent_at_ != kNever && written_ != before) silent_at_ = clock_.now() + kSilence;
  }
  translator_.finish(ready_);
  write_ready();
  out_.flush();
  return output_state();
}

/// EPIPE is no failure: a reader such as `head` or `tshark -c` ends when it has enough.
Status CaptureCopier::output_state() const {
  if (out_.failure() == 0 || out_.failure() == EPIPE) return {};
  return errno_error("cannot write the capture", out_.failure());
}

}  // namespace weft::tools
