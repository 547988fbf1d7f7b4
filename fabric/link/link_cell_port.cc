// How it works: with whole-cell flits every call goes straight through. Otherwise each lane has one buffer
// for the cell being sent and one for the cell being received. claim() gives the first. commit() cuts the
// cell into flits as far as the lane has credit, and later polls send the rest. A received cell that is
// complete is handed out, and its buffer comes back with release(). An endnode always consumes: the credit
// for all flits of a receive() goes back at release() (decisions P5).
#include "fabric/link/link_cell_port.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "base/crc32c.h"
#include "base/endian.h"
#include "messages/cell.h"

namespace weft::fabric {
namespace {

constexpr uint32_t kBuffers = kVlCount + kVlCount + kFlitsPerReceiveMax;  // sending, receiving, handed out

}  // namespace

LinkCellPort::LinkCellPort(LinkEngine& link) : link_(link) {
  free_buffers_.reserve(kBuffers);
  lent_buffers_.reserve(kBuffers);
}

void LinkCellPort::expect_any_size() {
  storage_.reserve(size_t{kBuffers} * cell_bytes_max(kCellPayloadBytesMax));
}

int LinkCellPort::poll(Instant now) noexcept {
  const int work = link_.poll(now);
  up_ = link_.state() == LinkState::kUp;
  if (up_ && link_.incarnation() != incarnation_) start_incarnation();
  if (sending_lanes_ != 0 && up_) pump_all();
  return work;
}

void LinkCellPort::start_incarnation() noexcept {
  const LinkParams& params = link_.params();
  info_ = {params.local_guid,         params.lid,   params.subnet,
           params.cell_payload_bytes, params.lanes, params.pkeys};
  incarnation_ = link_.incarnation();
  whole_ = params.whole_cell_flits;
  flit_bytes_ = params.flit_payload_bytes;
  cell_bytes_max_ = whole_ ? flit_bytes_ : cell_bytes_max(params.cell_payload_bytes);
  for (const Partial& partial : receiving_) {
    if (partial.bytes != 0) counters_.add(CellPortCounter::kUnfinishedAtReset);
  }
  counters_.add(CellPortCounter::kUnfinishedAtReset, static_cast<uint64_t>(std::popcount(sending_lanes_)));
  sending_lanes_ = rx_count_ = 0;
  to_grant_ = {};
  lanes_to_grant_ = 0;
  sending_ = receiving_ = {};
  if (whole_) return;
  storage_.resize(size_t{kBuffers} * cell_bytes_max_);
  free_buffers_.clear();
  lent_buffers_.clear();
  for (uint32_t i = 2 * kVlCount; i < kBuffers; ++i) free_buffers_.push_back(i);
  for (uint32_t i = 0; i < kVlCount; ++i) {
    sending_[i].buffer = i;
    receiving_[i].buffer = kVlCount + i;
  }
}

std::byte* LinkCellPort::claim(VirtualLane vl, uint32_t cell_bytes) noexcept {
  if (!up_ || cell_bytes > cell_bytes_max_) return nullptr;
  if (whole_) return link_.claim(vl);
  if ((sending_lanes_ & lane_bit(vl)) != 0 || link_.state() != LinkState::kUp) return nullptr;
  return buffer(sending_[vl.value()].buffer);
}

void LinkCellPort::commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept {
  counters_.add(CellPortCounter::kCellsSent);
  if (whole_) {
    link_.commit({vl, kFlitHead | kFlitTail, cell_bytes, cell_crc});
    return;
  }
  sending_[vl.value()].bytes = cell_bytes;
  sending_[vl.value()].done = 0;
  sending_lanes_ |= lane_bit(vl);
  pump(vl);
}

void LinkCellPort::pump(VirtualLane vl) noexcept {
  Partial& cell = sending_[vl.value()];
  while (cell.done < cell.bytes) {
    std::byte* to = link_.claim(vl);
    if (to == nullptr) return;
    const uint32_t bytes = std::min(flit_bytes_, cell.bytes - cell.done);
    std::memcpy(to, buffer(cell.buffer) + cell.done, bytes);
    const int flags = (cell.done == 0 ? kFlitHead : 0) | (cell.done + bytes == cell.bytes ? kFlitTail : 0);
    link_.commit({vl, static_cast<uint8_t>(flags), bytes, 0});
    cell.done += bytes;
  }
  sending_lanes_ &= ~lane_bit(vl);
}

void LinkCellPort::pump_all() noexcept {
  for (uint32_t left = sending_lanes_; left != 0; left &= left - 1) {
    pump(VirtualLane(static_cast<uint8_t>(std::countr_zero(left))));
  }
}

std::span<const RxCell> LinkCellPort::receive() noexcept {
  if (!up_) return {};
  const uint32_t first = rx_count_;
  if (first == rx_.size()) return {};
  const std::span<const RxFlit> flits = link_.receive();
  for (const RxFlit& flit : flits) {
    ++to_grant_[flit.vl.value()];
    lanes_to_grant_ |= lane_bit(flit.vl);
    if (whole_) {
      rx_[rx_count_++] = {flit.payload, flit.vl};
    } else {
      take_flit(flit);
    }
  }
  if (rx_count_ != first) {
    counters_.add(CellPortCounter::kCellsReceived, rx_count_ - first);
  } else if (rx_count_ == 0 && !flits.empty()) {
    release();  // no cell is complete yet, so the caller gets none and will not release
  }
  return std::span(rx_).subspan(first, rx_count_ - first);
}

void LinkCellPort::take_flit(const RxFlit& flit) noexcept {
  Partial& cell = receiving_[flit.vl.value()];
  if (flit.head) {
    cell.bytes = 0;
    cell.broken = false;
  }
  if (flit.payload.size() > cell_bytes_max_ - cell.bytes) cell.broken = true;
  if (!cell.broken) {
    std::memcpy(buffer(cell.buffer) + cell.bytes, flit.payload.data(), flit.payload.size());
    cell.bytes += static_cast<uint32_t>(flit.payload.size());
  }
  if (!flit.tail) return;
  if (flit.poison) {
    counters_.add(CellPortCounter::kPoisoned);
  } else if (cell.broken) {
    counters_.add(CellPortCounter::kTooLong);
  } else {
    finish_cell(cell, flit.vl);
  }
  cell.bytes = 0;
}

void LinkCellPort::finish_cell(Partial& cell, VirtualLane vl) noexcept {
  if (cell.bytes < kCellHeaderBytes + kCrcBytes) {
    counters_.add(CellPortCounter::kTooShort);
    return;
  }
  const std::span<const std::byte> bytes(buffer(cell.buffer), cell.bytes);
  const size_t covered = bytes.size() - kCrcBytes;
  if (crc32c(bytes.first(covered)) != load_be<uint32_t>(bytes.data() + covered)) {
    counters_.add(CellPortCounter::kBadCrc);
    return;
  }
  rx_[rx_count_++] = {bytes, vl};
  lent_buffers_.push_back(cell.buffer);
  cell.buffer = free_buffers_.back();  // never empty: there are as many as cells that can be handed out
  free_buffers_.pop_back();
}

void LinkCellPort::release() noexcept {
  link_.release();
  for (uint32_t left = std::exchange(lanes_to_grant_, 0); left != 0; left &= left - 1) {
    const auto lane = static_cast<uint8_t>(std::countr_zero(left));
    link_.grant(VirtualLane(lane), std::exchange(to_grant_[lane], 0));
  }
  rx_count_ = 0;
  if (lent_buffers_.empty()) return;
  free_buffers_.insert(free_buffers_.end(), lent_buffers_.begin(), lent_buffers_.end());
  lent_buffers_.clear();
}

void LinkCellPort::flush(Instant now) noexcept {
  if (sending_lanes_ != 0 && up_) pump_all();
  link_.flush(now);
}

void LinkCellPort::publish(StatsPage& page, std::string_view prefix) {
  page.publish(prefix, counters_);
  link_.publish(page, prefix);
}

}  // namespace weft::fabric
