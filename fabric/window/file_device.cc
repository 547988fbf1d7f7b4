// How it works: the file has two halves, one per side: a control page, then the window memory. Sizes come
// from the size of the file, never from its content. A side clears its half, writes a random incarnation,
// and says with which incarnation of the peer it is joined; both are up when each is joined with the other.
// Another incarnation, or 0, ends the window.
#include "fabric/window/file_device.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/fixed_ring.h"
#include "base/guarded_fd.h"
#include "base/private_files.h"
#include "base/process_limits.h"
#include "fabric/window/window_control.h"
#include "fabric/window/window_words.h"

namespace weft::fabric {
namespace {

constexpr Duration kLookAtPeerEvery = 20ms;

struct flock side_lock(uint32_t side) noexcept {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = side;
  lock.l_len = 1;
  return lock;
}

/// The whole file, mapped.
class Mapping {
 public:
  explicit Mapping(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  }
  [[nodiscard]] std::span<std::byte> half(uint32_t side) const noexcept {
    const size_t bytes = kWindowControlBytes + window_bytes_of_file(bytes_.size());
    return bytes_.subspan(side * bytes, bytes);
  }
  [[nodiscard]] WindowControl& control(uint32_t side) const noexcept {
    return *reinterpret_cast<WindowControl*>(half(side).data());
  }
  [[nodiscard]] std::span<std::byte> memory(uint32_t side) const noexcept {
    return half(side).subspan(kWindowControlBytes);
  }

 private:
  std::span<std::byte> bytes_;
};

class FileDevice final : public DmaDevice {
 public:
  FileDevice(GuardedFd file, Mapping mapping, const FileDeviceConfig& config, uint64_t incarnation)
      : file_(std::move(file)),
        mapping_(std::move(mapping)),
        side_(config.side),
        locks_(config.locks),
        silence_(config.silence),
        requests_max_(config.requests),
        incarnation_(incarnation),
        bell_(cleared(mapping_, side_)) {
    posted_.reset(requests_max_);
    done_.reset(requests_max_);
    own().incarnation.store(incarnation_);
  }
  ~FileDevice() override {
    if (own().incarnation.load() == incarnation_) own().incarnation.store(0);
  }
  FileDevice(const FileDevice&) = delete;
  FileDevice& operator=(const FileDevice&) = delete;

  PeerState peer() const noexcept override { return state_; }
  bool peer_ended() const noexcept override { return state_ == PeerState::kGone && ended_; }
  DeviceLimits limits() const noexcept override { return {peer_memory().size(), requests_max_, false}; }
  bool post(const DmaRequest& request) noexcept override {
    if (state_ != PeerState::kUp || under_way_ == requests_max_) return false;
    ++under_way_;
    posted_.push(request);
    return true;
  }
  void flush() noexcept override {
    for (; !posted_.empty(); posted_.pop()) {
      const DmaRequest& request = posted_.front();
      DmaStatus status = DmaStatus::kPeerGone;
      if (state_ == PeerState::kUp) {
        status = request.space == DmaSpace::kWindow ? move_in_window(peer_memory(), request)
                                                    : DmaStatus::kOutOfBounds;
      }
      done_.push({request.token, status});
    }
  }
  uint32_t completions(std::span<DmaCompletion> out) noexcept override {
    uint32_t count = 0;
    for (; count < out.size() && !done_.empty(); ++count, done_.pop()) out[count] = done_.front();
    under_way_ -= count;
    return count;
  }
  void notify() noexcept override {
    if (state_ == PeerState::kUp) static_cast<void>(Doorbell::ring(theirs()));
  }
  bool take_notification() noexcept override { return bell_.take(); }
  void set_scratchpad(uint32_t index, uint64_t value) noexcept override {
    own().scratchpads.at(index).store(to_big(value));
  }
  uint64_t peer_scratchpad(uint32_t index) const noexcept override {
    return state_ == PeerState::kUp ? to_big(theirs().scratchpads.at(index).load()) : 0;
  }
  std::span<std::byte> own_memory() noexcept override { return mapping_.memory(side_); }

  int poll(Instant now) noexcept override {
    look_at_ = now + kFileLookEvery;
    own().heartbeat.fetch_add(1, std::memory_order_relaxed);
    if (state_ == PeerState::kJoining) join(now);
    if (state_ == PeerState::kUp) watch(now);
    return 0;
  }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  bool prepare_sleep() noexcept override { return done_.empty() && !bell_.rung(); }
  void finish_sleep() noexcept override {}
  Instant deadline() const noexcept override { return state_ == PeerState::kGone ? kNever : look_at_; }

 private:
  static WindowControl& cleared(const Mapping& mapping, uint32_t side) noexcept {
    const std::span<std::byte> half = mapping.half(side);
    mapping.control(side).incarnation.store(0);
    std::memset(half.data(), 0, half.size());
    return mapping.control(side);
  }
  [[nodiscard]] WindowControl& own() const noexcept { return mapping_.control(side_); }
  [[nodiscard]] WindowControl& theirs() const noexcept { return mapping_.control(1 - side_); }
  [[nodiscard]] std::span<std::byte> peer_memory() const noexcept { return mapping_.memory(1 - side_); }

