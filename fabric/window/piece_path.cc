// How it works: a slot holds a piece or an answer. Its header is copied once and checked before it is used;
// the data go between the slot and the memory without being looked at. Each piece has a number that never
// returns; only an answer with the number, kind and length of a piece under way is taken.
//
//   0 kind 8   1 good 8   2 zero 16   4 bytes 32   8 address 64   16 number 64   24 zero   64 data
#include "fabric/window/piece_path.h"

#include <algorithm>
#include <cstring>

namespace weft::fabric {
namespace {

constexpr int kSlotsPerTurn = 32;

RingControl& control_of(std::span<std::byte> ring) noexcept {
  return *reinterpret_cast<RingControl*>(ring.data());
}
std::byte* slots_of(std::span<std::byte> ring) noexcept {
  return ring.data() + sizeof(RingControl);
}

enum class Kind : uint8_t { kWrite = 1, kRead = 2, kWritten = 3, kHaveRead = 4 };

}  // namespace

struct PiecePath::Header {
  uint8_t kind = 0;
  uint8_t good = 0;
  uint32_t bytes = 0;
  uint64_t address = 0;
  uint64_t number = 0;

  void put(std::byte* at) const noexcept {
    std::memset(at, 0, kPieceHeaderBytes);
    at[0] = std::byte{kind};
    at[1] = std::byte{good};
    store_be(at + 4, bytes);
    store_be(at + 8, address);
    store_be(at + 16, number);
  }
  static Header get(const std::byte* at) noexcept {
    const uint64_t first = load_be_once<uint64_t>(at);
    return {static_cast<uint8_t>(first >> 56), static_cast<uint8_t>(first >> 48 & 0xFF),
            static_cast<uint32_t>(first), load_be_once<uint64_t>(at + 8), load_be_once<uint64_t>(at + 16)};
  }
};

PiecePath::PiecePath(std::span<std::byte> to_peer, std::span<std::byte> to_us, uint32_t requests,
                     OwnerMemory* memory)
    : producer_(control_of(to_peer), slots_of(to_peer), kPieceRing),
      consumer_(control_of(to_us), slots_of(to_us), kPieceRing),
      memory_(memory) {
  waiting_.reset(requests);
}

int PiecePath::poll() noexcept {
  const bool idle = waiting_.empty() && published_ && !consumer_.waits();
  if (idle) return 0;
  std::array<RxSlot, kSlotsPerTurn> slots;
  const uint32_t count = consumer_.receive(slots);
  for (uint32_t i = 0; i < count && !faulty(); ++i) take_slot(slots[i]);
  if (count != 0) consumer_.release(slots[count - 1].position + 1);
  if (!faulty()) send_pieces();
  if (!std::exchange(published_, true)) wake_ |= producer_.publish();
  return static_cast<int>(count);
}

void PiecePath::take_slot(const RxSlot& slot) noexcept {
  const Header header = Header::get(slot.bytes);
  const std::byte* const data = slot.bytes + kPieceHeaderBytes;
  if (header.bytes == 0 || header.bytes > kPieceBytes) {
    faulty_ = true;
    return;
  }
  switch (static_cast<Kind>(header.kind)) {
    case Kind::kWrite:
    case Kind::kRead:
      carry_out(header, data);
      return;
    case Kind::kWritten:
    case Kind::kHaveRead:
      take_answer(header, data);
      return;
  }
  faulty_ = true;
}

void PiecePath::carry_out(const Header& header, const std::byte* data) noexcept {
  const TxRun run = producer_.claim(0);
  if (run.count == 0) {
    faulty_ = true;  // more pieces than a peer may have under way
    return;
  }
  Header answer = header;
  bool good = false;
  if (static_cast<Kind>(header.kind) == Kind::kWrite) {
    answer.kind = static_cast<uint8_t>(Kind::kWritten);
    good = memory_ != nullptr && memory_->write(header.address, {data, header.bytes});
  } else {
    answer.kind = static_cast<uint8_t>(Kind::kHaveRead);
    good = memory_ != nullptr && memory_->read(header.address, {run.first + kPieceHeaderBytes, header.bytes});
  }
  answer.good = good ? 1 : 0;
  answer.put(run.first);
  producer_.commit(1);
  published_ = false;
}

void PiecePath::take_answer(const Header& header, const std::byte* data) noexcept {
  const auto piece = std::find_if(pieces_.begin(), pieces_.end(),
                                  [&](const Piece& p) { return p.under_way && p.number == header.number; });
  if (piece == pieces_.end()) {
    faulty_ = true;
    return;
  }
  Waiting& waiting = waiting_.at(piece->request - first_);
  const bool is_read = waiting.request.kind == DmaKind::kRead;
  if (header.bytes != piece->bytes || (static_cast<Kind>(header.kind) == Kind::kHaveRead) != is_read) {
    faulty_ = true;
    return;
  }
  if (header.good != 1) {
    waiting.status = DmaStatus::kNoMemory;
  } else if (is_read) {
    std::memcpy(waiting.request.local + piece->offset, data, piece->bytes);
  }
  --waiting.pieces;
  piece->under_way = false;
}

void PiecePath::send_pieces() noexcept {
  size_t at = 0;
  for (Piece& piece : pieces_) {
    if (piece.under_way) continue;
    while (at < waiting_.size() && (waiting_.at(at).sent == waiting_.at(at).request.bytes ||
                                    waiting_.at(at).status != DmaStatus::kGood)) {
      ++at;
    }
    if (at == waiting_.size() || !send_piece(waiting_.at(at), first_ + at, piece)) return;
  }
}

bool PiecePath::send_piece(Waiting& waiting, uint64_t request, Piece& piece) noexcept {
  const TxRun run = producer_.claim(0);
  if (run.count == 0) return false;
  const auto bytes =
      static_cast<uint32_t>(std::min<uint64_t>(kPieceBytes, waiting.request.bytes - waiting.sent));
  piece = {next_number_++, request, waiting.sent, bytes, true};
  const bool is_write = waiting.request.kind == DmaKind::kWrite;
  const Header header{static_cast<uint8_t>(is_write ? Kind::kWrite : Kind::kRead), 0, bytes,
                      waiting.request.remote + waiting.sent, piece.number};
  header.put(run.first);
  if (is_write) std::memcpy(run.first + kPieceHeaderBytes, waiting.request.local + waiting.sent, bytes);
  producer_.commit(1);
  published_ = false;
  waiting.sent += bytes;
  ++waiting.pieces;
  return true;
}

bool PiecePath::next_done(DmaCompletion& out) noexcept {
  if (waiting_.empty()) return false;
  const Waiting& oldest = waiting_.front();
  const bool sent = oldest.sent == oldest.request.bytes || oldest.status != DmaStatus::kGood;
  if (!sent || oldest.pieces != 0) return false;
  out = {oldest.request.token, oldest.status};
  waiting_.pop();
  ++first_;
  return true;
}

bool PiecePath::abandon(DmaCompletion& out) noexcept {
  if (waiting_.empty()) return false;
  out = {waiting_.front().request.token, DmaStatus::kPeerGone};
  waiting_.pop();
  ++first_;
  return true;
}

}  // namespace weft::fabric
