// fabric/carrier/link_connect.h -- makes the link of the joining end from an endpoint, for every kind of
// carrier. Endnodes join a switch; of two neighbouring switches one joins the other. The link comes up when
// the switch is there, and again each time the switch returns.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "base/rng.h"
#include "fabric/link/link_engine.h"
#include "fabric/link/link_handshake.h"

namespace weft::fabric {

struct LinkEndpointConfig {
  LinkConfig link;
  /// "shm:PATH" (socket of the switch), "ipc://PATH" or "tcp://HOST:PORT" (ZeroMQ).
  std::string endpoint;
  LinkTimers timers;
  std::string curve_secret_file;  // own secret key; CURVE when both files are given
  std::string curve_server_file;  // public key of the switch
  Duration silence{};             // ZeroMQ: silence that counts as death; 0: 1.5 s for ipc, 5 s for tcp
};

/// A link and its supervisor. Owner: one thread; the engine's poll() does the work.
class LinkConnection {
 public:
  explicit LinkConnection(const LinkTimers& timers, std::unique_ptr<LinkSupervisor> supervisor)
      : supervisor_(std::move(supervisor)), engine_(timers) {
    engine_.set_supervisor(supervisor_.get());
  }
  [[nodiscard]] LinkEngine& link() noexcept { return engine_; }
  /// See LinkSupervisor.
  [[nodiscard]] JoinTrouble trouble() const noexcept { return supervisor_->trouble(); }

 private:
  std::unique_ptr<LinkSupervisor> supervisor_;
  LinkEngine engine_;
};

/// A silence limit as topology files, command lines and WEFT_SILENCE have it: "2s", "1500ms". The error names
/// the range.
[[nodiscard]] Result<Duration> parse_silence(const std::string& text);

/// Checks the form of the endpoint, that an endpoint which leaves this machine has keys, and that the key
/// files hold keys.
Status check_link_endpoint(const LinkEndpointConfig& config);

/// Makes the supervisor of a link to the endpoint, for an engine that the caller owns. Nothing is connected
/// before the engine's first poll(). `random` gives the nonces and must outlive the supervisor. A wrong
/// endpoint, size or key file gives an error of one line.
Result<std::unique_ptr<LinkSupervisor>> make_connector(const LinkEndpointConfig& config,
                                                       RandomSource& random);

/// Checks the configuration and prepares the link. Nothing is connected before the first poll(). `random`
/// gives the nonces and must outlive the connection. A wrong endpoint, size or key file gives an error of one
/// line.
Result<std::unique_ptr<LinkConnection>> connect_link(const LinkEndpointConfig& config, RandomSource& random);

}  // namespace weft::fabric
