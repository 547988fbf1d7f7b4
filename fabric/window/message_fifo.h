// fabric/window/message_fifo.h -- the message FIFO of a memory window: records of one slot each, written by
// the peer's device into the owner's memory, with head and tail at both ends. docs/window.md.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "fabric/window/device.h"
#include "messages/window_layout.h"

namespace weft::fabric {

/// The upper byte of a token names the part of a window that posted the request.
inline constexpr int kTokenChannelShift = 56;

/// Attempts at a void slot, a head or a tail whose DMA fails, after which the FIFO is broken.
inline constexpr uint32_t kFifoDmaTries = 3;
/// A receiver that finds a quarter of the slots filled notifies the sender when it has taken a record: the
/// sender may have found the FIFO full, and read an older tail.
inline constexpr uint64_t kFifoFillParts = 4;
/// A receiver that sees records by their marks stores its tail this many times per round of the slots.
inline constexpr uint64_t kFifoTailParts = 8;
/// A sender that waits for a slot reads the tail at each notification, and this often.
inline constexpr Duration kFifoTailEvery = 1ms;

enum class FifoPost : uint8_t {
  kOk,
  kFull,     // until the peer has taken a record, and next_done() has given one
  kTooLong,  // data_bytes_max() is the limit
  kNotOpen,
  kBroken,
};

/// A record that was posted is done: its slot and the head behind it are in the peer's memory, or not.
struct FifoDone {
  uint64_t cookie = 0;
  bool good = false;
};

/// Puts records into the peer's FIFO. Owner: the device's thread. Nothing is allocated after open().
class FifoSender {
 public:
  /// `channel`: upper byte (kTokenChannelShift) of the tokens of its requests. `device` outlives this.
  FifoSender(DmaDevice& device, uint8_t channel) noexcept;
  FifoSender(const FifoSender&) = delete;
  FifoSender& operator=(const FifoSender&) = delete;
  /// Later requests go to this device, which gives back the completions of earlier ones, too. False, and
  /// nothing has changed, when there is no memory for a copy of the slots, which a device needs that does not
  /// map the peer's memory.
  [[nodiscard]] bool use(DmaDevice& device) noexcept;

  /// The peer's FIFO, once per window. False when there is no memory for it, as above.
  [[nodiscard]] bool open(const WindowAnchor& peer) noexcept;
  [[nodiscard]] bool is_open() const noexcept { return slots_ != 0; }
  [[nodiscard]] uint32_t data_bytes_max() const noexcept { return slot_bytes_ - kSlotHeaderBytes; }

  /// Posts one record. `data` is copied.
  /// @param destination  the context at the peer, not 0  @param cookie  comes back with next_done()
  [[nodiscard]] FifoPost send(uint32_t destination, uint32_t source, std::span<const std::byte> data,
                              uint64_t cookie) noexcept;
  /// Where the data of the next record go, for a caller that makes them there; as many bytes as a record can
  /// have. Null while there is no room (kFull), or when send() would refuse. Holds until the next call.
  [[nodiscard]] std::span<std::byte> slot() noexcept {
    if (!is_open() || broken_) return {};
    const bool full = head_ - done_ == slots_ || head_ - tail_seen_ == slots_;
    if (full && !has_room()) [[unlikely]]
      return {};
    return {written_at(head_) + kSlotHeaderBytes, data_bytes_max()};
  }
  /// Posts the record whose data are the first `bytes` bytes of slot(), which has just given room.
  void post(uint32_t destination, uint32_t source, uint32_t bytes, uint64_t cookie) noexcept;
  /// The next record that is done, in order of posting. False when there is none.
  [[nodiscard]] bool next_done(FifoDone& out) noexcept {
    if (broken_ ? done_ == head_ : done_ == synced_) return false;
    out = take_done();
    return true;
  }
  /// True when records go by stores, which do not fail. Those that are done are not given any more.
  [[nodiscard]] bool all_good() noexcept {
    if (!stores() || broken_) return false;
    done_ = synced_;
    return true;
  }
  /// The next record that is done and has failed. Those before it, which are good, are not given any more.
  [[nodiscard]] bool next_failed(FifoDone& out) noexcept {
    if (all_good()) return false;
    do {
      if (!next_done(out)) return false;
    } while (out.good);
    return true;
  }

