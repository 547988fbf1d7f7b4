// messages/window_record.h -- what RC over a memory window puts into a FIFO slot: a header of 48 bytes, then
// data. The slot's own header names the queue pairs of both sides (messages/window_layout.h). docs/window.md
// has the picture.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include "base/endian.h"

namespace weft {

inline constexpr uint32_t kWindowRecordBytes = 48;
/// Data of an atomic request: value to compare, then new value or addend, 64 bits each.
inline constexpr uint32_t kWindowAtomicBytes = 16;

enum class WindowRecordKind : uint8_t {
  kReady = 1,   // the sender's QP receives; `code`: its grants (WindowGrant)
  kGone = 2,    // the sender's QP no longer receives
  kSwitch = 3,  // the sender's QP reaches its peer through a switch
  kAck = 4,     // nothing but `acknowledged`
  kNak = 5,     // message `number` was refused; `code`: AckCode, `timer`: RNR timer code
  // Requests, numbered in the order of posting:
  kSend = 6,
  kWrite = 7,         // RDMA write that its owner executes
  kImmediate = 8,     // immediate data of a write whose `total` bytes the device has moved
  kRead = 9,          // of `total` bytes
  kCompareSwap = 10,  // kWindowAtomicBytes of data
  kFetchAdd = 11,
  kResponse = 12,  // data of a read, or the old value of an atomic operation (8 bytes, big-endian)
  // RDMA write that the sender's copy of the table refuses: without data. A request like those above.
  kRefusedWrite = 13,
};

enum WindowRecordFlag : uint8_t {
  kRecordLast = 1,         // last part of its message
  kRecordImmediate = 2,    // `immediate` is immediate data
  kRecordInvalidates = 4,  // `immediate` is a key to invalidate
  kRecordSolicited = 8,
  kRecordAnswer = 16,  // an answer is wanted: a request's acknowledgement, or kReady
};
inline constexpr uint8_t kRecordFlagsAll = 31;

/// What a QP grants its peer.
enum WindowGrant : uint8_t { kGrantWrite = 1, kGrantRead = 2 };

struct WindowRecordWire {
  uint8_t kind;
  uint8_t flags;
  uint8_t code;
  uint8_t timer;
  Be32 number;
  Be32 acknowledged;
  Be32 immediate;
  Be64 address;
  Be32 key;
  Be32 total;
  Be32 offset;
  Be32 sender_life;
  Be32 receiver_life;
  Be32 zero;
};
static_assert(sizeof(WindowRecordWire) == kWindowRecordBytes && alignof(WindowRecordWire) == 1);
static_assert(std::is_trivially_copyable_v<WindowRecordWire>);
static_assert(offsetof(WindowRecordWire, number) == 4 && offsetof(WindowRecordWire, acknowledged) == 8 &&
              offsetof(WindowRecordWire, immediate) == 12 && offsetof(WindowRecordWire, address) == 16 &&
              offsetof(WindowRecordWire, key) == 24 && offsetof(WindowRecordWire, total) == 28 &&
              offsetof(WindowRecordWire, offset) == 32 && offsetof(WindowRecordWire, sender_life) == 36 &&
              offsetof(WindowRecordWire, receiver_life) == 40 && offsetof(WindowRecordWire, zero) == 44);

struct WindowRecord {
  WindowRecordKind kind{};
  uint8_t flags = 0;
  uint8_t code = 0;
  uint8_t timer = 0;
  uint32_t number = 0;        // of the message, from 0; counts requests of this QP that go through the FIFO
  uint32_t acknowledged = 0;  // messages of the receiver that the sender has executed
  uint32_t immediate = 0;
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t total = 0;   // bytes of the message
  uint32_t offset = 0;  // of the data within the message
  // A QP that was reset has the same number and another life.
  uint32_t sender_life = 0;
  uint32_t receiver_life = 0;  // as the sender knows it; 0: not yet

  [[nodiscard]] bool has(WindowRecordFlag flag) const noexcept { return (flags & flag) != 0; }
};

enum class WindowRecordFault : uint8_t {
  kNone,
  kLength,  // shorter than the header, or data where the kind has none, or another number of bytes
  kKind,
  kFlags,
  kReserved,
  kRange,  // the data lies outside the message, or a last part does not end it
};
/// `in` is a slot's data, which the peer may change at any time: the header is copied once, then checked.
/// `out` and `data` are set on kNone only.
[[nodiscard]] WindowRecordFault decode_window_record(std::span<const std::byte> in, WindowRecord& out,
                                                     std::span<const std::byte>& data) noexcept;
[[nodiscard]] std::array<std::byte, kWindowRecordBytes> encode_window_record(
    const WindowRecord& record) noexcept;

}  // namespace weft
