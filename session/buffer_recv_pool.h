// session/buffer_recv_pool.h -- one pool of receive memory as its owner sees it: an array of elements of one
// size that a peer writes to (PUSH-POOL-01). Records the state of each element in its round trip
//
//   exposed (the peer may write) -> indicated (a frame is in it) -> freed (released by the driver) -> exposed
//
// and checks each indication against it. Does not use the adapter: the session registers the memory and sends
// the messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/fixed_ring.h"
#include "messages/netdev_model.h"

namespace weft::session {

/// Why an indication was refused (decisions 2.16); each has its own counter.
enum class IndicationFault : uint8_t {
  kNone,
  kFlushed,         // the pool has been flushed
  kElementRange,    // no such element
  kElementNotFree,  // indicated already, and not yet renewed
  kSizeWrong,       // element size differs from the advertisement
  kAddressWrong,    // the write did not begin at the element that the idata names
  kTooLong,         // more bytes than an element has
  kCount,
};
[[nodiscard]] std::string_view to_string(IndicationFault fault) noexcept;

/// Memory of a pool, aligned to a page.
class PoolMemory {
 public:
  PoolMemory() = default;
  /// Empty on failure.
  [[nodiscard]] static PoolMemory allocate(size_t bytes) noexcept;
  [[nodiscard]] std::span<std::byte> span() const noexcept { return {memory_.get(), bytes_}; }
  [[nodiscard]] explicit operator bool() const noexcept { return memory_ != nullptr; }

 private:
  struct Free {
    size_t mapped_bytes;  // 0 in an empty one: unique_ptr value-initialises it
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_;
  size_t bytes_ = 0;
};

/// Owner: the session's thread. Memory is taken by the constructor only.
class RecvPool {
 public:
  struct Shape {
    uint32_t reference = 0;
    uint32_t elements = 0;
    uint32_t element_bytes = 0;
    uint64_t context = 0;  // PUSH-POOL-04
  };
  /// @param memory  elements x element_bytes, owned from now on
  RecvPool(const Shape& shape, PoolMemory memory);

  [[nodiscard]] uint32_t reference() const noexcept { return shape_.reference; }
  [[nodiscard]] uint32_t elements() const noexcept { return shape_.elements; }
  [[nodiscard]] uint32_t element_bytes() const noexcept { return shape_.element_bytes; }
  [[nodiscard]] std::span<std::byte> memory() const noexcept { return memory_.span(); }

  /// Every element becomes exposed under `handle`, element i at address + i x element_bytes. Only while none
  /// is indicated.
  void expose(Rkey handle, uint64_t address, Lkey lkey) noexcept;
  /// The advertisement for the peer. Only while live().
  [[nodiscard]] PoolAdvert advert() const noexcept;
  [[nodiscard]] Lkey lkey() const noexcept { return lkey_; }
  [[nodiscard]] bool live() const noexcept { return live_; }
  /// The peer may not write any more. Indicated elements stay readable until they are freed.
  void retire() noexcept;

  /// Checks an indication that came as idata with a write that began at `written_va`.
  [[nodiscard]] IndicationFault check_write(const PoolElement& used, uint64_t written_va,
                                            uint32_t data_bytes) const noexcept;
  /// Checks an entry of BufferRDMAIndicate.
  [[nodiscard]] IndicationFault check_indication(const Indication& used) const noexcept;
  /// exposed -> indicated. Only after a check said kNone.
  void indicate(uint32_t element) noexcept;
  [[nodiscard]] bool is_exposed(uint32_t element) const noexcept;

  [[nodiscard]] std::span<std::byte> element(uint32_t element) const noexcept;

  /// indicated -> freed. In a retired pool the element is not renewed.
  void free_element(uint32_t element) noexcept;
  /// Takes the longest run of consecutive elements at the front of the freed ones and exposes them: one run
  /// of BufferRecvPoolUpdate. False if none is freed.
  [[nodiscard]] bool take_run(PoolRun& out) noexcept;

  [[nodiscard]] uint32_t exposed() const noexcept { return exposed_; }
  [[nodiscard]] uint32_t indicated() const noexcept { return indicated_; }
  [[nodiscard]] uint32_t freed() const noexcept { return static_cast<uint32_t>(freed_.size()); }

 private:
  enum class State : uint8_t { kExposed, kIndicated, kFreed };

  [[nodiscard]] IndicationFault check_element(uint32_t element, uint32_t element_bytes,
                                              uint32_t data_bytes) const noexcept;

  Shape shape_;
  PoolMemory memory_;
  Rkey handle_;
  Lkey lkey_;
  uint64_t address_ = 0;
  bool live_ = false;
  std::vector<State> states_;
  FixedRing<uint32_t> freed_;  // element indices, oldest first
  uint32_t exposed_ = 0;
  uint32_t indicated_ = 0;
};

}  // namespace weft::session
