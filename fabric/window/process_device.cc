// How it works: each side sends one HELLO with its memfd and comes up when the other's is here. Requests of
// the window space are copies in mapped memory; those of the memory space are handed to the kernel, as a
// list, or to the piece path. A request of either kind ends within flush(), except in pieces. A region is
//
//   0 control page (window_control.h)   4096 window memory   then, at a multiple of 128, the piece ring that
//   its owner consumes
#include "fabric/window/process_device.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>

#include "base/fixed_ring.h"
#include "base/guarded_fd.h"
#include "base/shared_region.h"
#include "fabric/carrier/unix_socket.h"
#include "fabric/window/piece_path.h"
#include "fabric/window/process_copy.h"
#include "fabric/window/window_control.h"
#include "fabric/window/window_words.h"
#include "messages/window_hello.h"

namespace weft::fabric {
namespace {

constexpr Duration kPeerCheck = 20ms;

size_t ring_at(size_t window_bytes) noexcept {
  return (kWindowControlBytes + window_bytes + 127) / 128 * 128;
}
size_t region_bytes(size_t window_bytes) noexcept {
  return SharedRegion::rounded(ring_at(window_bytes) + kPieceRingBytes);
}

/// One side's region as both see it.
struct Side {
  SharedRegion region;
  size_t window_bytes;

  [[nodiscard]] WindowControl& control() const noexcept {
    return *reinterpret_cast<WindowControl*>(region.bytes().data());
  }
  [[nodiscard]] std::span<std::byte> memory() const noexcept {
    return region.bytes().subspan(kWindowControlBytes, window_bytes);
  }
  [[nodiscard]] std::span<std::byte> ring() const noexcept {
    return region.bytes().subspan(ring_at(window_bytes), kPieceRingBytes);
  }
};

/// A process of which we hold a pidfd.
class PeerProcess {
 public:
  PeerProcess() = default;
  explicit PeerProcess(pid_t pid) noexcept
      : pid_(pid), fd_(UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)))) {}
  [[nodiscard]] bool known() const noexcept { return fd_.valid(); }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }
  /// False once all its threads have ended, it has closed its end of `socket` (as when it executes another
  /// program), or the descriptor is not ours any more.
  [[nodiscard]] bool lives(int socket) const noexcept {
    std::array<pollfd, 2> ends{{{fd_.get(), POLLIN, 0}, {socket, POLLRDHUP, 0}}};
    return fd_.is_ours() && ::poll(ends.data(), ends.size(), 0) == 0;
  }
  /// True once all its threads have ended, if the descriptor can still tell.
  [[nodiscard]] bool ended() const noexcept {
    pollfd over{fd_.get(), POLLIN, 0};
    return fd_.is_ours() && ::poll(&over, 1, 0) == 1;
  }

 private:
  pid_t pid_ = 0;
  GuardedFd fd_;
};

class TwoProcesses final : public ProcessDevice {
 public:
  TwoProcesses(GuardedFd socket, Side own, const ProcessDeviceConfig& config, RandomSource& random)
      : socket_(std::move(socket)), own_(std::move(own)), config_(config), bell_(own_.control()) {
    probe_ = random.next();
    posted_.reset(config.requests);
    done_.reset(config.requests);
    list_.reserve(config.requests);
    statuses_.resize(config.requests);
  }

  Status say_hello() noexcept {
    const auto hello = encode_window_hello({own_.window_bytes, reinterpret_cast<uint64_t>(&probe_), probe_,
                                            reinterpret_cast<uint64_t>(&answer_)});
    if (!send_packet(socket_.get(), hello, std::array{own_.region.fd()})) {
      return errno_error("cannot send the hello of a memory window: has the other process ended?", errno);
    }
    return {};
  }

  PeerState peer() const noexcept override { return state_; }
  /// A closed socket alone does not say so: the program of a living peer may have closed the descriptor.
  bool peer_ended() const noexcept override {
    if (state_ != PeerState::kGone) return false;
    return process_.known() ? process_.ended() : fault_.empty();
  }
  DeviceLimits limits() const noexcept override {
    return {peer_ ? peer_->window_bytes : 0, config_.requests, direct_ || config_.pieces};
  }
  const std::string& way() const noexcept override { return way_; }
  bool in_pieces() const noexcept override { return !direct_; }
  const std::string& fault() const noexcept override { return fault_; }

