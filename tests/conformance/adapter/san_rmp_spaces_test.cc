// SAN-RMP-03, -05, -11 and SAN-LMP-13: what a process of an operating system gives to peers, by which address
// and under which key.
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "messages/failure.h"
#include "tests/support/requirement.h"
#include "tests/support/spaces_test.h"

namespace weft::test {
namespace {

class SanRmpSpaces : public SpacesTest {
 protected:
  Reason bind(PdId pd, Rkey key, AddressKind kind, uint64_t address, uint64_t length = 64);
};

/// Binds for a process, and tells what the call answers.
Reason SanRmpSpaces::bind(PdId pd, Rkey key, AddressKind kind, uint64_t address, uint64_t length) {
  const Refusable<MemoryRegion> bound =
      spaces_.bind_rkey(pd, key, kind, address, length, Access::kRemoteRead | Access::kRemoteWrite);
  return bound.ok() ? Reason::kOk : bound.error().reason();
}

TEST_F(SanRmpSpaces, SAN_RMP_03_a_user_process_binds_effective_addresses_of_its_own_only) {
  covers("SAN-RMP-03");
  open();
  const uint64_t virtual_address = join_address({kUpper, 0, 0});
  const Rkey key = table_.windows.alloc_rkey(owner_.pd).value();
  const auto expect_invalid_parameter = [&](AddressKind kind, uint64_t address, const char* what) {
    const Reason reason = bind(owner_.pd, key, kind, address);
    EXPECT_NE(reason, Reason::kOk) << what;
    EXPECT_EQ(errno_of(reason), EINVAL) << what;
    EXPECT_FALSE(table_.query(key.value())->valid) << what;
  };
  expect_invalid_parameter(AddressKind::kVirtual, virtual_address, "a virtual address");
  expect_invalid_parameter(AddressKind::kPhysical, reinterpret_cast<uintptr_t>(vmm_.frame(3)),
                           "a physical one");
  expect_invalid_parameter(AddressKind::kEffective, effective(kCode, 0), "a segment of another process");
  expect_invalid_parameter(AddressKind::kEffective, effective(kHeap, 0xFFFF, 0xFFF), "beyond its segment");
  EXPECT_EQ(bind(owner_.pd, key, AddressKind::kEffective, effective(kHeap, 0, 1), 63), Reason::kOk);
  EXPECT_EQ(write_to(effective(kHeap, 0, 1), key, 63), WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(vmm_.frame(3) + 1, pair_.side(0).memory.data(), 63), 0);
}

TEST_F(SanRmpSpaces, SAN_RMP_03_a_kernel_process_binds_effective_and_virtual_addresses) {
  covers("SAN-RMP-03");
  vmm_.tables[kKernel] = {{.id = kCode, .upper = kUpper}};
  open();
  struct Bound {
    AddressKind kind;
    uint64_t address;
    std::byte* place;
  };
  for (const Bound& at : {Bound{AddressKind::kEffective, effective(kCode, 1, 8), vmm_.frame(2) + 8},
                          Bound{AddressKind::kVirtual, join_address({kUpper, 2, 8}), vmm_.frame(1) + 8}}) {
    const Rkey key = table_.windows.alloc_rkey(kernel_).value();
    EXPECT_EQ(bind(kernel_, key, at.kind, at.address), Reason::kOk);
    connect_kernel();
    EXPECT_EQ(write_to(at.address, key), WcStatus::kSuccess);
    EXPECT_EQ(std::memcmp(at.place, pair_.side(0).memory.data(), 64), 0);
  }
  const Rkey key = table_.windows.alloc_rkey(kernel_).value();
  EXPECT_NE(bind(kernel_, key, AddressKind::kPhysical, reinterpret_cast<uintptr_t>(vmm_.frame(3))),
            Reason::kOk);
  EXPECT_NE(bind(kernel_, key, AddressKind::kEffective, effective(kHeap, 0)), Reason::kOk)
      << "a segment of another process";
}

/// BindRKey registers the memory by itself. Neither that nor the binding is work of the kernel agent.
TEST_F(SanRmpSpaces, SAN_RMP_05_a_bind_on_memory_that_is_not_registered_needs_no_kernel) {
  covers("SAN-RMP-05");
  open();
  const Rkey key = table_.windows.alloc_rkey(owner_.pd).value();
  const auto agent_calls = [&] { return owner_.adapter->counters().get(AdapterCounter::kAgentCalls); };
  const uint64_t before = agent_calls();
  const int asked = vmm_.page_questions;
  EXPECT_EQ(bind(owner_.pd, key, AddressKind::kEffective, effective(kHeap, 0)), Reason::kOk);
  // A bound key cannot be bound again. However often it is tried, nothing is left behind in the table.
  for (uint32_t i = 0; i < AdapterLimits().keys; ++i)
    ASSERT_EQ(bind(owner_.pd, key, AddressKind::kEffective, effective(kHeap, 1)),
              bind_reason(AccessFault::kAlreadyBound));
  EXPECT_EQ(table_.windows.unbind_rkey(owner_.pd, key), AccessFault::kNone);
  EXPECT_EQ(agent_calls(), before);
  EXPECT_EQ(vmm_.fetches[kOwner], 1) << "of open()";
  EXPECT_EQ(vmm_.page_questions, asked);
  (void)heap();
  EXPECT_EQ(agent_calls(), before + 1) << "a registration is such a call";
}

TEST_F(SanRmpSpaces, SAN_RMP_11_a_range_that_has_become_invalid_grants_nothing) {
  covers("SAN-RMP-11");
  vmm_.tables[kOwner].push_back({.id = kCode, .upper = kUpper + 1});
  vmm_.enter(kUpper + 1, 0, 6);
  open();
  ASSERT_TRUE(spaces_.map_local_page(join_address({kUpper + 1, 0, 0}), 1).ok());
  const Rkey key = table_.windows.alloc_rkey(owner_.pd).value();
  const Rkey other = table_.windows.alloc_rkey(owner_.pd).value();
  ASSERT_EQ(bind(owner_.pd, key, AddressKind::kEffective, effective(kHeap, 0)), Reason::kOk);
  ASSERT_EQ(bind(owner_.pd, other, AddressKind::kEffective, effective(kCode, 0)), Reason::kOk);
  std::memset(vmm_.frame(3), 0x11, kSpacePageBytes);
  const auto expect_refused = [&](WcStatus status) {
    pair_.side(0).memory[kReadTo] = std::byte{0};
    EXPECT_EQ(write_to(effective(kHeap, 0), key), status);
    EXPECT_EQ(read_from(effective(kHeap, 0), key), status);
    EXPECT_EQ(vmm_.frame(3)[0], std::byte{0x11});
    EXPECT_EQ(pair_.side(0).memory[kReadTo], std::byte{0});
    EXPECT_TRUE(table_.query(key.value())->valid) << "the key itself is bound as before";
    EXPECT_EQ(write_to(effective(kCode, 0), other), WcStatus::kSuccess)
        << "the other range is as valid as before";
  };
  ASSERT_EQ(write_to(effective(kCode, 0), other), WcStatus::kSuccess);
  ASSERT_EQ(read_from(effective(kHeap, 0), key), WcStatus::kSuccess);
  // The segment table entry is deleted.
  vmm_.change(kOwner, {.id = kHeap, .upper = kUpper, .valid = false});
  expect_refused(WcStatus::kRemoteAccess);
  // The entry is there again, and the page behind it has gone.
  vmm_.change(kOwner, {.id = kHeap, .upper = kUpper});
  EXPECT_EQ(read_from(effective(kHeap, 0), key), WcStatus::kSuccess);
  PageEntry gone = vmm_.pages[virtual_page(kUpper, 0)];
  gone.valid = false;
  spaces_.page_changed(gone);
  expect_refused(WcStatus::kRemoteOperation);
}

TEST_F(SanRmpSpaces, SAN_LMP_13_no_physical_address_is_in_any_frame) {
  covers("SAN-LMP-13");
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
  // Effective and virtual addresses are opaque too, and so is what answers a refused access.
  const MemoryRegion plain = heap();
  EXPECT_EQ(write_to(plain.addr + 4000, plain.rkey, 500), WcStatus::kSuccess);
  EXPECT_EQ(write_to(plain.addr + 4 * kSpacePageBytes, plain.rkey), WcStatus::kRemoteAccess);
  const Rkey key = table_.windows.alloc_rkey(kernel_).value();
  ASSERT_TRUE(spaces_
                  .bind_rkey(kernel_, key, AddressKind::kVirtual, join_address({kUpper, 1, 0}), 64,
                             Access::kRemoteWrite)
                  .ok());
  connect_kernel();
  EXPECT_EQ(write_to(join_address({kUpper, 1, 0}), key), WcStatus::kSuccess);
  EXPECT_GT(pair_.pipe.trace().size(), 20U);
  EXPECT_EQ(physical_addresses_shown(), 0U);
}

/// A kernel process may give the physical address itself. The key protects it as any other.
TEST_F(SanRmpSpaces, SAN_LMP_13_a_physical_address_is_protected_by_its_key) {
  covers("SAN-LMP-13");
  open();
  const uint64_t physical = reinterpret_cast<uintptr_t>(vmm_.frame(5));
  const MemoryRegion region =
      spaces_.reg_addresses(kernel_, AddressKind::kPhysical, physical, 64, kFull).value();
  ASSERT_EQ(region.addr, physical);
  connect_kernel();
  EXPECT_EQ(write_to(physical, region.rkey), WcStatus::kSuccess);
  EXPECT_EQ(std::memcmp(vmm_.frame(5), pair_.side(0).memory.data(), 64), 0);
  EXPECT_GT(physical_addresses_shown(), 0U) << "the search of the frames finds what it looks for";
  std::memset(vmm_.frame(5), 0, 128);
  const MemoryRegion other = heap();
  for (const Rkey key : {Rkey(region.rkey.value() ^ 0x100), Rkey(region.lkey.value()), other.rkey}) {
    connect_kernel();
    EXPECT_EQ(write_to(physical, key), WcStatus::kRemoteAccess);
  }
  connect_kernel();
  EXPECT_EQ(write_to(physical + 64, region.rkey), WcStatus::kRemoteAccess) << "beyond the range of the key";
  EXPECT_EQ(std::count(vmm_.frame(5), vmm_.frame(5) + 128, std::byte{0}), 128);
}

}  // namespace
}  // namespace weft::test
