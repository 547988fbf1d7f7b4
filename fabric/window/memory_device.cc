// How it works: each end keeps its requests under way in a list. A request without a fault moves its bytes
// and completes in flush(). A late one gets three times: when its first half moves (first or second half of
// the bytes, by chance), when the rest moves, and when it completes. poll() carries out what is due in the
// order of these times, so requests overtake each other and bytes arrive before, between and after those of
// others.
#include "fabric/window/memory_device.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/check.h"
#include "fabric/window/window_words.h"

namespace weft::fabric {
namespace {

/// A part of a request: bytes [begin, begin + bytes).
DmaRequest part_of(const DmaRequest& request, uint64_t begin, uint64_t bytes) noexcept {
  DmaRequest part = request;
  part.remote += begin;
  if (bytes != 0) part.local += begin;  // without bytes there may be no local memory
  part.bytes = bytes;
  return part;
}

}  // namespace

class MemoryWindow::End final : public DmaDevice {
 public:
  End(const MemoryWindowConfig& config, size_t side, RandomSource& random)
      : random_(random),
        requests_max_(config.requests),
        memory_space_(config.memory_space),
        mapped_(config.mapped),
        words_(config.window_bytes[side] / kWindowWordBytes + kAlignWords) {
    WEFT_CHECK(config.window_bytes[side] % 64 == 0, "window memory is a multiple of 64 bytes");
    const auto at = reinterpret_cast<uintptr_t>(words_.data());
    memory_ =
        std::as_writable_bytes(std::span(words_)).subspan((64 - at % 64) % 64, config.window_bytes[side]);
    moving_.reserve(requests_max_);
    posted_.reserve(requests_max_);
    done_.reserve(requests_max_);
  }
  void connect(End& other) noexcept { other_ = &other; }

  PeerState peer() const noexcept override { return other_->dead_ ? PeerState::kGone : PeerState::kUp; }
  bool peer_ended() const noexcept override { return other_->dead_; }
  DeviceLimits limits() const noexcept override {
    return {other_->memory_.size(), requests_max_, memory_space_};
  }
  bool post(const DmaRequest& request) noexcept override {
    if (dead_ || other_->dead_) return false;
    if (posted_.size() + moving_.size() + done_.size() >= requests_max_) return false;
    posted_.push_back(request);
    return true;
  }
  void flush() noexcept override {
    for (const DmaRequest& request : posted_) start(request);
    posted_.clear();
  }
  uint32_t completions(std::span<DmaCompletion> out) noexcept override {
    const size_t count = std::min(out.size(), done_.size());
    std::copy_n(done_.begin(), count, out.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<ptrdiff_t>(count));
    return static_cast<uint32_t>(count);
  }
  void abandon(uint64_t mask, uint64_t bits) noexcept override {
    const auto end = [&](uint64_t token) {
      if ((token & mask) != bits) return false;
      done_.push_back({token, DmaStatus::kFailed});
      return true;
    };
    std::erase_if(moving_, [&](const Moving& moving) { return end(moving.request.token); });
    std::erase_if(posted_, [&](const DmaRequest& request) { return end(request.token); });
  }
  void notify() noexcept override {
    if (dead_ || other_->dead_) return;
    if (other_->bell_at_ != kNever) {
      ++counts_.merged;
      return;
    }
    other_->bell_at_ = random_.chance_ppm(faults_.merge_ppm) ? now_ + lateness() : Instant::min();
    other_->rings_.fetch_add(1, std::memory_order_release);
  }
  bool take_notification() noexcept override {
    if (bell_at_ > now_) return false;
    bell_at_ = kNever;
    return true;
  }
  /// Steps when the peer notifies, which may be before the notification arrives: deadline() tells when.
  const std::atomic<uint64_t>* bell() const noexcept override { return &rings_; }
  void set_scratchpad(uint32_t index, uint64_t value) noexcept override {
    scratchpads_.at(index).store(to_big(value));
  }
  uint64_t peer_scratchpad(uint32_t index) const noexcept override {
    return to_big(other_->scratchpads_.at(index).load());
  }
  const std::atomic<uint64_t>* peer_register(uint32_t index) const noexcept override {
    return &other_->scratchpads_.at(index);
  }
  std::span<std::byte> mapped_peer() noexcept override {
    return mapped_ ? other_->memory_ : std::span<std::byte>();
  }
  std::span<std::byte> own_memory() noexcept override { return memory_; }

