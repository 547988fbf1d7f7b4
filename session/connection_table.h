// session/connection_table.h -- the step that a connection takes for each event in each state: one table for
// the host and one for the unit. docs/session.md has the same tables, line by line.
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
  kRej,         // REJ with any reason except kRejUnknown's
  kRejUnknown,  // REJ: the unit does not know the session
  kRtu,
  kDreq,
  kDrep,
  kPeersPool,  // a pool of the peer is known
  kFlushed,    // closing is done or has timed out
  kEnded,      // the incarnation is over: loss, violation, DREQ, replaced
  kCount,
};
[[nodiscard]] std::string_view to_string(ConnectionEvent event) noexcept;

enum class ConnectionStep : uint8_t {
  kUnanswered,     // missing entry; never in a table
  kIgnore,         // late, repeated or meaningless in this state; nothing happens
  kViolation,      // no correct peer sends this: counted, dropped
  kConnect,        // connecting, the first REQ leaves
  kAsk,            // REQ again
  kRetry,          // as kConnect, after the driver has released the old frames or its interval is over
  kBindPeer,       // queue pairs to RTS, RTU, opening
  kSayRtu,         // RTU again
  kBeRefused,      // the incarnation ends; the next attempt waits longer
  kBeForgotten,    // ends as lost_forgotten
  kSayRep,         // to opening if not there yet; every REQ gets the same REP
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
