#include "sim/verbs/windows.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "messages/window_layout.h"
#include "messages/window_record.h"

namespace weft::sim::verbs {
namespace {

/// Small, so that FIFOs fill up.
constexpr fabric::OwnWindowConfig kWindow{.slots = 8, .slot_bytes = 256, .table_entries = 8};
/// Of a slot that holds a cell: a multiple of 8.
[[nodiscard]] constexpr uint32_t slot_bytes_for(uint32_t cell_bytes) noexcept {
  const uint32_t bytes = kSlotHeaderBytes + kDatagramRecordBytes + cell_bytes;
  return std::max(kWindow.slot_bytes, (bytes + 7) / 8 * 8);
}
constexpr uint32_t kRequests = 16;

/// All adapters of a world lie in one process: an address reaches the peer's memory.
class Process final : public fabric::OwnerMemory {
 public:
  bool write(uint64_t at, std::span<const std::byte> from) noexcept override {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the window's table has checked the address
    std::memcpy(reinterpret_cast<void*>(at), from.data(), from.size());
    return true;
  }
  bool read(uint64_t at, std::span<std::byte> to) noexcept override {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): as above
    std::memcpy(to.data(), reinterpret_cast<const void*>(at), to.size());
    return true;
  }
};

}  // namespace

/// One side of a window. It has an end once both sides have claimed the way, or one has opened it.
class Windows::Side final : public adapter::DirectPath {
 public:
  Side(Windows& windows, Shared& shared) noexcept : windows_(windows), shared_(shared) {}
  [[nodiscard]] State state() const noexcept override {
    return end_ == nullptr ? State::kJoining : State::kOpen;
  }
  [[nodiscard]] fabric::WindowEnd& end() noexcept override { return *end_; }

  void open(fabric::DmaDevice& device, const fabric::OwnWindowConfig& own) {
    end_ = std::make_unique<fabric::WindowEnd>(device, own);
  }
  void close() noexcept { end_.reset(); }
  [[nodiscard]] Shared& shared() noexcept { return shared_; }
  [[nodiscard]] Windows& windows() noexcept { return windows_; }

  uint32_t place = kNowhere;
  uint32_t claims = 0;
  bool arrives = false;  // the other side has opened the window, and this one has not claimed it
  bool over = false;     // it was claimed and given back

 private:
  Windows& windows_;
  Shared& shared_;
  std::unique_ptr<fabric::WindowEnd> end_;
};

/// A window between two adapters.
class Windows::Shared {
 public:
  explicit Shared(Windows& windows) : sides{{{windows, *this}, {windows, *this}}} {}
  [[nodiscard]] bool ended() const noexcept { return sides[0].over || sides[1].over; }
  [[nodiscard]] bool is_between(uint32_t a, uint32_t b) const noexcept {
    return (sides[0].place == a && sides[1].place == b) || (sides[0].place == b && sides[1].place == a);
  }
  void join(const fabric::DmaFaults& faults, const fabric::OwnWindowConfig& own, RandomSource& random) {
    const size_t bytes = fabric::OwnWindow::bytes_for(own);
    const bool mapped = (sides[0].place + sides[1].place) % 2 == 0;
    device = std::make_unique<fabric::MemoryWindow>(
        fabric::MemoryWindowConfig{.window_bytes = {bytes, bytes}, .requests = kRequests, .mapped = mapped},
        random);
    for (size_t i = 0; i < sides.size(); ++i) {
      device->set_owner_memory(i, &memory);
      device->set_faults(i, faults);
      sides[i].open(device->end(i), own);
    }
  }

  bool visited = false;  // one side has opened it
  Process memory;
  std::unique_ptr<fabric::MemoryWindow> device;
  std::array<Side, 2> sides;
};

class Windows::Paths final : public adapter::DirectPaths {
 public:
  Paths(Windows& windows, uint32_t place) noexcept : windows_(windows), place_(place) {}
  adapter::DirectPath* claim(Lid peer) noexcept override { return windows_.claim(place_, peer); }
  adapter::DirectPath* arrived(Lid& peer) noexcept override { return windows_.arrived(place_, peer); }
  void release(adapter::DirectPath& path) noexcept override { windows_.release(static_cast<Side&>(path)); }

