// session/connection_table.h -- what a connection does in each state at each event, as one table for the host
// and one for the unit. docs/session.md has the same tables, line by line.
#pragma once

#include <cstdint>
#include <string_view>

#include "session/netdev_session.h"

namespace weft::session {

enum class ConnectionEvent : uint8_t {
  kOpen,        // the driver half wants a session
  kClose,       // the driver half wants none any more
  kAttemptDue,  // host: the time of the next attempt has come
  kAccepted,    // unit: the incarnation that a REQ asked for has been made
  kReq,         // the datagrams of this session, by nonce and LID
  kRep,
  kRej,         // REJ with any reason but the next
  kRejUnknown,  // REJ: the unit does not know the session
  kRtu,
  kDreq,
  kDrep,
  kPeersPool,  // a pool of the peer is known
  kFlushed,    // closing is done or its time over
  kEnded,      // the incarnation is over: loss, violation, DREQ, replaced
  kCount,
};
[[nodiscard]] std::string_view to_string(ConnectionEvent event) noexcept;

enum class ConnectionStep : uint8_t {
  kUnanswered,     // in no table
  kIgnore,         // late, repeated or without meaning here; nothing happens
  kViolation,      // no honest peer says that: counted, dropped
  kConnect,        // connecting, the first REQ leaves
  kAsk,            // REQ again
  kRetry,          // as kConnect, when the driver has given the old frames back or had its time
  kBindPeer,       // queue pairs to RTS, RTU, opening
  kSayRtu,         // RTU again
  kBeRefused,      // the incarnation goes, the next attempt is later
  kBeForgotten,    // ends as lost_forgotten
  kSayRep,         // opening if it was not; the same REP for every REQ
  kLetSend,        // the peer is ready
  kSayDrep,        // nothing to end yet
  kPartAfterDreq,  // DREP, ends as lost_peer_left
  kBeginFrames,    // open
  kBeginFlush,     // closing
  kFinishFlush,    // DREQ, idle
  kGiveUp,         // idle at once
  kTakeDown,       // lost
  kCutFlush,       // idle: the end came while closing
  kCount,
};
[[nodiscard]] std::string_view to_string(ConnectionStep step) noexcept;

/// Never kUnanswered.
[[nodiscard]] ConnectionStep step_for(SessionRole role, SessionState state, ConnectionEvent event) noexcept;

}  // namespace weft::session