  void complete(uint64_t token, DmaStatus status, Instant now) noexcept;
  /// Moves records on: what was sent is at the peer afterwards, if its memory is mapped.
  void poll(Instant now) noexcept;
  /// A notification has come: the tail may have moved.
  void look() noexcept { tail_at_ = Instant::min(); }
  /// Records go to the peer by stores of this side: none is a request for the device.
  [[nodiscard]] bool stores() const noexcept { return !mapped_.empty(); }
  /// No record is under way, and none waits for room: poll() and complete() have nothing to do.
  [[nodiscard]] bool idle() const noexcept {
    return synced_ == head_ && !head_moving_ && !tail_moving_ && !tail_wanted_;
  }
  [[nodiscard]] Instant deadline() const noexcept;

  /// The peer broke a rule, or DMA failed kFifoDmaTries times. All records not done fail.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  /// Records posted; those of them that next_done() has given, or all_good() has passed; those that the peer
  /// is known to have taken.
  [[nodiscard]] uint64_t head() const noexcept { return head_; }
  [[nodiscard]] uint64_t done() const noexcept { return done_; }
  [[nodiscard]] uint64_t tail() const noexcept { return tail_seen_; }

 private:
  enum class SlotState : uint8_t { kToPost, kMoving, kMoved };
  struct Pending {
    uint64_t cookie = 0;
    SlotState state = SlotState::kToPost;
    bool failed = false;  // done as failed; the slot is void
    uint8_t tries = 0;
  };
  /// In the second byte of a token; the position, modulo slots, is below.
  enum class What : uint8_t { kSlot, kHead, kTail };

  [[gnu::cold, nodiscard]] bool has_room() noexcept;
  [[nodiscard]] FifoDone take_done() noexcept;
  [[nodiscard]] bool reach_peer(DmaDevice& device, uint64_t slots_bytes) noexcept;
  void publish() noexcept;
  void read_tail(Instant now) noexcept;
  void take_tail(uint64_t tail, Instant now) noexcept;
  [[nodiscard]] std::byte* staged(uint64_t position) noexcept;
  /// Where this side writes a slot: in the peer's memory if that is mapped, otherwise in the staging area.
  [[nodiscard]] std::byte* written_at(uint64_t position) noexcept {
    return mapped_.empty() ? staged(position) : mapped_.data() + slot_at(position);
  }
  /// Offset of the slot of a position, in the peer's window memory.
  [[nodiscard]] uint64_t slot_at(uint64_t position) const noexcept {
    return peer_.fifo_offset + kFifoControlBytes + (position & (slots_ - 1)) * slot_bytes_;
  }
  [[nodiscard]] Pending& pending(uint64_t position) noexcept { return pending_[position & (slots_ - 1)]; }
  [[nodiscard]] uint64_t token(What what, uint64_t position) const noexcept;
  void post_slot(uint64_t position) noexcept;
  void post_head() noexcept;
  void post_tail() noexcept;
  void slot_done(uint64_t position, bool good) noexcept;
  void head_done(bool good) noexcept;
  void tail_done(bool good, Instant now) noexcept;
  void break_off() noexcept { broken_ = true; }

  DmaDevice* device_;
  uint8_t channel_;
  uint64_t slots_ = 0;
  uint32_t slot_bytes_ = kSlotHeaderBytes;
  WindowAnchor peer_;
  std::span<std::byte> mapped_;    // the peer's window memory, if this side may store there itself
  std::vector<uint64_t> staging_;  // the slots as they are at the peer, or will be; empty while mapped
  std::vector<Pending> pending_;

  // Positions, in order: done <= synced <= head_posted <= moved <= head.
  uint64_t head_ = 0;         // the next slot to fill
  uint64_t moved_ = 0;        // all slots before are at the peer
  uint64_t head_posted_ = 0;  // the head under way, or written last
  uint64_t synced_ = 0;       // the head that the peer has
  uint64_t done_ = 0;         // handed out by next_done()
  uint64_t tail_seen_ = 0;    // the peer's tail as read last

