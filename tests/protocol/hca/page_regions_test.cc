// Regions over pages, and second regions over the memory of the first, of a program of hca/.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "hca/spaces.h"
#include "tests/support/requirement.h"
#include "tests/support/two_devices.h"

namespace weft::test {
namespace {

using adapter::Access;
using adapter::SendOpcode;
using adapter::WcStatus;
using hca::Answer;

constexpr uint64_t kPageBytes = adapter::kPageBytesMin;
constexpr Access kOfPages = Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite;

class ConsumerPages : public TwoDevices {
 protected:
  /// Pages of `b`, the last one first.
  ConsumerPages() {
    for (size_t i = 4; i-- > 0;) pages.push_back(b().memory.data() + i * kPageBytes);
  }
  /// As many of the pages as the range needs, or all of them.
  [[nodiscard]] adapter::PageList list(uint64_t first_offset, uint64_t length) const {
    const uint64_t needed = (first_offset + length + kPageBytes - 1) / kPageBytes;
    return {.pages = std::span(pages).first(std::min(needed, pages.size())),
            .first_offset = first_offset,
            .length = length};
  }
  hca::MemoryRegion* reg(uint64_t first_offset, uint64_t length,
                         const adapter::RegisterOptions& options = {}) {
    hca::MemoryRegion* made =
        b().context->reg_pages(*b().pd, list(first_offset, length), kOfPages, options).object;
    EXPECT_NE(made, nullptr);
    return made;
  }
  /// An operation of `a`, over a new connection to a QP in `pd`.
  WcStatus transfer(SendOpcode opcode, uint64_t addr, Rkey key, uint32_t bytes,
                    hca::ProtectionDomain* pd = nullptr) {
    const hca::QpInit init{.send_cq = b().cq, .recv_cq = b().cq, .config = {}, .user = nullptr};
    hca::Context& context = *b().context;
    hca::Qp* target = context.create_qp(pd != nullptr ? *pd : *b().pd, init).object;
    hca::Qp* qp = a().make_qp();
    connect(*qp, Lid(1), *target, Lid(2));
    const adapter::Sge here = a().sge(0, bytes);
    const adapter::SendRequest request{.wr_id = 1,
                                       .opcode = opcode,
                                       .flags = adapter::kSendSignaled,
                                       .sges = std::span(&here, 1),
                                       .remote_addr = addr,
                                       .rkey = key};
    size_t posted = 0;
    EXPECT_EQ(qp->post_send(std::span(&request, 1), posted), Answer::kOk);
    help(200, std::chrono::microseconds(50));
    const WcStatus status = next(*a().cq).status;
    EXPECT_EQ(context.destroy(target), Answer::kOk);
    return status;
  }

  std::vector<std::byte*> pages;
};

TEST_F(ConsumerPages, are_one_range_of_addresses) {
  covers("TPT-ATT-01 TPT-ATT-02");
  constexpr uint64_t kFirst = 4000;
  constexpr uint32_t kLength = 2 * kPageBytes + 200;  // in all four pages
  const hca::MemoryRegion* region = reg(kFirst, kLength);
  EXPECT_EQ(region->region().addr, 0U);
  EXPECT_EQ(region->region().length, kLength);
  for (uint32_t i = 0; i < kLength; ++i) a().memory[i] = static_cast<std::byte>(1 + i % 251);
  ASSERT_EQ(transfer(SendOpcode::kRdmaWrite, 0, region->region().rkey, kLength), WcStatus::kSuccess);
  uint64_t different = 0;
  for (uint32_t i = 0; i < kLength; ++i) {
    const uint64_t place = kFirst + i;
    different += pages[place / kPageBytes][place % kPageBytes] != a().memory[i] ? 1U : 0U;
  }
  EXPECT_EQ(different, 0U) << "page i of the list holds part i of the range";
  EXPECT_EQ(pages[0][kFirst - 1], std::byte{}) << "before the range";
  EXPECT_EQ(pages[3][kFirst + kLength - 3 * kPageBytes], std::byte{}) << "behind it";
  EXPECT_EQ(transfer(SendOpcode::kRdmaWrite, kLength - 1, region->region().rkey, 2), WcStatus::kRemoteAccess);
  // Requests of the owner name it in the same way.
  const hca::MemoryRegion* based = reg(0, kPageBytes + 1, {.base_addr = 0x7000});
  const adapter::Sge over{.addr = 0x7000 + kPageBytes - 8, .length = 9, .lkey = based->region().lkey};
  std::vector<std::byte> expected(pages[0] + kPageBytes - 8, pages[0] + kPageBytes);
  expected.push_back(pages[1][0]);
  const std::array<hca::Qp*, 2> qps = connected();
  ASSERT_EQ(a().recv(*qps[0], 1), Answer::kOk);
  const adapter::SendRequest message{.wr_id = 1, .sges = std::span(&over, 1)};
  size_t posted = 0;
  ASSERT_EQ(qps[1]->post_send(std::span(&message, 1), posted), Answer::kOk);
  help();
  ASSERT_EQ(next(*a().cq).byte_count, 9U);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), a().memory.begin() + Consumer::kBytes / 2));
}

