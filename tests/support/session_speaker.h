// tests/support/session_speaker.h -- says single messages of sessions by hand, from QP1 of its port or from a
// queue pair beside it.
#pragma once

#include "management/mad_queue_pair.h"
#include "session/session_port.h"

namespace weft::test {

class SessionSpeaker {
 public:
  explicit SessionSpeaker(adapter::ChannelAdapter& adapter) : gsi_(adapter, 1) {}

  /// @param wanted  Qpn(0) for any: answers do not come there
  Status open(Qpn wanted) { return gsi_.open(wanted); }
  bool say(const SessionMad& message, Lid to) { return gsi_.send(to, encode_session_mad(message)); }
  /// The next message of a session that came; false when there is none.
  bool hear(session::SessionDatagram& out) {
    management::MadDatagram got;
    if (!gsi_.receive(got)) return false;
    out.lid = got.from;
    return decode_session_mad(got.bytes, out.message) == MadError::kNone;
  }

 private:
  management::MadQueuePair gsi_;
};

}  // namespace weft::test
