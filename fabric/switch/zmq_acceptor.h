// fabric/switch/zmq_acceptor.h -- the switch's side of ZeroMQ links: one ROUTER per endpoint serves all nodes
// that connect there (decisions 2.10). A connection is known by the identity that the ROUTER assigns. What
// comes under an identity of another form, which the peer has chosen, is refused.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/pollable.h"
#include "base/result.h"
#include "fabric/carrier/curve_keys.h"
#include "fabric/switch/admission.h"

namespace weft::fabric {

struct ZmqAcceptorConfig {
  std::vector<std::string> endpoints;  // ipc://PATH or tcp://ADDR:PORT
  CurveKeyPair keys;                   // empty: no CURVE
  std::vector<CurveAllowed> allowed;   // keys that may join
  Duration silence{};                  // 0: by endpoint
};

enum class ZmqAcceptorCounter : uint8_t {
  kBursts,
  kStaleNonce,    // burst of another incarnation
  kUnknownPeer,   // burst of a connection that has sent no HELLO
  kMalformed,     // neither burst nor handshake
  kSendsRefused,  // ZeroMQ's queue was full, or the peer gone; the flits are repeated
  kCount,
};
[[nodiscard]] constexpr CounterNames<ZmqAcceptorCounter> counter_labels(ZmqAcceptorCounter /*of*/) noexcept {
  return {"bursts", "stale_nonce", "unknown_peer", "malformed", "sends_refused"};
}

/// Owner: the switch's thread. Must be polled before the switch.
class ZmqAcceptor : public Pollable {
 public:
  /// Checks the form of each endpoint, and that an endpoint reachable from other machines has keys.
  static Status check_endpoints(const std::vector<std::string>& endpoints, bool keys);
  /// Listens. Refuses a tcp endpoint that is not loopback without keys. The directory of an ipc path must
  /// belong to this user and be closed to others. `admission` must outlive the acceptor.
  static Result<std::unique_ptr<ZmqAcceptor>> create(const ZmqAcceptorConfig& config, Admission& admission);
  [[nodiscard]] virtual CounterSet<ZmqAcceptorCounter>& counters() noexcept = 0;
};

}  // namespace weft::fabric
