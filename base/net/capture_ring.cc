#include "base/net/capture_ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "base/unique_fd.h"

namespace weft {
namespace {

constexpr uint32_t kVersion = 2;
constexpr std::array<char, 8> kRingMagic{'W', 'E', 'F', 'T', 'C', 'A', 'P', 'T'};
constexpr size_t kWrittenAt = 128;
constexpr size_t kReadAt = 256;
constexpr size_t kDroppedAt = 384;
constexpr size_t kDataAt = 4096;

struct Head {
  std::array<char, 8> magic;
  uint32_t version;
  uint32_t capacity;
};

struct Record {
  uint32_t kept_bytes;
  uint32_t frame_bytes;
  uint64_t time_ns;
  uint32_t direction;
  uint32_t port;
  uint32_t note_bytes;
  uint32_t zero;
};
static_assert(sizeof(Record) == 32);

constexpr uint64_t aligned(uint64_t bytes) noexcept {
  return (bytes + 7) & ~uint64_t{7};
}

}  // namespace

std::atomic<uint64_t>& CaptureRing::word(size_t offset) const noexcept {
  return *reinterpret_cast<std::atomic<uint64_t>*>(base_ + offset);
}

Result<CaptureRing> CaptureRing::map(int fd, const std::string& path, size_t bytes) {
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return errno_error("cannot map capture ring " + path, errno);
  CaptureRing ring;
  ring.base_ = static_cast<std::byte*>(mapped);
  ring.mapped_bytes_ = bytes;
  ring.capacity_ = bytes - kDataAt;
  return ring;
}

Result<CaptureRing> CaptureRing::create(const std::string& path, uint32_t ring_bytes) {
  if (ring_bytes == 0) ring_bytes = kCaptureRingBytesDefault;
  const uint32_t capacity = std::bit_ceil(std::clamp(ring_bytes, kCaptureRingBytesMin, kCaptureRingBytesMax));
  unlink(path.c_str());
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return errno_error("cannot create capture ring " + path, errno);
  const size_t bytes = kDataAt + capacity;
  if (posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)) != 0)
    return Error{"no space for capture ring " + path + "; ask for a smaller one"};
  Result<CaptureRing> ring = map(fd.get(), path, bytes);
  if (!ring.ok()) return ring;
  const Head head{kRingMagic, kVersion, capacity};
  std::memcpy(ring.value().base_, &head, sizeof head);
  return ring;
}

Result<CaptureRing> CaptureRing::open(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) return errno_error("cannot open capture ring " + path, errno);
  struct stat info {};
  if (fstat(fd.get(), &info) != 0 || info.st_size < static_cast<off_t>(kDataAt + kCaptureRingBytesMin))
    return Error{path + " is not a capture ring: too short"};
  Result<CaptureRing> ring = map(fd.get(), path, static_cast<size_t>(info.st_size));
  if (!ring.ok()) return ring;
  Head head{};
  std::memcpy(&head, ring.value().base_, sizeof head);
  if (head.magic != kRingMagic || head.version != kVersion || head.capacity != ring.value().capacity_ ||
      !std::has_single_bit(head.capacity))
    return Error{path + " is not a capture ring of version " + std::to_string(kVersion)};
  ring.value().cursor_ = ring.value().word(kReadAt).load(std::memory_order_relaxed);
  return ring;
}

CaptureRing::CaptureRing(CaptureRing&& other) noexcept {
  *this = std::move(other);
}

CaptureRing& CaptureRing::operator=(CaptureRing&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  std::swap(capacity_, other.capacity_);
  std::swap(cursor_, other.cursor_);
  return *this;
}

CaptureRing::~CaptureRing() {
  if (base_ != nullptr) munmap(base_, mapped_bytes_);
}

void CaptureRing::put(uint64_t at, const void* from, size_t bytes) noexcept {
  if (bytes == 0) return;
  const size_t offset = at & (capacity_ - 1);
  const size_t first = std::min<size_t>(bytes, capacity_ - offset);
  std::memcpy(base_ + kDataAt + offset, from, first);
  std::memcpy(base_ + kDataAt, static_cast<const std::byte*>(from) + first, bytes - first);
}

void CaptureRing::get(uint64_t at, void* to, size_t bytes) const noexcept {
  if (bytes == 0) return;
  const size_t offset = at & (capacity_ - 1);
  const size_t first = std::min<size_t>(bytes, capacity_ - offset);
  std::memcpy(to, base_ + kDataAt + offset, first);
  std::memcpy(static_cast<std::byte*>(to) + first, base_ + kDataAt, bytes - first);
}

void CaptureRing::write(uint32_t port, FrameDirection direction, std::span<const std::byte> head,
                        std::span<const std::byte> rest, uint32_t keep_max, std::string_view note) noexcept {
  const size_t total = head.size() + rest.size();
  const size_t kept = std::min<size_t>(total, keep_max);
  note = note.substr(0, kCaptureNoteBytesMax);
  const uint64_t used = cursor_ - word(kReadAt).load(std::memory_order_acquire);  // pairs with read()
  // A read cursor ahead of ours makes `used` huge: the ring counts as full whatever a broken reader writes
  // there.
  if (used > capacity_ || capacity_ - used < sizeof(Record) + aligned(kept + note.size())) {
    word(kDroppedAt).fetch_add(1, std::memory_order_relaxed);
    return;
  }
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const Record record{
      static_cast<uint32_t>(kept),
      static_cast<uint32_t>(total),
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count()),
      static_cast<uint32_t>(direction),
      port,
      static_cast<uint32_t>(note.size()),
      0};
  put(cursor_, &record, sizeof record);
  const size_t from_head = std::min(kept, head.size());
  put(cursor_ + sizeof record, head.data(), from_head);
  put(cursor_ + sizeof record + from_head, rest.data(), kept - from_head);
  put(cursor_ + sizeof record + kept, note.data(), note.size());
  cursor_ += sizeof record + aligned(kept + note.size());
  word(kWrittenAt).store(cursor_, std::memory_order_release);  // pairs with read()
}

CaptureRing::ReadResult CaptureRing::read(CapturedFrame& out) {
  const uint64_t there = word(kWrittenAt).load(std::memory_order_acquire) - cursor_;
  if (there == 0) return ReadResult::kEmpty;
  if (there > capacity_ || there < sizeof(Record)) return ReadResult::kBroken;
  Record record{};
  get(cursor_, &record, sizeof record);
  const uint64_t whole = aligned(uint64_t{record.kept_bytes} + record.note_bytes);
  if (whole > there - sizeof record || record.kept_bytes > record.frame_bytes || record.direction > 1 ||
      record.note_bytes > kCaptureNoteBytesMax)
    return ReadResult::kBroken;
  out.time_ns = record.time_ns;
  out.direction = static_cast<FrameDirection>(record.direction);
  out.port = record.port;
  out.frame_bytes = record.frame_bytes;
  out.data.resize(record.kept_bytes);
  get(cursor_ + sizeof record, out.data.data(), record.kept_bytes);
  out.note.resize(record.note_bytes);
  get(cursor_ + sizeof record + record.kept_bytes, out.note.data(), record.note_bytes);
  cursor_ += sizeof record + whole;
  word(kReadAt).store(cursor_, std::memory_order_release);  // pairs with write()
  return ReadResult::kFrame;
}

uint64_t CaptureRing::dropped() const noexcept {
  return word(kDroppedAt).load(std::memory_order_relaxed);
}

}  // namespace weft
