// Address spaces of processes, used by a program of hca/ that plays the operating system (SAN-LMP).
#include "hca/spaces.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "tests/support/requirement.h"
#include "tests/support/two_devices.h"

namespace weft::test {
namespace {

using adapter::Access;
using adapter::WcStatus;
using hca::Answer;

constexpr Access kHeapRights = Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite;

/// One process whose segment 1 is virtual segment 2; page 0 of that segment is `frame`.
class OnePage final : public adapter::MemoryManager {
 public:
  explicit OnePage(std::byte* frame) : frame_(frame) {}
  std::vector<adapter::Segment> segment_table(adapter::ProcessId process) override {
    if (process != adapter::ProcessId{5}) return {};
    return {{.id = 1, .upper = 2}};
  }
  std::optional<adapter::PageEntry> page_entry(uint64_t page) override {
    if (page != adapter::join_address({2, 0, 0}) / adapter::kSpacePageBytes) return std::nullopt;
    return adapter::PageEntry{.page = page,
                              .physical = reinterpret_cast<uintptr_t>(frame_) / adapter::kSpacePageBytes};
  }
  std::optional<adapter::PageEntry> page_in(uint64_t /*page*/) noexcept override { return std::nullopt; }

 private:
  std::byte* frame_;
};

class ConsumerSpaces : public TwoDevices {
 protected:
  hca::Qp* make(Consumer& side, hca::ProtectionDomain& pd) {
    const hca::QpInit init{.send_cq = side.cq, .recv_cq = side.cq, .config = {}, .user = nullptr};
    return side.context->create_qp(pd, init).object;
  }
  /// An RDMA write of `a` to `addr` under `key`.
  WcStatus write(hca::Qp& qp, uint64_t addr, Rkey key) {
    const adapter::Sge from = a().sge(0, 64);
    const adapter::SendRequest request{.wr_id = 77,
                                       .opcode = adapter::SendOpcode::kRdmaWrite,
                                       .flags = adapter::kSendSignaled,
                                       .sges = std::span(&from, 1),
                                       .remote_addr = addr,
                                       .rkey = key};
    size_t posted = 0;
    EXPECT_EQ(qp.post_send(std::span(&request, 1), posted), Answer::kOk);
    help(100, std::chrono::microseconds(50));
    return next(*a().cq).status;
  }
};

TEST_F(ConsumerSpaces, a_user_process_registers_effective_addresses_alone) {
  covers("SAN-LMP-02 SAN-LMP-06");
  constexpr uint64_t kPage = adapter::kSpacePageBytes;
  const auto begin = reinterpret_cast<uintptr_t>(b().memory.data());
  OnePage manager(b().memory.data() + (kPage - begin % kPage) % kPage);
  std::byte* const frame = b().memory.data() + (kPage - begin % kPage) % kPage;
  const uint64_t effective = adapter::join_address({1, 0, 0});
  const auto reg = [&](hca::ProtectionDomain& pd, adapter::AddressKind kind, uint64_t address) {
    return b().context->reg_addresses(pd, kind, address, kPage, kHeapRights);
  };
  hca::ProtectionDomain* pd = b().context->alloc_pd().object;
  EXPECT_EQ(reg(*pd, adapter::AddressKind::kEffective, effective).answer(), Answer::kMissingObject)
      << "no manager";
  hca::Spaces& spaces = b().device.use_manager(manager);
  EXPECT_EQ(spaces.assign(*b().pd, adapter::ProcessId{5}, adapter::ProcessMode::kUser), Answer::kWrongMoment)
      << "a region is there";
  EXPECT_EQ(spaces.assign(*a().pd, adapter::ProcessId{5}, adapter::ProcessMode::kUser),
            Answer::kForeignObject)
      << "another device's";
  ASSERT_EQ(spaces.assign(*pd, adapter::ProcessId{5}, adapter::ProcessMode::kUser), Answer::kOk);
  EXPECT_EQ(b().context->reg_mr(*pd, b().memory, kHeapRights).answer(), Answer::kConfined);
  EXPECT_EQ(b().context->reserve_mr(*pd, true).answer(), Answer::kConfined);
  EXPECT_EQ(reg(*pd, adapter::AddressKind::kPhysical, reinterpret_cast<uintptr_t>(frame)).answer(),
            Answer::kConfined);
  EXPECT_EQ(reg(*pd, adapter::AddressKind::kEffective, adapter::join_address({9, 0, 0})).answer(),
            Answer::kBadRange);
  EXPECT_EQ(spaces.map_local_page(adapter::join_address({2, 0, 0}), 2 * kPage), Answer::kBadRange);
  ASSERT_EQ(spaces.map_local_page(adapter::join_address({2, 0, 0}), kPage), Answer::kOk);
  hca::MemoryRegion* region = reg(*pd, adapter::AddressKind::kEffective, effective).object;
  ASSERT_NE(region, nullptr);

  hca::Qp* near = make(a(), *a().pd);
  hca::Qp* far = make(b(), *pd);
  connect(*near, Lid(1), *far, Lid(2));
  a().memory[0] = std::byte{0x77};
  EXPECT_EQ(write(*near, effective + 8, region->region().rkey), WcStatus::kSuccess);
  EXPECT_EQ(frame[8], std::byte{0x77});
  ASSERT_EQ(spaces.segment_table_update(adapter::ProcessId{5}, {.id = 1, .upper = 2, .valid = false}),
            Answer::kOk);
  EXPECT_EQ(write(*near, effective + 8, region->region().rkey), WcStatus::kRemoteAccess);

  // After the domain has ended its number may be used again: nothing of the process remains.
  EXPECT_EQ(b().context->destroy(far), Answer::kOk);
  EXPECT_EQ(b().context->destroy(region), Answer::kOk);
  EXPECT_EQ(b().context->destroy(pd), Answer::kOk);
  hca::ProtectionDomain* next = b().context->alloc_pd().object;
  EXPECT_NE(b().context->reg_mr(*next, b().memory, kHeapRights).object, nullptr);
}

}  // namespace
}  // namespace weft::test
