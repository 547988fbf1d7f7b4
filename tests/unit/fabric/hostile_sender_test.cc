// What a sender can do to the switch and to others by changing a cell in shared memory while the switch looks
// at it (house style 13).
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>

#include "tests/support/test_fabric.h"

namespace weft::test {
using namespace fabric;
namespace {

uint32_t crc_of(const std::vector<std::byte>& cell) {
  return crc32c(std::span(cell).first(cell.size() - kCrcBytes));
}

/// Changes bits of the source QPN and the PSN, which no switch checks, until the cell's CRC is what it was in
/// `honest`: CRCs are linear, so this is Gaussian elimination over the bits that may change.
[[maybe_unused]] void restore_crc(const std::vector<std::byte>& honest, std::vector<std::byte>& forged) {
  std::vector<uint32_t> bits;
  for (const uint32_t byte : {21U, 22U, 23U, 25U, 26U, 27U}) {
    for (uint32_t bit = 0; bit < 8; ++bit) bits.push_back(byte * 8 + bit);
  }
  std::array<uint32_t, 32> basis{};
  std::array<uint64_t, 32> made_of{};
  for (size_t i = 0; i < bits.size(); ++i) {
    std::vector<std::byte> changed = honest;
    changed[bits[i] / 8] ^= std::byte{1} << (bits[i] % 8);
    uint32_t effect = crc_of(honest) ^ crc_of(changed);
    uint64_t chosen = uint64_t{1} << i;
    while (effect != 0) {
      const auto top = static_cast<size_t>(31 - std::countl_zero(effect));
      if (basis[top] == 0) {
        basis[top] = effect;
        made_of[top] = chosen;
        break;
      }
      effect ^= basis[top];
      chosen ^= made_of[top];
    }
  }
  uint64_t flips = 0;
  for (uint32_t left = crc_of(honest) ^ crc_of(forged); left != 0;) {
    const auto top = static_cast<size_t>(31 - std::countl_zero(left));
    ASSERT_NE(basis[top], 0U);
    left ^= basis[top];
    flips ^= made_of[top];
  }
  for (size_t i = 0; i < bits.size(); ++i) {
    if ((flips >> i & 1) != 0) forged[bits[i] / 8] ^= std::byte{1} << (bits[i] % 8);
  }
  ASSERT_EQ(crc_of(honest), crc_of(forged));
}

TEST(HostileSender, a_flit_leaves_with_the_header_and_the_crc_that_were_checked) {
  std::vector<std::byte> cell = make_cell({.payload_bytes = 256});
  const std::vector<std::byte> honest = cell;
  const RxFlit flit{VirtualLane(0), true, true, false, cell_crc(cell), cell};
  const CellHead head(cell.data());
  for (std::byte& byte : cell) byte = ~byte;  // between the check and the copy
  VlBuffer buffer(1, static_cast<uint32_t>(cell.size()), 1);
  ASSERT_TRUE(buffer.push(0, {flit, &head, true}));
  const std::span<const std::byte> left = buffer.front(0).payload;
  const auto same = [&](size_t at) { return left[at] == honest[at]; };
  for (size_t at = 0; at < left.size(); ++at) {
    const bool checked = at < kCellHeaderBytes || at >= left.size() - kCrcBytes;
    EXPECT_EQ(same(at), checked) << at;
  }
}

/// Two threads write and read the same bytes on purpose.
#if !defined(__SANITIZE_THREAD__)

/// A second mapping of the shared pages that a cell lies in: the first goes when the link is reset, perhaps
/// while the other thread writes.
class SecondView {
 public:
  explicit SecondView(std::byte* cell) {
    const auto address = reinterpret_cast<uintptr_t>(cell);
    void* page = reinterpret_cast<void*>(address - address % kPageBytes);
    pages_ = mremap(page, 0, kBytes, MREMAP_MAYMOVE);
    if (pages_ != MAP_FAILED) cell_ = static_cast<std::byte*>(pages_) + address % kPageBytes;
  }
  ~SecondView() {
    if (pages_ != MAP_FAILED) munmap(pages_, kBytes);
  }
  SecondView(const SecondView&) = delete;
  SecondView& operator=(const SecondView&) = delete;
  [[nodiscard]] std::byte* cell() const { return cell_; }

 private:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kBytes = 2 * kPageBytes;  // a cell of 300 bytes may lie across a boundary
  void* pages_ = MAP_FAILED;
  std::byte* cell_ = nullptr;
};

/// A sender whose second thread rewrites its last published cell, back and forth, while the switch works.
class Rewriter {
 public:
  Rewriter(std::vector<std::byte> first, std::vector<std::byte> second)
      : first_(std::move(first)), second_(std::move(second)), thread_([this] { run(); }) {}
  ~Rewriter() {
    stop_ = true;
    thread_.join();
  }
  void aim(std::byte* cell) { target_.store(cell); }
  /// Returns when nothing is written any more.
  void rest() {
    target_.store(nullptr);
    while (writing_.load()) std::this_thread::yield();
  }

