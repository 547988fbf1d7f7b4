// How it works: a machine with one DMA request under way at most. It copies anchor record and table, reads
// the generation again, and takes the copy if that has not changed. For an access it announces the
// generation of its copy at the owner and reads the owner's generation behind that; only if they are equal
// may the access be checked. Everything that comes from the peer is decoded in private memory, once.
#include "fabric/window/peer_table.h"

#include <algorithm>
#include <new>
#include <utility>

#include "fabric/window/window_words.h"

namespace weft::fabric {

std::string_view name_of(TableCheck check) noexcept {
  switch (check) {
    case TableCheck::kGranted:
      return "granted";
    case TableCheck::kThroughOwner:
      return "through the owner";
    case TableCheck::kUnknownKey:
      return "the peer's table has no such key";
    case TableCheck::kOutOfRange:
      return "the access does not lie in the memory of its key";
    case TableCheck::kNoRight:
      return "the key does not allow this access";
  }
  return "unknown";
}

PeerTable::PeerTable(DmaDevice& device, uint64_t token, uint64_t entries_max)
    : device_(&device), token_(token), entries_max_(entries_max) {}

void PeerTable::poll(Instant now) noexcept {
  if (under_way_ || now < retry_at_ || device_->peer() != PeerState::kUp) return;
  switch (step_) {
    case Step::kFindAnchor:
      find_anchor();
      return;
    case Step::kReadAnchor:
      start_copy();
      return;
    case Step::kReadTable:
      read(incoming_.table_offset, table_bytes_.data(), table_bytes_.size(), Step::kReadTable);
      return;
    case Step::kConfirmCopy:
      read_generation(Step::kConfirmCopy);
      return;
    case Step::kReady:
      if (stale_ && !mapped_.empty()) stale_ = is_changed();
      if (stale_) {
        stale_ = false;
        read_generation(Step::kLook);
      } else if (wanted_) {
        write_use(anchor_.generation, Step::kAnnounce);
      }
      return;
    case Step::kLook:
    case Step::kConfirmUse:
      read_generation(step_);
      return;
    case Step::kAnnounce:
      write_use(anchor_.generation, Step::kAnnounce);
      return;
    case Step::kInUse:
      if (held_ == 0 && (!wanted_ || stale_)) leave();
      return;
    case Step::kLeave:
      write_use(0, Step::kLeave);
      return;
    case Step::kFaulty:
      return;
  }
}

/// The four accesses of a use, as everywhere: this side stores the use and loads the generation; the owner
/// stores the generation and loads the use (docs/window.md).
bool PeerTable::begin_use() noexcept {
  if (mapped_.empty() || under_way_ || (step_ != Step::kReady && step_ != Step::kInUse)) return false;
  if (step_ == Step::kReady) {
    store_window_word(mapped_.data() + anchor_.fifo_offset + kFifoTableUseAt, anchor_.generation);
    step_ = Step::kInUse;
  }
  stale_ = is_changed();  // then poll() leaves first: the owner waits for that
  copy_used_ |= !stale_;
  return !stale_;
}

/// Only with mapped_.
bool PeerTable::is_changed() const noexcept {
  return load_window_word(mapped_.data() + anchor_at_ + kAnchorGenerationAt) != anchor_.generation;
}

void PeerTable::leave() noexcept {
  if (mapped_.empty()) return write_use(0, Step::kLeave);
  store_window_word(mapped_.data() + anchor_.fifo_offset + kFifoTableUseAt, 0);
  step_ = Step::kReady;
  if (stale_) {
    stale_ = false;
    read_generation(Step::kLook);
  }
}

Instant PeerTable::deadline() const noexcept {
  if (under_way_ || step_ == Step::kFaulty) return kNever;
  const bool idle = (step_ == Step::kReady && !stale_ && !wanted_) || step_ == Step::kFindAnchor ||
                    (step_ == Step::kInUse && (held_ != 0 || wanted_));
  return idle ? kNever : retry_at_;
}

void PeerTable::find_anchor() noexcept {
  const uint64_t at = device_->peer_scratchpad(kScratchpadAnchor);
  if (at == 0) return;
  if (!anchor_fits(at, device_->limits().peer_window_bytes)) {
    give_up({.anchor = AnchorFault::kPlace});
    return;
  }
  anchor_at_ = at;
  mapped_ = device_->mapped_peer();
  start_copy();
}

void PeerTable::start_copy() noexcept {
  stale_ = false;  // what is read from here on is new enough
  read(anchor_at_, record_.data(), record_.size(), Step::kReadAnchor);
}

void PeerTable::read(uint64_t offset, std::byte* to, uint64_t bytes, Step step) noexcept {
  post({DmaKind::kRead, DmaSpace::kWindow, offset, to, bytes, token_}, step);
}
void PeerTable::read_generation(Step step) noexcept {
  read(anchor_at_ + kAnchorGenerationAt, word_.data(), word_.size(), step);
}
void PeerTable::write_use(uint64_t generation, Step step) noexcept {
  store_be(word_.data(), generation);
  post({DmaKind::kWrite, DmaSpace::kWindow, anchor_.fifo_offset + kFifoTableUseAt, word_.data(), word_.size(),
        token_},
       step);
}
/// A device without room is asked again in the next turn.
void PeerTable::post(const DmaRequest& request, Step step) noexcept {
  step_ = step;
  under_way_ = device_->post(request);
  if (under_way_) device_->flush();
}

void PeerTable::complete(DmaStatus status, Instant now) noexcept {
  under_way_ = false;
  if (status != DmaStatus::kGood) {
    if (status == DmaStatus::kPeerGone || ++dma_failures_ >= kTableDmaTries) {
      give_up({.dma = status});
    } else {
      retry_at_ = now + kTableRetry;  // the step as it stands, once more
    }
    return;
  }
  dma_failures_ = 0;
  switch (step_) {
    case Step::kReadAnchor:
      take_anchor(now);
      break;
    case Step::kReadTable:
      step_ = Step::kConfirmCopy;
      break;
    case Step::kConfirmCopy:
    case Step::kLook:
    case Step::kConfirmUse:
      take_generation(now);
      break;
    case Step::kAnnounce:
      step_ = Step::kConfirmUse;
      break;
    case Step::kLeave:
      step_ = Step::kReady;
      break;
    case Step::kFindAnchor:
    case Step::kReady:
    case Step::kInUse:
    case Step::kFaulty:
      break;
  }
  if (!under_way_) poll(now);
}

void PeerTable::again(Instant now) noexcept {
  step_ = Step::kReadAnchor;
  retry_at_ = now + kTableRetry;
}

void PeerTable::wrong(const PeerTableFault& fault, Instant now) noexcept {
  if (wrong_since_ == kNever) wrong_since_ = now;
  if (now - wrong_since_ >= kTableRepair) {
    give_up(fault);
  } else {
    again(now);
  }
}

void PeerTable::give_up(const PeerTableFault& fault) noexcept {
  fault_ = fault;
  step_ = Step::kFaulty;
}

void PeerTable::take_anchor(Instant now) noexcept {
  AnchorFault fault = decode_anchor(record_, anchor_at_, device_->limits().peer_window_bytes, incoming_);
  if (fault == AnchorFault::kNone && incoming_.entries() > entries_max_) fault = AnchorFault::kTable;
  if (fault != AnchorFault::kNone) {
    wrong({.anchor = fault}, now);
    return;
  }
  if (has_copy_) {
    WindowAnchor same = incoming_;
    same.generation = anchor_.generation;
    if (same != anchor_) {
      give_up({.moved = true});
      return;
    }
  }
  if (incoming_.generation % 2 != 0) {
    again(now);
    return;
  }
  if (!has_copy_ && !make_room()) {
    give_up({.no_memory = true});
    return;
  }
  step_ = incoming_.table_bytes == 0 ? Step::kConfirmCopy : Step::kReadTable;
}

bool PeerTable::make_room() noexcept {
  try {
    table_bytes_.resize(incoming_.table_bytes);
    entries_.reserve(incoming_.entries());
    incoming_entries_.reserve(incoming_.entries());
  } catch (const std::bad_alloc&) {
    return false;
  }
  return true;
}

void PeerTable::take_generation(Instant now) noexcept {
  const uint64_t generation = load_be<uint64_t>(word_.data());
  if (step_ == Step::kConfirmCopy) {
    if (generation == incoming_.generation) {
      take_table(now);
    } else {
      again(now);
    }
    return;
  }
  if (generation == anchor_.generation) {
    copy_used_ |= step_ == Step::kConfirmUse;
    step_ = step_ == Step::kConfirmUse ? Step::kInUse : Step::kReady;
    return;
  }
  if (step_ == Step::kConfirmUse) {
    stale_ = true;  // leave first: the owner waits for that
    step_ = Step::kLeave;
    return;
  }
  step_ = Step::kReadAnchor;
  if (!copy_used_) retry_at_ = copied_at_ + kTableRetry;
}

void PeerTable::take_table(Instant now) noexcept {
  std::vector<WindowEntry>& entries = incoming_entries_;
  entries.clear();
  PeerTableFault fault;
  for (size_t at = 0; at < table_bytes_.size(); at += kTableEntryBytes) {
    const WindowEntry entry = decode_entry(std::span(table_bytes_).subspan(at).first<kTableEntryBytes>());
    if (fault.table == TableFault::kNone) fault.table = fault_of(entry);
    if (!entry.is_free()) entries.push_back(entry);
  }
  std::sort(entries.begin(), entries.end(),
            [](const WindowEntry& a, const WindowEntry& b) { return a.key < b.key; });
  const auto twice = std::adjacent_find(entries.begin(), entries.end(),
                                        [](const auto& a, const auto& b) { return a.key == b.key; });
  if (fault.table == TableFault::kNone && twice != entries.end()) fault.table = TableFault::kDoubleKey;
  if (fault.table != TableFault::kNone) {
    wrong(fault, now);
    return;
  }
  wrong_since_ = kNever;
  anchor_ = incoming_;
  entries_.swap(incoming_entries_);
  if (std::exchange(has_copy_, true)) copied_at_ = now;  // the first one is for no use
  copy_used_ = false;
  step_ = Step::kReady;
}

TableCheck PeerTable::check(uint32_t key, uint64_t start, uint64_t length, TableRight right) const noexcept {
  const auto entry = std::lower_bound(entries_.begin(), entries_.end(), key,
                                      [](const WindowEntry& e, uint32_t wanted) { return e.key < wanted; });
  if (entry == entries_.end() || entry->key != key) return TableCheck::kUnknownKey;
  if ((entry->rights & kTableThroughOwner) != 0) return TableCheck::kThroughOwner;
  if (start < entry->start || !lies_inside(start - entry->start, length, entry->length))
    return TableCheck::kOutOfRange;
  if ((entry->rights & right) == 0) return TableCheck::kNoRight;
  return TableCheck::kGranted;
}

}  // namespace weft::fabric