  int poll(Instant now) noexcept override {
    now_ = now;
    if (dead_) return 0;
    flush();
    int work = 0;
    for (auto next = first_due(); next != moving_.end(); next = first_due()) {
      step(next);
      ++work;
    }
    return work;
  }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  bool prepare_sleep() noexcept override { return done_.empty() && bell_at_ > now_; }
  void finish_sleep() noexcept override {}
  Instant deadline() const noexcept override {
    Instant first = bell_at_;
    for (const Moving& moving : moving_) first = std::min(first, moving.at);
    return first;
  }

  void set_owner_memory(OwnerMemory* memory) noexcept { owner_memory_ = memory; }
  void set_faults(const DmaFaults& faults) noexcept { faults_ = faults; }
  const DmaFaultCounts& counts() const noexcept { return counts_; }
  void die() noexcept {
    dead_ = true;
    moving_.clear();
    posted_.clear();
    done_.clear();
    other_->peer_died();
  }

 private:
  static constexpr size_t kAlignWords = 8;

  enum class Phase : uint8_t { kFirst, kRest, kComplete };
  struct Moving {
    DmaRequest request;
    Phase phase = Phase::kFirst;
    Instant at;  // of the next phase
    Duration rest_after{};
    Duration complete_after{};
    uint64_t split = 0;  // bytes of the first half
    bool second_first = false;
    DmaStatus status = DmaStatus::kGood;
    uint64_t moves = 0;  // bytes that a failing request moves
  };

  Duration lateness() noexcept {
    const auto room = static_cast<uint64_t>((faults_.late_max - faults_.late_min).count());
    return faults_.late_min + Duration(static_cast<int64_t>(random_.below(room + 1)));
  }
  static bool is_word(const DmaRequest& request) noexcept {
    return request.space == DmaSpace::kWindow && request.bytes == kWindowWordBytes &&
           request.remote % kWindowWordBytes == 0;
  }
  void start(const DmaRequest& request) noexcept {
    ++counts_.requests;
    if (other_->dead_) {
      done_.push_back({request.token, DmaStatus::kPeerGone});
      return;
    }
    Moving moving{.request = request, .at = now_, .moves = request.bytes};
    if (random_.chance_ppm(faults_.fail_ppm)) {
      ++counts_.failed;
      moving.status = DmaStatus::kFailed;
      moving.moves = is_word(request) ? random_.below(2) * request.bytes : random_.below(request.bytes + 1);
    }
    if (random_.chance_ppm(faults_.late_ppm)) {
      ++counts_.late;
      const Duration whole = lateness();
      const auto first =
          Duration(static_cast<int64_t>(random_.below(static_cast<uint64_t>(whole.count()) + 1)));
      const Duration left = whole - first;
      moving.at = now_ + first;
      moving.rest_after =
          Duration(static_cast<int64_t>(random_.below(static_cast<uint64_t>(left.count()) + 1)));
      moving.complete_after = left - moving.rest_after;
      moving.split = is_word(request) ? 0 : random_.below(moving.moves + 1);
      moving.second_first = random_.below(2) == 1;
      moving_.push_back(moving);
      return;
    }
    const DmaStatus moved = move(part_of(request, 0, moving.moves));
    done_.push_back({request.token, moved == DmaStatus::kGood ? moving.status : moved});
  }
  std::vector<Moving>::iterator first_due() noexcept {
    const auto first = std::min_element(moving_.begin(), moving_.end(),
                                        [](const Moving& a, const Moving& b) { return a.at < b.at; });
    return first == moving_.end() || first->at > now_ ? moving_.end() : first;
  }
  void step(std::vector<Moving>::iterator next) noexcept {
    Moving& moving = *next;
    if (moving.phase == Phase::kComplete) {
      done_.push_back({moving.request.token, moving.status});
      moving_.erase(next);
      return;
    }
    const bool first_half = (moving.phase == Phase::kFirst) != moving.second_first;
    const DmaStatus moved =
        move(first_half ? part_of(moving.request, 0, moving.split)
                        : part_of(moving.request, moving.split, moving.moves - moving.split));
    if (moved != DmaStatus::kGood) moving.status = moved;
    moving.at += moving.phase == Phase::kFirst ? moving.rest_after : moving.complete_after;
    moving.phase = moving.phase == Phase::kFirst ? Phase::kRest : Phase::kComplete;
  }
  DmaStatus move(const DmaRequest& request) noexcept {
    if (request.space == DmaSpace::kWindow) return move_in_window(other_->memory_, request);
    if (!memory_space_) return DmaStatus::kOutOfBounds;
    if (request.bytes == 0) return DmaStatus::kGood;
    OwnerMemory* const memory = other_->owner_memory_;
    const std::span local(request.local, request.bytes);
    const bool good =
        memory != nullptr && (request.kind == DmaKind::kWrite ? memory->write(request.remote, local)
                                                              : memory->read(request.remote, local));
    return good ? DmaStatus::kGood : DmaStatus::kNoMemory;
  }
  void peer_died() noexcept {
    for (const Moving& moving : moving_) done_.push_back({moving.request.token, DmaStatus::kPeerGone});
    for (const DmaRequest& request : posted_) done_.push_back({request.token, DmaStatus::kPeerGone});
    moving_.clear();
    posted_.clear();
  }

