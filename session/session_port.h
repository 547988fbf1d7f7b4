// session/session_port.h -- QP1 of one port and its agent of connection management, shared by the sessions
// and the acceptor of the port. Each of these has a mailbox, from which it takes its messages in its own
// turn.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "adapter/adapter.h"
#include "base/result.h"
#include "management/dispatcher.h"
#include "management/mad_queue_pair.h"
#include "messages/session_mad.h"

namespace weft::session {

/// A decoded message and its source LID.
struct SessionDatagram {
  SessionMad message;
  Lid lid;
};

enum class SessionReceive : uint8_t { kNone, kMessage, kMalformed };

class SessionMailbox;

/// Owner: the adapter's thread.
class SessionPort final : private management::MadHandler {
 public:
  SessionPort(adapter::ChannelAdapter& adapter, uint8_t port);
  SessionPort(const SessionPort&) = delete;
  SessionPort& operator=(const SessionPort&) = delete;

  /// Creates QP1. Does nothing if the port is open.
  Status open() noexcept;
  [[nodiscard]] bool is_open() const noexcept { return gsi_.is_open(); }
  /// False if the message could not be sent. Fills in the fields that only the port knows.
  bool send(SessionMad message, Lid to, ServiceLevel sl) noexcept;

 private:
  friend class SessionMailbox;
  /// Distributes the arrived messages to the mailboxes.
  void collect(Instant now) noexcept;
  void on_mad(const management::MadArrival& mad) noexcept override;
  void refuse_service(Lid to, uint64_t transaction, uint32_t asker_id) noexcept;
  [[nodiscard]] bool has_listener() const noexcept;

  adapter::ChannelAdapter& adapter_;
  uint8_t number_;
  management::MadQueuePair gsi_;
  management::Dispatcher dispatcher_;
  std::vector<SessionMailbox*> mailboxes_;
};

/// The messages for one host session, or for the acceptor. Lives as long as its owner, at most as its port.
class SessionMailbox {
 public:
  /// @param peer  the only LID whose messages are wanted; kLidNone: the acceptor's, which takes all
  SessionMailbox(SessionPort& port, Lid peer);
  ~SessionMailbox();
  SessionMailbox(const SessionMailbox&) = delete;
  SessionMailbox& operator=(const SessionMailbox&) = delete;

  /// Takes one message. kMalformed: it was a connection management message that does not decode as a
  /// session's.
  [[nodiscard]] SessionReceive receive(Instant now, SessionDatagram& out) noexcept;

 private:
  friend class SessionPort;
  /// Equals the receive slots of QP1.
  static constexpr size_t kPlaces = 64;
  struct Place {
    SessionReceive what = SessionReceive::kNone;
    SessionDatagram datagram;
  };
  [[nodiscard]] bool wants(Lid from) const noexcept { return peer_ == kLidNone || peer_ == from; }
  void put(SessionReceive what, const SessionDatagram& datagram) noexcept;

  SessionPort& port_;
  Lid peer_;
  std::vector<Place> places_;
  size_t first_ = 0;
  size_t count_ = 0;
};

/// The ports of an adapter. Outlives the sessions, and the adapter outlives it.
class SessionPorts {
 public:
  explicit SessionPorts(adapter::ChannelAdapter& adapter) : adapter_(adapter) {}

  [[nodiscard]] adapter::ChannelAdapter& adapter() const noexcept { return adapter_; }
  [[nodiscard]] SessionPort& at(uint8_t port);

 private:
  adapter::ChannelAdapter& adapter_;
  std::map<uint8_t, std::unique_ptr<SessionPort>> ports_;
};

}  // namespace weft::session
