// session/incoming_messages.h -- hands each of the nine messages to the parts of an incarnation that it
// concerns.
#pragma once

#include <span>

#include "session/control_channel.h"
#include "session/inbound.h"
#include "session/outbound.h"
#include "session/peer_watch.h"
#include "session/pool_flush.h"
#include "session/session_context.h"
#include "session/transactions.h"

namespace weft::session {

/// The owner of an incarnation.
class IncarnationOwner {
 public:
  /// A pool of the peer is known: frames may move. Comes with every advertisement.
  virtual void on_peers_pool() noexcept = 0;

 protected:
  ~IncarnationOwner() = default;
};

/// Owner: the session's thread. All references are parts of one incarnation, or outlive it.
class IncomingMessages {
 public:
  struct Parts {
    IncarnationOwner& owner;
    IncarnationEnd& end;
    ControlChannel& control;
    Outbound& outbound;
    Inbound& inbound;
    Transactions& transactions;
    PoolFlush& flush;
    PeerWatch& watch;
  };
  IncomingMessages(SessionContext& context, const Parts& parts) : context_(context), parts_(parts) {}

  /// Handles one message, in place in its receive slot.
  void take(std::span<const std::byte> bytes) noexcept;

 private:
  void handle(uint64_t context, const BufferRecvPool& body) noexcept;
  void handle(uint64_t context, const BufferRecvPoolGet& body) noexcept;
  void handle(uint64_t context, const BufferRecvPoolUpdate& body) noexcept;
  void handle(uint64_t context, const BufferPoolFlushRequest& body) noexcept;
  void handle(uint64_t context, const BufferPoolFlushReply& body) noexcept;
  void handle(uint64_t context, const SendData& body) noexcept;
  void handle(uint64_t context, const BufferRdmaIndicate& body) noexcept;
  void handle(uint64_t context, const CfgUtilRequest& body) noexcept;
  void handle(uint64_t context, const CfgUtilReply& body) noexcept;
  void answer_request(const CfgUtilRequest& request, CfgReply& reply) noexcept;
  void on_keepalive(const CfgUtilRequest& request, CfgReply& reply) noexcept;

  SessionContext& context_;
  Parts parts_;
};

}  // namespace weft::session
