// Registered memory that goes away, with the thread of connection management as the one that makes the copy:
// its look at QP1 is a call of the device, and each call runs a turn of the whole adapter. Transfers end as
// with an adapter that holds the pages. In tests/unit/verbs/gone_memory_test.cc a thread of the program or
// the helper copies.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "base/stats_page.h"
#include "hca/helper_thread.h"
#include "rdma_cm/cm_service.h"
#include "tests/support/live_fabric.h"
#include "tests/support/temp_dir.h"
#include "tests/support/two_devices.h"

namespace weft::rdma_cm {
namespace {

using namespace std::chrono_literals;

constexpr size_t kPage = 4096;
constexpr uint32_t kGoneBytes = 600;
constexpr std::byte kOld{0x40};  // what the memory held when it went
constexpr adapter::Access kFullRights = adapter::Access::kLocalWrite | adapter::Access::kRemoteRead |
                                        adapter::Access::kRemoteWrite | adapter::Access::kRemoteAtomic;

enum class Leaves { kUnmapped, kTruncated, kReadOnly, kMappedAnew };
enum class Moves { kWrite, kRead, kAtomic, kReceive };
using Case = std::tuple<Leaves, bool, Moves>;  // whether the program has handlers of its own

constexpr std::array kLeavesNames{"unmapped", "truncated", "read_only", "mapped_anew"};
constexpr std::array kMovesNames{"write", "read", "atomic", "receive"};

/// One page in a file of its own.
class FilePage {
 public:
  FilePage() : file_(memfd_create("page", 0)) {
    EXPECT_EQ(ftruncate(file_, kPage), 0);
    at_ = map(nullptr, file_, MAP_SHARED, PROT_READ | PROT_WRITE);
    std::memset(at_, static_cast<int>(kOld), kPage);
  }
  FilePage(const FilePage&) = delete;
  FilePage& operator=(const FilePage&) = delete;
  ~FilePage() {
    munmap(at_, kPage);
    close(file_);
  }
  void go(Leaves how) {
    constexpr int kAnew = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    switch (how) {
      case Leaves::kTruncated:
        EXPECT_EQ(ftruncate(file_, 0), 0);
        return;
      case Leaves::kReadOnly:
        EXPECT_EQ(mprotect(at_, kPage, PROT_READ), 0);
        return;
      case Leaves::kMappedAnew:
        EXPECT_EQ(map(at_, -1, kAnew, PROT_READ | PROT_WRITE), at_);
        return;
      case Leaves::kUnmapped:  // nothing else of the process may come to lie there
        EXPECT_EQ(map(at_, -1, kAnew, PROT_NONE), at_);
    }
  }
  [[nodiscard]] std::span<std::byte> bytes() const { return {at_, kPage}; }

