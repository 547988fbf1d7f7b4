// tests/support/spaces_test.h -- base of tests about effective, virtual and physical addresses (SAN-LMP). A
// small virtual memory manager plays the operating system (O-28); a buffer of the test is the physical
// memory. Side 1 of two adapters owns the memory, side 0 is the remote process.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "adapter/memory/address_space.h"
#include "tests/support/adapter_pair.h"

namespace weft::test {

using namespace adapter;

/// The operating system's part: segment tables, a page table and the swapping of pages. It reports a change
/// of a segment table if that table was fetched: the fetch is the registration for reports (SAN-LMP-08).
class Vmm final : public MemoryManager {
 public:
  Vmm() : frames_(static_cast<std::byte*>(std::aligned_alloc(kSpacePageBytes, kFrames * kSpacePageBytes))) {
    std::memset(frames_.get(), 0, kFrames * kSpacePageBytes);
  }
  std::vector<Segment> segment_table(ProcessId process) override {
    ++fetches[process];
    return tables[process];
  }
  void change(ProcessId process, const Segment& segment) {
    std::vector<Segment>& table = tables[process];
    std::erase_if(table, [&](const Segment& entry) { return entry.id == segment.id; });
    if (segment.valid) table.push_back(segment);
    if (fetches[process] == 0) return;
    ++reports;
    told->segment_table_update(process, segment);
  }
  std::optional<PageEntry> page_entry(uint64_t page) override {
    ++page_questions;
    const auto found = pages.find(page);
    return found == pages.end() ? std::nullopt : std::optional(found->second);
  }
  std::optional<PageEntry> page_in(uint64_t page) noexcept override {
    ++page_ins;
    if (!brings_back) return std::nullopt;
    PageEntry entry = pages.at(page);
    entry.valid = true;
    return entry;
  }

  [[nodiscard]] bool has_address(uint64_t physical) const {
    const uint64_t begin = reinterpret_cast<uintptr_t>(frame(0));
    return physical >= begin && physical < begin + kFrames * kSpacePageBytes;
  }
  [[nodiscard]] std::byte* frame(uint32_t number) const { return frames_.get() + number * kSpacePageBytes; }
  static uint64_t virtual_page(uint64_t upper, uint32_t page) {
    return join_address({upper, page, 0}) / kSpacePageBytes;
  }
  PageEntry& enter(uint64_t upper, uint32_t page, uint32_t frame_number) {
    const uint64_t physical = reinterpret_cast<uintptr_t>(frame(frame_number)) / kSpacePageBytes;
    return pages[virtual_page(upper, page)] = {.page = virtual_page(upper, page), .physical = physical};
  }

  std::map<ProcessId, std::vector<Segment>> tables;
  std::map<ProcessId, int> fetches;
  std::map<uint64_t, PageEntry> pages;
  AddressSpaces* told = nullptr;  // whom it reports to
  int reports = 0;
  int page_questions = 0;
  int page_ins = 0;
  bool brings_back = false;

 private:
  static constexpr uint64_t kFrames = 8;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> frames_;
};

class SpacesTest : public ::testing::Test {
 protected:
  static constexpr ProcessId kOwner{7};
  static constexpr ProcessId kOther{8};
  static constexpr ProcessId kKernel{1};
  static constexpr uint64_t kCode = 0x1'2345'6789;  // effective segment IDs
  static constexpr uint64_t kHeap = 0xA'BCDE'F012;
  static constexpr uint64_t kUpper = 0x0'0000'0042;  // upper bits of kHeap's virtual address
  static constexpr Access kBind = Access::kLocalWrite | Access::kWindowBind;
  static constexpr Access kFull = kBind | Access::kRemoteRead | Access::kRemoteWrite;

  static uint64_t effective(uint64_t segment, uint32_t page, uint32_t offset = 0) {
    return join_address({segment, page, offset});
  }
  static uint64_t virtual_page(uint64_t upper, uint32_t page) { return Vmm::virtual_page(upper, page); }

