// adapter/queues/packet_window.h -- memory for the packets in flight of a QP. A window has kPacketWindow
// places, and only those in use have memory. The adapter provides it in chunks of kChunkPackets and gets it
// back as the window moves on, so that an idle QP holds none. The chunk returned last is used next, because
// it is in the cache.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "adapter/limits.h"
#include "messages/ids.h"

namespace weft::adapter {

/// Chunks of all QPs of an adapter. Owner: the adapter's thread. Memory is allocated kChunksPerSlab at a
/// time, the first at construction, and kept. So memory is allocated only when more is in use than ever
/// before. After report_to() another thread supplies it and this class allocates none: a QP that finds too
/// little waits for the supply.
template <class Packet, uint32_t kLength = kChunkPackets, uint32_t kChunksPerSlab = 32>
class ChunkPool {
  struct alignas(64) Slab {
    std::array<std::array<Packet, kLength>, kChunksPerSlab> chunks;
  };

 public:
  /// Most chunks for keep().
  static constexpr uint32_t kKeptMax = 64;

  /// @param ahead_max chunks that may be in use beyond the one that each QP needs to continue (PacketWindow)
  /// @param qps_max   most QPs
  explicit ChunkPool(uint32_t ahead_max, uint32_t qps_max = 0) : ahead_max_(ahead_max) {
    const size_t slabs = (size_t{ahead_max} + qps_max + kKeptMax) / kChunksPerSlab + 2;
    slabs_.reserve(slabs);
    free_.reserve(slabs * kChunksPerSlab);
    (void)grow();
  }

  using Memory = std::unique_ptr<Slab>;
  /// Memory for add(). May be allocated by any thread at any time.
  [[nodiscard]] static Memory make() { return std::make_unique<Slab>(); }
  /// True when less than half a slab is free, or less than keep() has set.
  [[nodiscard]] bool low() const noexcept { return free_.size() < kept_; }
  /// Sets the number of chunks that should be free at any time.
  void keep(uint32_t chunks) noexcept { kept_ = std::clamp(chunks, kChunksPerSlab / 2, kKeptMax); }
  /// From now on another thread adds memory. `flag` is set when memory is low.
  void report_to(bool& flag) noexcept { low_ = &flag; }
  /// True when an operation that takes at most `chunks` may begin. False: wait for more memory.
  [[nodiscard]] bool serves(uint32_t chunks) noexcept {
    if (free_.size() >= chunks || low_ == nullptr || exhausted_) [[likely]]
      return true;
    *low_ = true;
    return false;
  }
  /// True when an operation found no chunk and more memory is being supplied.
  [[nodiscard]] bool awaited() const noexcept { return awaited_; }
  /// There is no memory to add: until there is, operations continue without it.
  void go_without() noexcept {
    awaited_ = false;
    exhausted_ = true;
  }
  void add(Memory memory) {
    awaited_ = exhausted_ = false;
    free_.reserve((slabs_.size() + 1) * kChunksPerSlab);
    slabs_.push_back(std::move(memory));
    for (auto& chunk : slabs_.back()->chunks) free_.push_back(chunk.data());
  }

  /// A chunk as it was returned, or with packets as Packet{}. Null when there is no memory, or when `ahead`
  /// is set and ahead_max chunks are in use.
  [[nodiscard]] Packet* take(bool ahead) noexcept {
    if (ahead && ahead_ >= ahead_max_) [[unlikely]]
      return nullptr;
    if (free_.empty() && !grow()) [[unlikely]]
      return nullptr;
    Packet* chunk = free_.back();
    free_.pop_back();
    if (low() && low_ != nullptr) [[unlikely]]
      *low_ = true;
    ahead_ += ahead ? 1U : 0U;
    ++out_;
    return chunk;
  }
  void give_back(Packet* chunk, bool ahead) noexcept {
    free_.push_back(chunk);
    count_ahead(ahead, false);
    --out_;
  }
  /// A chunk in use changes from `before` to `after` (true: counted as ahead).
  void count_ahead(bool before, bool after) noexcept { ahead_ += (after ? 1U : 0U) - (before ? 1U : 0U); }

  /// Number of chunks that QPs hold.
  [[nodiscard]] uint32_t out() const noexcept { return out_; }

