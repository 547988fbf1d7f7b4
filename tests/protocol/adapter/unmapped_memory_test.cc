// Registered memory that is unmapped: an error completion, not a crash.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <vector>

#include "tests/support/adapter_pair.h"

namespace weft::adapter {
namespace {

constexpr uint64_t kPageSize = 4096;
constexpr uint64_t kPages = 4;
constexpr Access kAllRights =
    Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;

/// Private pages, the third of which can be taken away. Other code may map memory at an unmapped address, so
/// most
/// tests protect the page and keep its address.
class Pages {
 public:
  Pages() : file_(memfd_create("pages", 0)) {
    if (ftruncate(file_, kPages * kPageSize) == 0) {
      at_ = static_cast<std::byte*>(
          mmap(nullptr, kPages * kPageSize, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0));
    }
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() {
    munmap(at_, 2 * kPageSize);
    if (!unmapped_) munmap(at_ + 2 * kPageSize, kPageSize);
    munmap(at_ + 3 * kPageSize, kPageSize);
    close(file_);
  }
  void protect_third() { ASSERT_EQ(mprotect(at_ + 2 * kPageSize, kPageSize, PROT_NONE), 0); }
  void unmap_third() {
    unmapped_ = true;
    ASSERT_EQ(munmap(at_ + 2 * kPageSize, kPageSize), 0);
  }
  /// Access then raises SIGBUS instead of SIGSEGV.
  void truncate_to_two() { ASSERT_EQ(ftruncate(file_, 2 * kPageSize), 0); }
  [[nodiscard]] std::span<std::byte> bytes() const { return {at_, kPages * kPageSize}; }

 private:
  int file_;
  std::byte* at_ = nullptr;
  bool unmapped_ = false;
};

class UnmappedMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) {
      std::memset(memory_[i].bytes().data(), 0x40 + i, kPages * kPageSize);
      region_[i] = pair_.side(i)
                       .adapter->memory()
                       .regions.reg_mr(pair_.side(i).pd, memory_[i].bytes(), kAllRights)
                       .value();
    }
    qps_ = pair_.connect({.type = QpType::kRc, .sges = 2});
  }
  [[nodiscard]] Sge sge(int side, uint64_t offset, uint32_t bytes) const {
    return {region_[side].addr + offset, bytes, region_[side].lkey};
  }
  /// Posts on side 0 and returns the status of the completion.
  WcStatus run(SendOpcode opcode, std::vector<Sge> sges, uint64_t target = 0) {
    SendRequest request{.opcode = opcode, .sges = sges};
    if (opcode != SendOpcode::kSend) {
      request.remote_addr = region_[1].addr + target;
      request.rkey = region_[1].rkey;
    }
    EXPECT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
    pair_.run();
    EXPECT_EQ(pair_.side(0).completions.size(), 1U);
    return pair_.side(0).completions.empty() ? WcStatus::kGeneral : pair_.side(0).completions[0].status;
  }

  Pages memory_[2];
  test::AdapterPair pair_;
  MemoryRegion region_[2];
  std::array<QueuePair*, 2> qps_{};
};

TEST_F(UnmappedMemory, a_send_from_it_is_a_local_protection_error) {
  memory_[0].protect_third();
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 1, {sge(1, 0, 3 * kPageSize)}), PostResult::kOk);
  EXPECT_EQ(run(SendOpcode::kSend, {sge(0, kPageSize, 2 * kPageSize)}), WcStatus::kLocalProtection);
  EXPECT_EQ(pair_.side(0).adapter->access_faults().get(AccessFault::kNotMapped), 1U);
  EXPECT_EQ(pair_.side(0).adapter->query_qp(*qps_[0]).state, QpState::kErr);
}