  bool post(const DmaRequest& request) noexcept override {
    if (state_ != PeerState::kUp || under_way_ == config_.requests) return false;
    ++under_way_;
    posted_.push(request);
    return true;
  }
  void flush() noexcept override {
    for (; !posted_.empty(); posted_.pop()) {
      const DmaRequest& request = posted_.front();
      if (state_ != PeerState::kUp) {
        end(request.token, DmaStatus::kPeerGone);
      } else if (request.space == DmaSpace::kWindow) {
        end(request.token, move_in_window(peer_->memory(), request));
      } else if (request.bytes == 0) {
        end(request.token, DmaStatus::kGood);
      } else if (direct_) {
        list_.push_back(request);
      } else {
        start_pieces(request);
      }
    }
    if (!list_.empty()) copy_list();
    if (pieces_ && !direct_) turn_pieces();
  }
  uint32_t completions(std::span<DmaCompletion> out) noexcept override {
    uint32_t count = 0;
    for (; count < out.size() && !done_.empty(); ++count, done_.pop()) out[count] = done_.front();
    under_way_ -= count;
    return count;
  }
  void notify() noexcept override {
    if (state_ == PeerState::kUp && Doorbell::ring(peer_->control())) wake_peer();
  }
  void notify_sleeper() noexcept override {
    if (state_ == PeerState::kUp && Doorbell::sleeps(peer_->control())) notify();
  }
  bool take_notification() noexcept override { return bell_.take(); }
  const std::atomic<uint64_t>* bell() const noexcept override {
    return pieces_due() ? nullptr : &bell_.word();
  }
  void set_scratchpad(uint32_t index, uint64_t value) noexcept override {
    own_.control().scratchpads.at(index).store(to_big(value));
  }
  uint64_t peer_scratchpad(uint32_t index) const noexcept override {
    return peer_ ? to_big(peer_->control().scratchpads.at(index).load()) : 0;
  }
  const std::atomic<uint64_t>* peer_register(uint32_t index) const noexcept override {
    return peer_ ? &peer_->control().scratchpads.at(index) : nullptr;
  }
  std::span<std::byte> mapped_peer() noexcept override {
    return peer_ ? peer_->memory() : std::span<std::byte>();
  }
  std::span<std::byte> own_memory() noexcept override { return own_.memory(); }

  int poll(Instant now) noexcept override {
    now_ = now;
    if (state_ == PeerState::kJoining) take_hello();
    if (now >= check_at_ && state_ == PeerState::kUp) {
      check_at_ = now + kPeerCheck;
      // The socket alone does not tell: a child of the peer may hold its other end.
      if (!socket_.is_ours() || !drain_packets(socket_.get()) || process_.ended()) leave("");
    }
    return state_ == PeerState::kUp && pieces_ ? turn_pieces() : 0;
  }
  void wait_fds(std::vector<pollfd>& out) const override {
    if (state_ == PeerState::kGone) return;
    out.push_back({socket_.get(), POLLIN | POLLRDHUP, 0});
    if (process_.known()) out.push_back({process_.fd(), POLLIN, 0});
  }
  bool prepare_sleep() noexcept override {
    return done_.empty() && bell_.prepare_sleep() && (!pieces_ || pieces_->prepare_sleep());
  }
  void finish_sleep() noexcept override {
    bell_.finish_sleep();
    if (pieces_) pieces_->finish_sleep();
    check_at_ = Instant::min();  // takes the wake-up from the socket
  }
  Instant deadline() const noexcept override { return kNever; }

 private:
  /// Pieces come without a notification.
  [[nodiscard]] bool pieces_due() const noexcept { return config_.pieces; }
  void take_hello() noexcept {
    std::array<std::byte, kWindowHelloBytes + 1> bytes;
    Packet packet;
    const PacketIo io = receive_packet(socket_.get(), bytes, packet);
    if (io == PacketIo::kEmpty) return;
    WindowHello hello;
    if (io == PacketIo::kClosed) {
      leave("");
    } else if (packet.truncated || packet.fd_count != 1 ||
               decode_window_hello(std::span(bytes).first(packet.bytes), hello) != WindowHelloFault::kNone) {
      leave("the other process sent no hello of a memory window of this version");
    } else {
      map_peer(hello, std::move(packet.fds[0]));
    }
  }
  void map_peer(const WindowHello& hello, UniqueFd memory) noexcept {
    Result<SharedRegion> region = SharedRegion::adopt(std::move(memory), region_bytes(hello.window_bytes));
    if (!region) {
      leave(region.error().text);
      return;
    }
    peer_.emplace(Side{std::move(*region), hello.window_bytes});
    if (config_.pieces) pieces_.emplace(peer_->ring(), own_.ring(), config_.requests, config_.memory);
    state_ = PeerState::kUp;
    const std::string obstacle = find_obstacle(hello);
    if (obstacle.empty()) {
      direct_ = true;
      way_ = "direct: the kernel copies between the processes";
    } else {
      use_pieces(obstacle);
    }
  }
  /// Why the kernel's copies cannot be used; empty when they can.
  std::string find_obstacle(const WindowHello& hello) noexcept {
    const pid_t pid = peer_process(socket_.get());
    if (pid != 0) process_ = PeerProcess(pid);
    if (!config_.process_copies) return "this process was told not to copy between processes";
    if (pid == 0) return "the other process has no number here: share the PID namespace of the containers";
    if (!process_.known()) return refusal_text(errno);
    uint64_t probe = 0;
    if (!read_process_word(pid, hello.probe_address, probe)) return refusal_text(errno);
    if (probe != hello.probe_value) return "the other process does not hold the word that it told";
    if (!write_process_word(pid, hello.answer_address, probe)) return refusal_text(errno);
    return {};
  }
  void use_pieces(const std::string& obstacle) noexcept {
    way_ = (config_.pieces ? "in pieces through shared memory: " : "as records through shared memory: ") +
           obstacle;
    direct_ = false;
  }