 private:
  static std::byte* map(std::byte* at, int file, int flags, int rights) {
    return static_cast<std::byte*>(mmap(at, kPage, rights, flags, file, 0));
  }
  int file_;
  std::byte* at_ = nullptr;
};

void end_the_test(int /*signal*/) {
  _exit(9);
}

/// Handlers of the program, behind the library's back, and back again.
class ForeignHandlers {
 public:
  ForeignHandlers() {
    struct sigaction other {};
    other.sa_handler = end_the_test;
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &other, &before_[i]);
    std::this_thread::sleep_for(10ms);  // every thread asks again meanwhile (docs/memory.md)
  }
  ForeignHandlers(const ForeignHandlers&) = delete;
  ForeignHandlers& operator=(const ForeignHandlers&) = delete;
  ~ForeignHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array kSignals{SIGSEGV, SIGBUS};
  std::array<struct sigaction, 2> before_{};
};

/// The owner of the memory has no helper, and its program makes no call while the peer moves data: only its
/// thread of connection management drives its device.
class CmGoneMemory : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    for (auto* side : {&peer_, &owner_}) {
      const uint64_t guid = side == &peer_ ? 0x1001 : 0x1002;
      ASSERT_TRUE(side->device.add_link(fabric_.endpoint_of(guid)).ok());
    }
    helper_ = std::make_unique<hca::HelperThread>(peer_.device, fabric_.clock);
    for (auto* side : {&peer_, &owner_}) {
      ASSERT_TRUE(side->device.wait_for_ports(30s));
      side->open();
    }
    ASSERT_TRUE(owner_.device.publish(page_, "owner"));
    ASSERT_TRUE(test::make_connected(peer_, owner_, qps_));
    const adapter::QpAttr rights{.access = kFullRights};
    ASSERT_EQ(qps_[1]->modify(rights, adapter::kQpAttrAccess), hca::Answer::kOk);
    region_ = owner_.context->reg_mr(*owner_.pd, memory_.bytes(), kFullRights).object;
    ASSERT_NE(region_, nullptr);
  }
  void TearDown() override {
    service_.reset();
    helper_.reset();
  }
  void start_service() {
    const CmServiceConfig config{.identity = {.guid = Guid(0x1002), .lid = Lid(2), .mtu = 5},
                                 .sleep_max = 1ms};
    service_ = std::move(CmService::start(owner_.device, owner_.link_random, config).value());
  }
  void post_receive() {
    const adapter::Sge to{region_->region().addr, kGoneBytes, region_->region().lkey};
    const adapter::RecvRequest request{.wr_id = 5, .sges = {&to, 1}};
    size_t posted = 0;
    ASSERT_EQ(qps_[1]->post_recv({&request, 1}, posted), hca::Answer::kOk);
  }
  void post(Moves moves) {
    adapter::Sge ordinary = peer_.sge(0, moves == Moves::kAtomic ? 8 : kGoneBytes);
    adapter::SendRequest request{.wr_id = 1,
                                 .opcode = adapter::SendOpcode::kRdmaWrite,
                                 .flags = adapter::kSendSignaled,
                                 .sges = {&ordinary, 1},
                                 .remote_addr = region_->region().addr,
                                 .rkey = region_->region().rkey};
    if (moves == Moves::kRead) request.opcode = adapter::SendOpcode::kRdmaRead;
    if (moves == Moves::kAtomic) request.opcode = adapter::SendOpcode::kFetchAdd;
    if (moves == Moves::kReceive) request.opcode = adapter::SendOpcode::kSend;
    size_t posted = 0;
    ASSERT_EQ(qps_[0]->post_send({&request, 1}, posted), hca::Answer::kOk);
  }
  adapter::WcStatus status() {
    adapter::WorkCompletion done;
    const Instant end = MonotonicClock().now() + 30s;
    while (peer_.cq->poll({&done, 1}) == 0) {
      if (MonotonicClock().now() > end) return adapter::WcStatus::kGeneral;
    }
    return done.status;
  }
  [[nodiscard]] uint64_t counter(const std::string& name) const {
    const auto entries = read_stats_page(dir_.path() + "/page").value();
    for (const auto& [label, value] : entries)
      if (label == name) return value;
    ADD_FAILURE() << "no counter " << name;
    return 0;
  }

  FilePage memory_;
  test::TempDir dir_;
  StatsPage page_ = StatsPage::create(dir_.path() + "/page").value();
  test::LiveFabric fabric_;
  test::Consumer peer_{1, fabric_.clock};
  test::Consumer owner_{2, fabric_.clock, test::Consumer::kTolerant};
  std::unique_ptr<hca::HelperThread> helper_;
  std::unique_ptr<CmService> service_;
  std::array<hca::Qp*, 2> qps_{};
  hca::MemoryRegion* region_ = nullptr;
};

TEST_P(CmGoneMemory, is_as_if_an_adapter_held_its_pages) {
  const auto [leaves, has_handlers, moves] = GetParam();
  start_service();
  if (moves == Moves::kReceive) post_receive();
  memory_.go(leaves);
  {
    std::optional<ForeignHandlers> handlers;
    if (has_handlers) handlers.emplace();
    post(moves);
    EXPECT_EQ(status(), adapter::WcStatus::kSuccess);
  }
  const bool reads = moves == Moves::kRead;
  const bool there = leaves == Leaves::kMappedAnew || (leaves == Leaves::kReadOnly && reads);
  EXPECT_EQ(counter("owner.device.gone_memory") == 0, there) << "the copy met the memory that is gone";
  EXPECT_EQ(counter("owner.device.helper_turns"), 0U);
  if (reads) {
    EXPECT_EQ(peer_.memory[0], leaves == Leaves::kReadOnly ? kOld : std::byte{0});
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& given) {
  const auto [leaves, has_handlers, moves] = given.param;
  return std::string(kLeavesNames[static_cast<size_t>(leaves)]) + (has_handlers ? "_other_handler_" : "_") +
         kMovesNames[static_cast<size_t>(moves)];
}

INSTANTIATE_TEST_SUITE_P(All, CmGoneMemory,
                         ::testing::Combine(::testing::Values(Leaves::kUnmapped, Leaves::kTruncated,
                                                              Leaves::kReadOnly, Leaves::kMappedAnew),
                                            ::testing::Bool(),
                                            ::testing::Values(Moves::kWrite, Moves::kRead, Moves::kAtomic,
                                                              Moves::kReceive)),
                         name_of);

}  // namespace
}  // namespace weft::rdma_cm
