// TPT-ATT, TPT-REG-08 and TPT-ENTRY-01: regions made of pages, at the protection table and end to end between
// two adapters. The pages of a region lie in reverse order in memory, so that code which takes them for one
// piece moves the wrong bytes.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "adapter/memory/memory_table.h"
#include "tests/support/adapter_pair.h"
#include "tests/support/page_regions.h"
#include "tests/support/requirement.h"

namespace weft::adapter {
namespace {

constexpr uint64_t kPage = 4096;
constexpr PdId kPd{1};
constexpr Access kFull =
    Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite | Access::kWindowBind;

/// A list of pages in one piece of memory, with the last page of the memory first.
class ReversedPages {
 public:
  explicit ReversedPages(uint64_t count, uint64_t page_bytes = kPage) : bytes_(count * page_bytes) {
    for (uint64_t i = count; i-- > 0;) pages.push_back(bytes_.data() + i * page_bytes);
  }
  [[nodiscard]] PageList list(uint64_t first_offset, uint64_t length) const {
    return {.pages = pages, .first_offset = first_offset, .length = length};
  }
  /// Byte `offset` of a region that begins at `first_offset` in the first page.
  [[nodiscard]] std::byte& at(uint64_t first_offset, uint64_t offset) const {
    const uint64_t place = first_offset + offset;
    return pages[place / kPage][place % kPage];
  }

  std::vector<std::byte*> pages;

 private:
  std::vector<std::byte> bytes_;
};

class TptAtt : public ::testing::Test {
 protected:
  /// The pieces of a local access, as (address, bytes).
  std::vector<MemoryPiece> pieces(const MemoryRegion& region, uint64_t offset, uint32_t bytes) {
    std::vector<MemoryPiece> out;
    EXPECT_EQ(
        table_.checks.visit_local(kPd, {region.addr + offset, bytes, region.lkey}, AccessKind::kLocalWrite,
                                  [&](std::byte* at, uint64_t length) {
                                    out.push_back({at, length});
                                  }),
        AccessFault::kNone);
    return out;
  }

