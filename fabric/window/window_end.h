// fabric/window/window_end.h -- one end of a memory window with all that stands on its device: own memory and
// table, copy of the peer's table, message FIFO both ways, accesses to the peer's memory. The service that
// runs RC over a window talks to this (docs/window.md).
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "base/fixed_ring.h"
#include "fabric/window/device.h"
#include "fabric/window/faulty_device.h"
#include "fabric/window/message_fifo.h"
#include "fabric/window/own_window.h"
#include "fabric/window/peer_table.h"

namespace weft::fabric {

enum class WindowState : uint8_t {
  kJoining,
  kUp,      // the peer's table is here and records can be sent
  kFaulty,  // the peer broke a rule, or the device failed: why() says what
  kGone,    // the peer has ended
};

/// An RDMA write or read of the peer's memory.
struct WindowAccess {
  DmaKind kind = DmaKind::kWrite;
  uint32_t key = 0;
  uint64_t remote = 0;         // address as the peer's table names it
  std::byte* local = nullptr;  // `bytes` bytes, lent until next_access() gives the cookie
  uint64_t bytes = 0;
  uint64_t cookie = 0;  // below 2^56; above its lower 32 bits it names a QP, whose accesses keep their order
};
struct AccessDone {
  uint64_t cookie = 0;
  DmaStatus status = DmaStatus::kGood;
};
enum class AccessPost : uint8_t {
  kPosted,
  kWait,          // the table is being confirmed or copied: again after the next poll()
  kFull,          // the device has no room: again after next_access()
  kThroughOwner,  // send it to the owner as a record
  kRefused,       // nothing moves: refusal() says why (NTB-WRITE-01, NTB-READ-01)
  kAfterFailed,   // one with the same upper part of its cookie has failed: again after next_access() has told
  kDown,          // the state is not kUp
};

/// Owner: one thread.
class WindowEnd final : public Pollable {
 public:
  /// The device's own memory has at least OwnWindow::bytes_for(config) bytes.
  WindowEnd(std::unique_ptr<DmaDevice> device, const OwnWindowConfig& config);
  /// `device` outlives this.
  WindowEnd(DmaDevice& device, const OwnWindowConfig& config);

  [[nodiscard]] WindowState state() const noexcept {
    if (device_->peer() == PeerState::kGone) return WindowState::kGone;
    if (peer_.faulty() || sender_.broken() || receiver_.broken() || no_memory_) return WindowState::kFaulty;
    return sender_.is_open() ? WindowState::kUp : WindowState::kJoining;
  }
  /// Why the state is kFaulty, for the log: the cause in a few words.
  [[nodiscard]] std::string_view why() const noexcept;
  [[nodiscard]] DmaDevice& device() noexcept { return *device_; }
  [[nodiscard]] OwnWindow& own() noexcept { return own_; }
  [[nodiscard]] const OwnWindow& own() const noexcept { return own_; }
  [[nodiscard]] const PeerTable& peer() const noexcept { return peer_; }

  /// See DmaDevice. While it stands still and deadline() has not come, poll() and take() find nothing.
  [[nodiscard]] const std::atomic<uint64_t>* bell() const noexcept { return device_->bell(); }

  /// See FifoReceiver.
  [[nodiscard]] AwaitedWord awaited() const noexcept { return receiver_.awaited(); }

  /// See FifoSender. Started by flush(), or by the next poll(). Reads the tail of a FIFO that looks full.
  [[nodiscard]] FifoPost send(uint32_t destination, uint32_t source, std::span<const std::byte> data,
                              uint64_t cookie) noexcept;
  [[nodiscard]] std::span<std::byte> slot() noexcept {
    const std::span<std::byte> room = sender_.slot();
    return room.data() != nullptr ? room : make_room();
  }
  void post(uint32_t destination, uint32_t source, uint32_t bytes, uint64_t cookie) noexcept {
    sender_.post(destination, source, bytes, cookie);
  }
  [[nodiscard]] bool next_sent(FifoDone& out) noexcept { return sender_.next_done(out); }
  /// No access has ended and no record has failed; records that are done are not given any more.
  [[nodiscard]] bool all_good() noexcept { return ended_.empty() && sender_.all_good(); }
  [[nodiscard]] bool next_failed(FifoDone& out) noexcept { return sender_.next_failed(out); }
  /// Records posted; those of them that next_sent(), next_failed() or all_good() has passed; those that the
  /// peer is known to have taken.
  [[nodiscard]] uint64_t posted() const noexcept { return sender_.head(); }
  [[nodiscard]] uint64_t passed() const noexcept { return sender_.done(); }
  [[nodiscard]] uint64_t taken() const noexcept { return sender_.tail(); }
  [[nodiscard]] uint32_t record_bytes_max() const noexcept { return sender_.data_bytes_max(); }
  /// See FifoReceiver.
  [[nodiscard]] FifoTake take(FifoRecord& out) noexcept { return receiver_.take(out); }
  void release() noexcept {
    if (receiver_.release()) [[unlikely]]
      device_->notify();
  }

