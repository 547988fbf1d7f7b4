// fabric/switch/zap_handler.h -- who ZeroMQ lets in: the switch's answer to its context's authentication
// requests (ZAP, RFC 27). A key stands for a node by name; everybody else is refused and counted.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "fabric/carrier/curve_keys.h"
#include "fabric/carrier/zmq_socket.h"
#include "fabric/switch/admission.h"

namespace weft::fabric {

inline constexpr Duration kRefusalLogInterval = std::chrono::seconds(5);

/// Owner: the switch's thread.
class ZapHandler {
 public:
  /// Must exist before a socket of `context` listens. Unknown keys are counted in `counters` and logged with
  /// the address they came from, at most once in kRefusalLogInterval.
  static Result<std::unique_ptr<ZapHandler>> create(const std::shared_ptr<ZmqContext>& context,
                                                    std::vector<CurveAllowed> allowed,
                                                    CounterSet<AdmissionCounter>& counters);
  /// Answers what waits, at most a few requests a call.
  void pump(Instant now) noexcept;
  void wait_fds(std::vector<pollfd>& out) const { out.push_back({socket_->fd(), POLLIN, 0}); }
  [[nodiscard]] bool quiet() const noexcept { return !socket_->readable(); }

 private:
  ZapHandler(std::unique_ptr<ZmqSocket> socket, std::vector<CurveAllowed> allowed,
             CounterSet<AdmissionCounter>& counters);
  [[nodiscard]] const CurveAllowed* find(std::span<const std::byte> key) const;
  void refuse(std::span<const std::byte> address, std::span<const std::byte> key, Instant now) noexcept;
  void answer(std::span<const std::byte> request_id, const CurveAllowed* node) noexcept;

  std::unique_ptr<ZmqSocket> socket_;
  std::vector<CurveAllowed> allowed_;
  std::unordered_map<std::string, size_t> by_key_;  // 32 bytes, not their text
  CounterSet<AdmissionCounter>& counters_;
  LogLimiter limiter_{kRefusalLogInterval};
};

}  // namespace weft::fabric
