// SAN-LMP, SAN-RMP-03 and SAN-RMP-11: effective, virtual and physical addresses. A small virtual memory
// manager plays the operating system (O-28); a buffer of the test is the physical memory. Side 1 of two
// adapters owns the memory, side 0 is the remote process.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "adapter/memory/address_space.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/requirement.h"

namespace weft::adapter {
namespace {

constexpr ProcessId kOwner{7};
constexpr ProcessId kOther{8};
constexpr uint64_t kCode = 0x1'2345'6789;  // effective segment IDs
constexpr uint64_t kHeap = 0xA'BCDE'F012;
constexpr uint64_t kUpper = 0x0'0000'0042;  // upper bits of kHeap's virtual address
constexpr Access kBind = Access::kLocalWrite | Access::kWindowBind;
constexpr Access kFull = kBind | Access::kRemoteRead | Access::kRemoteWrite;

uint64_t effective(uint64_t segment, uint32_t page, uint32_t offset = 0) {
  return join_address({segment, page, offset});
}
uint64_t virtual_page(uint64_t upper, uint32_t page) {
  return join_address({upper, page, 0}) / kSpacePageBytes;
}

/// The operating system's part: segment tables, a page table and the swapping of pages.
class Vmm final : public MemoryManager {
 public:
  Vmm() : frames_(static_cast<std::byte*>(std::aligned_alloc(kSpacePageBytes, kFrames * kSpacePageBytes))) {
    std::memset(frames_.get(), 0, kFrames * kSpacePageBytes);
  }
  std::vector<Segment> segment_table(ProcessId process) override {
    ++fetches[process];
    return tables[process];
  }
  std::optional<PageEntry> page_entry(uint64_t page) override {
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

  [[nodiscard]] std::byte* frame(uint32_t number) const { return frames_.get() + number * kSpacePageBytes; }
  PageEntry enter(uint64_t upper, uint32_t page, uint32_t frame_number) {
    const uint64_t physical = reinterpret_cast<uintptr_t>(frame(frame_number)) / kSpacePageBytes;
    return pages[virtual_page(upper, page)] = {.page = virtual_page(upper, page), .physical = physical};
  }

  std::map<ProcessId, std::vector<Segment>> tables;
  std::map<ProcessId, int> fetches;
  std::map<uint64_t, PageEntry> pages;
  int page_ins = 0;
  bool brings_back = false;

 private:
  static constexpr uint64_t kFrames = 8;
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> frames_;
};

class SanLmp : public ::testing::Test {
 protected:
  void SetUp() override {
    vmm_.tables[kOwner] = {{.id = kHeap, .upper = kUpper}};
    vmm_.tables[kOther] = {{.id = kCode, .upper = 0x99}};
    for (uint32_t page = 0; page < 4; ++page) vmm_.enter(kUpper, page, 3 - page);  // in reverse order
    ASSERT_TRUE(table_.dereg_mr(owner_.region.lkey).ok());  // its address is not that of a user process
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
    return table_.visit_local(owner_.pd, {addr, bytes, region.lkey}, kind,
                              [&](std::byte* at, uint64_t /*bytes*/) { at_.push_back(at); });
  }
  /// @return the completion status of side 0's RDMA write to `address`
  WcStatus write_to(uint64_t address, Rkey key, uint32_t bytes = 64) {
    if (qps_[0] == nullptr || !alive_) qps_ = pair_.connect({.type = QpType::kRc});
    pair_.side(0).fill(0, bytes, 0x30);
    const Sge sge = pair_.side(0).sge(0, bytes);
    const SendRequest request{
        .opcode = SendOpcode::kRdmaWrite, .sges = {&sge, 1}, .remote_addr = address, .rkey = key};
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

  Vmm vmm_;
  test::AdapterPair pair_;
  test::PairSide& owner_ = pair_.side(1);
  MemoryTable& table_ = owner_.adapter->memory();
  AddressSpaces& spaces_ = owner_.adapter->use_manager(vmm_);
  std::array<QueuePair*, 2> qps_{};
  std::vector<std::byte*> at_;
  bool alive_ = true;
};
class SanRmpSpaces : public SanLmp {};

TEST_F(SanLmp, SAN_LMP_03_an_effective_address_is_segment_page_and_offset) {
  test::covers("SAN-LMP-03");
  constexpr uint64_t kKnown = 0x1234'5678'9ABC'DEF0;
  constexpr AddressParts kParts{0x1'2345'6789, 0xABCD, 0xEF0};
  EXPECT_EQ(split_address(kKnown), kParts);
  EXPECT_EQ(join_address(kParts), kKnown);
  EXPECT_EQ(split_address(~uint64_t{0}), (AddressParts{0xF'FFFF'FFFF, 0xFFFF, 0xFFF}));
  open();
  EXPECT_EQ(spaces_.to_virtual(kOwner, effective(kHeap, 2, 5)), join_address({kUpper, 2, 5}));
}

TEST_F(SanLmp, SAN_LMP_04_upper_bits_page_and_offset_make_the_virtual_address) {
  test::covers("SAN-LMP-04");
  open();
  spaces_.segment_table_update(kOwner, {.id = kCode, .upper = 0xF'0000'000F});
  for (const uint32_t page : {0U, 1U, 0xFFFFU}) {
    for (const uint32_t offset : {0U, 0xFFFU}) {
      EXPECT_EQ(spaces_.to_virtual(kOwner, effective(kCode, page, offset)),
                join_address({0xF'0000'000F, page, offset}));
    }
  }
  spaces_.segment_table_update(kOwner, {.id = kCode, .upper = 0xF'0000'000F, .valid = false});
  EXPECT_FALSE(spaces_.to_virtual(kOwner, effective(kCode, 0)));
  EXPECT_FALSE(spaces_.to_virtual(kOwner, effective(kCode + 1, 0))) << "no entry";
}

TEST_F(SanLmp, SAN_LMP_05_the_page_table_entry_gives_the_page_and_its_protection) {
  test::covers("SAN-LMP-05");
  open();
  const MemoryRegion region = heap();
  // An access across a page border: the two pages are not adjacent in memory.
  ASSERT_EQ(local(region, effective(kHeap, 1, 4090), 12), AccessFault::kNone);
  EXPECT_EQ(at_, (std::vector<std::byte*>{vmm_.frame(2) + 4090, vmm_.frame(1)}));
  PageEntry entry = vmm_.pages[virtual_page(kUpper, 1)];
  const auto both = [&](AccessFault read, AccessFault write) {
    spaces_.page_changed(entry);
    EXPECT_EQ(local(region, effective(kHeap, 1), 1, AccessKind::kLocalRead), read);
    EXPECT_EQ(local(region, effective(kHeap, 1), 1, AccessKind::kLocalWrite), write);
  };
  entry.write = false;
  both(AccessFault::kNone, AccessFault::kRightMissing);
  entry.read = false;
  entry.write = true;
  both(AccessFault::kRightMissing, AccessFault::kNone);
  entry.read = true;
  entry.valid = false;
  both(AccessFault::kNotMapped, AccessFault::kNotMapped);
  EXPECT_EQ(local(region, effective(kHeap, 0), kSpacePageBytes + 1), AccessFault::kNotMapped)
      << "the whole range is looked at";
  EXPECT_TRUE(at_.empty()) << "and nothing is touched before";
}

TEST_F(SanLmp, SAN_LMP_06_user_processes_have_effective_addresses_only) {
  test::covers("SAN-LMP-06");
  open();
  const PdId kernel = owner_.adapter->alloc_pd().value();
  ASSERT_TRUE(spaces_.assign(kernel, ProcessId{1}, ProcessMode::kKernel).ok());
  const uint64_t address = join_address({kUpper, 0, 0});
  const auto reg = [&](PdId pd, AddressKind kind, uint64_t at) {
    return spaces_.reg_addresses(pd, kind, at, 64, kFull).ok();
  };
  EXPECT_FALSE(reg(owner_.pd, AddressKind::kVirtual, address));
  EXPECT_FALSE(reg(owner_.pd, AddressKind::kPhysical, reinterpret_cast<uintptr_t>(vmm_.frame(0))));
  EXPECT_TRUE(reg(owner_.pd, AddressKind::kEffective, effective(kHeap, 0)));
  EXPECT_TRUE(reg(kernel, AddressKind::kVirtual, address));
  // The segment table belongs to one process.
  EXPECT_FALSE(spaces_.to_virtual(kOther, effective(kHeap, 0)));

  // A user process's domain cannot register memory in any other way.
  const std::span<std::byte> frame(vmm_.frame(0), kSpacePageBytes);
  const std::array<std::byte*, 1> page{vmm_.frame(0)};
  const PageList pages{.pages = page, .page_bytes = kSpacePageBytes, .length = 64};
  EXPECT_FALSE(table_.reg_mr(owner_.pd, frame, kFull).ok());
  EXPECT_FALSE(table_.reg_pages(owner_.pd, pages, kFull).ok());
  EXPECT_FALSE(table_.reserve_mr(owner_.pd, true).ok());
  const MemoryRegion region = heap();
  EXPECT_FALSE(table_.rereg_mr(region.lkey, {.memory = frame}).ok());
  EXPECT_TRUE(local(region, effective(kHeap, 0), 8) == AccessFault::kNone) << "it is as it was";
  // A domain in kernel mode, or of no process, can register in each of those ways.
  EXPECT_TRUE(table_.reg_mr(kernel, frame, kFull).ok());
  EXPECT_TRUE(table_.reg_pages(kernel, pages, kFull).ok());
}

/// A domain with a registration cannot be assigned to a user process.
TEST_F(SanLmp, SAN_LMP_06_a_user_process_begins_with_nothing) {
  test::covers("SAN-LMP-06");
  const std::span<std::byte> frame(vmm_.frame(0), kSpacePageBytes);
  const PdId pd = owner_.adapter->alloc_pd().value();
  const MemoryRegion region = table_.reg_mr(pd, frame, kFull).value();
  EXPECT_FALSE(spaces_.assign(pd, kOther, ProcessMode::kUser).ok());
  EXPECT_TRUE(table_.reg_mr(pd, frame, kFull).ok()) << "nothing has changed";
  EXPECT_TRUE(spaces_.assign(pd, kOther, ProcessMode::kKernel).ok());
  // A region cannot move from another domain into the process's domain, or out of it.
  EXPECT_FALSE(table_.rereg_mr(region.lkey, {.pd = owner_.pd}).ok());
  EXPECT_FALSE(table_.share_mr(owner_.pd, region.lkey, kFull).ok());
  const MemoryRegion own = heap();
  EXPECT_FALSE(table_.rereg_mr(own.lkey, {.pd = pd}).ok());
  EXPECT_FALSE(table_.share_mr(pd, own.lkey, kFull).ok());
  EXPECT_TRUE(table_.share_mr(owner_.pd, own.lkey, kFull).ok()) << "within the process";
}

/// When a protection domain ends and its number is used again, the next domain belongs to no process.
TEST_F(SanLmp, SAN_LMP_02_the_next_domain_of_a_number_is_of_no_process) {
  test::covers("SAN-LMP-02");
  const PdId pd = owner_.adapter->alloc_pd().value();
  ASSERT_TRUE(spaces_.assign(pd, kOwner, ProcessMode::kUser).ok());
  ASSERT_TRUE(owner_.adapter->dealloc_pd(pd).ok());
  ASSERT_EQ(owner_.adapter->alloc_pd().value(), pd);
  EXPECT_FALSE(spaces_.reg_addresses(pd, AddressKind::kEffective, effective(kHeap, 0), 64, kFull).ok())
      << "it has no process to begin with";
  const std::span<std::byte> frame(vmm_.frame(0), 64);
  const MemoryRegion region = table_.reg_mr(pd, frame, kFull).value();
  ASSERT_TRUE(table_.dereg_mr(region.lkey).ok());
  EXPECT_TRUE(spaces_.assign(pd, kOther, ProcessMode::kUser).ok());
}

TEST_F(SanLmp, SAN_LMP_02_no_process_reaches_an_address_of_another_process) {
  test::covers("SAN-LMP-02");
  open();
  const PdId other = owner_.adapter->alloc_pd().value();
  ASSERT_TRUE(spaces_.assign(other, kOther, ProcessMode::kUser).ok());
  EXPECT_FALSE(spaces_.reg_addresses(other, AddressKind::kEffective, effective(kHeap, 0), 64, kFull).ok());
  EXPECT_FALSE(spaces_.assign(other, kOwner, ProcessMode::kUser).ok()) << "it cannot become the other one";
  // With the other process's key, its own QP gets an error completion and reads nothing.
  const MemoryRegion region = heap();
  QueuePair* own = nullptr;
  {
    const QpConfig config{.type = QpType::kUd, .pd = other, .send_cq = owner_.cq, .recv_cq = owner_.cq};
    own = owner_.adapter->create_qp(config).value();
    pair_.bring_up(1, *own, config, {}, {}, Psn(0), Psn(0));
  }
  const Sge sge{region.addr, 64, region.lkey};
  const SendRequest request{.sges = {&sge, 1}, .dest = {.lid = Lid(1), .qpn = Qpn(5)}};
  ASSERT_EQ(owner_.adapter->post_send(*own, request), PostResult::kOk);
  pair_.run();
  ASSERT_EQ(owner_.completions.size(), 1U);
  EXPECT_EQ(owner_.completions[0].status, WcStatus::kLocalProtection);
  EXPECT_EQ(owner_.adapter->access_faults().get(AccessFault::kWrongPd), 1U);
}

TEST_F(SanLmp, SAN_LMP_08_the_segment_table_is_fetched_once_for_a_process) {
  test::covers("SAN-LMP-08");
  EXPECT_EQ(vmm_.fetches[kOwner], 0);
  const QpConfig config{.type = QpType::kRc};
  for (int i = 0; i < 5; ++i) pair_.make_qp(1, config);
  EXPECT_EQ(vmm_.fetches[kOwner], 1) << "five QPs, one table";
  EXPECT_EQ(spaces_.fetches(), 1U);
  // The driver tells the adapter each change of the segment table, and the adapter's copy follows.
  EXPECT_FALSE(spaces_.to_virtual(kOwner, effective(kCode, 0)));
  spaces_.segment_table_update(kOwner, {.id = kCode, .upper = 5});
  EXPECT_TRUE(spaces_.to_virtual(kOwner, effective(kCode, 0)));
}

TEST_F(SanLmp, SAN_LMP_09_posts_with_effective_addresses_need_no_further_fetch) {
  test::covers("SAN-LMP-09");
  qps_ = pair_.connect({.type = QpType::kRc});
  open();
  const MemoryRegion region = heap();
  const uint64_t at = effective(kHeap, 1, 4000);
  for (uint32_t i = 0; i < 300; ++i) {
    const uint32_t place = 4000 + i;
    std::byte* page = place < 4096 ? vmm_.frame(2) + place : vmm_.frame(1) + (place - 4096);
    *page = static_cast<std::byte>(i * 5);
  }
  const Sge sge{at, 300, region.lkey};
  ASSERT_EQ(pair_.post_recv(0, *qps_[0], 1, {pair_.side(0).sge(0, 300)}), PostResult::kOk);
  ASSERT_EQ(owner_.adapter->post_send(*qps_[1], {.sges = {&sge, 1}}), PostResult::kOk);
  pair_.run();
  ASSERT_EQ(owner_.completions.size(), 1U);
  EXPECT_EQ(owner_.completions[0].status, WcStatus::kSuccess);
  for (uint32_t i = 0; i < 300; ++i) ASSERT_EQ(pair_.side(0).memory[i], static_cast<std::byte>(i * 5)) << i;
  EXPECT_EQ(vmm_.fetches[kOwner], 1);
}

TEST_F(SanLmp, SAN_LMP_10_a_segment_table_update_reaches_every_qp_of_the_process) {
  test::covers("SAN-LMP-10");
  std::vector<QueuePair*> mine;
  for (int i = 0; i < 3; ++i) mine.push_back(pair_.connect({.type = QpType::kUc})[1]);
  open();
  const MemoryRegion region = heap();
  const Sge sge{effective(kHeap, 0), 16, region.lkey};
  const auto post_on_all = [&](WcStatus expected) {
    owner_.completions.clear();
    for (QueuePair* qp : mine)
      ASSERT_EQ(owner_.adapter->post_send(*qp, {.sges = {&sge, 1}}), PostResult::kOk);
    pair_.run();
    ASSERT_EQ(owner_.completions.size(), 3U);
    for (const WorkCompletion& entry : owner_.completions) EXPECT_EQ(entry.status, expected);
  };
  post_on_all(WcStatus::kSuccess);
  spaces_.segment_table_update(kOwner, {.id = kHeap, .upper = kUpper, .valid = false});
  post_on_all(WcStatus::kLocalProtection);
  spaces_.segment_table_update(kOwner, {.id = kHeap, .upper = kUpper});
  for (QueuePair* qp : mine) {  // UC: a failed Send stops the send queue until modify_qp() restarts it
    QpAttr attr;
    attr.state = QpState::kRts;
    ASSERT_EQ(owner_.adapter->modify_qp(*qp, attr, kQpAttrState), ModifyResult::kOk);
  }
  post_on_all(WcStatus::kSuccess);
  EXPECT_EQ(vmm_.fetches[kOwner], 1);
}

TEST_F(SanLmp, SAN_LMP_11_map_local_page_makes_a_page_reachable) {
  test::covers("SAN-LMP-11");
  spaces_.open_qp(owner_.pd);
  const MemoryRegion region = heap();
  EXPECT_EQ(local(region, effective(kHeap, 0), 1), AccessFault::kNotMapped);
  ASSERT_TRUE(spaces_.map_local_page(join_address({kUpper, 0, 100}), 1).ok());
  EXPECT_EQ(local(region, effective(kHeap, 0), 1), AccessFault::kNone);
  EXPECT_EQ(local(region, effective(kHeap, 1), 1), AccessFault::kNotMapped) << "this page and no other";
  EXPECT_FALSE(spaces_.map_local_page(join_address({kUpper, 3, 0}), 2 * kSpacePageBytes).ok());
  EXPECT_EQ(local(region, effective(kHeap, 3), 1), AccessFault::kNotMapped) << "all of a range, or nothing";
  // A kernel process names virtual or physical addresses.
  const PdId kernel = owner_.adapter->alloc_pd().value();
  ASSERT_TRUE(spaces_.assign(kernel, ProcessId{1}, ProcessMode::kKernel).ok());
  const auto where = [&](AddressKind kind, uint64_t address) {
    const MemoryRegion made = spaces_.reg_addresses(kernel, kind, address, 8, kFull).value();
    std::byte* at = nullptr;
    EXPECT_EQ(table_.visit_local(kernel, {address, 8, made.lkey}, AccessKind::kLocalRead,
                                 [&](std::byte* piece, uint64_t /*bytes*/) { at = piece; }),
              AccessFault::kNone);
    return at;
  };
  EXPECT_EQ(where(AddressKind::kVirtual, join_address({kUpper, 0, 8})), vmm_.frame(3) + 8);
  EXPECT_EQ(where(AddressKind::kPhysical, reinterpret_cast<uintptr_t>(vmm_.frame(5) + 16)),
            vmm_.frame(5) + 16);
}

TEST_F(SanLmp, SAN_LMP_12_a_remote_access_to_a_page_never_mapped_is_an_event_at_the_owner) {
  test::covers("SAN-LMP-12");
  spaces_.open_qp(owner_.pd);
  const MemoryRegion region = heap();
  for (const AccessKind kind : {AccessKind::kLocalRead, AccessKind::kLocalWrite})
    EXPECT_EQ(local(region, effective(kHeap, 2, 32), 8, kind), AccessFault::kNotMapped);
  pair_.run();
  EXPECT_TRUE(page_faults().empty()) << "a local access ends with an error instead";
  EXPECT_EQ(write_to(effective(kHeap, 2, 32), region.rkey), WcStatus::kRemoteOperation) << "NAK 5 (C-30)";
  const std::vector<AsyncEvent> events = page_faults();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].address, join_address({kUpper, 2, 32}));
  EXPECT_EQ(vmm_.frame(1)[32], std::byte{0});
  // The handler maps the page; then the same access succeeds.
  ASSERT_TRUE(spaces_.map_local_page(join_address({kUpper, 2, 0}), 1).ok());
  EXPECT_EQ(write_to(effective(kHeap, 2, 32), region.rkey), WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(vmm_.frame(1) + 32, pair_.side(0).memory.data(), 64), 0);
  EXPECT_TRUE(page_faults().empty());
}

TEST_F(SanLmp, SAN_LMP_13_no_physical_address_is_in_any_frame) {
  test::covers("SAN-LMP-13");
  open();
  constexpr uint64_t kOpaque = 0x5151'0000'0000'0000;
  const MemoryRegion region = heap(kFull, {.base_addr = kOpaque});
  EXPECT_EQ(region.addr, kOpaque);
  ASSERT_EQ(write_to(kOpaque + 4000, region.rkey, 5000), WcStatus::kSuccess);
  const Sge sge = pair_.side(0).sge(8192, 5000);
  const SendRequest read{
      .opcode = SendOpcode::kRdmaRead, .sges = {&sge, 1}, .remote_addr = kOpaque + 4000, .rkey = region.rkey};
  ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], read), PostResult::kOk);
  pair_.run();
  EXPECT_EQ(std::memcmp(pair_.side(0).memory.data() + 8192, pair_.side(0).memory.data(), 5000), 0);
  uint64_t cells = 0;
  uint64_t shown = 0;
  for (const auto& cell : pair_.pipe.trace()) {
    ++cells;
    for (size_t i = 0; i + 8 <= cell.bytes.size(); ++i) {
      const uint64_t value = load_be<uint64_t>(cell.bytes.data() + i);
      for (uint32_t frame = 0; frame < 4; ++frame) {
        const uint64_t physical = reinterpret_cast<uintptr_t>(vmm_.frame(frame));
        shown += value >= physical && value < physical + kSpacePageBytes ? 1U : 0U;
      }
    }
  }
  EXPECT_GT(cells, 20U);
  EXPECT_EQ(shown, 0U);
}

