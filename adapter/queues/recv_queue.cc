#include "adapter/queues/recv_queue.h"

#include <algorithm>
#include <utility>

namespace weft::adapter {

RecvQueue::RecvQueue(uint32_t wqes, uint32_t sges, PdId pd, bool holds)
    : slots_(std::make_unique_for_overwrite<RecvWqe[]>(wqes)),
      sges_(std::make_unique_for_overwrite<Sge[]>(size_t{wqes} * sges)),
      sges_per_wqe_(static_cast<uint16_t>(sges)),
      holds_(holds),
      capacity_(wqes),
      slots_made_(wqes),
      pd_(pd) {}

void RecvQueue::post(const RecvRequest& request) noexcept {
  const RecvSlot slot = free_ != kNoRecvSlot ? free_ : fresh_++;
  RecvWqe& wqe = slots_[slot];
  if (slot == free_) free_ = wqe.next;
  wqe.wr_id = request.wr_id;
  wqe.bytes = 0;
  for (const Sge& sge : request.sges) wqe.bytes += sge.length;
  wqe.sge_count = static_cast<uint8_t>(request.sges.size());
  wqe.checked = false;
  std::copy(request.sges.begin(), request.sges.end(), sges(slot));
  append(posted_, slot);
  ++in_use_;
}

void RecvQueue::give_back(RecvSlots& mine) noexcept {
  if (mine.empty()) return;
  slots_[mine.last].next = posted_.first;
  if (posted_.empty()) posted_.last = mine.last;
  posted_.first = mine.first;
  posted_.count += mine.count;
  announced_ += mine.count;
  mine = {};
}

bool RecvQueue::flush_one(uint64_t& wr_id) noexcept {
  if (posted_.empty()) return false;
  wr_id = release(pop(posted_));
  announced_ = std::min(announced_, posted_.count);
  return true;
}

void RecvQueue::clear() noexcept {
  announced_ = fresh_ = in_use_ = 0;
  posted_ = {};
  free_ = kNoRecvSlot;
}

RecvRoom RecvQueue::room_for(uint32_t wqes, uint32_t sges) {
  RecvRoom room;
  room.slots = std::make_unique_for_overwrite<RecvWqe[]>(wqes);
  room.sges = std::make_unique_for_overwrite<Sge[]>(size_t{wqes} * sges);
  room.wqes = wqes;
  return room;
}

bool RecvQueue::resize(uint32_t wqes, RecvRoom& room) noexcept {
  if (wqes < in_use_ || (wqes > slots_made_ && wqes > room.wqes)) return false;
  if (wqes > slots_made_) {
    std::copy_n(slots_.get(), fresh_, room.slots.get());
    std::copy_n(sges_.get(), size_t{fresh_} * sges_per_wqe_, room.sges.get());
    slots_.swap(room.slots);
    sges_.swap(room.sges);
    std::swap(slots_made_, room.wqes);
  }
  capacity_ = wqes;
  return true;
}

}  // namespace weft::adapter
