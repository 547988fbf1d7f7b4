#include "sim/timed_link.h"

#include <algorithm>
#include <utility>

#include "messages/cell.h"

namespace weft::sim {
namespace {

constexpr uint32_t kCellsPerReceive = 64;

}  // namespace

/// One end of the link; cells sent at one end arrive at the other.
class TimedLink::End final : public fabric::CellPort {
 public:
  End(const TimedLinkConfig& config, uint16_t lid)
      : config_(config), staging_(cell_bytes_max(config.cell_payload_bytes)) {
    info_.guid = Guid(0x5745'4654'0000'0000ULL + lid);
    info_.lid = Lid(lid);
    info_.subnet = SubnetId(1);
    info_.cell_payload_bytes = config.cell_payload_bytes;
    info_.lanes = 4;
  }
  void join(End& other) noexcept { other_ = &other; }

  [[nodiscard]] bool up() const noexcept override { return true; }
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept override { return info_; }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return 1; }
  int poll(Instant now) noexcept override {
    now_ = now;
    while (!leaving_.empty() && leaving_.front() <= now) leaving_.pop_front();
    return 0;
  }
  [[nodiscard]] std::byte* claim(VirtualLane /*vl*/, uint32_t cell_bytes) noexcept override {
    const bool room = cell_bytes <= staging_.size() && leaving_.size() < config_.room_cells;
    return room ? staging_.data() : nullptr;
  }
  void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t /*cell_crc*/) noexcept override {
    const Duration takes(
        static_cast<int64_t>(uint64_t{cell_bytes} * 1'000'000'000 / config_.bytes_per_second));
    const Instant begins = leaving_.empty() ? now_ : std::max(now_, leaving_.back());
    leaving_.push_back(begins + takes);
    std::vector<std::byte> bytes = take_buffer();
    bytes.assign(staging_.begin(), staging_.begin() + cell_bytes);
    other_->arriving_.push_back({leaving_.back() + config_.latency, vl, std::move(bytes)});
  }
  [[nodiscard]] std::span<const fabric::RxCell> receive() noexcept override {
    views_.clear();
    while (!arriving_.empty() && arriving_.front().due <= now_ && views_.size() < kCellsPerReceive) {
      lent_.push_back(std::move(arriving_.front()));
      arriving_.pop_front();
      views_.push_back({lent_.back().bytes, lent_.back().vl});
    }
    return views_;
  }
  void release() noexcept override {
    for (Cell& cell : lent_) free_.push_back(std::move(cell.bytes));
    lent_.clear();
  }
  void flush(Instant /*now*/) noexcept override {}
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  [[nodiscard]] bool prepare_sleep() noexcept override { return arriving_.empty(); }
  void finish_sleep() noexcept override {}
  /// Time at which the next cell arrives, or at which room comes for a leaving one.
  [[nodiscard]] Instant deadline() const noexcept override {
    const Instant arrives = arriving_.empty() ? kNever : arriving_.front().due;
    return leaving_.empty() ? arrives : std::min(arrives, leaving_.front());
  }

 private:
  struct Cell {
    Instant due{};
    VirtualLane vl;
    std::vector<std::byte> bytes;
  };

  [[nodiscard]] std::vector<std::byte> take_buffer() noexcept {
    if (free_.empty()) return {};
    std::vector<std::byte> buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
  }

  TimedLinkConfig config_;
  fabric::CellPortInfo info_;
  End* other_ = nullptr;
  Instant now_{};
  std::vector<std::byte> staging_;
  std::deque<Instant> leaving_;  // time at which each cell has left
  std::deque<Cell> arriving_;
  std::deque<Cell> lent_;
  std::vector<std::vector<std::byte>> free_;
  std::vector<fabric::RxCell> views_;
};

TimedLink::TimedLink(const TimedLinkConfig& config)
    : ends_{std::make_unique<End>(config, 1), std::make_unique<End>(config, 2)} {
  ends_[0]->join(*ends_[1]);
  ends_[1]->join(*ends_[0]);
}

TimedLink::~TimedLink() = default;

fabric::CellPort& TimedLink::end(uint32_t index) noexcept {
  return *ends_[index];
}

}  // namespace weft::sim
