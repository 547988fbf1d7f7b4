// How it works: the sender copies each record to its staging area, where the device reads it. Requests of a
// device have no order, so a head goes to the peer only after all slots before it have arrived, and a record
// is done when a head behind it has arrived. A slot whose DMA failed cannot be left out, because others may
// stand behind it: it is written again as void. If the device lets its user store into the peer's memory, the
// record goes there at once, the second half of its slot's header last, and the next poll() stores the head.
// The receiver of such records looks at the slot alone: so head and tail stay in the caches of their writers.
// It copies the slot's header, checks it, hands the data out where they are, and stores the tail when they
// have been used, or a few records later. The sender reads the tail when it finds the FIFO full.
#include "fabric/window/message_fifo.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/prefetch.h"
#include "fabric/window/window_words.h"

namespace weft::fabric {
namespace {

constexpr int kWhatShift = 48;
constexpr uint64_t kSlotHeadData =
    kCacheLineBytes - kSlotHeaderBytes;  // in the cache line of a slot's header
#if defined(__x86_64__)
constexpr bool kOrderedStores = true;  // other cores see stores in program order
#else
constexpr bool kOrderedStores = false;
#endif

}  // namespace

FifoSender::FifoSender(DmaDevice& device, uint8_t channel) noexcept : device_(&device), channel_(channel) {}

bool FifoSender::open(const WindowAnchor& peer) noexcept {
  WEFT_CHECK(!is_open(), "a window has one FIFO per direction");
  try {
    pending_.resize(peer.slots());
  } catch (const std::bad_alloc&) {
    return false;
  }
  if (!reach_peer(*device_, peer.slots() * peer.slot_bytes)) return false;
  peer_ = peer;
  slots_ = peer.slots();
  slot_bytes_ = peer.slot_bytes;
  return true;
}

bool FifoSender::use(DmaDevice& device) noexcept {
  if (!mapped_.empty() && device.mapped_peer().empty()) publish();  // the head leads again
  return reach_peer(device, slots_ * slot_bytes_);
}

bool FifoSender::reach_peer(DmaDevice& device, uint64_t slots_bytes) noexcept {
  const std::span<std::byte> mapped = device.mapped_peer();
  try {
    if (mapped.empty()) staging_.resize(slots_bytes / kWindowWordBytes);
  } catch (const std::bad_alloc&) {
    return false;
  }
  device_ = &device;
  if (mapped.empty() != mapped_.empty())
    device.set_scratchpad(kScratchpadMarks, kOrderedStores && !mapped.empty());
  mapped_ = mapped;
  return true;
}

std::byte* FifoSender::staged(uint64_t position) noexcept {
  return std::as_writable_bytes(std::span(staging_)).data() + (position & (slots_ - 1)) * slot_bytes_;
}
uint64_t FifoSender::token(What what, uint64_t position) const noexcept {
  return uint64_t{channel_} << kTokenChannelShift | uint64_t{static_cast<uint8_t>(what)} << kWhatShift |
         (position & (kFifoSlotsMax - 1));
}

FifoPost FifoSender::send(uint32_t destination, uint32_t source, std::span<const std::byte> data,
                          uint64_t cookie) noexcept {
  if (!is_open()) return FifoPost::kNotOpen;
  if (broken_) return FifoPost::kBroken;
  if (data.size() > data_bytes_max()) return FifoPost::kTooLong;
  const std::span<std::byte> room = slot();
  if (room.data() == nullptr) return broken_ ? FifoPost::kBroken : FifoPost::kFull;
  if (!data.empty()) std::memcpy(room.data(), data.data(), data.size());
  post(destination, source, static_cast<uint32_t>(data.size()), cookie);
  return FifoPost::kOk;
}

void FifoSender::post(uint32_t destination, uint32_t source, uint32_t bytes, uint64_t cookie) noexcept {
  WEFT_DCHECK(destination != 0, "context 0 makes a slot void");
  const auto header = encode_slot({bytes, destination, source}, head_);
  std::byte* const slot = written_at(head_);
  std::memcpy(slot, header.data(), kSlotMarkAt);
  release_raw_word(slot + kSlotMarkAt, load_once<uint64_t>(header.data() + kSlotMarkAt));
  pending(head_) = {.cookie = cookie, .state = SlotState::kMoved};
  if (mapped_.empty()) post_slot(head_);
  ++head_;
  if (!mapped_.empty()) moved_ = head_;
}

bool FifoSender::has_room() noexcept {
  if (head_ - done_ == slots_) return false;
  if (head_ - tail_seen_ != slots_) return true;
  tail_wanted_ = true;
  if (!mapped_.empty()) {
    publish();
    read_tail(tail_at_);
  }
  return !broken_ && head_ - tail_seen_ != slots_;
}

/// Of records in mapped memory. The peer reads the head, unless it sleeps.
void FifoSender::publish() noexcept {
  if (synced_ == head_) return;
  store_window_word(mapped_.data() + peer_.fifo_offset + kFifoHeadAt, head_);
  synced_ = head_posted_ = head_;
  device_->notify_sleeper();
}

/// From mapped memory, after publish().
void FifoSender::read_tail(Instant now) noexcept {
  take_tail(load_window_word(mapped_.data() + peer_.fifo_offset + kFifoTailAt), now);
}

void FifoSender::post_slot(uint64_t position) noexcept {
  const std::byte* const slot = staged(position);
  const uint64_t bytes = kSlotHeaderBytes + uint64_t{load_be<uint32_t>(slot)};
  const bool posted = device_->post({DmaKind::kWrite, DmaSpace::kWindow, slot_at(position), staged(position),
                                     bytes, token(What::kSlot, position)});
  pending(position).state = posted ? SlotState::kMoving : SlotState::kToPost;
  slot_to_post_ |= !posted;
}

void FifoSender::post_head() noexcept {
  store_be(head_word_.data(), moved_);
  head_moving_ = device_->post({DmaKind::kWrite, DmaSpace::kWindow, peer_.fifo_offset + kFifoHeadAt,
                                head_word_.data(), head_word_.size(), token(What::kHead, 0)});
  if (head_moving_) head_posted_ = moved_;
}

void FifoSender::post_tail() noexcept {
  tail_moving_ = device_->post({DmaKind::kRead, DmaSpace::kWindow, peer_.fifo_offset + kFifoTailAt,
                                tail_word_.data(), tail_word_.size(), token(What::kTail, 0)});
}

void FifoSender::poll(Instant now) noexcept {
  if (!is_open() || broken_) return;
  if (!mapped_.empty()) {
    publish();
    if (tail_wanted_ && now >= tail_at_) read_tail(now);
    return;
  }
  if (slot_to_post_) {
    slot_to_post_ = false;
    for (uint64_t at = moved_; at != head_; ++at) {
      if (pending(at).state == SlotState::kToPost) post_slot(at);
    }
  }
  while (moved_ != head_ && pending(moved_).state == SlotState::kMoved) ++moved_;
  if (!head_moving_ && moved_ != synced_) post_head();
  if (!tail_moving_ && tail_wanted_ && now >= tail_at_) post_tail();
  device_->flush();
}

Instant FifoSender::deadline() const noexcept {
  if (!is_open() || broken_) return kNever;
  if (slot_to_post_ || (!head_moving_ && moved_ != synced_)) return Instant::min();
  return tail_wanted_ && !tail_moving_ ? tail_at_ : kNever;
}

void FifoSender::complete(uint64_t token, DmaStatus status, Instant now) noexcept {
  if (status == DmaStatus::kPeerGone) break_off();
  const bool good = status == DmaStatus::kGood;
  switch (static_cast<What>(token >> kWhatShift & 0xFF)) {
    case What::kSlot: {
      // Fewer than `slots_` are under way, so the low bits of the position name it.
      const uint64_t distance = (token - moved_) & (slots_ - 1);
      slot_done(moved_ + distance, good);
      break;
    }
    case What::kHead:
      head_done(good);
      break;
    case What::kTail:
      tail_done(good, now);
      break;
  }
  poll(now);
}

void FifoSender::slot_done(uint64_t position, bool good) noexcept {
  Pending& slot = pending(position);
  if (good) {
    slot.state = SlotState::kMoved;
    return;
  }
  slot.failed = true;
  if (++slot.tries > kFifoDmaTries) {
    break_off();
    return;
  }
  const auto header = encode_slot({0, 0, 0}, position);
  std::memcpy(staged(position), header.data(), header.size());
  post_slot(position);
}

void FifoSender::head_done(bool good) noexcept {
  head_moving_ = false;
  if (!good) {
    if (++head_tries_ >= kFifoDmaTries) break_off();
    return;
  }
  head_tries_ = 0;
  synced_ = head_posted_;
  device_->notify();
}

void FifoSender::tail_done(bool good, Instant now) noexcept {
  tail_moving_ = false;
  if (!good) {
    tail_at_ = now + kFifoTailEvery;
    if (++tail_tries_ >= kFifoDmaTries) break_off();
    return;
  }
  tail_tries_ = 0;
  take_tail(load_be<uint64_t>(tail_word_.data()), now);
}

void FifoSender::take_tail(uint64_t tail, Instant now) noexcept {
  // The peer may have taken what a head under way shows, and nothing beyond.
  if (tail - tail_seen_ > head_posted_ - tail_seen_) {
    break_off();
    return;
  }
  tail_wanted_ = tail == tail_seen_;
  if (tail_wanted_) tail_at_ = now + kFifoTailEvery;
  tail_seen_ = tail;
}

FifoDone FifoSender::take_done() noexcept {
  const bool good = done_ < synced_ && !pending(done_).failed;
  return {pending(done_++).cookie, good};
}

FifoReceiver::FifoReceiver(std::span<std::byte> fifo, uint64_t slots, uint32_t slot_bytes)
    : fifo_(fifo), slots_(slots), slot_bytes_(slot_bytes), awaited_(fifo.data() + kFifoHeadAt) {
  WEFT_CHECK(fifo.size() == kFifoControlBytes + slots * slot_bytes, "control block and slots");
}

/// Whether there is a record at the tail. Called when all records seen are taken. The sender stores the
/// register of marks before it stops to write them last, so the look at the register comes behind that at the
/// mark. Memory that was never written looks like the mark of the first record of source 0.
bool FifoReceiver::arrived() noexcept {
  std::byte* const slot = slot_at(tail_);
  const uint64_t mark = acquire_raw_word(slot + kSlotMarkAt);
  if ((mark == 0 && static_cast<uint32_t>(tail_) == 0) || !has_marks()) return look();
  awaited_ = slot + kSlotMarkAt;
  seen_ = mark;
  if (static_cast<uint32_t>(to_big(mark)) != static_cast<uint32_t>(tail_)) return false;
  head_seen_ = tail_ + 1;
  return true;
}

/// The same by the head. A head that went back is far ahead of the tail, too. Beside marks the head may come
/// behind the records.
bool FifoReceiver::look() noexcept {
  const bool marks = has_marks();
  const uint64_t raw = load_raw_word(fifo_.data() + kFifoHeadAt);
  const uint64_t head = to_big(raw);
  awaited_ = fifo_.data() + kFifoHeadAt;
  seen_ = raw;
  if (marks && tail_ - head <= slots_) return false;
  if (head - tail_ > slots_) {
    broken_ = true;
    return false;
  }
  head_seen_ = head;
  was_full_ |= head - tail_ >= slots_ / kFifoFillParts;
  return head != tail_;
}

bool FifoReceiver::waits() noexcept {
  return holds_ || broken_ || head_seen_ != tail_ || look() || broken_;
}

bool FifoReceiver::read_header() noexcept {
  std::array<std::byte, kSlotHeaderBytes> header;
  std::memcpy(header.data(), slot_at(tail_), header.size());
  asm volatile("" ::: "memory");  // the copy is what is checked; the header is not read again
  if (decode_slot(header, slot_bytes_, tail_, slot_) != SlotFault::kNone) return false;
  if (slot_.length > kSlotHeadData) __builtin_prefetch(slot_at(tail_) + kCacheLineBytes);
  return true;
}

FifoTake FifoReceiver::take(FifoRecord& out) noexcept {
  for (uint64_t left = slots_ / 2; !holds_; --left) {
    if (left == 0) return FifoTake::kEmpty;  // half a FIFO of void slots: others are served first (waits())
    if (broken_) return FifoTake::kBroken;
    if (head_seen_ == tail_ && !arrived()) return broken_ ? FifoTake::kBroken : FifoTake::kEmpty;
    if (!read_header()) {
      broken_ = true;
      return FifoTake::kBroken;
    }
    holds_ = true;
    if (slot_.destination == 0) advance();
  }
  out = {slot_.destination, slot_.source, {slot_at(tail_) + kSlotHeaderBytes, slot_.length}};
  return FifoTake::kRecord;
}

/// If the FIFO may be full: the tail first, then a look at the head. A sender writes its head and then reads
/// the tail, so at least one side sees the other's word. If half of it is free, nothing waits for the store:
/// a sender that fills the FIFO meanwhile, and reads an older tail, is seen by the next look().
void FifoReceiver::advance() noexcept {
  holds_ = false;
  ++tail_;
  if (has_marks()) {  // settle() stores what waits
    if ((tail_ & (std::max<uint64_t>(slots_ / kFifoTailParts, 1) - 1)) == 0) tell_tail();
    return;
  }
  told_tail_ = tail_;
  if (head_seen_ - tail_ < slots_ / 2) return publish_window_word(fifo_.data() + kFifoTailAt, tail_);
  store_window_word(fifo_.data() + kFifoTailAt, tail_);
  const uint64_t head = load_window_word(fifo_.data() + kFifoHeadAt);
  was_full_ |= head - (tail_ - 1) == slots_;
}

/// Beside marks: a sender that finds the FIFO full has stored its head and then read an older tail. This side
/// then sees that head, because it looks behind its own store; or the sender has read this tail. The head may
/// come behind the records.
void FifoReceiver::tell_tail() noexcept {
  told_tail_ = tail_;
  store_window_word(fifo_.data() + kFifoTailAt, tail_);
  const uint64_t head = load_window_word(fifo_.data() + kFifoHeadAt);
  was_full_ |= head - tail_ >= slots_ / kFifoFillParts && head - tail_ <= slots_;
}

bool FifoReceiver::settle() noexcept {
  if (told_tail_ == tail_ || holds_ || head_seen_ != tail_ || arrived()) return false;
  tell_tail();
  return take_was_full();
}

bool FifoReceiver::release() noexcept {
  if (!holds_) return false;
  advance();
  return take_was_full();
}

}  // namespace weft::fabric