  SeededRandom random_{1};
  MemoryTable table_{64, 0, random_};
};

TEST_F(TptAtt, TPT_ATT_01_page_i_of_the_buffer_is_entry_i) {
  test::covers("TPT-ATT-01");
  const ReversedPages memory(5);
  const MemoryRegion region = test::reg_pages(table_.regions, kPd, memory.list(0, 5 * kPage), kFull).value();
  const TptEntry entry = table_.query(region.lkey.value()).value();
  ASSERT_EQ(entry.att.entries, 5U);
  const auto* entries = reinterpret_cast<const uint64_t*>(entry.att.pointer);
  for (uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(entries[i], reinterpret_cast<uintptr_t>(memory.pages[i]));
    const auto whole = pieces(region, i * kPage, kPage);
    ASSERT_EQ(whole.size(), 1U);
    EXPECT_EQ(whole[0].at, memory.pages[i]);
  }
}

TEST_F(TptAtt, TPT_ATT_02_high_bits_select_the_entry_and_low_bits_the_place) {
  test::covers("TPT-ATT-02");
  const ReversedPages memory(3);
  constexpr uint64_t kFirst = 4000;               // into the first page
  constexpr uint64_t kLength = 96 + kPage + 100;  // the last page ends early
  const MemoryRegion region =
      test::reg_pages(table_.regions, kPd, memory.list(kFirst, kLength), kFull, {.base_addr = 0x10'0000})
          .value();
  for (const uint64_t border : {uint64_t{96}, 96 + kPage}) {
    for (const uint64_t around : {border - 1, border, border + 1}) {
      const auto one = pieces(region, around, 1);
      ASSERT_EQ(one.size(), 1U);
      EXPECT_EQ(one[0].at, &memory.at(kFirst, around));
    }
    // 100 bytes across one page border: two pieces.
    const auto over = pieces(region, border - 40, 100);
    ASSERT_EQ(over.size(), 2U);
    EXPECT_EQ(over[0].at, &memory.at(kFirst, border - 40));
    EXPECT_EQ(over[0].bytes, 40U);
    EXPECT_EQ(over[1].at, &memory.at(kFirst, border));
    EXPECT_EQ(over[1].bytes, 60U);
  }
  std::byte* at = nullptr;
  EXPECT_EQ(
      table_.checks.check_local(kPd, {region.addr + kLength, 1, region.lkey}, AccessKind::kLocalRead, at),
      AccessFault::kOutOfBounds)
      << "inside the last page, behind the end";
  EXPECT_EQ(table_.checks.check_local(kPd, {region.addr - 1, 1, region.lkey}, AccessKind::kLocalRead, at),
            AccessFault::kOutOfBounds)
      << "inside the first page, before the start";
}

TEST_F(TptAtt, TPT_ATT_03_one_buffer_through_all_three_forms) {
  test::covers("TPT-ATT-03");
  constexpr uint64_t kPages = kAttListEntries + 3;  // more than one list
  const ReversedPages memory(kPages);
  constexpr uint64_t kLength = kPages * kPage - 5;
  std::vector<MemoryRegion> regions;
  for (const AttControl control : {AttControl::kDirect, AttControl::kFirstOrder, AttControl::kSecondOrder}) {
    PageList list = memory.list(5, kLength);
    list.control = control;
    regions.push_back(test::reg_pages(table_.regions, kPd, list, kFull).value());
    EXPECT_EQ(table_.query(regions.back().lkey.value())->att.control, control);
  }
  const auto first_level = [&](size_t i) { return table_.query(regions[i].lkey.value())->att.entries; };
  EXPECT_EQ(first_level(0), kPages);
  EXPECT_EQ(first_level(1), 2U) << "two lists of page addresses";
  EXPECT_EQ(first_level(2), 1U) << "one list of two entries";
  for (uint64_t offset = 0; offset < kLength; offset += 1021) {
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(6000, kLength - offset));
    const auto expected = pieces(regions[0], offset, bytes);
    ASSERT_EQ(expected[0].at, &memory.at(5, offset));
    for (size_t form = 1; form < 3; ++form) {
      const auto got = pieces(regions[form], offset, bytes);
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) {
        ASSERT_EQ(got[i].at, expected[i].at) << offset;
        ASSERT_EQ(got[i].bytes, expected[i].bytes) << offset;
      }
    }
  }
}

TEST_F(TptAtt, TPT_ATT_04_six_page_sizes) {
  test::covers("TPT-ATT-04");
  for (const uint64_t size : {uint64_t{4} << 10, uint64_t{8} << 10, uint64_t{64} << 10, uint64_t{1} << 20,
                              uint64_t{16} << 20, uint64_t{256} << 20}) {
    // Two pages in reverse order. MAP_NORESERVE and untouched memory keep large sizes cheap.
    void* memory =
        mmap(nullptr, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto* first = static_cast<std::byte*>(memory);
    const std::vector<std::byte*> pages{first + size, first};
    const PageList list{.pages = pages, .page_bytes = size, .first_offset = size - 1, .length = size + 1};
    const MemoryRegion region = test::reg_pages(table_.regions, kPd, list, kFull).value();
    const auto over = pieces(region, 0, 3);
    ASSERT_EQ(over.size(), 2U) << size;
    EXPECT_EQ(over[0].at, first + 2 * size - 1);
    EXPECT_EQ(over[1].at, first);
    EXPECT_EQ(uint64_t{1} << table_.query(region.lkey.value())->att.page_shift, size);
    munmap(memory, 2 * size);
  }
}

TEST_F(TptAtt, TPT_REG_08_a_second_region_over_the_same_memory_adds_an_entry_and_no_table) {
  test::covers("TPT-REG-08");
  const ReversedPages memory(3);
  const MemoryRegion first = test::reg_pages(table_.regions, kPd, memory.list(0, 3 * kPage), kFull).value();
  const PdId other{2};
  const MemoryRegion second =
      table_.regions.share_mr(other, first.lkey, kFull, {.base_addr = 0x5000}).value();
  EXPECT_NE(second.lkey, first.lkey);
  const auto pointer = [&](const MemoryRegion& region) {
    return table_.query(region.lkey.value())->att.pointer;
  };
  EXPECT_EQ(pointer(second), pointer(first)) << "the same table";
  const MemoryRegion apart = test::reg_pages(table_.regions, kPd, memory.list(0, 3 * kPage), kFull).value();
  EXPECT_NE(pointer(apart), pointer(first)) << "otherwise both entry and table are made";
  // The page table lives as long as one region uses it.
  ASSERT_TRUE(table_.regions.dereg_mr(first.lkey).ok());
  std::byte* at = memory.pages[2];
  EXPECT_EQ(table_.checks.visit_local(other, {0x5000 + 2 * kPage + 7, 1, second.lkey}, AccessKind::kLocalRead,
                                      [&](std::byte* piece, uint64_t /*bytes*/) { at = piece; }),
            AccessFault::kNone);
  EXPECT_EQ(at, memory.pages[2] + 7);
  EXPECT_TRUE(table_.regions.dereg_mr(second.lkey).ok());
  // A sharing region gets at most the rights of the first region.
  const MemoryRegion read_only =
      test::reg_pages(table_.regions, kPd, memory.list(0, kPage * 3), Access::kNone).value();
  EXPECT_FALSE(table_.regions.share_mr(kPd, read_only.lkey, Access::kLocalWrite).ok());
  EXPECT_TRUE(table_.regions.share_mr(kPd, read_only.lkey, Access::kNone).ok());
  EXPECT_FALSE(table_.regions.share_mr(kPd, first.lkey, Access::kNone).ok()) << "gone";
  const MemoryRegion unreadable =
      test::reg_pages(table_.regions, kPd, memory.list(0, kPage * 3), Access::kNoLocalRead).value();
  EXPECT_FALSE(table_.regions.share_mr(kPd, unreadable.lkey, Access::kNone).ok());
  EXPECT_TRUE(table_.regions.share_mr(kPd, unreadable.lkey, Access::kNoLocalRead).ok());
}

/// The memory side of registration by work request: reserve an entry, stage memory for it, fill it, use it.
TEST_F(TptAtt, a_reserved_entry_is_filled_only_by_a_request_that_fits) {
  const ReversedPages memory(3);
  const MemoryRegion region = table_.regions.reserve_mr(kPd, true).value();
  EXPECT_NE(region.lkey, Lkey());
  EXPECT_NE(region.rkey, Rkey());
  RemoteGrant grant;
  std::byte* at = nullptr;
  const auto local = [&] {
    return table_.checks.check_local(kPd, {0x1000, 1, region.lkey}, AccessKind::kLocalRead, at);
  };
  const auto remote = [&] {
    return table_.checks.check_remote(kPd, region.rkey, 0x1000, 1, AccessKind::kRemoteWrite, grant);
  };
  const RegisterRequest good{region.lkey, 0x1000, kFull};
  EXPECT_EQ(table_.regions.fill_reserved(kPd, good), AccessFault::kNotMapped) << "nothing is staged";
  EXPECT_FALSE(table_.regions.stage(region.lkey, memory.list(0, 3 * kPage + 1)).ok()) << "a page is missing";
  EXPECT_FALSE(table_.regions.stage(region.lkey, std::span<std::byte>()).ok());
  ASSERT_TRUE(table_.regions.stage(region.lkey, memory.list(0, 3 * kPage)).ok());
  const MemoryRegion staged = table_.regions.stage(region.lkey, memory.list(0, 3 * kPage)).value();
  EXPECT_EQ(staged.lkey, region.lkey) << "not used yet: the keys stay";
  EXPECT_EQ(local(), AccessFault::kNotValid);
  EXPECT_EQ(remote(), AccessFault::kNotValid);
  EXPECT_EQ(table_.regions.fill_reserved(PdId{2}, good), AccessFault::kWrongPd);
  RegisterRequest bad = good;
  bad.access = Access::kRemoteWrite;
  EXPECT_EQ(table_.regions.fill_reserved(kPd, bad), AccessFault::kBadFlags)
      << "a remote right without the local one";
  table_.regions.limit_page_entries(2);
  EXPECT_EQ(table_.regions.fill_reserved(kPd, good), AccessFault::kNoRoom);
  EXPECT_EQ(local(), AccessFault::kNotValid) << "nothing of this has filled it";
  table_.regions.limit_page_entries(3);
  ASSERT_EQ(table_.regions.fill_reserved(kPd, good), AccessFault::kNone);
  EXPECT_EQ(local(), AccessFault::kNone);
  EXPECT_EQ(remote(), AccessFault::kNone);
  EXPECT_EQ(table_.regions.fill_reserved(kPd, good), AccessFault::kAlreadyBound);
  EXPECT_FALSE(test::reg_pages(table_.regions, kPd, memory.list(0, kPage * 3), kFull).ok())
      << "no room for a second table";
  ASSERT_EQ(table_.windows.invalidate(kPd, region.rkey), AccessFault::kNone);
  ASSERT_TRUE(test::reg_pages(table_.regions, kPd, memory.list(0, kPage * 3), kFull).ok())
      << "the room came back";
  ASSERT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
  EXPECT_EQ(table_.regions.fill_reserved(kPd, good), AccessFault::kNotValid);
}

/// The limit on page entries counts a table once, as long as a region uses it.
TEST_F(TptAtt, the_room_of_a_table_comes_back_with_its_last_region) {
  const ReversedPages memory(3);
  const auto add = [&] { return test::reg_pages(table_.regions, kPd, memory.list(0, 3 * kPage), kFull); };
  table_.regions.limit_page_entries(3);
  const MemoryRegion first = add().value();
  const MemoryRegion second = table_.regions.share_mr(kPd, first.lkey, kFull).value();
  for (const Lkey lkey : {first.lkey, second.lkey}) {
    EXPECT_FALSE(add());
    ASSERT_TRUE(table_.regions.dereg_mr(lkey).ok());
  }
  EXPECT_TRUE(add());
}

/// A region that shares the table of one that was registered by work request outlives the invalidation of
/// that one.
TEST_F(TptAtt, a_shared_table_outlives_the_invalidation) {
  const ReversedPages memory(2);
  const MemoryRegion region = table_.regions.reserve_mr(kPd, false).value();
  ASSERT_TRUE(table_.regions.stage(region.lkey, memory.list(0, 2 * kPage)).ok());
  ASSERT_EQ(table_.regions.fill_reserved(kPd, {region.lkey, 0, Access::kLocalWrite}), AccessFault::kNone);
  const MemoryRegion second = table_.regions.share_mr(kPd, region.lkey, Access::kLocalWrite).value();
  ASSERT_EQ(table_.regions.invalidate_region(kPd, region.lkey), AccessFault::kNone);
  EXPECT_EQ(table_.regions.fill_reserved(kPd, {region.lkey, 0, Access::kLocalWrite}),
            AccessFault::kNotMapped);
  EXPECT_EQ(pieces(second, kPage - 1, 2).size(), 2U);
  ASSERT_TRUE(table_.regions.dereg_mr(region.lkey).ok());
  EXPECT_EQ(pieces(second, kPage - 1, 2).size(), 2U);
  ASSERT_TRUE(table_.regions.dereg_mr(second.lkey).ok());
}

/// Counts how often the protection table reads or checks the translation.
class CountingTable final : public Translation {
 public:
  CountingTable(std::byte* memory, int& reads) : memory_(memory), reads_(reads) {}
  AccessFault translate(uint64_t offset, AccessKind /*kind*/, MemoryPiece& out) const noexcept override {
    ++reads_;
    out = {memory_ + offset, 4096 - offset};
    return AccessFault::kNone;
  }
  AccessFault check(uint64_t /*offset*/, uint64_t /*bytes*/, AccessKind /*kind*/) const noexcept override {
    ++reads_;
    return AccessFault::kNone;
  }

 private:
  std::byte* memory_;
  int& reads_;
};

TEST_F(TptAtt, TPT_ENTRY_01_authorisation_is_decided_before_the_table_is_read) {
  test::covers("TPT-ENTRY-01");
  std::vector<std::byte> memory(4096);
  int reads = 0;
  const MemoryRegion region = table_.regions
                                  .reg_translated(kPd, std::make_unique<CountingTable>(memory.data(), reads),
                                                  4096, Access::kRemoteRead | Access::kWindowBind)
                                  .value();
  const auto local = [&](PdId pd, Lkey key, uint64_t addr, uint32_t bytes, AccessKind kind) {
    return table_.checks.visit_local(pd, {addr, bytes, key}, kind, [](std::byte*, uint64_t) {});
  };
  const auto remote = [&](PdId pd, Rkey key, uint64_t addr, uint64_t bytes, AccessKind kind) {
    RemoteGrant grant;
    return table_.checks.check_remote(pd, key, addr, bytes, kind, grant);
  };
  EXPECT_EQ(local(kPd, Lkey(region.lkey.value() ^ 1), 0, 1, AccessKind::kLocalRead), AccessFault::kNotValid);
  EXPECT_EQ(local(kPd, Lkey(region.rkey.value()), 0, 1, AccessKind::kLocalRead), AccessFault::kWrongType);
  EXPECT_EQ(local(PdId{2}, region.lkey, 0, 1, AccessKind::kLocalRead), AccessFault::kWrongPd);
  EXPECT_EQ(local(kPd, region.lkey, 4096, 1, AccessKind::kLocalRead), AccessFault::kOutOfBounds);
  EXPECT_EQ(local(kPd, region.lkey, 0, 1, AccessKind::kLocalWrite), AccessFault::kRightMissing);
  EXPECT_EQ(remote(kPd, Rkey(region.lkey.value()), 0, 1, AccessKind::kRemoteRead), AccessFault::kWrongType);
  EXPECT_EQ(remote(PdId{2}, region.rkey, 0, 1, AccessKind::kRemoteRead), AccessFault::kWrongPd);
  EXPECT_EQ(remote(kPd, region.rkey, 0, 4097, AccessKind::kRemoteRead), AccessFault::kOutOfBounds);
  EXPECT_EQ(remote(kPd, region.rkey, 0, 1, AccessKind::kRemoteWrite), AccessFault::kRightMissing);
  EXPECT_EQ(reads, 0);
  EXPECT_EQ(local(kPd, region.lkey, 0, 1, AccessKind::kLocalRead), AccessFault::kNone);
  EXPECT_GT(reads, 0) << "and only for what is allowed";
}

TEST_F(TptAtt, page_lists_that_do_not_fit_are_refused) {
  const ReversedPages memory(3);
  const auto refused = [&](PageList list) { return !test::reg_pages(table_.regions, kPd, list, kFull).ok(); };
  PageList good = memory.list(10, 2 * kPage);
  EXPECT_FALSE(refused(good));
  for (const uint64_t size : {uint64_t{0}, kPage / 2, kPage + 1, kPage * 3, kPageBytesMax * 2}) {
    PageList list = good;
    list.page_bytes = size;
    EXPECT_TRUE(refused(list)) << size;
  }
  PageList list = good;
  list.first_offset = kPage;
  EXPECT_TRUE(refused(list));
  list = good;
  list.length = 0;
  EXPECT_TRUE(refused(list));
  list.length = 3 * kPage - 9;
  EXPECT_TRUE(refused(list)) << "one byte more than the pages hold";
  list.length = ~uint64_t{0};
  EXPECT_TRUE(refused(list));
  list = good;
  std::vector<std::byte*> with_null = memory.pages;
  with_null[1] = nullptr;
  list.pages = with_null;
  EXPECT_TRUE(refused(list));
}

TEST_F(TptAtt, a_window_over_pages_opens_its_bytes_and_no_others) {
  const ReversedPages memory(3);
  const MemoryRegion region =
      test::reg_pages(table_.regions, kPd, memory.list(100, 2 * kPage), kFull).value();
  const Rkey key = table_.windows.alloc_rkey(kPd).value();
  ASSERT_EQ(table_.windows.bind_rkey(kPd, {key, region.lkey, kPage - 150, 200, Access::kRemoteWrite}),
            AccessFault::kNone);
  RemoteGrant grant;
  ASSERT_EQ(table_.checks.check_remote(kPd, key, kPage - 150, 200, AccessKind::kRemoteWrite, grant),
            AccessFault::kNone);
  EXPECT_EQ(grant.room, 200U);
  std::vector<MemoryPiece> got;
  ASSERT_EQ(table_.checks.visit_granted(grant, 10, 190, AccessKind::kRemoteWrite,
                                        [&](std::byte* at, uint64_t bytes) {
                                          got.push_back({at, bytes});
                                        }),
            AccessFault::kNone);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[0].at, &memory.at(100, kPage - 140));
  EXPECT_EQ(got[0].bytes, 40U);
  EXPECT_EQ(got[1].at, memory.pages[1]);
  EXPECT_EQ(got[1].bytes, 150U);
  EXPECT_EQ(table_.checks.check_remote(kPd, key, kPage - 151, 1, AccessKind::kRemoteWrite, grant),
            AccessFault::kOutOfBounds);
}

/// Two adapters, a region of pages on each side.
class PagedTransfer : public ::testing::Test {
 protected:
  static constexpr uint64_t kFirst = 1000;
  static constexpr uint64_t kLength = 7 * kPage;

  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      auto& side = pair_.side(i);
      memory_.emplace_back(8);
      region_.push_back(test::reg_pages(side.adapter->memory().regions, side.pd,
                                        memory_.back().list(kFirst, kLength), kFull)
                            .value());
    }
    qps_ = pair_.connect({.type = QpType::kRc});
    for (uint64_t i = 0; i < kLength; ++i) {
      memory_[0].at(kFirst, i) = static_cast<std::byte>(i * 11 + (i >> 8));
      memory_[1].at(kFirst, i) = std::byte{0xEE};
    }
  }
  void post(SendOpcode opcode, uint64_t offset, uint32_t bytes, uint64_t target) {
    const Sge sge{region_[0].addr + offset, bytes, region_[0].lkey};
    SendRequest request{.wr_id = 1, .opcode = opcode, .sges = {&sge, 1}};
    if (opcode != SendOpcode::kSend) {
      request.remote_addr = region_[1].addr + target;
      request.rkey = region_[1].rkey;
    }
    ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
    pair_.run();
    ASSERT_FALSE(pair_.side(0).completions.empty());
    EXPECT_EQ(pair_.side(0).completions.back().status, WcStatus::kSuccess);
  }
  void expect_equal(uint64_t from, uint64_t to, uint32_t bytes) {
    uint64_t different = 0;
    for (uint64_t i = 0; i < bytes; ++i)
      different += memory_[0].at(kFirst, from + i) != memory_[1].at(kFirst, to + i) ? 1U : 0U;
    EXPECT_EQ(different, 0U);
  }