  bool slot_to_post_ = false;  // some slot is kToPost
  bool head_moving_ = false;
  bool tail_moving_ = false;
  bool tail_wanted_ = false;
  bool broken_ = false;
  uint32_t head_tries_ = 0;
  uint32_t tail_tries_ = 0;
  Instant tail_at_ = Instant::min();
  std::array<std::byte, 8> head_word_{};
  std::array<std::byte, 8> tail_word_{};
};

/// A record as the receiver sees it.
struct FifoRecord {
  uint32_t destination = 0;
  uint32_t source = 0;
  /// In the own window memory until release(). The peer may change it at any time: a byte that is checked is
  /// copied first.
  std::span<const std::byte> data;
};
enum class FifoTake : uint8_t { kEmpty, kRecord, kBroken };

/// A word that changes when the next record arrives, and its value before.
struct AwaitedWord {
  const std::atomic<uint64_t>* word = nullptr;
  uint64_t value = 0;
};

/// Takes records out of the own FIFO. Owner: the device's thread.
class FifoReceiver {
 public:
  /// `fifo`: control block and slots, in window memory; outlives this.
  FifoReceiver(std::span<std::byte> fifo, uint64_t slots, uint32_t slot_bytes);

  /// The peer's register kScratchpadMarks: while it is not 0, a record is seen by its slot alone. Null: by
  /// the head.
  void use_marks(const std::atomic<uint64_t>* told) noexcept { marks_ = told; }

  /// The oldest record, again and again until release(). Void slots are skipped.
  [[nodiscard]] FifoTake take(FifoRecord& out) noexcept;
  /// Gives the slot back. @return true when the sender may be waiting for it and has to be notified
  [[nodiscard]] bool release() noexcept;
  /// Whether the sender has published more than was taken; also when it broke a rule.
  [[nodiscard]] bool waits() noexcept;

  /// For a look without a call, after take() has found none.
  [[nodiscard]] AwaitedWord awaited() const noexcept { return {word_at(awaited_), seen_}; }
  /// Stores the tail of records that were taken, if that has waited and no further record is here. @return as
  /// release()
  [[nodiscard]] bool settle() noexcept;
  /// The peer wrote an impossible head, length or sequence.
  [[nodiscard]] bool broken() const noexcept { return broken_; }
  [[nodiscard]] uint64_t tail() const noexcept { return tail_; }

 private:
  [[nodiscard]] bool arrived() noexcept;
  [[nodiscard]] bool look() noexcept;
  void tell_tail() noexcept;
  [[nodiscard]] bool take_was_full() noexcept { return std::exchange(was_full_, false); }
  [[nodiscard]] bool has_marks() const noexcept {
    return marks_ != nullptr && marks_->load(std::memory_order_acquire) != 0;
  }
  [[nodiscard]] std::byte* slot_at(uint64_t position) const noexcept {
    return fifo_.data() + kFifoControlBytes + (position & (slots_ - 1)) * slot_bytes_;
  }
  [[nodiscard]] static const std::atomic<uint64_t>* word_at(const std::byte* at) noexcept {
    return reinterpret_cast<const std::atomic<uint64_t>*>(at);
  }
  [[nodiscard]] bool read_header() noexcept;
  void advance() noexcept;

  std::span<std::byte> fifo_;
  uint64_t slots_;
  uint32_t slot_bytes_;
  uint64_t tail_ = 0;
  uint64_t head_seen_ = 0;  // at least; not before tail_
  uint64_t told_tail_ = 0;  // the tail in the own memory
  const std::atomic<uint64_t>* marks_ = nullptr;
  const std::byte* awaited_;  // the word at which take() has looked last: the head or a mark
  uint64_t seen_ = 0;         // what it was, raw
  bool holds_ = false;        // slot_ is that of the record at tail_
  bool was_full_ = false;     // since the last notification
  bool broken_ = false;
  FifoSlot slot_;  // a private copy
};

}  // namespace weft::fabric
