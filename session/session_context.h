// session/session_context.h -- state that the parts of a session object share: the peer, the agreed settings,
// the time of this turn, counters and the driver half. Lives as long as the session object.
#pragma once

#include <algorithm>
#include <optional>
#include <string_view>

#include "adapter/adapter.h"
#include "base/counters.h"
#include "base/log.h"
#include "base/rng.h"
#include "messages/netdev_capnp.h"
#include "session/netdev_session.h"
#include "session/session_counters.h"
#include "session/session_port.h"

namespace weft::session {

/// Smallest values an opening may name: an Ethernet frame without padding, and a slot that holds every
/// message but SendData.
inline constexpr uint32_t kSessionFrameBytesMin = 60;
inline constexpr uint32_t kSessionMessageBytesMin = 4096;
/// vnet header and Ethernet header: no frame is shorter.
inline constexpr uint32_t kInnerFrameBytesMin = kVnetBytes + kEthernetHeaderBytes;

struct SessionContext {
  SessionContext(NetdevSession& owner, const SessionConfig& wanted, SessionPorts& its_ports,
                 RandomSource& source)
      : self(owner), config(wanted), ports(its_ports), adapter(its_ports.adapter()), random(source) {}

  [[nodiscard]] bool is_host() const noexcept { return config.role == SessionRole::kHost; }
  [[nodiscard]] bool rdma() const noexcept { return peer.mode == TransferMode::kRdma; }
  void count(SessionCounter counter, uint64_t amount = 1) noexcept { counters.add(counter, amount); }

  NetdevSession& self;
  SessionConfig config;
  SessionPorts& ports;
  adapter::ChannelAdapter& adapter;
  RandomSource& random;
  SessionEvents* events = nullptr;
  CounterSet<SessionCounter> counters;
  CounterSet<SessionGauge> gauges;
  NetdevCapnp codec{std::max<uint32_t>(16384, 2 * kJumboFrameBytes)};
  LogLimiter message_log{std::chrono::seconds(1)};
  Instant now{};
  SessionState state = SessionState::kIdle;  // written by the connection alone
  SessionPeer peer;                          // stays after the end, until the next opening
  uint32_t peer_message_bytes = 0;
  uint64_t next_message = 1;  // context of our next message, never given twice
};

/// Why an incarnation ends; the first reason counts. The part that finds a reason records it here and
/// finishes its stage; the connection destroys the incarnation at the end of the turn.
class IncarnationEnd {
 public:
  explicit IncarnationEnd(SessionContext& context) : context_(context) {}

  void lose(SessionCounter reason) noexcept;
  /// The peer broke `rule`: counted each time, ends the incarnation.
  void violation(SessionCounter rule) noexcept;

  [[nodiscard]] bool decided() const noexcept { return reason_.has_value(); }
  [[nodiscard]] SessionCounter reason() const noexcept { return *reason_; }
  [[nodiscard]] bool by_peers_fault() const noexcept { return peers_fault_; }

 private:
  SessionContext& context_;
  std::optional<SessionCounter> reason_;
  bool peers_fault_ = false;
};

}  // namespace weft::session