  RandomSource& random_;
  uint32_t requests_max_;
  bool memory_space_;
  bool mapped_;
  std::vector<uint64_t> words_;
  std::span<std::byte> memory_;
  End* other_ = nullptr;
  OwnerMemory* owner_memory_ = nullptr;
  std::array<std::atomic<uint64_t>, kScratchpads> scratchpads_{};  // big-endian
  DmaFaults faults_{};
  DmaFaultCounts counts_{};
  std::vector<DmaRequest> posted_;
  std::vector<Moving> moving_;
  std::vector<DmaCompletion> done_;
  Instant now_{};
  std::atomic<uint64_t> rings_{0};
  Instant bell_at_ = kNever;  // arrival of a notification that was not taken
  bool dead_ = false;
};

MemoryWindow::MemoryWindow(const MemoryWindowConfig& config, RandomSource& random)
    : ends_{std::make_unique<End>(config, 0, random), std::make_unique<End>(config, 1, random)} {
  ends_[0]->connect(*ends_[1]);
  ends_[1]->connect(*ends_[0]);
}
MemoryWindow::~MemoryWindow() = default;

DmaDevice& MemoryWindow::end(size_t side) noexcept {
  return *ends_.at(side);
}
void MemoryWindow::set_owner_memory(size_t side, OwnerMemory* memory) noexcept {
  ends_.at(side)->set_owner_memory(memory);
}
void MemoryWindow::set_faults(size_t side, const DmaFaults& faults) noexcept {
  ends_.at(side)->set_faults(faults);
}
const DmaFaultCounts& MemoryWindow::counts(size_t side) const noexcept {
  return ends_.at(side)->counts();
}
void MemoryWindow::kill(size_t side) noexcept {
  ends_.at(side)->die();
}

std::string_view name_of(DmaStatus status) noexcept {
  switch (status) {
    case DmaStatus::kGood:
      return "good";
    case DmaStatus::kFailed:
      return "the device could not move all bytes";
    case DmaStatus::kOutOfBounds:
      return "outside the window memory";
    case DmaStatus::kNoMemory:
      return "the peer has no memory there for this request";
    case DmaStatus::kPeerGone:
      return "the peer has gone";
  }
  return "unknown";
}

}  // namespace weft::fabric