  void join(Instant now) noexcept {
    const uint64_t incarnation = theirs().incarnation.load();
    own().joined.store(incarnation);
    if (incarnation == 0 || theirs().joined.load() != incarnation_ || !lock_is_held()) return;
    peer_incarnation_ = incarnation;
    state_ = PeerState::kUp;
    heard_at_ = now;
    heartbeat_ = theirs().heartbeat.load(std::memory_order_relaxed);
  }
  void watch(Instant now) noexcept {
    if (theirs().incarnation.load() != peer_incarnation_) {
      leave(true);
      return;
    }
    if (now < watch_at_) return;
    watch_at_ = now + kLookAtPeerEvery;
    if (!lock_is_held()) {
      leave(true);
      return;
    }
    const uint64_t heartbeat = theirs().heartbeat.load(std::memory_order_relaxed);
    if (std::exchange(heartbeat_, heartbeat) != heartbeat) heard_at_ = now;
    if (!locks_ && now - heard_at_ >= silence_) leave(false);
  }
  void leave(bool ended) noexcept {
    state_ = PeerState::kGone;
    ended_ = ended;
    flush();
  }
  /// The peer's lock, where there are locks.
  [[nodiscard]] bool lock_is_held() const noexcept {
    if (!locks_) return true;
    struct flock lock = side_lock(1 - side_);
    return file_.is_ours() && fcntl(file_.get(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
  }

  GuardedFd file_;
  Mapping mapping_;
  uint32_t side_;
  bool locks_;
  Duration silence_;
  uint32_t requests_max_;
  uint64_t incarnation_;
  Doorbell bell_;
  PeerState state_ = PeerState::kJoining;
  bool ended_ = false;
  uint64_t peer_incarnation_ = 0;
  uint64_t heartbeat_ = 0;
  Instant heard_at_{};
  Instant watch_at_ = Instant::min();
  Instant look_at_ = Instant::min();
  FixedRing<DmaRequest> posted_;
  FixedRing<DmaCompletion> done_;
  uint32_t under_way_ = 0;  // posted, and completion not taken
};

/// The file with its blocks, and its size.
Result<size_t> prepare_file(int fd, const FileDeviceConfig& config) {
  struct stat info {};
  if (fstat(fd, &info) != 0) return errno_error("cannot look at " + config.path, errno);
  const size_t bytes = info.st_size == 0 ? config.file_bytes : static_cast<size_t>(info.st_size);
  if (config.file_bytes != 0 && bytes != config.file_bytes) {
    return Error{fmt::format("{} has {} bytes and should have {}: remove it, or give its size", config.path,
                             bytes, config.file_bytes)};
  }
  if (window_bytes_of_file(bytes) == 0) {
    return Error{fmt::format("{} has {} bytes: a window needs at least {}", config.path, bytes,
                             2 * (kWindowControlBytes + 4096))};
  }
  // Memory of another kernel has no blocks, and its size is fixed.
  if (config.locks) {
    if (Status allocated = allocate_file(fd, bytes, config.path); !allocated) return allocated.error();
  }
  return bytes;
}

}  // namespace

size_t window_bytes_of_file(size_t file_bytes) noexcept {
  const size_t half = file_bytes / 2 / 4096 * 4096;
  return half <= kWindowControlBytes ? 0 : half - kWindowControlBytes;
}

Result<UniqueFd> open_window_file(const std::string& path, bool may_make) {
  UniqueFd fd = open_own_file(AT_FDCWD, path, O_RDWR | O_CLOEXEC | (may_make ? O_CREAT : 0));
  struct stat info {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0)
    return errno_error("cannot open " + path + ": it must be a regular file of this user", errno);
  if ((info.st_mode & 077) != 0) {
    return Error{fmt::format("{} may be used by others: chmod 0600 {}", path, path)};
  }
  return fd;
}

Result<std::unique_ptr<DmaDevice>> make_file_device(const FileDeviceConfig& config, RandomSource& random) {
  if (config.side > 1) return Error{fmt::format("side {} of a window: give 0 or 1", config.side)};
  Result<UniqueFd> opened = open_window_file(config.path, config.file_bytes != 0);
  if (!opened) return opened.error();
  UniqueFd fd = std::move(*opened);
  if (config.locks) {
    struct flock lock = side_lock(config.side);
    if (fcntl(fd.get(), F_OFD_SETLK, &lock) != 0) {
      return Error{fmt::format("another process uses side {} of {}: end it, or take side {}", config.side,
                               config.path, 1 - config.side)};
    }
  }
  Result<size_t> bytes = prepare_file(fd.get(), config);
  if (!bytes) return bytes.error();
  void* const at = mmap(nullptr, *bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (at == MAP_FAILED) return errno_error("cannot map " + config.path, errno);
  Mapping mapping(std::span(static_cast<std::byte*>(at), *bytes));
  return std::unique_ptr<DmaDevice>(
      std::make_unique<FileDevice>(GuardedFd(std::move(fd)), std::move(mapping), config, random.next() | 1));
}

}  // namespace weft::fabric