 private:
  Windows& windows_;
  uint32_t place_;
};

Windows::Windows(uint32_t places, const fabric::DmaFaults& faults, uint32_t cell_bytes, RandomSource& random,
                 std::function<uint32_t(Lid)> place_of, std::function<Lid(uint32_t)> lid_of,
                 std::function<void(uint32_t)> wake)
    : faults_(faults),
      own_(kWindow),
      random_(random),
      place_of_(std::move(place_of)),
      lid_of_(std::move(lid_of)),
      wake_(std::move(wake)) {
  own_.slot_bytes = slot_bytes_for(cell_bytes);
  for (uint32_t place = 0; place < places; ++place) paths_.push_back(std::make_unique<Paths>(*this, place));
}
Windows::~Windows() = default;

adapter::DirectPaths& Windows::paths_of(uint32_t place) noexcept {
  return *paths_[place];
}

adapter::DirectPath* Windows::claim(uint32_t place, Lid peer) noexcept {
  const uint32_t other = place_of_(peer);
  if (other == kNowhere || other == place) return nullptr;
  const auto fits = [&](const auto& shared) { return shared->is_between(place, other) && !shared->ended(); };
  auto found = std::find_if(shared_.begin(), shared_.end(), fits);
  if (found == shared_.end()) {
    shared_.push_back(std::make_unique<Shared>(*this));
    found = shared_.end() - 1;
    (*found)->sides[0].place = place;
    (*found)->sides[1].place = other;
  }
  Shared& shared = **found;
  Side& side = shared.sides[shared.sides[0].place == place ? 0 : 1];
  ++side.claims;
  side.arrives = false;
  if (shared.device != nullptr) return &side;
  Side& far = shared.sides[shared.sides[0].place == place ? 1 : 0];
  if (far.claims == 0) {  // some windows open for one side alone, the others when both want it
    far.arrives = lid_of_(place) != Lid(0) && random_.below(2) == 0;
    if (!far.arrives) return &side;
    shared.visited = true;
    wake_(other);
  }
  shared.join(faults_, own_, random_);
  return &side;
}

adapter::DirectPath* Windows::arrived(uint32_t place, Lid& peer) noexcept {
  for (const auto& shared : shared_) {
    for (size_t i = 0; i < 2; ++i) {
      Side& side = shared->sides[i];
      if (side.place != place || !side.arrives) continue;
      side.arrives = false;
      if (shared->ended()) continue;
      ++side.claims;
      peer = lid_of_(shared->sides[1 - i].place);
      return &side;
    }
  }
  return nullptr;
}

void Windows::release(Side& side) noexcept {
  if (--side.claims != 0) return;
  end(side.shared(), &side == side.shared().sides.data() ? 0 : 1);
  side.close();
}

void Windows::end(Shared& shared, size_t side) noexcept {
  if (std::exchange(shared.sides[side].over, true)) return;
  if (shared.device != nullptr) shared.device->kill(side);
  wake_(shared.sides[1 - side].place);
}

void Windows::dies(uint32_t place) noexcept {
  for (const auto& shared : shared_) {
    for (size_t i = 0; i < 2; ++i) {
      if (shared->sides[i].place == place) end(*shared, i);
    }
  }
}

bool Windows::rings(uint32_t place, Instant now) const noexcept {
  const auto rings = [&](const auto& shared) {
    if (shared->device == nullptr || shared->ended()) return false;
    if (shared->sides[0].place != place && shared->sides[1].place != place) return false;
    return shared->device->end(shared->sides[0].place == place ? 0 : 1).deadline() <= now;
  };
  return std::any_of(shared_.begin(), shared_.end(), rings);
}

void Windows::count(Tally& tally) const {
  for (const auto& shared : shared_) {
    if (shared->device == nullptr) continue;
    tally("windows opened");
    if (shared->visited) tally("windows opened by one side");
    for (size_t i = 0; i < 2; ++i) {
      const fabric::DmaFaultCounts& counts = shared->device->counts(i);
      tally("window DMA", counts.requests);
      tally("window DMA failed", counts.failed);
      tally("window DMA late", counts.late);
      tally("window notifications merged", counts.merged);
    }
  }
}

}  // namespace weft::sim::verbs
