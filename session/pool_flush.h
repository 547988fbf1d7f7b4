// session/pool_flush.h -- BufferPoolFlushRequest and its replies: what the peer asked for and waits until our
// writes are done (PUSH-FLUSH-02), and what we ask at an orderly end (PUSH-FLUSH-01).
#pragma once

#include <cstdint>

#include "base/fixed_ring.h"
#include "session/control_channel.h"
#include "session/session_context.h"

namespace weft::session {

/// Owner: the session's thread.
class PoolFlush {
 public:
  enum class Answer : uint8_t { kUnknown, kOurPools, kPeersPools };

  PoolFlush(SessionContext& context, ControlChannel& control);

  /// The peer's request is answered once all frames before `after_frame` have completed.
  void reply_after(uint64_t context, uint64_t after_frame) noexcept;
  /// Sends the oldest reply if it is due.
  /// @param completed  frames before this number have completed and been indicated
  bool send_reply(uint64_t completed) noexcept;

  /// Asks for both sides' pools, each once; true when both have been answered, or there was nothing to ask.
  [[nodiscard]] bool finish(const BufferPoolFlushRequest& ours, const BufferPoolFlushRequest& peers) noexcept;
  /// Our pools are the peer's no more: nothing is renewed.
  [[nodiscard]] bool ours_asked() const noexcept { return ours_.context != 0; }
  /// Whose request a reply answers; counts it.
  [[nodiscard]] Answer on_reply(uint64_t context) noexcept;

 private:
  struct ReplyDue {
    uint64_t context = 0;
    uint64_t after_frame = 0;
  };
  struct Asked {
    uint64_t context = 0;  // 0: not asked
    bool done = false;
  };
  [[nodiscard]] bool ask(const BufferPoolFlushRequest& body, Asked& asked) noexcept;
  [[nodiscard]] static bool answers(Asked& asked, uint64_t context) noexcept;

  SessionContext& context_;
  ControlChannel& control_;
  FixedRing<ReplyDue> replies_;
  Asked ours_;
  Asked peers_;
};

}  // namespace weft::session