  test::AdapterPair pair_;
  std::vector<ReversedPages> memory_;
  std::vector<MemoryRegion> region_;
  std::array<QueuePair*, 2> qps_{};
};

TEST_F(PagedTransfer, TPT_ATT_02_writes_reads_and_sends_cross_page_borders) {
  test::covers("TPT-ATT-02");
  post(SendOpcode::kRdmaWrite, 50, 5 * kPage, 3000);
  expect_equal(50, 3000, 5 * kPage);
  EXPECT_EQ(memory_[1].at(kFirst, 2999), std::byte{0xEE});
  EXPECT_EQ(memory_[1].at(kFirst, 3000 + 5 * kPage), std::byte{0xEE});
  for (uint64_t i = 0; i < kLength; ++i) memory_[1].at(kFirst, i) = static_cast<std::byte>(i * 3 + (i >> 7));
  post(SendOpcode::kRdmaRead, 1, 6 * kPage, 777);
  expect_equal(1, 777, 6 * kPage);
  // A Send gathers two segments and fills a receive WQE of two.
  const Sge first{region_[1].addr + kPage - 8, 100, region_[1].lkey};
  const Sge second{region_[1].addr + 4 * kPage, 2 * kPage, region_[1].lkey};
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 9, {first, second}), PostResult::kOk);
  post(SendOpcode::kSend, 10, 100 + 2 * kPage, 0);
  expect_equal(10, kPage - 8, 100);
  expect_equal(110, 4 * kPage, 2 * kPage);
}

TEST_F(PagedTransfer, a_remote_access_behind_the_last_page_is_refused_and_moves_nothing) {
  const Sge sge{region_[0].addr, 200, region_[0].lkey};
  const SendRequest request{.wr_id = 1,
                            .opcode = SendOpcode::kRdmaWrite,
                            .sges = {&sge, 1},
                            .remote_addr = region_[1].addr + kLength - 199,
                            .rkey = region_[1].rkey};
  ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
  pair_.run();
  ASSERT_EQ(pair_.side(0).completions.size(), 1U);
  EXPECT_EQ(pair_.side(0).completions[0].status, WcStatus::kRemoteAccess);
  for (uint64_t i = kLength - 200; i < kLength; ++i) ASSERT_EQ(memory_[1].at(kFirst, i), std::byte{0xEE});
}

}  // namespace
}  // namespace weft::adapter