TEST_F(UnmappedMemory, a_gathered_send_from_it_is_a_local_protection_error) {
  memory_[0].protect_third();
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 1, {sge(1, 0, 3 * kPageSize)}), PostResult::kOk);
  EXPECT_EQ(run(SendOpcode::kSend, {sge(0, 0, 100), sge(0, 2 * kPageSize - 10, 20)}),
            WcStatus::kLocalProtection);
}

TEST_F(UnmappedMemory, a_write_into_it_is_a_remote_operation_error) {
  memory_[1].protect_third();
  EXPECT_EQ(run(SendOpcode::kRdmaWrite, {sge(0, 0, 2 * kPageSize)}, kPageSize), WcStatus::kRemoteOperation);
  EXPECT_EQ(pair_.side(1).adapter->access_faults().get(AccessFault::kNotMapped), 1U);
  EXPECT_EQ(memory_[1].bytes()[kPageSize], std::byte{0x40}) << "what came before the hole is written";
  EXPECT_EQ(memory_[1].bytes()[3 * kPageSize], std::byte{0x41}) << "and nothing behind it";
}

TEST_F(UnmappedMemory, a_write_behind_a_read_from_it_is_not_executed) {
  memory_[1].protect_third();
  const Sge to = sge(0, 0, 8);
  SendRequest request{.opcode = SendOpcode::kRdmaRead,
                      .sges = std::span(&to, 1),
                      .remote_addr = region_[1].addr + 2 * kPageSize,
                      .rkey = region_[1].rkey};
  ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
  request.opcode = SendOpcode::kRdmaWrite;
  request.remote_addr = region_[1].addr;
  ASSERT_EQ(pair_.side(0).adapter->post_send(*qps_[0], request), PostResult::kOk);
  pair_.run();
  ASSERT_EQ(pair_.side(0).completions.size(), 2U);
  EXPECT_EQ(pair_.side(0).completions[0].status, WcStatus::kRemoteOperation);
  EXPECT_EQ(memory_[1].bytes()[0], std::byte{0x41}) << "the QP had failed when its turn came";
  EXPECT_EQ(pair_.side(1).adapter->query_qp(*qps_[1]).state, QpState::kErr);
}

TEST_F(UnmappedMemory, a_read_from_it_is_a_remote_operation_error) {
  memory_[1].protect_third();
  EXPECT_EQ(run(SendOpcode::kRdmaRead, {sge(0, 0, 2 * kPageSize)}, kPageSize), WcStatus::kRemoteOperation);
  EXPECT_EQ(pair_.side(1).adapter->query_qp(*qps_[1]).state, QpState::kErr);
}

TEST_F(UnmappedMemory, an_atomic_operation_on_it_is_a_remote_operation_error) {
  for (const SendOpcode opcode : {SendOpcode::kFetchAdd, SendOpcode::kCompareSwap}) {
    if (opcode == SendOpcode::kCompareSwap) {
      pair_.side(0).completions.clear();
      qps_ = pair_.connect({.type = QpType::kRc, .sges = 2});
    }
    QpAttr attr;
    attr.access = Access::kRemoteAtomic;
    ASSERT_EQ(pair_.side(1).adapter->modify_qp(*qps_[1], attr, kQpAttrAccess), ModifyResult::kOk);
    memory_[1].protect_third();
    EXPECT_EQ(run(opcode, {sge(0, 0, 8)}, 2 * kPageSize + 16), WcStatus::kRemoteOperation);
  }
}

TEST_F(UnmappedMemory, a_receive_into_it_fails_at_both_ends) {
  memory_[1].protect_third();
  ASSERT_EQ(pair_.post_recv(1, *qps_[1], 5, {sge(1, kPageSize, 2 * kPageSize)}), PostResult::kOk);
  EXPECT_EQ(run(SendOpcode::kSend, {sge(0, 0, 2 * kPageSize)}), WcStatus::kRemoteOperation);
  ASSERT_EQ(pair_.side(1).completions.size(), 1U);
  EXPECT_EQ(pair_.side(1).completions[0].status, WcStatus::kLocalProtection);
  EXPECT_EQ(pair_.side(1).completions[0].wr_id, 5U);
}

