#include "fabric/switch/vl_buffer.h"

namespace weft::fabric {

VlBuffer::VlBuffer(uint32_t flits, uint32_t flit_bytes, uint32_t outputs)
    : stride_((flit_bytes + 63U) & ~63U),
      free_(0),
      free_count_(flits),
      // Not cleared, so that pages of unused lanes are never touched.
      storage_(std::make_unique_for_overwrite<std::byte[]>(size_t{flits} * stride_)),
      entries_(flits),
      queues_(outputs) {
  for (uint32_t i = 0; i + 1 < flits; ++i) entries_[i].next = i + 1;
}

bool VlBuffer::push(uint32_t output, const CheckedFlit& checked) noexcept {
  const RxFlit& flit = checked.flit;
  if (free_ == kEnd) return false;
  const uint32_t index = free_;
  Entry& entry = entries_[index];
  free_ = entry.next;
  --free_count_;
  entry = {kEnd,       static_cast<uint32_t>(flit.payload.size()), flit.cell_crc, flit.head, flit.tail,
           flit.poison};
  checked.copy_to(storage_.get() + size_t{index} * stride_);
  Queue& queue = queues_[output];
  (queue.last == kEnd ? queue.first : entries_[queue.last].next) = index;
  queue.last = index;
  ++queue.flits;
  queue.heads += flit.head ? 1 : 0;
  queue.tails += flit.tail ? 1 : 0;
  return true;
}

QueuedFlit VlBuffer::front(uint32_t output) const noexcept {
  const uint32_t index = queues_[output].first;
  const Entry& entry = entries_[index];
  return {{storage_.get() + size_t{index} * stride_, entry.bytes},
          entry.cell_crc,
          entry.head,
          entry.tail,
          entry.poison};
}

void VlBuffer::pop(uint32_t output) noexcept {
  Queue& queue = queues_[output];
  const uint32_t index = queue.first;
  Entry& entry = entries_[index];
  queue.first = entry.next;
  if (queue.first == kEnd) queue.last = kEnd;
  --queue.flits;
  queue.heads -= entry.head ? 1 : 0;
  queue.tails -= entry.tail ? 1 : 0;
  free_entry(index);
}

void VlBuffer::free_entry(uint32_t index) noexcept {
  entries_[index].next = free_;
  free_ = index;
  ++free_count_;
}

uint32_t VlBuffer::clear(uint32_t output, uint32_t& heads) noexcept {
  const uint32_t dropped = queues_[output].flits;
  heads = queues_[output].heads;
  while (queues_[output].flits != 0) pop(output);
  return dropped;
}

uint32_t VlBuffer::drop_unfinished(uint32_t output, bool& head) noexcept {
  Queue& queue = queues_[output];
  uint32_t last = kEnd;  // index of the last tail
  for (uint32_t at = queue.first; at != kEnd; at = entries_[at].next) {
    if (entries_[at].tail) last = at;
  }
  uint32_t dropped = 0;
  head = false;
  uint32_t at = last == kEnd ? queue.first : entries_[last].next;
  while (at != kEnd) {
    const uint32_t next = entries_[at].next;
    head = head || entries_[at].head;
    free_entry(at);
    ++dropped;
    at = next;
  }
  (last == kEnd ? queue.first : entries_[last].next) = kEnd;
  queue.last = last;
  queue.flits -= dropped;
  queue.heads -= head ? 1 : 0;
  return dropped;
}

}  // namespace weft::fabric
