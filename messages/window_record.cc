#include "messages/window_record.h"

#include <cstring>

namespace weft {
namespace {

/// The data of a record has this many bytes; kAny: up to the end of its message.
constexpr size_t kAny = ~size_t{0};

[[nodiscard]] size_t data_bytes_of(WindowRecordKind kind) noexcept {
  switch (kind) {
    case WindowRecordKind::kSend:
    case WindowRecordKind::kWrite:
    case WindowRecordKind::kResponse:
      return kAny;
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
      break;
  }
  return 0;
}

}  // namespace

WindowRecordFault decode_window_record(std::span<const std::byte> in, WindowRecord& out,
                                       std::span<const std::byte>& data) noexcept {
  if (in.size() < kWindowRecordBytes) return WindowRecordFault::kLength;
  WindowRecordWire wire;
  std::memcpy(&wire, in.data(), sizeof wire);
  asm volatile("" ::: "memory");  // the copy is what is checked; the slot is not read again
  if (wire.kind < static_cast<uint8_t>(WindowRecordKind::kReady) ||
      wire.kind > static_cast<uint8_t>(WindowRecordKind::kRefusedWrite))
    return WindowRecordFault::kKind;
  if ((wire.flags & ~kRecordFlagsAll) != 0) return WindowRecordFault::kFlags;
  if (wire.zero.get() != 0) return WindowRecordFault::kReserved;
  const auto kind = static_cast<WindowRecordKind>(wire.kind);
  const size_t bytes = in.size() - kWindowRecordBytes;
  const size_t wanted = data_bytes_of(kind);
  if (wanted != kAny && bytes != wanted) return WindowRecordFault::kLength;
  if (wanted == kAny) {
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

std::array<std::byte, kWindowRecordBytes> encode_window_record(const WindowRecord& record) noexcept {
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

}  // namespace weft
