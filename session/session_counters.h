// session/session_counters.h -- the counters of a session and its acceptor: every drop, refusal and malformed
// message of push-push traffic has its own (house style 24).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/counters.h"

namespace weft::session {

enum class SessionCounter : uint8_t {
  // frames
  kFramesOut,  // handed over by the driver
  kBytesOut,
  kFramesIn,  // given to the driver
  kBytesIn,
  kWritesWithIdata,
  kIndicationsOut,  // frames described by BufferRDMAIndicate
  kIndicationsIn,
  kSendDataOut,
  kSendDataIn,
  kPlainSendsOut,
  kPlainSendsIn,
  // back-pressure and growth
  kClaimNoElement,  // times the driver had to wait: no free element at the peer
  kClaimNoMemory,   // no send memory or slot free
  kFrameWaited,     // a submitted frame had to wait for a larger element
  kFrameTooLong,    // refused: longer than agreed
  kPoolsAdvertised,
  kPoolsLearnt,
  kPoolGetsOut,
  kPoolGetsIn,
  kPoolGetsRefused,  // growth limit reached
  kElementsRenewed,
  kUpdatesOut,
  kUpdatesIn,
  // life of the session
  kConnectRequests,
  kConnectRefused,     // by the unit
  kConnectMalformed,   // answers that do not decode
  kConnectUnexpected,  // a datagram that no correct peer sends to this side
  kOpened,
  kClosed,
  kLostSilence,    // keepalive not answered
  kLostQpError,    // the transport gave up or refused
  kLostViolation,  // the peer broke a rule
  kLostGap,        // cells missing on an unacknowledged channel
  kLostPeerLeft,   // DREQ
  kLostPortDown,   // our port was down for longer than `port_down_max`
  kLostReplaced,   // the same host came back with a new session
  kLostForgotten,  // the unit does not know the session: it restarted, or ended the session
  kLostNoMemory,
  kFramesLostAtReset,   // outbound: delivery unknown, never sent again (decisions 2.12)
  kInboundLostAtReset,  // delivered to us, dropped before the driver took them
  kKeepalivesOut,
  kKeepalivesIn,
  kProbesOut,  // RTU again: the unit has been silent
  // configuration
  kConfigRequestsOut,
  kConfigRequestsIn,
  kConfigRepliesIn,
  kConfigTimedOut,
  kConfigRepliesDropped,  // no send slot for the answer: the peer floods
  kConfigReplyUnknown,    // context belongs to no request
  // messages refused; the session goes on (PUSH-MSG-04)
  kMsgTooShort,
  kMsgTooLong,
  kMsgUnknownFunction,
  kMsgWrongVersion,
  kMsgLengthMismatch,
  kMsgCountLimit,  // absurd counts
  kMsgBadValue,
  kMsgNotParsed,          // Cap'n Proto: limits, pointers, segments
  kMsgNotExpected,        // valid, but not in this mode or state
  kPoolRefUnknown,        // reference never advertised
  kPoolRefTaken,          // advertised twice, or a number of our own range
  kPoolLimit,             // more pools or elements than SessionLimits allows
  kPoolElementRange,      // element index out of range
  kPoolRenewNotConsumed,  // renewal of elements that were not consumed
  kFlushUnknownPool,
  kFlushReplyUnknown,
  // indications refused; the session is reset (decisions 2.16)
  kIdataPoolUnknown,
  kIdataPoolFlushed,
  kIdataElementRange,
  kIdataElementNotFree,  // indicated twice
  kIdataSizeWrong,       // element size differs from the advertisement
  kIdataAddressWrong,    // written elsewhere than it says
  kIdataTooLong,         // more bytes than the element has
  kKeyRefused,           // the adapter refused a write of the peer: key, range or right did not fit
  kFrameTooShort,        // less than vnet and Ethernet header: dropped, element freed
  kCreditOverrun,        // more plain Sends than credits
  // pools flushed
  kFlushRequestsOut,
  kFlushRequestsIn,
  kFlushRepliesOut,
  kFlushRepliesIn,
  kFlushRepliesDropped,  // too many requests waiting for our writes in flight
  kFlushTimedOut,
  kPoolsFreed,
  kCount,
};

// NOLINTNEXTLINE(readability-function-size): a table
[[nodiscard]] constexpr CounterNames<SessionCounter> counter_labels(
    SessionCounter /*of*/) noexcept {  // tidy: table
  return {"frames_out",
          "bytes_out",
          "frames_in",
          "bytes_in",
          "writes_with_idata",
          "indications_out",
          "indications_in",
          "send_data_out",
          "send_data_in",
          "plain_sends_out",
          "plain_sends_in",
          "claim_no_element",
          "claim_no_memory",
          "frame_waited",
          "frame_too_long",
          "pools_advertised",
          "pools_learnt",
          "pool_gets_out",
          "pool_gets_in",
          "pool_gets_refused",
          "elements_renewed",
          "updates_out",
          "updates_in",
          "connect_requests",
          "connect_refused",
          "connect_malformed",
          "connect_unexpected",
          "opened",
          "closed",
          "lost_silence",
          "lost_qp_error",
          "lost_violation",
          "lost_gap",
          "lost_peer_left",
          "lost_port_down",
          "lost_replaced",
          "lost_forgotten",
          "lost_no_memory",
          "frames_lost_at_reset",
          "inbound_lost_at_reset",
          "keepalives_out",
          "keepalives_in",
          "probes_out",
          "config_requests_out",
          "config_requests_in",
          "config_replies_in",
          "config_timed_out",
          "config_replies_dropped",
          "config_reply_unknown",
          "msg_too_short",
          "msg_too_long",
          "msg_unknown_function",
          "msg_wrong_version",
          "msg_length_mismatch",
          "msg_count_limit",
          "msg_bad_value",
          "msg_not_parsed",
          "msg_not_expected",
          "pool_ref_unknown",
          "pool_ref_taken",
          "pool_limit",
          "pool_element_range",
          "pool_renew_not_consumed",
          "flush_unknown_pool",
          "flush_reply_unknown",
          "idata_pool_unknown",
          "idata_pool_flushed",
          "idata_element_range",
          "idata_element_not_free",
          "idata_size_wrong",
          "idata_address_wrong",
          "idata_too_long",
          "key_refused",
          "frame_too_short",
          "credit_overrun",
          "flush_requests_out",
          "flush_requests_in",
          "flush_replies_out",
          "flush_replies_in",
          "flush_replies_dropped",
          "flush_timed_out",
          "pools_freed"};
}

/// Current state of a session.
enum class SessionGauge : uint8_t {
  kState,  // SessionState
  kIncarnation,
  kOwnExposed,    // elements the peer may write
  kOwnIndicated,  // elements the driver has or has not yet looked at
  kOwnFreed,      // elements waiting to be renewed
  kPeerElements,
  kPeerFree,  // 0: no free element, so our driver has to wait
  kFramesInFlight,
  kFramesWaiting,
  kPeerLid,
  kCount,
};

[[nodiscard]] constexpr CounterNames<SessionGauge> counter_labels(SessionGauge /*of*/) noexcept {
  return {"state",         "incarnation", "own_exposed",      "own_indicated",  "own_freed",
          "peer_elements", "peer_free",   "frames_in_flight", "frames_waiting", "peer_lid"};
}

enum class AcceptorCounter : uint8_t {
  kRequests,
  kRepeated,  // the same request again: answered as before
  kAccepted,
  kMalformed,
  kUnknownSession,  // RTU of a session that is not here: refused
  kUnknownMessage,  // another CM message for no session
  kRefusedVersion,
  kRefusedEncoding,
  kRefusedMode,
  kRefusedIdataFormat,
  kRefusedFrameBytes,
  kRefusedMacTaken,
  kRefusedFull,
  kRefusedMemory,
  kRefusedRate,
  kRefusedPolicy,
  kRefusedLidFull,  // too many sessions of one LID
  kCount,
};

[[nodiscard]] constexpr CounterNames<AcceptorCounter> counter_labels(AcceptorCounter /*of*/) noexcept {
  return {"requests",
          "repeated",
          "accepted",
          "malformed",
          "unknown_session",
          "unknown_message",
          "refused_version",
          "refused_encoding",
          "refused_mode",
          "refused_idata_format",
          "refused_frame_bytes",
          "refused_mac_taken",
          "refused_full",
          "refused_memory",
          "refused_rate",
          "refused_policy",
          "refused_lid_full"};
}

}  // namespace weft::session
