// SAN-LMP: effective, virtual and physical addresses.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include "tests/support/page_regions.h"
#include "tests/support/requirement.h"
#include "tests/support/spaces_test.h"

namespace weft::test {
namespace {

class SanLmp : public SpacesTest {};

TEST_F(SanLmp, SAN_LMP_03_an_effective_address_is_segment_page_and_offset) {
  covers("SAN-LMP-03");
  constexpr uint64_t kKnown = 0x1234'5678'9ABC'DEF0;
  constexpr AddressParts kParts{0x1'2345'6789, 0xABCD, 0xEF0};
  EXPECT_EQ(split_address(kKnown), kParts);
  EXPECT_EQ(join_address(kParts), kKnown);
  EXPECT_EQ(split_address(~uint64_t{0}), (AddressParts{0xF'FFFF'FFFF, 0xFFFF, 0xFFF}));
  open();
  EXPECT_EQ(spaces_.to_virtual(kOwner, effective(kHeap, 2, 5)), join_address({kUpper, 2, 5}));
  // The first part selects the entry: the same page and offset lie elsewhere in another segment, here the one
  // with the highest number, and its page is the last one.
  constexpr uint64_t kLast = 0xF'FFFF'FFFF;
  vmm_.enter(kUpper + 1, 2, 5);
  vmm_.enter(kUpper + 1, 0xFFFF, 6);
  vmm_.change(kOwner, {.id = kLast, .upper = kUpper + 1});
  const auto bytes_of = [&](uint64_t segment, uint32_t page, uint32_t offset) {
    EXPECT_TRUE(spaces_.map_local_page(*spaces_.to_virtual(kOwner, effective(segment, page)), 1).ok());
    const uint64_t address = effective(segment, page, offset);
    const MemoryRegion region =
        spaces_.reg_addresses(owner_.pd, AddressKind::kEffective, address, 8, kFull).value();
    EXPECT_EQ(local(region, address, 8), AccessFault::kNone);
    return at_.empty() ? nullptr : at_.front();
  };
  EXPECT_EQ(bytes_of(kHeap, 2, 5), vmm_.frame(1) + 5);
  EXPECT_EQ(bytes_of(kHeap, 3, 5), vmm_.frame(0) + 5) << "the second part selects the page";
  EXPECT_EQ(bytes_of(kHeap, 3, 0xFF8), vmm_.frame(0) + 0xFF8) << "the third part is the place in it";
  EXPECT_EQ(bytes_of(kLast, 2, 5), vmm_.frame(5) + 5);
  EXPECT_EQ(bytes_of(kLast, 0xFFFF, 0x123), vmm_.frame(6) + 0x123);
}

TEST_F(SanLmp, SAN_LMP_04_upper_bits_page_and_offset_make_the_virtual_address) {
  covers("SAN-LMP-04");
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

/// The valid bit decides over each use of the entry: accesses from both sides, and registration.
TEST_F(SanLmp, SAN_LMP_04_an_entry_whose_valid_bit_is_off_grants_nothing) {
  covers("SAN-LMP-04");
  open();
  const MemoryRegion region = heap();
  const uint64_t address = effective(kHeap, 0);
  const auto expect_granted = [&](bool granted) {
    const AccessFault fault = granted ? AccessFault::kNone : AccessFault::kNotValid;
    EXPECT_EQ(local(region, address, 8, AccessKind::kLocalRead), fault);
    EXPECT_EQ(local(region, address, 8, AccessKind::kLocalWrite), fault);
    const WcStatus status = granted ? WcStatus::kSuccess : WcStatus::kRemoteAccess;
    EXPECT_EQ(write_to(address, region.rkey), status);
    EXPECT_EQ(read_from(address, region.rkey), status);
    EXPECT_EQ(spaces_.reg_addresses(owner_.pd, AddressKind::kEffective, address, 8, kFull).ok(), granted);
  };
  expect_granted(true);
  std::memset(vmm_.frame(3), 0, kSpacePageBytes);
  spaces_.segment_table_update(kOwner, {.id = kHeap, .upper = kUpper, .valid = false});
  expect_granted(false);
  EXPECT_EQ(vmm_.frame(3)[0], std::byte{0});
  spaces_.segment_table_update(kOwner, {.id = kHeap, .upper = kUpper, .valid = true});
  expect_granted(true);
}

TEST_F(SanLmp, SAN_LMP_05_the_page_table_entry_gives_the_page_and_its_protection) {
  covers("SAN-LMP-05");
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

TEST_F(SanLmp, SAN_LMP_05_a_peer_is_bound_by_the_page_table_entry_too) {
  covers("SAN-LMP-05");
  open();
  const MemoryRegion region = heap(kFull | Access::kRemoteAtomic);
  const uint64_t address = effective(kHeap, 1);
  PageEntry entry = vmm_.pages[virtual_page(kUpper, 1)];
  const auto expect_peer = [&](WcStatus read, WcStatus write) {
    std::memset(vmm_.frame(2), 0x11, kSpacePageBytes);
    std::memset(pair_.side(0).memory.data() + kReadTo, 0, 64);
    spaces_.page_changed(entry);
    EXPECT_EQ(read_from(address, region.rkey), read);
    EXPECT_EQ(pair_.side(0).memory[kReadTo], std::byte(read == WcStatus::kSuccess ? 0x11 : 0));
    EXPECT_EQ(write_to(address, region.rkey), write);
    EXPECT_EQ(vmm_.frame(2)[0], write == WcStatus::kSuccess ? pair_.side(0).memory[0] : std::byte{0x11});
  };
  expect_peer(WcStatus::kSuccess, WcStatus::kSuccess);
  entry.write = false;
  expect_peer(WcStatus::kSuccess, WcStatus::kRemoteAccess);
  RemoteGrant grant;
  EXPECT_NE(table_.checks.check_remote(owner_.pd, region.rkey, address, 8, AccessKind::kRemoteAtomic, grant),
            AccessFault::kNone)
      << "an atomic operation reads and writes";
  entry.read = false;
  entry.write = true;
  expect_peer(WcStatus::kRemoteAccess, WcStatus::kSuccess);
  EXPECT_NE(table_.checks.check_remote(owner_.pd, region.rkey, address, 8, AccessKind::kRemoteAtomic, grant),
            AccessFault::kNone);
  entry.read = true;
  entry.valid = false;
  expect_peer(WcStatus::kRemoteOperation, WcStatus::kRemoteOperation);
}

/// Upper bits and page number together select the entry.
TEST_F(SanLmp, SAN_LMP_05_one_page_number_is_another_page_under_other_upper_bits) {
  covers("SAN-LMP-05");
  vmm_.tables[kOwner].push_back({.id = kCode, .upper = kUpper + 1});
  vmm_.enter(kUpper + 1, 1, 6).read = false;
  open();
  ASSERT_TRUE(spaces_.map_local_page(join_address({kUpper + 1, 1, 0}), 1).ok());
  const MemoryRegion region = heap();
  const MemoryRegion other =
      spaces_.reg_addresses(owner_.pd, AddressKind::kEffective, effective(kCode, 1), 64, kFull).value();
  EXPECT_EQ(local(region, effective(kHeap, 1), 8), AccessFault::kNone);
  EXPECT_EQ(at_.front(), vmm_.frame(2));
  EXPECT_EQ(local(region, effective(kHeap, 1), 8, AccessKind::kLocalRead), AccessFault::kNone);
  EXPECT_EQ(local(other, effective(kCode, 1), 8), AccessFault::kNone);
  EXPECT_EQ(at_.front(), vmm_.frame(6));
  EXPECT_EQ(local(other, effective(kCode, 1), 8, AccessKind::kLocalRead), AccessFault::kRightMissing);
}

TEST_F(SanLmp, SAN_LMP_06_user_processes_have_effective_addresses_only) {
  covers("SAN-LMP-06");
  open();
  const uint64_t address = join_address({kUpper, 0, 0});
  const auto reg = [&](PdId pd, AddressKind kind, uint64_t at) {
    return spaces_.reg_addresses(pd, kind, at, 64, kFull).ok();
  };
  EXPECT_FALSE(reg(owner_.pd, AddressKind::kVirtual, address));
  EXPECT_FALSE(reg(owner_.pd, AddressKind::kPhysical, reinterpret_cast<uintptr_t>(vmm_.frame(0))));
  EXPECT_TRUE(reg(owner_.pd, AddressKind::kEffective, effective(kHeap, 0)));
  EXPECT_TRUE(reg(kernel_, AddressKind::kVirtual, address));
  // The segment table belongs to one process.
  EXPECT_FALSE(spaces_.to_virtual(kOther, effective(kHeap, 0)));

  // A user process's domain cannot register memory in any other way.
  const std::span<std::byte> frame(vmm_.frame(0), kSpacePageBytes);
  const std::array<std::byte*, 1> page{vmm_.frame(0)};
  const PageList pages{.pages = page, .page_bytes = kSpacePageBytes, .length = 64};
  EXPECT_FALSE(table_.regions.reg_mr(owner_.pd, frame, kFull).ok());
  EXPECT_FALSE(reg_pages(table_.regions, owner_.pd, pages, kFull).ok());
  EXPECT_FALSE(table_.regions.reserve_mr(owner_.pd, true).ok());
  const MemoryRegion region = heap();
  EXPECT_FALSE(table_.regions.rereg_mr(region.lkey, {.memory = frame}).ok());
  EXPECT_TRUE(local(region, effective(kHeap, 0), 8) == AccessFault::kNone) << "it is as it was";
  // A domain in kernel mode, or of no process, can register in each of those ways.
  EXPECT_TRUE(table_.regions.reg_mr(kernel_, frame, kFull).ok());
  EXPECT_TRUE(reg_pages(table_.regions, kernel_, pages, kFull).ok());
}

/// A domain with a registration cannot be assigned to a user process.
TEST_F(SanLmp, SAN_LMP_06_a_user_process_begins_with_nothing) {
  covers("SAN-LMP-06");
  const std::span<std::byte> frame(vmm_.frame(0), kSpacePageBytes);
  const PdId pd = owner_.adapter->alloc_pd().value();
  const MemoryRegion region = table_.regions.reg_mr(pd, frame, kFull).value();
  EXPECT_FALSE(spaces_.assign(pd, kOther, ProcessMode::kUser).ok());
  EXPECT_TRUE(table_.regions.reg_mr(pd, frame, kFull).ok()) << "nothing has changed";
  EXPECT_TRUE(spaces_.assign(pd, kOther, ProcessMode::kKernel).ok());
  // A region cannot move from another domain into the process's domain, or out of it.
  EXPECT_FALSE(table_.regions.rereg_mr(region.lkey, {.pd = owner_.pd}).ok());
  EXPECT_FALSE(table_.regions.share_mr(owner_.pd, region.lkey, kFull).ok());
  const MemoryRegion own = heap();
  EXPECT_FALSE(table_.regions.rereg_mr(own.lkey, {.pd = pd}).ok());
  EXPECT_FALSE(table_.regions.share_mr(pd, own.lkey, kFull).ok());
  EXPECT_TRUE(table_.regions.share_mr(owner_.pd, own.lkey, kFull).ok()) << "within the process";
}

/// When a protection domain ends and its number is used again, the next domain belongs to no process.
TEST_F(SanLmp, SAN_LMP_02_the_next_domain_of_a_number_is_of_no_process) {
  covers("SAN-LMP-02");
  const PdId pd = owner_.adapter->alloc_pd().value();
  ASSERT_TRUE(spaces_.assign(pd, kOwner, ProcessMode::kUser).ok());
  ASSERT_TRUE(owner_.adapter->dealloc_pd(pd).ok());
  ASSERT_EQ(owner_.adapter->alloc_pd().value(), pd);
  EXPECT_FALSE(spaces_.reg_addresses(pd, AddressKind::kEffective, effective(kHeap, 0), 64, kFull).ok())
      << "it has no process to begin with";
  const std::span<std::byte> frame(vmm_.frame(0), 64);
  const MemoryRegion region = table_.regions.reg_mr(pd, frame, kFull).value();
  ASSERT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
  EXPECT_TRUE(spaces_.assign(pd, kOther, ProcessMode::kUser).ok());
}

TEST_F(SanLmp, SAN_LMP_02_no_process_reaches_an_address_of_another_process) {
  covers("SAN-LMP-02");
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
  covers("SAN-LMP-08");
  EXPECT_EQ(vmm_.fetches[kOwner], 0);
  const QpConfig config{.type = QpType::kRc};
  for (int i = 0; i < 5; ++i) pair_.make_qp(1, config);
  EXPECT_EQ(vmm_.fetches[kOwner], 1) << "five QPs, one table";
  EXPECT_EQ(spaces_.fetches(), 1U);
  EXPECT_EQ(vmm_.fetches[kOther], 0);

  // The fetch is the registration for notices: the manager reports changes of this table from now on.
  EXPECT_FALSE(spaces_.to_virtual(kOwner, effective(kCode, 0)));
  vmm_.change(kOwner, {.id = kCode, .upper = 5});
  EXPECT_EQ(vmm_.reports, 1);
  EXPECT_EQ(spaces_.to_virtual(kOwner, effective(kCode, 0)), join_address({5, 0, 0}));
  vmm_.change(kOther, {.id = kHeap, .upper = 6});
  EXPECT_EQ(vmm_.reports, 1) << "no QP of the other process is open";

  // The other process has a table of its own, fetched at its first QP as it is then.
  const PdId other = owner_.adapter->alloc_pd().value();
  ASSERT_TRUE(spaces_.assign(other, kOther, ProcessMode::kUser).ok());
  EXPECT_EQ(vmm_.fetches[kOther], 0) << "before its first QP";
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(
        owner_.adapter
            ->create_qp({.type = QpType::kRc, .pd = other, .send_cq = owner_.cq, .recv_cq = owner_.cq})
            .ok());
  }
  EXPECT_EQ(vmm_.fetches[kOther], 1);
  EXPECT_EQ(vmm_.fetches[kOwner], 1);
  EXPECT_EQ(spaces_.to_virtual(kOther, effective(kHeap, 0)), join_address({6, 0, 0}));
  EXPECT_EQ(spaces_.to_virtual(kOwner, effective(kHeap, 0)), join_address({kUpper, 0, 0}));
  vmm_.change(kOther, {.id = kHeap, .upper = 7});
  EXPECT_EQ(spaces_.to_virtual(kOther, effective(kHeap, 0)), join_address({7, 0, 0}));
}

TEST_F(SanLmp, SAN_LMP_09_posts_with_effective_addresses_need_no_further_fetch) {
  covers("SAN-LMP-09");
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

/// The manager's own table is gone after the first QP was made, so only the stored copy can translate.
TEST_F(SanLmp, SAN_LMP_09_every_use_of_an_effective_address_is_translated_by_the_stored_table) {
  covers("SAN-LMP-09");
  qps_ = pair_.connect({.type = QpType::kRc});
  open();
  vmm_.tables[kOwner].clear();
  const int asked = vmm_.page_questions;
  const MemoryRegion region = heap();  // a registration
  const uint64_t at = effective(kHeap, 0, 64);
  std::byte* const place = vmm_.frame(3) + 64;
  const Sge mine{at, 64, region.lkey};
  PairSide& remote_side = pair_.side(0);
  // A receive.
  remote_side.fill(0, 64, 0x21);
  const Sge sent = remote_side.sge(0, 64);
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 1, {mine}), PostResult::kOk);
  ASSERT_EQ(remote_side.adapter->post_send(*qps_[0], {.sges = {&sent, 1}}), PostResult::kOk);
  pair_.run();
  EXPECT_EQ(std::memcmp(place, remote_side.memory.data(), 64), 0);
  // The source of a write and the sink of a read.
  std::memset(place, 0x22, 64);
  const auto post = [&](SendOpcode opcode) {
    ASSERT_EQ(owner_.adapter->post_send(*qps_[1], {.opcode = opcode,
                                                   .sges = {&mine, 1},
                                                   .remote_addr = remote_side.region.addr + 4096,
                                                   .rkey = remote_side.region.rkey}),
              PostResult::kOk);
    pair_.run();
  };
  post(SendOpcode::kRdmaWrite);
  EXPECT_EQ(remote_side.memory[4096 + 63], std::byte{0x22});
  remote_side.fill(4096, 64, 0x23);
  post(SendOpcode::kRdmaRead);
  EXPECT_EQ(std::memcmp(place, remote_side.memory.data() + 4096, 64), 0);
  // The peer's accesses, and a key bound to the address.
  EXPECT_EQ(write_to(at, region.rkey), WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(place, remote_side.memory.data(), 64), 0);
  const Rkey key = table_.windows.alloc_rkey(owner_.pd).value();
  ASSERT_TRUE(spaces_.bind_rkey(owner_.pd, key, AddressKind::kEffective, at, 64, Access::kRemoteRead).ok());
  EXPECT_EQ(read_from(at, key), WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(place, remote_side.memory.data() + kReadTo, 64), 0);
  for (const WorkCompletion& done : owner_.completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
  EXPECT_EQ(vmm_.fetches[kOwner], 1);
  EXPECT_EQ(vmm_.page_questions, asked);
}

TEST_F(SanLmp, SAN_LMP_10_a_segment_table_update_reaches_every_qp_of_the_process) {
  covers("SAN-LMP-10");
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
  covers("SAN-LMP-11");
  spaces_.open_qp(owner_.pd);
  const MemoryRegion region = heap();
  EXPECT_EQ(local(region, effective(kHeap, 0), 1), AccessFault::kNotMapped);
  ASSERT_TRUE(spaces_.map_local_page(join_address({kUpper, 0, 100}), 1).ok());
  EXPECT_EQ(local(region, effective(kHeap, 0), 1), AccessFault::kNone);
  EXPECT_EQ(local(region, effective(kHeap, 1), 1), AccessFault::kNotMapped) << "this page and no other";
  EXPECT_FALSE(spaces_.map_local_page(join_address({kUpper, 3, 0}), 2 * kSpacePageBytes).ok());
  EXPECT_EQ(local(region, effective(kHeap, 3), 1), AccessFault::kNotMapped) << "all of a range, or nothing";
  // A kernel process names virtual or physical addresses.
  const auto where = [&](AddressKind kind, uint64_t address) {
    const MemoryRegion made = spaces_.reg_addresses(kernel_, kind, address, 8, kFull).value();
    std::byte* at = nullptr;
    EXPECT_EQ(table_.checks.visit_local(kernel_, {address, 8, made.lkey}, AccessKind::kLocalRead,
                                        [&](std::byte* piece, uint64_t /*bytes*/) { at = piece; }),
              AccessFault::kNone);
    return at;
  };
  EXPECT_EQ(where(AddressKind::kVirtual, join_address({kUpper, 0, 8})), vmm_.frame(3) + 8);
  EXPECT_EQ(where(AddressKind::kPhysical, reinterpret_cast<uintptr_t>(vmm_.frame(5) + 16)),
            vmm_.frame(5) + 16);
}

TEST_F(SanLmp, SAN_LMP_12_a_remote_access_to_a_page_never_mapped_is_an_event_at_the_owner) {
  covers("SAN-LMP-12");
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

TEST_F(SanLmp, SAN_LMP_14_a_page_that_was_swapped_out_comes_back_and_the_transfer_goes_on) {
  covers("SAN-LMP-14");
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
  covers("SAN-LMP-15");
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

}  // namespace
}  // namespace weft::test