  void end(uint64_t token, DmaStatus status) noexcept { done_.push({token, status}); }
  /// The peer is gone; `fault` says what it did, if anything. Requests under way fail.
  [[gnu::cold]] void leave(const std::string& fault) noexcept {
    state_ = PeerState::kGone;
    fault_ = fault;
    for (DmaCompletion done; pieces_ && pieces_->next_done(done);) end(done.token, done.status);
    if (pieces_) {
      for (DmaCompletion token; pieces_->abandon(token);) end(token.token, DmaStatus::kPeerGone);
    }
    for (; !posted_.empty(); posted_.pop()) end(posted_.front().token, DmaStatus::kPeerGone);
  }

  void copy_list() noexcept {
    size_t done = 0;
    CopyWay way = CopyWay::kGone;
    if (now_ < alive_until_ || process_.lives(socket_.get())) {
      if (now_ >= alive_until_) alive_until_ = now_ + kPeerAliveFor;
      way = copy_between(process_.pid(), list_, statuses_, done);
    }
    const int error = errno;
    for (size_t i = 0; i < done; ++i) end(list_[i].token, statuses_[i]);
    if (way == CopyWay::kRefused) {
      use_pieces(refusal_text(error));
      for (size_t i = done; i < list_.size(); ++i) start_pieces(list_[i]);
    } else if (way == CopyWay::kGone) {
      for (size_t i = done; i < list_.size(); ++i) end(list_[i].token, DmaStatus::kPeerGone);
      leave("");
    }
    list_.clear();
  }
  /// Without pieces, the owner alone can move the bytes.
  void start_pieces(const DmaRequest& request) noexcept {
    if (config_.pieces) {
      pieces_->start(request);
    } else {
      end(request.token, DmaStatus::kNoMemory);
    }
  }
  int turn_pieces() noexcept {
    const int work = pieces_->poll();
    for (DmaCompletion done; pieces_->next_done(done);) end(done.token, done.status);
    if (pieces_->take_wake()) wake_peer();
    if (pieces_->faulty()) leave("the other process broke a rule of the ring of pieces");
    return work;
  }
  [[gnu::cold]] void wake_peer() noexcept {
    // A peer whose socket is full has wake-ups to read already.
    if (socket_.can_wake()) static_cast<void>(send_packet(socket_.get(), std::array{std::byte{1}}, {}));
  }

  GuardedFd socket_;
  Side own_;
  std::optional<Side> peer_;
  ProcessDeviceConfig config_;
  Doorbell bell_;
  uint64_t probe_ = 0;   // the peer reads it to find out whether we are the process that it means
  uint64_t answer_ = 0;  // the peer writes it to find out whether it may
  PeerProcess process_;
  PeerState state_ = PeerState::kJoining;
  std::string way_;
  std::string fault_;
  std::optional<PiecePath>
      pieces_;  // with ProcessDeviceConfig::pieces: the peer may need them though we do not
  bool direct_ = false;
  FixedRing<DmaRequest> posted_;
  std::vector<DmaRequest> list_;  // for the kernel
  std::vector<DmaStatus> statuses_;
  FixedRing<DmaCompletion> done_;
  uint32_t under_way_ = 0;        // posted, and completion not taken
  Instant now_ = Instant::min();  // of the last poll()
  Instant alive_until_ = Instant::min();
  Instant check_at_ = Instant::min();
};

}  // namespace

Result<std::unique_ptr<ProcessDevice>> ProcessDevice::create(UniqueFd socket,
                                                             const ProcessDeviceConfig& config,
                                                             RandomSource& random) {
  if (!peer_is_our_user(socket.get())) {
    return Error{"the other process belongs to another user: run both as one user, or use the switch"};
  }
  if (config.window_bytes == 0 || config.window_bytes % 64 != 0 || config.window_bytes > kWindowBytesMax) {
    return Error{fmt::format("window memory of {} bytes: give a multiple of 64, at most {}",
                             config.window_bytes, kWindowBytesMax)};
  }
  Result<SharedRegion> region = SharedRegion::create("weft-window", region_bytes(config.window_bytes));
  if (!region) return region.error();
  auto device = std::make_unique<TwoProcesses>(GuardedFd(std::move(socket)),
                                               Side{std::move(*region), config.window_bytes}, config, random);
  if (Status said = device->say_hello(); !said) return said.error();
  return std::unique_ptr<ProcessDevice>(std::move(device));
}

}  // namespace weft::fabric
