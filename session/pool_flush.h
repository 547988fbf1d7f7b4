// session/pool_flush.h -- BufferPoolFlushRequest and its replies: the peer's requests, whose replies wait
// until our writes are done (PUSH-FLUSH-02), and ours at an orderly end (PUSH-FLUSH-01).
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

  /// Requests the flush of both sides' pools, each once; true when both are answered or there was nothing to
  /// flush.
  [[nodiscard]] bool finish(const BufferPoolFlushRequest& ours, const BufferPoolFlushRequest& peers) noexcept;
  /// True once the flush of our pools was requested: the peer must not use them, so nothing is renewed.
  [[nodiscard]] bool ours_asked() const noexcept { return ours_.context != 0; }
  /// Counts a reply and returns which of our requests it answers.
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
