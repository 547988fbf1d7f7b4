// verbs/explain/long_wait.h -- WEFT_DEBUG=verbs: after 2 s, a line tells a program what it waits for. Polls
// of an empty CQ are timed by the poll itself; calls that sleep in the kernel by the helper thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>

#include "adapter/verbs.h"
#include "base/clock.h"
#include "hca/channel.h"

namespace weft::verbs {

/// Wait after which a line is printed. Requests between programs take microseconds; people start the second
/// program within some seconds.
inline constexpr Duration kLongWait = std::chrono::seconds(2);
/// QPs that a line names at most.
inline constexpr size_t kQpsNamed = 4;

/// Why polls of a CQ find nothing. `loads` are its QPs, or the first of them; `qps` is their number.
[[nodiscard]] std::string empty_poll_words(std::span<const adapter::QpLoad> loads, uint32_t qps);

/// Belongs to a CQ. Any thread.
class EmptyPolls {
 public:
  /// A poll has found `got` entries.
  void polled(const hca::Cq& cq, int got) noexcept;

 private:
  [[gnu::cold]] void tell(const hca::Cq& cq) noexcept;

  std::atomic<int64_t> since_ns_{0};  // first poll without an entry since the last entry; 0: none yet
  std::atomic<bool> told_{false};     // since then
  std::atomic<size_t> last_{0};       // hash of the last line: the same line is not printed twice in a row
};

/// Calls of this process that sleep in the kernel. Any thread.
class LongWaits {
 public:
  /// Text for a call that has waited kLongWait; empty: nothing is to be said yet.
  using Words = std::string (*)(const void* of);
  /// Lives as long as the call waits.
  class Call {
   public:
    /// Does nothing if `all` is null. `of` is passed to `words` and outlives this object.
    Call(LongWaits* all, Words words, const void* of) noexcept;
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    friend class LongWaits;
    LongWaits* all_;
    Call* next_ = nullptr;
    Words words_;
    const void* of_;
    Instant since_{};
    bool told_ = false;
  };
  /// Prints what is due. Called often by the helper thread, without the device's lock.
  void look() noexcept;

 private:
  std::atomic<uint32_t> count_{0};
  std::mutex mutex_;
  Call* first_ = nullptr;
};

}  // namespace weft::verbs
