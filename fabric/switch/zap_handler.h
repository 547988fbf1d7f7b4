// fabric/switch/zap_handler.h -- answers the authentication requests of the switch's ZeroMQ context (ZAP, RFC
// 27). A known key is answered with the name of its node; every other key is refused and counted.
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
  /// Must be called before a socket of `context` listens. Unknown keys are counted in `counters`. They are
  /// logged with their source address, at most once per kRefusalLogInterval.
  static Result<std::unique_ptr<ZapHandler>> create(const std::shared_ptr<ZmqContext>& context,
                                                    std::vector<CurveAllowed> allowed,
                                                    CounterSet<AdmissionCounter>& counters);
  /// Answers waiting requests, at most kRequestsPerPump per call.
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
  std::unordered_map<std::string, size_t> by_key_;  // the 32 bytes of the key, not its text
  CounterSet<AdmissionCounter>& counters_;
  LogLimiter limiter_{kRefusalLogInterval};
};

}  // namespace weft::fabric
