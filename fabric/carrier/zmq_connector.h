// fabric/carrier/zmq_connector.h -- the endnode's side of ZeroMQ links: a DEALER that sends HELLO until a
// switch answers with WELCOME, and again whenever the connection is lost (decisions 2.10).
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/rng.h"
#include "fabric/carrier/curve_keys.h"
#include "fabric/link/link_engine.h"
#include "fabric/link/link_handshake.h"

namespace weft::fabric {

struct ZmqConnectorConfig {
  LinkConfig link;
  std::string endpoint;           // ipc://PATH or tcp://HOST:PORT
  CurveKeyPair own_keys;          // empty: no CURVE
  std::string server_public_key;  // empty: no CURVE
  Duration silence{};             // 0: by endpoint
};

/// Without keys a tcp endpoint that is not loopback is refused. `random` must outlive the connector.
Result<std::unique_ptr<LinkSupervisor>> make_zmq_connector(const ZmqConnectorConfig& config,
                                                           RandomSource& random);

}  // namespace weft::fabric