TEST_F(UnmappedMemory, read_responses_into_it_are_a_local_protection_error) {
  memory_[0].protect_third();
  EXPECT_EQ(run(SendOpcode::kRdmaRead, {sge(0, kPageSize, 2 * kPageSize)}, 0), WcStatus::kLocalProtection);
}

TEST_F(UnmappedMemory, the_adapter_goes_on_with_other_qps) {
  memory_[1].protect_third();
  EXPECT_EQ(run(SendOpcode::kRdmaWrite, {sge(0, 0, kPageSize)}, 2 * kPageSize), WcStatus::kRemoteOperation);
  pair_.side(0).completions.clear();
  qps_ = pair_.connect({.type = QpType::kRc, .sges = 2});
  EXPECT_EQ(run(SendOpcode::kRdmaWrite, {sge(0, 0, kPageSize)}, 3 * kPageSize), WcStatus::kSuccess);
  EXPECT_EQ(memory_[1].bytes()[3 * kPageSize], std::byte{0x40});
}

TEST_F(UnmappedMemory, a_write_behind_the_end_of_a_file_is_a_remote_operation_error) {
  memory_[1].truncate_to_two();
  EXPECT_EQ(run(SendOpcode::kRdmaWrite, {sge(0, 0, 2 * kPageSize)}, kPageSize), WcStatus::kRemoteOperation);
  EXPECT_EQ(memory_[1].bytes()[kPageSize], std::byte{0x40});
}

TEST_F(UnmappedMemory, a_write_where_nothing_is_mapped_is_a_remote_operation_error) {
  // Fail once first, because the C++ library allocates memory for its first exception.
  memory_[1].protect_third();
  EXPECT_EQ(run(SendOpcode::kRdmaWrite, {sge(0, 0, kPageSize)}, 2 * kPageSize), WcStatus::kRemoteOperation);
  pair_.side(0).completions.clear();
  qps_ = pair_.connect({.type = QpType::kRc, .sges = 2});
  memory_[1].unmap_third();
  EXPECT_EQ(run(SendOpcode::kRdmaWrite, {sge(0, 0, kPageSize)}, 2 * kPageSize), WcStatus::kRemoteOperation);
}

/// Registered private memory is ordinary memory: a child process gets a copy. Its writes and its end affect
/// neither the parent's bytes nor its transfers. The child has no adapter: links belong to the parent.
TEST_F(UnmappedMemory, fork_leaves_the_parents_regions_alone) {
  std::vector<std::byte> own(kPages * kPageSize, std::byte{0x41});
  region_[1] = pair_.side(1).adapter->memory().regions.reg_mr(pair_.side(1).pd, own, kAllRights).value();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::memset(own.data(), 0x77, own.size());
    munmap(memory_[0].bytes().data(), kPages * kPageSize);
    _exit(own[0] == std::byte{0x77} ? 0 : 1);
  }
  EXPECT_EQ(run(SendOpcode::kRdmaWrite, {sge(0, 0, 2 * kPageSize)}, kPageSize), WcStatus::kSuccess);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(own[0], std::byte{0x41});
  EXPECT_EQ(own[kPageSize], std::byte{0x40});
  EXPECT_EQ(own[3 * kPageSize], std::byte{0x41});
}

using UnmappedMemoryDeathTest = UnmappedMemory;

TEST_F(UnmappedMemoryDeathTest, any_other_fault_ends_the_process_as_before) {
  EXPECT_DEATH(
      {
        std::signal(SIGABRT, SIG_DFL);
        memory_[0].protect_third();
        *static_cast<volatile std::byte*>(memory_[0].bytes().data() + 2 * kPageSize) = std::byte{1};
      },
      "");
}

}  // namespace
}  // namespace weft::adapter