TEST_F(SanLmp, SAN_LMP_14_a_page_that_was_swapped_out_comes_back_and_the_transfer_goes_on) {
  test::covers("SAN-LMP-14");
  open();
  const MemoryRegion region = heap();
  PageEntry out = vmm_.pages[virtual_page(kUpper, 0)];
  out.valid = false;
  spaces_.page_changed(out);
  vmm_.enter(kUpper, 0, 6);  // swapped in to another frame
  vmm_.brings_back = true;
  EXPECT_EQ(write_to(effective(kHeap, 0, 0), region.rkey, 4096), WcStatus::kSuccess);
  EXPECT_EQ(vmm_.page_ins, 1);
  EXPECT_EQ(std::memcmp(vmm_.frame(6), pair_.side(0).memory.data(), 4096), 0);
  EXPECT_EQ(vmm_.frame(3)[0], std::byte{0}) << "where it lay before";
  EXPECT_TRUE(page_faults().empty());
}

TEST_F(SanLmp, SAN_LMP_15_changes_of_the_manager_take_effect_at_once) {
  test::covers("SAN-LMP-15");
  open();
  const MemoryRegion region = heap();
  ASSERT_EQ(write_to(effective(kHeap, 0), region.rkey), WcStatus::kSuccess);
  EXPECT_NE(vmm_.frame(3)[0], std::byte{0});
  // The page is swapped out: the adapter must not use the cached translation.
  std::memset(vmm_.frame(3), 0, kSpacePageBytes);
  PageEntry entry = vmm_.pages[virtual_page(kUpper, 0)];
  entry.valid = false;
  spaces_.page_changed(entry);
  EXPECT_EQ(write_to(effective(kHeap, 0), region.rkey), WcStatus::kRemoteOperation);
  EXPECT_EQ(vmm_.page_ins, 1) << "it was asked for and did not come";
  EXPECT_EQ(vmm_.frame(3)[0], std::byte{0});
  // The page is swapped in to another frame.
  entry = vmm_.enter(kUpper, 0, 5);
  spaces_.page_changed(entry);
  EXPECT_EQ(write_to(effective(kHeap, 0), region.rkey), WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(vmm_.frame(5), pair_.side(0).memory.data(), 64), 0);
  EXPECT_EQ(vmm_.frame(3)[0], std::byte{0});
}

