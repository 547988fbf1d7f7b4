// session/remote_pool.h -- the peer's receive memory as its user sees it: which elements may be written,
// oldest first, and which pool suits a frame. An element taken is consumed until its owner renews it
// (PUSH-POOL-11).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "base/fixed_ring.h"
#include "messages/netdev_model.h"

namespace weft::session {

/// Why an advertisement or a renewal was refused.
enum class RemotePoolFault : uint8_t {
  kNone,
  kTaken,        // the reference names a pool we know
  kLimit,        // more pools or elements than SessionLimits allows
  kUnknown,      // never advertised
  kRange,        // elements the pool does not have
  kNotConsumed,  // renewal of an element that is free
  kCount,
};
[[nodiscard]] std::string_view to_string(RemotePoolFault fault) noexcept;

/// An element to write to.
struct RemoteElement {
  uint32_t pool = 0;
  uint32_t element = 0;
  uint32_t element_bytes = 0;
  uint64_t address = 0;
  Rkey handle{};
};

/// Owner: the session's thread. Only add() allocates, and it touches none of the memory that grows with the
/// elements but a bit for each: a peer may advertise and flush pools as often as it likes.
class RemotePools {
 public:
  RemotePools(uint32_t pools_max, uint64_t elements_max)
      : pools_max_(pools_max), elements_max_(elements_max) {}

  [[nodiscard]] RemotePoolFault add(const PoolAdvert& advert);
  /// Marks the elements of the run as free. Stops at the first that is free already and reports it, so that a
  /// peer can cause no more work than the elements we have used. @param renewed how many became free
  [[nodiscard]] RemotePoolFault renew(const PoolRun& run, uint32_t& renewed) noexcept;
  /// Stops using the pool. False when there is no such pool.
  bool remove(uint32_t reference) noexcept;
  void clear() noexcept;

  /// Takes the oldest free element of the smallest size that holds `bytes`; when that size is used up, of the
  /// next larger one. False when none is free.
  [[nodiscard]] bool take(uint32_t bytes, RemoteElement& out) noexcept;
  [[nodiscard]] bool empty() const noexcept { return pools_.empty(); }
  [[nodiscard]] bool any_free() const noexcept { return free_ != 0; }
  [[nodiscard]] uint32_t element_bytes_max() const noexcept;
  /// True when every pool can be named by idata: a direction uses idata or BufferRDMAIndicate, never both
  /// (decisions 2.17).
  [[nodiscard]] bool all_by_idata() const noexcept;

  /// Finds a size of which less than a quarter is free, and fills in the BufferRecvPoolGet for it. False if
  /// there is none.
  [[nodiscard]] bool running_low(BufferRecvPoolGet& out) const noexcept;

  [[nodiscard]] bool knows(uint32_t reference) const noexcept { return find(reference) != nullptr; }
  [[nodiscard]] uint64_t elements() const noexcept { return elements_; }
  [[nodiscard]] uint64_t free() const noexcept { return free_; }
  [[nodiscard]] uint64_t consumed() const noexcept { return consumed_; }
  /// All pools that a flush names, smallest element first.
  [[nodiscard]] BufferPoolFlushRequest to_flush() const noexcept;

 private:
  struct Pool {
    PoolAdvert advert;
    bool by_idata = false;
    uint32_t fresh = 0;            // the first element that was never taken; all from there on are free
    FixedRing<uint32_t> renewed;   // free elements before `fresh`, oldest first; has room for those alone
    std::vector<uint64_t> in_use;  // a bit for each element: taken and not yet renewed

    [[nodiscard]] bool is_free(uint32_t element) const noexcept;
    [[nodiscard]] size_t free() const noexcept { return advert.elements - fresh + renewed.size(); }
    /// Only for an element in use.
    void push(uint32_t element) noexcept;
    /// Only if an element is free.
    uint32_t pop() noexcept;
  };

  [[nodiscard]] Pool* find(uint32_t reference) const noexcept;
  [[nodiscard]] RemotePoolFault renew_all(Pool& pool, uint32_t& renewed) noexcept;

  uint32_t pools_max_;
  uint64_t elements_max_;
  std::vector<std::unique_ptr<Pool>> pools_;  // by element size, then by arrival
  uint64_t elements_ = 0;
  uint64_t free_ = 0;
  uint64_t consumed_ = 0;
};

}  // namespace weft::session