 private:
  [[nodiscard, gnu::cold]] bool grow() noexcept {
    if (low_ != nullptr) {
      *low_ = true;
      awaited_ = !exhausted_;
      return false;
    }
    try {
      add(make());
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  std::vector<Packet*> free_;
  uint32_t ahead_ = 0;
  uint32_t ahead_max_;
  uint32_t out_ = 0;
  uint32_t kept_ = kChunksPerSlab / 2;
  bool* low_ = nullptr;  // set: another thread supplies memory
  bool awaited_ = false;
  bool exhausted_ = false;
  std::vector<Memory> slabs_;
};

/// The packets of one direction of a QP, by number. The chunk of the oldest packet is always available, so
/// that a QP continues whatever other QPs hold. Chunks behind it count as `ahead`, and their total over all
/// QPs is limited. A window that begins in the middle of a chunk ends in the same chunk, kPacketWindow
/// further on.
template <class Packet>
class PacketWindow {
 public:
  /// For services with one packet in flight: provides its memory, under every number.
  void keep_one() {
    one_ = std::make_unique<Packet>();
    chunks_[0] = one_.get();
    mask_ = 0;
  }

  /// The packet must have memory.
  [[nodiscard]] Packet& at(uint64_t number) noexcept {
    return chunks_[index_of(number)][number & mask_ & (kChunkPackets - 1)];
  }
  /// The address that at() reads first for packet `number`, for any service.
  [[nodiscard]] const void* place_of(uint64_t number) const noexcept {
    return &chunks_[number % kPacketWindow / kChunkPackets];
  }
  /// Null when the packet has no memory.
  [[nodiscard]] Packet* find(uint64_t number) noexcept {
    return chunks_[index_of(number)] != nullptr ? &at(number) : nullptr;
  }
  /// Gives packet `number` memory. `base` is the oldest packet. False when there is no memory.
  [[nodiscard]] bool open(ChunkPool<Packet>& pool, uint64_t number, uint64_t base) noexcept {
    const uint32_t index = index_of(number);
    if (chunks_[index] != nullptr) [[likely]]
      return true;
    const bool ahead = index != index_of(base);
    chunks_[index] = pool.take(ahead);
    if (chunks_[index] == nullptr) [[unlikely]]
      return false;
    held_ |= 1U << index;
    ahead_ |= uint32_t{ahead} << index;
    return true;
  }
  /// The oldest packet is now `base`, one further than before. The window has `count` packets.
  void pass(ChunkPool<Packet>& pool, uint64_t base, uint64_t count) noexcept {
    if (mask_ == 0 || (base & (kChunkPackets - 1)) != 0) [[likely]]
      return;
    const uint32_t left = index_of(base - 1);
    if (count > kPacketWindow - kChunkPackets) {  // the newest packets use the chunk of the oldest
      set_ahead(pool, left, true);
    } else {
      release(pool, left);
    }
    set_ahead(pool, index_of(base), false);
  }
  /// Packet `number` and all behind it up to the end of the window are not in use. Returns its chunk, unless
  /// a packet from `base` to `newest` is in it.
  void drop_tail(ChunkPool<Packet>& pool, uint64_t number, uint64_t base, uint64_t newest) noexcept {
    const uint32_t index = index_of(number);
    if (index != index_of(base) && index != index_of(newest)) release(pool, index);
  }
  /// No packet is in use: returns all chunks.
  void rest(ChunkPool<Packet>& pool) noexcept {
    while (held_ != 0) release(pool, static_cast<uint32_t>(std::countr_zero(held_)));
  }
  /// Resets all packets to Packet{} and returns their chunks.
  void clear(ChunkPool<Packet>& pool) noexcept {
    for (uint32_t held = held_; held != 0; held &= held - 1) {
      for (Packet& packet : std::span(chunks_[static_cast<uint32_t>(std::countr_zero(held))], kChunkPackets))
        packet = {};
    }
    rest(pool);
    if (one_ != nullptr) *one_ = {};
  }

 private:
  static constexpr uint32_t kChunks = kPacketWindow / kChunkPackets;
  static_assert(kChunks <= 32 && std::has_single_bit(kChunkPackets) && kPacketWindow % kChunkPackets == 0,
                "one bit per chunk");

  [[nodiscard]] uint32_t index_of(uint64_t number) const noexcept {
    return static_cast<uint32_t>(number & mask_) / kChunkPackets;
  }
  void set_ahead(ChunkPool<Packet>& pool, uint32_t index, bool ahead) noexcept {
    const uint32_t bit = 1U << index;
    if ((held_ & bit) == 0) return;
    pool.count_ahead((ahead_ & bit) != 0, ahead);
    ahead_ = ahead ? ahead_ | bit : ahead_ & ~bit;
  }
  void release(ChunkPool<Packet>& pool, uint32_t index) noexcept {
    const uint32_t bit = 1U << index;
    if ((held_ & bit) == 0) return;
    pool.give_back(chunks_[index], (ahead_ & bit) != 0);
    chunks_[index] = nullptr;
    held_ &= ~bit;
    ahead_ &= ~bit;
  }

  uint32_t mask_ = kPacketWindow - 1;
  uint32_t held_ = 0;   // chunks from the pool, one bit each
  uint32_t ahead_ = 0;  // those of them that count as ahead
  std::unique_ptr<Packet> one_;
  std::array<Packet*, kChunks> chunks_{};
};

/// One bit per packet of a window.
class WindowBits {
 public:
  void set(Psn psn) noexcept { word(psn) |= bit(psn); }
  void clear(Psn psn) noexcept { word(psn) &= ~bit(psn); }
  void clear_all() noexcept { words_ = {}; }
  /// Distance from `base` of the first packet at or after `from` whose bit is set; `end` when there is none.
  /// At most kPacketWindow / 64 + 1 steps.
  [[nodiscard]] uint64_t next(Psn base, uint64_t from, uint64_t end) const noexcept {
    while (from < end) {
      const uint32_t place = (base.value() + static_cast<uint32_t>(from)) % kPacketWindow;
      const uint64_t rest = words_[place / 64] >> (place % 64);
      if (rest != 0) return std::min(end, from + static_cast<uint64_t>(std::countr_zero(rest)));
      from += 64 - place % 64;
    }
    return end;
  }

 private:
  [[nodiscard]] uint64_t& word(Psn psn) noexcept { return words_[psn.value() % kPacketWindow / 64]; }
  [[nodiscard]] static uint64_t bit(Psn psn) noexcept { return uint64_t{1} << (psn.value() % 64); }

  std::array<uint64_t, kPacketWindow / 64> words_{};
};

}  // namespace weft::adapter