TEST_F(SanRmpSpaces, SAN_RMP_03_user_processes_bind_effective_addresses_kernel_processes_virtual_ones_too) {
  test::covers("SAN-RMP-03");
  open();
  const PdId kernel = owner_.adapter->alloc_pd().value();
  ASSERT_TRUE(spaces_.assign(kernel, ProcessId{1}, ProcessMode::kKernel).ok());
  const uint64_t virtual_address = join_address({kUpper, 0, 0});
  const Access both = Access::kRemoteRead | Access::kRemoteWrite;
  const Rkey user_key = table_.alloc_rkey(owner_.pd).value();
  EXPECT_FALSE(spaces_.bind_rkey(owner_.pd, user_key, AddressKind::kVirtual, virtual_address, 64, both).ok());
  EXPECT_FALSE(
      spaces_.bind_rkey(owner_.pd, user_key, AddressKind::kEffective, effective(kCode, 0), 64, both).ok())
      << "an address of another process";
  const uint32_t windows = table_.query(user_key.value())->valid ? 1 : 0;
  EXPECT_EQ(windows, 0U) << "still unbound";
  EXPECT_TRUE(
      spaces_.bind_rkey(owner_.pd, user_key, AddressKind::kEffective, effective(kHeap, 0, 1), 63, both).ok());
  EXPECT_EQ(write_to(effective(kHeap, 0, 1), user_key, 63), WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(vmm_.frame(3) + 1, pair_.side(0).memory.data(), 63), 0);
  const Rkey kernel_key = table_.alloc_rkey(kernel).value();
  EXPECT_TRUE(spaces_.bind_rkey(kernel, kernel_key, AddressKind::kVirtual, virtual_address, 64, both).ok());
  const Rkey third = table_.alloc_rkey(kernel).value();
  EXPECT_FALSE(spaces_.bind_rkey(kernel, third, AddressKind::kPhysical, virtual_address, 64, both).ok());
}

TEST_F(SanRmpSpaces, SAN_RMP_11_a_range_that_has_become_invalid_grants_nothing) {
  test::covers("SAN-RMP-11");
  open();
  const Rkey key = table_.alloc_rkey(owner_.pd).value();
  ASSERT_TRUE(
      spaces_
          .bind_rkey(owner_.pd, key, AddressKind::kEffective, effective(kHeap, 0), 64, Access::kRemoteWrite)
          .ok());
  ASSERT_EQ(write_to(effective(kHeap, 0), key), WcStatus::kSuccess);
  std::memset(vmm_.frame(3), 0, kSpacePageBytes);
  spaces_.segment_table_update(kOwner, {.id = kHeap, .upper = kUpper, .valid = false});
  EXPECT_EQ(write_to(effective(kHeap, 0), key), WcStatus::kRemoteAccess);
  EXPECT_EQ(vmm_.frame(3)[0], std::byte{0});
  EXPECT_TRUE(table_.query(key.value())->valid) << "the key itself is bound as before";
}

}  // namespace
}  // namespace weft::adapter