  void SetUp() override {
    vmm_.told = &spaces_;
    kernel_ = owner_.adapter->alloc_pd().value();
    ASSERT_TRUE(spaces_.assign(kernel_, kKernel, ProcessMode::kKernel).ok());
    vmm_.tables[kOwner] = {{.id = kHeap, .upper = kUpper}};
    vmm_.tables[kOther] = {{.id = kCode, .upper = 0x99}};
    for (uint32_t page = 0; page < 4; ++page) vmm_.enter(kUpper, page, 3 - page);  // in reverse order
    ASSERT_TRUE(
        table_.regions.dereg_mr(owner_.region.lkey).ok());  // its address is not that of a user process
    ASSERT_TRUE(spaces_.assign(owner_.pd, kOwner, ProcessMode::kUser).ok());
  }
  /// The process opens a QP, and its pages are mapped.
  void open() {
    spaces_.open_qp(owner_.pd);
    ASSERT_TRUE(spaces_.map_local_page(join_address({kUpper, 0, 0}), 4 * kSpacePageBytes).ok());
  }
  MemoryRegion heap(Access access = kFull, const RegisterOptions& options = {}) {
    return spaces_
        .reg_addresses(owner_.pd, AddressKind::kEffective, effective(kHeap, 0), 4 * kSpacePageBytes, access,
                       options)
        .value();
  }
  AccessFault local(const MemoryRegion& region, uint64_t addr, uint32_t bytes,
                    AccessKind kind = AccessKind::kLocalWrite) {
    at_.clear();
    return table_.checks.visit_local(owner_.pd, {addr, bytes, region.lkey}, kind,
                                     [&](std::byte* at, uint64_t /*bytes*/) { at_.push_back(at); });
  }
  /// @return the completion status of side 0's RDMA write to `address`
  WcStatus write_to(uint64_t address, Rkey key, uint32_t bytes = 64) {
    pair_.side(0).fill(0, bytes, 0x30);
    return remote(SendOpcode::kRdmaWrite, address, key, pair_.side(0).sge(0, bytes));
  }
  /// The same of an RDMA read into side 0's memory at kReadTo.
  WcStatus read_from(uint64_t address, Rkey key, uint32_t bytes = 64) {
    return remote(SendOpcode::kRdmaRead, address, key, pair_.side(0).sge(kReadTo, bytes));
  }
  WcStatus remote(SendOpcode opcode, uint64_t address, Rkey key, const Sge& sge) {
    if (qps_[0] == nullptr || !alive_) qps_ = pair_.connect({.type = QpType::kRc});
    const SendRequest request{.opcode = opcode, .sges = {&sge, 1}, .remote_addr = address, .rkey = key};
    EXPECT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
    const size_t before = pair_.side(0).completions.size();
    pair_.run();
    if (pair_.side(0).completions.size() == before) return WcStatus::kGeneral;
    const WcStatus status = pair_.side(0).completions[before].status;
    alive_ = status == WcStatus::kSuccess;
    return status;
  }
  std::vector<AsyncEvent> page_faults() {
    std::vector<AsyncEvent> out;
    for (AsyncEvent event; owner_.adapter->next_event(event);) {
      if (event.kind == AsyncEventKind::kPageFault) out.push_back(event);
    }
    return out;
  }

  /// A connection of side 0 with a QP of the kernel process, for the accesses that follow.
  void connect_kernel() {
    const QpConfig config{.type = QpType::kRc, .pd = kernel_, .send_cq = owner_.cq, .recv_cq = owner_.cq};
    qps_ = {pair_.make_qp(0, {.type = QpType::kRc}), owner_.adapter->create_qp(config).value()};
    pair_.bring_up(0, *qps_[0], config, owner_.adapter->qpn(*qps_[1]), Lid(2), Psn(5), Psn(9));
    pair_.bring_up(1, *qps_[1], config, pair_.side(0).adapter->qpn(*qps_[0]), Lid(1), Psn(9), Psn(5));
    alive_ = true;
  }
  /// How many numbers in the cells on the wire lie in the physical pages, in either byte order.
  [[nodiscard]] uint64_t physical_addresses_shown() const {
    uint64_t shown = 0;
    for (const auto& cell : pair_.pipe.trace()) {
      for (size_t i = 0; i + 8 <= cell.bytes.size(); ++i) {
        const uint64_t value = load_be<uint64_t>(cell.bytes.data() + i);
        shown += vmm_.has_address(value) || vmm_.has_address(__builtin_bswap64(value)) ? 1U : 0U;
      }
    }
    return shown;
  }

  static constexpr uint32_t kReadTo = 512 * 1024;
  Vmm vmm_;
  AdapterPair pair_;
  PairSide& owner_ = pair_.side(1);
  MemoryTable& table_ = owner_.adapter->memory();
  AddressSpaces& spaces_ = owner_.adapter->use_manager(vmm_);
  PdId kernel_;
  std::array<QueuePair*, 2> qps_{};
  std::vector<std::byte*> at_;
  bool alive_ = true;
};

}  // namespace weft::test
