#include "tools/capture/running_capture.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

namespace weft::tools {
namespace {

constexpr Duration kCaptureTimeout = std::chrono::seconds(3);

}  // namespace

RunningCapture::RunningCapture(control::ControlClient& client, std::string taker, std::string control,
                               std::string path, CaptureRing ring)
    : client_(&client),
      taker_(std::move(taker)),
      control_(std::move(control)),
      path_(std::move(path)),
      ring_(std::make_unique<CaptureRing>(std::move(ring))) {}

Result<RunningCapture> RunningCapture::start(control::ControlClient& client, const StateDir& dir,
                                             const CaptureOrder& order) {
  const std::string control = dir.file(order.taker + ".ctl");
  control::ControlRequest request;
  request.action = control::ControlAction::kCaptureStart;
  request.capture = {dir.file(fmt::format("{}.capture.{}", order.taker, getpid())), order.keep,
                     order.ring_bytes, order.interface, static_cast<uint32_t>(getpid())};
  Result<control::ControlReply> reply = client.ask(control, request, kCaptureTimeout);
  if (!reply.ok()) return reply.error();
  Result<CaptureRing> ring = CaptureRing::open(request.capture.path);
  unlink(request.capture.path.c_str());
  if (!ring.ok()) return ring.error();
  return RunningCapture(client, order.taker, control, request.capture.path, std::move(ring).value());
}

RunningCapture::~RunningCapture() {
  if (ring_ == nullptr) return;  // moved from
  control::ControlRequest request;
  request.action = control::ControlAction::kCaptureStop;
  request.capture.path = path_;
  (void)client_->ask(control_, request, kCaptureTimeout).ok();
}

}  // namespace weft::tools