 private:
  void run() {
    for (uint32_t round = 0; !stop_.load(std::memory_order_relaxed); ++round) {
      writing_.store(true);  // before the look at the target: rest() sees it, or this sees no target
      std::byte* cell = target_.load();
      if (cell != nullptr) {
        put(cell, second_, round & 7);
        put(cell, first_, round >> 3 & 7);
      }
      writing_.store(false);
      if (cell == nullptr) std::this_thread::yield();
    }
  }
  static void put(std::byte* cell, const std::vector<std::byte>& bytes, uint32_t pause) {
    std::memcpy(cell, bytes.data(), bytes.size());
    // Stays there for a moment that differs from round to round.
    for (uint32_t i = 0; i < pause * 4; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
  }

  std::vector<std::byte> first_;
  std::vector<std::byte> second_;
  std::atomic<std::byte*> target_{nullptr};
  std::atomic<bool> writing_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

/// Node 0 sends `honest`, which turns into `other` and back while the switch reads it.
void attack(TestFabric& fabric, const std::vector<std::byte>& honest, const std::vector<std::byte>& other,
            int rounds) {
  Rewriter rewriter(honest, other);
  const auto bytes = static_cast<uint32_t>(honest.size());
  for (int round = 0; round < rounds; ++round) {
    std::byte* last = nullptr;
    for (int i = 0; i < 8; ++i) {
      std::byte* to = fabric.nodes[0]->claim(VirtualLane(0), bytes);
      if (to == nullptr) break;
      std::memcpy(to, honest.data(), bytes);
      fabric.nodes[0]->commit(VirtualLane(0), bytes, cell_crc(honest));
      last = to;
    }
    if (last != nullptr) {
      const SecondView view(last);
      rewriter.aim(view.cell());
      fabric.step();
      rewriter.rest();
    }
    fabric.step();
    if (last == nullptr) fabric.run(5, 50ms);  // its own link was reset: it joins again
  }
  fabric.run(100);
}

TestFabricConfig over_shared_memory() {
  TestFabricConfig config;
  config.links = LinkKind::kShm;
  config.switching = small_switch();
  config.nodes = 3;
  return config;
}

constexpr uint32_t kRoundsMax = 60;

TEST(HostileSender, cannot_speak_under_another_nodes_lid_whenever_it_changes_the_cell) {
  TestFabric fabric(over_shared_memory());
  const std::vector<std::byte> honest = make_cell({.opcode = Opcode::kUdSend});
  std::vector<std::byte> forged = honest;
  forged[11] ^= std::byte{1 ^ 3};  // the source LID
  restore_crc(honest, forged);
  for (size_t node = 0; node < 2; ++node) fabric.traces[node]->torn_expected = true;
  // Whether a round strikes is chance: one core that runs both threads in turns needs more of them.
  const auto struck = [&fabric] { return fabric.count(1, SwitchPortCounter::kDropForeignSource) != 0; };
  for (uint32_t round = 0; round < kRoundsMax && !struck(); ++round) attack(fabric, honest, forged, 8'000);
  const auto foreign = std::count_if(fabric.received[1].begin(), fabric.received[1].end(),
                                     [](const auto& cell) { return CellHead(cell.data()).slid() != Lid(1); });
  EXPECT_EQ(foreign, 0) << "of " << fabric.received[1].size();
  EXPECT_FALSE(fabric.received[1].empty());
  EXPECT_GT(fabric.count(1, SwitchPortCounter::kDropForeignSource), 0U) << "the attack struck now and then";
}

TEST(HostileSender, loses_its_own_cells_and_nobody_elses_link_by_changing_them) {
  TestFabric fabric(over_shared_memory());
  const std::vector<std::byte> honest = make_cell({.payload_bytes = 256});
  std::vector<std::byte> other = honest;
  for (size_t at = 100; at < other.size(); ++at) other[at] ^= std::byte{0x55};
  for (size_t node = 0; node < 2; ++node) fabric.traces[node]->torn_expected = true;
  const auto& counters = fabric.link(1, kNode).counters();
  const auto struck = [&counters] { return counters.get(LinkCounter::kTornCells) != 0; };
  for (uint32_t round = 0; round < kRoundsMax && !struck(); ++round) attack(fabric, honest, other, 8'000);
  EXPECT_EQ(fabric.link(1, kNode).incarnation(), 1U);
  EXPECT_EQ(fabric.link(1, kSwitch).incarnation(), 1U);
  EXPECT_EQ(counters.get(LinkCounter::kRepeatsExhausted), 0U);
  EXPECT_GT(counters.get(LinkCounter::kTornCells), 0U) << "the attack struck now and then";
  ASSERT_TRUE(fabric.send(2, TestCell{.dlid = Lid(2), .number = 77}));
  fabric.run(100);
  EXPECT_EQ(cell_number(fabric.received[1].back()), 77U);
  fabric.expect_conserved();
}

#endif

}  // namespace
}  // namespace weft::test
