// messages/netdev_model.h -- the nine messages of the split driver as typed values, which both encodings
// transport (messages/netdev_bytes.h, messages/netdev_capnp.h). A message owns its lists. Packet and
// configuration data are spans into the buffer from which the message was decoded.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <variant>

#include "messages/ids.h"
#include "messages/netdev.h"

namespace weft {

/// A list of at most N entries, stored in the object itself.
template <class T, uint32_t N>
class FixedList {
 public:
  static constexpr uint32_t kCapacity = N;
  /// False when full; nothing is added then.
  bool push_back(const T& value) noexcept {
    if (count_ == N) return false;
    entries_[count_++] = value;
    return true;
  }
  [[nodiscard]] uint32_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] bool full() const noexcept { return count_ == N; }
  [[nodiscard]] const T& operator[](uint32_t index) const noexcept { return entries_[index]; }
  [[nodiscard]] T& back() noexcept { return entries_[count_ - 1]; }
  [[nodiscard]] const T* begin() const noexcept { return entries_.data(); }
  [[nodiscard]] const T* end() const noexcept { return entries_.data() + count_; }
  friend bool operator==(const FixedList& a, const FixedList& b) noexcept {
    if (a.count_ != b.count_) return false;
    for (uint32_t i = 0; i < a.count_; ++i) {
      if (!(a.entries_[i] == b.entries_[i])) return false;
    }
    return true;
  }

 private:
  uint32_t count_ = 0;
  std::array<T, N> entries_{};
};

/// One pool as its owner advertises it (PUSH-POOL-02, PUSH-POOL-03).
struct PoolAdvert {
  uint32_t pool = 0;  // reference
  uint32_t elements = 0;
  uint32_t element_bytes = 0;
  Rkey handle{};
  uint64_t address = 0;  // of element 0; element i lies at address + i x element_bytes (PUSH-POOL-01)
  uint64_t context = 0;  // free for the owner (PUSH-POOL-04)
  friend bool operator==(const PoolAdvert&, const PoolAdvert&) = default;
};
struct BufferRecvPool {
  FixedList<PoolAdvert, kNetdevPoolsPerMessageMax> pools;
  static constexpr auto kList = &BufferRecvPool::pools;
  friend bool operator==(const BufferRecvPool&, const BufferRecvPool&) = default;
};

struct BufferRecvPoolGet {
  uint32_t packet_bytes = 0;
  uint32_t packets = 0;
  friend bool operator==(const BufferRecvPoolGet&, const BufferRecvPoolGet&) = default;
};

/// `count` elements from `first` on are free again; 0 = the whole pool.
struct PoolRun {
  uint32_t pool = 0;
  uint32_t first = 0;
  uint32_t count = 0;
  friend bool operator==(const PoolRun&, const PoolRun&) = default;
};
struct BufferRecvPoolUpdate {
  FixedList<PoolRun, kNetdevRunsPerMessageMax> runs;
  static constexpr auto kList = &BufferRecvPoolUpdate::runs;
  friend bool operator==(const BufferRecvPoolUpdate&, const BufferRecvPoolUpdate&) = default;
};

struct BufferPoolFlushRequest {
  FixedList<uint32_t, kNetdevPoolsPerMessageMax> pools;
  static constexpr auto kList = &BufferPoolFlushRequest::pools;
  friend bool operator==(const BufferPoolFlushRequest&, const BufferPoolFlushRequest&) = default;
};
struct BufferPoolFlushReply {
  friend bool operator==(const BufferPoolFlushReply&, const BufferPoolFlushReply&) = default;
};

struct SendData {
  std::span<const std::byte> data;  // the LAN packet
};

/// One used element (PUSH-DATA-04).
struct Indication {
  uint32_t pool = 0;
  uint32_t element = 0;
  uint32_t element_bytes = 0;
  uint32_t data_bytes = 0;
  friend bool operator==(const Indication&, const Indication&) = default;
};
struct BufferRdmaIndicate {
  FixedList<Indication, kNetdevIndicationsPerMessageMax> used;
  static constexpr auto kList = &BufferRdmaIndicate::used;
  friend bool operator==(const BufferRdmaIndicate&, const BufferRdmaIndicate&) = default;
};

struct CfgUtilRequest {
  uint16_t request_class = 0;  // CfgClass; unknown values are answered, not dropped
  uint16_t code = 0;
  std::span<const std::byte> data;
};
struct CfgUtilReply {
  uint16_t request_class = 0;
  uint16_t code = 0;
  uint16_t status = 0;  // CfgStatus
  std::span<const std::byte> data;
};

/// A message that consists of one list. Both encodings write and read it entry by entry.
template <class Body>
concept ListBody = requires {
  Body::kList;
};

/// One message. The alternatives are in the order of the function codes, from 1.
struct NetdevMessage {
  using Body = std::variant<BufferRecvPool, BufferRecvPoolGet, BufferRecvPoolUpdate, BufferPoolFlushRequest,
                            BufferPoolFlushReply, SendData, BufferRdmaIndicate, CfgUtilRequest, CfgUtilReply>;
  uint64_t context = 0;  // transaction; a reply repeats the request's (PUSH-MSG-03)
  Body body;

  [[nodiscard]] NetdevFunction function() const noexcept {
    return static_cast<NetdevFunction>(body.index() + 1);
  }
};
static_assert(std::variant_size_v<NetdevMessage::Body> == 9);

/// Same function, context and contents; spans are compared by their bytes.
[[nodiscard]] bool operator==(const NetdevMessage& a, const NetdevMessage& b) noexcept;

/// Why a message was refused. Each reason has its own counter (PUSH-MSG-04).
enum class NetdevError : uint8_t {
  kNone,
  kTooShort,  // shorter than the header or the fixed part of the function
  kUnknownFunction,
  kWrongVersion,
  kLengthMismatch,  // length and contents disagree
  kCountLimit,      // more entries or data than the model allows
  kBadValue,        // a value that no sender may set: an empty pool, elements of 0 bytes
  kNotParsed,       // Cap'n Proto: framing, several segments, pointers, limits
  kCount,
};
[[nodiscard]] std::string_view to_string(NetdevError error) noexcept;

/// Checks rules that hold in both encodings. Both decoders end with this check.
[[nodiscard]] NetdevError check_netdev_values(const NetdevMessage& message) noexcept;

}  // namespace weft
