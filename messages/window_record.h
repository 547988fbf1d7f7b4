// messages/window_record.h -- what RC and UD over a memory window put into a FIFO slot: a header of 48 bytes,
// of 20 for most Sends or of 8 for a datagram, then data. The slot's own header names the queue pairs of both
// sides (messages/window_layout.h). docs/window.md has the picture.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/endian.h"

namespace weft {

inline constexpr uint32_t kWindowRecordBytes = 48;
/// Header of a short Send: with that of its slot and 28 bytes of data it is one cache line.
inline constexpr uint32_t kShortSendBytes = 20;
/// Header of a datagram: the kind, then zeros. A cell and this header are no shorter than kWindowRecordBytes.
inline constexpr uint32_t kDatagramRecordBytes = 8;
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
  // A whole Send without immediate data or key, behind a header of kShortSendBytes, to a QP that takes it
  // (kTakesShortSends). Decoded as a kSend.
  kShortSend = 14,
  // A datagram of a UD QP, behind a header of kDatagramRecordBytes: a whole cell (messages/cell.h), as it
  // would go through a switch.
  kDatagram = 15,
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
enum WindowGrant : uint8_t { kGrantWrite = 1, kGrantRead = 2, kTakesShortSends = 4 };
inline constexpr uint8_t kWindowGrantsAll = 7;

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

struct ShortSendWire {
  uint8_t kind;
  uint8_t flags;
  Be16 zero;
  Be32 number;
  Be32 acknowledged;
  Be32 sender_life;
  Be32 receiver_life;
};
static_assert(sizeof(ShortSendWire) == kShortSendBytes && alignof(ShortSendWire) == 1);
static_assert(offsetof(ShortSendWire, number) == 4 && offsetof(ShortSendWire, acknowledged) == 8 &&
              offsetof(ShortSendWire, sender_life) == 12 && offsetof(ShortSendWire, receiver_life) == 16);

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
/// The data of a record has this many bytes; kAnyRecordData: up to the end of its message.
inline constexpr size_t kAnyRecordData = ~size_t{0};

[[nodiscard]] constexpr size_t data_bytes_of(WindowRecordKind kind) noexcept {
  switch (kind) {
    case WindowRecordKind::kSend:
    case WindowRecordKind::kWrite:
    case WindowRecordKind::kResponse:
      return kAnyRecordData;
    case WindowRecordKind::kCompareSwap:
    case WindowRecordKind::kFetchAdd:
      return kWindowAtomicBytes;
    case WindowRecordKind::kReady:
    case WindowRecordKind::kGone:
    case WindowRecordKind::kSwitch:
    case WindowRecordKind::kAck:
    case WindowRecordKind::kNak:
    case WindowRecordKind::kImmediate:
    case WindowRecordKind::kRead:
    case WindowRecordKind::kRefusedWrite:
    case WindowRecordKind::kShortSend:
    case WindowRecordKind::kDatagram:
      break;
  }
  return 0;
}

/// A datagram's header is the beginning of `wire`.
[[nodiscard]] inline WindowRecordFault decode_datagram_record(const WindowRecordWire& wire,
                                                              std::span<const std::byte> in,
                                                              WindowRecord& out,
                                                              std::span<const std::byte>& data) noexcept {
  if (wire.flags != 0) return WindowRecordFault::kFlags;
  if (wire.code != 0 || wire.timer != 0 || wire.number.get() != 0) return WindowRecordFault::kReserved;
  out = {.kind = WindowRecordKind::kDatagram};
  data = in.subspan(kDatagramRecordBytes);
  return WindowRecordFault::kNone;
}

[[nodiscard]] inline WindowRecordFault decode_short_send(const ShortSendWire& wire,
                                                         std::span<const std::byte> in, WindowRecord& out,
                                                         std::span<const std::byte>& data) noexcept {
  if ((wire.flags & ~(kRecordSolicited | kRecordAnswer)) != 0) return WindowRecordFault::kFlags;
  if (wire.zero.get() != 0) return WindowRecordFault::kReserved;
  data = in.subspan(kShortSendBytes);
  out = {.kind = WindowRecordKind::kSend,
         .flags = static_cast<uint8_t>(wire.flags | kRecordLast),
         .number = wire.number.get(),
         .acknowledged = wire.acknowledged.get(),
         .total = static_cast<uint32_t>(data.size()),
         .sender_life = wire.sender_life.get(),
         .receiver_life = wire.receiver_life.get()};
  return WindowRecordFault::kNone;
}

/// `in` is a slot's data, which the peer may change at any time: the header is copied once, then checked.
/// `out` and `data` are set on kNone only.
[[nodiscard]] inline WindowRecordFault decode_window_record(std::span<const std::byte> in, WindowRecord& out,
                                                            std::span<const std::byte>& data) noexcept {
  if (in.size() < kShortSendBytes) return WindowRecordFault::kLength;
  ShortSendWire head;
  std::memcpy(&head, in.data(), sizeof head);
  asm volatile("" ::: "memory");  // the copy is what is checked; the slot is not read again
  if (head.kind == static_cast<uint8_t>(WindowRecordKind::kShortSend))
    return decode_short_send(head, in, out, data);
  if (in.size() < kWindowRecordBytes) return WindowRecordFault::kLength;
  WindowRecordWire wire;
  std::memcpy(&wire, in.data(), sizeof wire);
  asm volatile("" ::: "memory");  // the copy is what is checked; the slot is not read again
  if (wire.kind < static_cast<uint8_t>(WindowRecordKind::kReady) ||
      wire.kind > static_cast<uint8_t>(WindowRecordKind::kRefusedWrite)) {
    const bool datagram = wire.kind == static_cast<uint8_t>(WindowRecordKind::kDatagram);
    return datagram ? decode_datagram_record(wire, in, out, data) : WindowRecordFault::kKind;
  }
  if ((wire.flags & ~kRecordFlagsAll) != 0) return WindowRecordFault::kFlags;
  if (wire.zero.get() != 0) return WindowRecordFault::kReserved;
  const auto kind = static_cast<WindowRecordKind>(wire.kind);
  const size_t bytes = in.size() - kWindowRecordBytes;
  const size_t wanted = data_bytes_of(kind);
  if (wanted != kAnyRecordData && bytes != wanted) return WindowRecordFault::kLength;
  if (wanted == kAnyRecordData) {
    const uint32_t total = wire.total.get();
    const uint32_t offset = wire.offset.get();
    if (offset > total || bytes > total - offset) return WindowRecordFault::kRange;
    const bool ends = bytes == total - offset;
    if (ends != ((wire.flags & kRecordLast) != 0)) return WindowRecordFault::kRange;
  }
  out = {.kind = kind,
         .flags = wire.flags,
         .code = wire.code,
         .timer = wire.timer,
         .number = wire.number.get(),
         .acknowledged = wire.acknowledged.get(),
         .immediate = wire.immediate.get(),
         .address = wire.address.get(),
         .key = wire.key.get(),
         .total = wire.total.get(),
         .offset = wire.offset.get(),
         .sender_life = wire.sender_life.get(),
         .receiver_life = wire.receiver_life.get()};
  data = in.subspan(kWindowRecordBytes);
  return WindowRecordFault::kNone;
}

[[nodiscard]] inline std::array<std::byte, kWindowRecordBytes> encode_window_record(
    const WindowRecord& record) noexcept {
  const WindowRecordWire wire{.kind = static_cast<uint8_t>(record.kind),
                              .flags = record.flags,
                              .code = record.code,
                              .timer = record.timer,
                              .number = Be32(record.number),
                              .acknowledged = Be32(record.acknowledged),
                              .immediate = Be32(record.immediate),
                              .address = Be64(record.address),
                              .key = Be32(record.key),
                              .total = Be32(record.total),
                              .offset = Be32(record.offset),
                              .sender_life = Be32(record.sender_life),
                              .receiver_life = Be32(record.receiver_life),
                              .zero = Be32(0)};
  std::array<std::byte, kWindowRecordBytes> out;
  std::memcpy(out.data(), &wire, sizeof wire);
  return out;
}

/// A whole Send: the fields that a short one has.
[[nodiscard]] inline std::array<std::byte, kShortSendBytes> encode_short_send(
    const WindowRecord& record) noexcept {
  const ShortSendWire wire{.kind = static_cast<uint8_t>(WindowRecordKind::kShortSend),
                           .flags = static_cast<uint8_t>(record.flags & (kRecordSolicited | kRecordAnswer)),
                           .zero = Be16(0),
                           .number = Be32(record.number),
                           .acknowledged = Be32(record.acknowledged),
                           .sender_life = Be32(record.sender_life),
                           .receiver_life = Be32(record.receiver_life)};
  std::array<std::byte, kShortSendBytes> out;
  std::memcpy(out.data(), &wire, sizeof wire);
  return out;
}

/// The header of a datagram.
[[nodiscard]] inline std::array<std::byte, kDatagramRecordBytes> encode_datagram_record() noexcept {
  return {std::byte{static_cast<uint8_t>(WindowRecordKind::kDatagram)}};
}

}  // namespace weft