  /// Checks an access against the copy of the peer's table and posts it. Started by flush(), or by the next
  /// poll().
  [[nodiscard]] AccessPost access(const WindowAccess& access) noexcept;
  /// Why the last access() was refused.
  [[nodiscard]] TableCheck refusal() const noexcept { return refusal_; }
  /// Nothing is under way, and none of the parts has anything to start: until the bell rings, or the head of
  /// the own FIFO steps, poll() finds nothing but a peer that ends.
  [[nodiscard]] bool rests() const noexcept {
    return sender_.is_open() && sender_.idle() && peer_.idle() && under_way_ == 0 && !waited_;
  }
  /// The next access that has ended, in any order. False when there is none.
  [[nodiscard]] bool next_access(AccessDone& out) noexcept {
    if (ended_.empty()) return false;
    out = ended_.front();
    ended_.pop();
    --under_way_;
    return true;
  }
  /// Accesses posted and not given by next_access().
  [[nodiscard]] uint32_t accesses_under_way() const noexcept { return under_way_; }

  /// Faults on demand strike this window from now on, beginning with the next poll(). `faults` outlives it.
  /// False when there is no memory.
  [[nodiscard]] bool strike(WindowFaults& faults) noexcept;
  /// Nothing passes, because a fault cuts this side or the peer off. As of the last poll().
  [[nodiscard]] bool cut() const noexcept { return faulty_ != nullptr && faulty_->cut(); }
  /// Accesses under way whose cookie is `high` above its lower 32 bits move nothing more, and end as failed.
  void abandon(uint32_t high) noexcept;

  /// Starts what was posted, and takes completions that are there. Call it at the end of a list of requests.
  void flush() noexcept {
    if (now_ != Instant::min() && !rests()) start();  // nothing can have been posted before the first poll()
  }

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override { device_->wait_fds(out); }
  [[nodiscard]] bool prepare_sleep() noexcept override;
  void finish_sleep() noexcept override { device_->finish_sleep(); }
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  [[gnu::cold, nodiscard]] std::span<std::byte> make_room() noexcept;
  void start() noexcept;
  [[nodiscard]] AccessPost post_access(const WindowAccess& access) noexcept;
  [[nodiscard]] DmaRequest request_of(const WindowAccess& access, bool& reachable) const noexcept;
  [[nodiscard]] bool make_faulty(WindowFaults* faults) noexcept;
  void look_for_cut() noexcept;
  void tell_cut() noexcept;
  [[gnu::cold, nodiscard]] bool has_failed(uint32_t high) const noexcept;
  int drain() noexcept;
  void dispatch(const DmaCompletion& completion) noexcept;

  std::unique_ptr<DmaDevice> kept_;
  DmaDevice& base_;                       // without faults
  std::unique_ptr<FaultyDevice> faulty_;  // null until a fault has been set, here or at the peer
  DmaDevice* device_;                     // one of both
  OwnWindow own_;
  PeerTable peer_;
  FifoSender sender_;
  FifoReceiver receiver_;
  FixedRing<AccessDone> ended_;
  std::array<DmaCompletion, 32> done_;  // taken and not dispatched; here because a turn need not clear it
  uint32_t under_way_ = 0;              // with those that ended and next_access() has not given
  TableCheck refusal_ = TableCheck::kGranted;
  bool opened_ = false;
  bool told_cut_ = false;  // what register kScratchpadCut says
  bool no_memory_ = false;
  bool waited_ = false;  // an access got kWait since the last poll()
  Instant now_ = Instant::min();
};

}  // namespace weft::fabric
