#include "base/net/capture_set.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/words.h"

namespace weft {

Status CaptureSet::start(const CaptureRequest& request) {
  std::vector<std::string> names;
  for (const CapturePoint* port : ports_) names.push_back(port->name());
  if (!request.interface.empty() && std::find(names.begin(), names.end(), request.interface) == names.end())
    return Error{
        fmt::format("there is no interface '{}'{}", request.interface, choices(request.interface, names))};
  forget_the_dead();
  if (captures_.size() == kCapturesMax)
    return Error{
        fmt::format("{} captures run here already, as many as there may be; end one of the processes {}",
                    captures_.size(), readers())};
  Result<CaptureRing> ring = CaptureRing::create(request.path, request.ring_bytes);
  if (!ring.ok()) return ring.error();
  captures_.push_back({request.path, request.reader, std::make_shared<CaptureRing>(std::move(ring).value())});
  for (uint32_t i = 0; i < ports_.size(); ++i) {
    if (request.interface.empty() || names[i] == request.interface)
      ports_[i]->start_capture(captures_.back().ring, i, request.frame_bytes_max);
  }
  return {};
}

void CaptureSet::stop(const std::string& path) noexcept {
  std::erase_if(captures_, [this, &path](const Capture& capture) {
    if (capture.path != path) return false;
    detach(capture);
    return true;
  });
}

void CaptureSet::detach(const Capture& capture) noexcept {
  for (CapturePoint* port : ports_) port->stop_capture(*capture.ring);
}

/// Ends captures whose reader was killed, with the ring's file if it had no time to remove it.
void CaptureSet::forget_the_dead() {
  std::erase_if(captures_, [this](const Capture& capture) {
    if (kill(capture.reader, 0) == 0 || errno != ESRCH) return false;
    detach(capture);
    unlink(capture.path.c_str());
    return true;
  });
}

std::string CaptureSet::readers() const {
  std::vector<std::string> pids;
  for (const Capture& capture : captures_) pids.push_back(std::to_string(capture.reader));
  return joined(pids);
}

}  // namespace weft