TEST_F(ConsumerPages, that_do_not_make_a_region_are_refused) {
  hca::Context& context = *b().context;
  const auto refusal = [&](const adapter::PageList& pages_of, Access access = kOfPages) {
    return context.reg_pages(*b().pd, pages_of, access).answer();
  };
  adapter::PageList bad = list(0, 4 * kPageBytes);
  bad.page_bytes = kPageBytes / 2;
  EXPECT_EQ(refusal(bad), Answer::kBadSize);
  EXPECT_EQ(refusal(list(0, 0)), Answer::kBadRange);
  EXPECT_EQ(refusal(list(1, 4 * kPageBytes)), Answer::kBadRange) << "a page is missing";
  EXPECT_EQ(refusal(list(kPageBytes, 10)), Answer::kBadRange);
  EXPECT_EQ(refusal(list(0, 4 * kPageBytes), Access::kRemoteWrite), Answer::kBadRights);
  EXPECT_EQ(context.reg_pages(*a().pd, list(0, 4 * kPageBytes), kOfPages).answer(), Answer::kForeignObject);
  pages[2] = nullptr;
  EXPECT_EQ(refusal(list(0, 4 * kPageBytes)), Answer::kBadRange);
}

TEST_F(ConsumerPages, have_a_second_region_that_outlives_the_first) {
  covers("TPT-REG-08");
  hca::MemoryRegion* first = reg(0, 3 * kPageBytes + 1);
  hca::Context* elsewhere = b().device.open().object;  // another user of the device
  hca::ProtectionDomain* other = b().context->alloc_pd().object;
  ASSERT_NE(elsewhere, nullptr);
  hca::ProtectionDomain* foreign = elsewhere->alloc_pd().object;
  EXPECT_NE(elsewhere->share_mr(*foreign, *first, Access::kLocalWrite).object, nullptr);
  hca::MemoryRegion* second =
      b().context->share_mr(*other, *first, Access::kRemoteRead, {.base_addr = 0x9000}).object;
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second->region().rkey, first->region().rkey);
  EXPECT_EQ(second->region().length, first->region().length);
  EXPECT_EQ(&second->pd(), other);

  a().memory[0] = std::byte{0x42};
  EXPECT_EQ(transfer(SendOpcode::kRdmaWrite, kPageBytes, first->region().rkey, 1), WcStatus::kSuccess);
  EXPECT_EQ(transfer(SendOpcode::kRdmaWrite, 0x9000, second->region().rkey, 1, other),
            WcStatus::kRemoteAccess)
      << "it has rights of its own";
  EXPECT_EQ(transfer(SendOpcode::kRdmaRead, 0x9000, second->region().rkey, 1), WcStatus::kRemoteAccess)
      << "and a domain of its own";
  EXPECT_EQ(b().context->destroy(first), Answer::kOk);
  a().memory[0] = std::byte{};
  EXPECT_EQ(transfer(SendOpcode::kRdmaRead, 0x9000 + kPageBytes, second->region().rkey, 1, other),
            WcStatus::kSuccess)
      << "the page table lives as long as one region uses it";
  EXPECT_EQ(a().memory[0], std::byte{0x42});
  EXPECT_EQ(b().context->destroy(second), Answer::kOk);
  EXPECT_EQ(b().context->destroy(other), Answer::kOk);
  b().device.close(elsewhere);
}

TEST_F(ConsumerPages, are_not_shared_beyond_what_the_first_region_permits) {
  hca::MemoryRegion* read_only =
      b().context->reg_pages(*b().pd, list(0, kPageBytes * 4), Access::kRemoteRead).object;
  ASSERT_NE(read_only, nullptr);
  EXPECT_EQ(b().context->share_mr(*b().pd, *read_only, Access::kLocalWrite).answer(), Answer::kBadRights);
  EXPECT_EQ(a().context->share_mr(*a().pd, *read_only, Access::kNone).answer(), Answer::kForeignObject);
  EXPECT_EQ(a().context->share_mr(*b().pd, *a().region, Access::kNone).answer(), Answer::kForeignObject);
  hca::MemoryRegion* reserved = b().context->reserve_mr(*b().pd, false).object;
  EXPECT_EQ(b().context->share_mr(*b().pd, *reserved, Access::kNone).answer(), Answer::kNoSuchKey);
  // A contiguous region is shared under its own address.
  const hca::MemoryRegion* same = b().context->share_mr(*b().pd, *b().region, kOfPages).object;
  ASSERT_NE(same, nullptr);
  EXPECT_EQ(same->region().addr, b().region->region().addr);
  EXPECT_EQ(transfer(SendOpcode::kRdmaRead, same->region().addr, same->region().rkey, 8), WcStatus::kSuccess);
}

/// Other memory or another domain, for a region made of pages.
TEST_F(ConsumerPages, are_left_by_a_new_registration) {
  hca::MemoryRegion* region = reg(0, 4 * kPageBytes);
  hca::ProtectionDomain* other = b().context->alloc_pd().object;
  ASSERT_EQ(region->rereg({}, other), Answer::kOk);
  a().memory[0] = std::byte{0x17};
  EXPECT_EQ(transfer(SendOpcode::kRdmaWrite, kPageBytes, region->region().rkey, 1, other),
            WcStatus::kSuccess);
  EXPECT_EQ(pages[1][0], std::byte{0x17});
  ASSERT_EQ(region->rereg({.memory = std::span(b().memory).subspan(0, 64)}), Answer::kOk);
  EXPECT_EQ(region->region().length, 64U);
  EXPECT_EQ(transfer(SendOpcode::kRdmaWrite, region->region().addr, region->region().rkey, 1, other),
            WcStatus::kSuccess);
  EXPECT_EQ(b().memory[0], std::byte{0x17});
  EXPECT_EQ(b().context->destroy(region), Answer::kOk);
}

}  // namespace
}  // namespace weft::test
