// Registered memory that goes away under a program of the drop-in library: transfers end as with an adapter
// that holds the pages, whether a thread of the program drives or the helper, and registration refuses what
// the kernel could not pin.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <thread>
#include <tuple>

#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;

constexpr size_t kPage = 4096;
constexpr uint32_t kGoneBytes = 600;  // three cells
constexpr char kOld = 0x40;           // what the memory held when it went

enum class Gone { kUnmapped, kTruncated, kReadOnly, kNeverMapped, kMappedAnew };
enum class Driver { kPoll, kBlockedPoll, kHelper, kHelperOtherHandler };
enum class Transfer { kWrite, kInlineWrite, kRead, kAtomic, kSend, kReceive, kReadInto };

constexpr std::array kGoneNames{"unmapped", "truncated", "read_only", "never_mapped", "mapped_anew"};
constexpr std::array kDriverNames{"poll", "blocked_poll", "helper", "helper_other_handler"};
constexpr std::array kTransferNames{"write", "inline_write", "read",     "atomic",
                                    "send",  "receive",      "read_into"};

/// One page in a file of its own.
class Page {
 public:
  Page() : file_(memfd_create("page", 0)) {
    EXPECT_EQ(ftruncate(file_, kPage), 0);
    at_ = map(nullptr, file_, MAP_SHARED);
    std::memset(at_, kOld, kPage);
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  ~Page() {
    munmap(at_, kPage);
    close(file_);
  }
  void go(Gone how) {
    switch (how) {
      case Gone::kTruncated:
        EXPECT_EQ(ftruncate(file_, 0), 0);
        return;
      case Gone::kReadOnly:
        EXPECT_EQ(mprotect(at_, kPage, PROT_READ), 0);
        return;
      case Gone::kMappedAnew:
        EXPECT_EQ(map(at_, -1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED), at_);
        return;
      case Gone::kUnmapped:
      case Gone::kNeverMapped:  // nothing else of the process may come to lie there
        void* const none = mmap(at_, kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        EXPECT_EQ(none, at_);
    }
  }
  [[nodiscard]] char* at() const { return at_; }

 private:
  static char* map(char* at, int file, int flags) {
    return static_cast<char*>(mmap(at, kPage, PROT_READ | PROT_WRITE, flags, file, 0));
  }
  int file_;
  char* at_ = nullptr;
};

using Case = std::tuple<Gone, Driver, Transfer>;

class GoneMemory : public Verbs, public ::testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    Verbs::SetUp();
    if (HasFatalFailure()) return;
    ibv_qp_init_attr init = init_of(IBV_QPT_RC);
    init.cap.max_inline_data = 64;
    qps.push_back(asks = ibv_create_qp(pd, &init));
    ASSERT_NE(asks, nullptr);
    answers = make_qp(IBV_QPT_RC);
    bring_up(asks, answers->qp_num);
    bring_up(answers, asks->qp_num);
  }
  void post(Transfer transfer, const ibv_mr& gone) {
    ibv_sge own{.addr = reinterpret_cast<uint64_t>(gone.addr), .length = kGoneBytes, .lkey = gone.lkey};
    ibv_sge ordinary = sge(0, kGoneBytes);
    ibv_send_wr wr{.wr_id = 1, .sg_list = &ordinary, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma = {.remote_addr = own.addr, .rkey = gone.rkey};
    if (transfer == Transfer::kInlineWrite) {
      wr.send_flags |= IBV_SEND_INLINE;
      ordinary.length = 32;
    }
    if (transfer == Transfer::kRead) wr.opcode = IBV_WR_RDMA_READ;
    if (transfer == Transfer::kReadInto) {
      wr.opcode = IBV_WR_RDMA_READ;
      wr.sg_list = &own;
      wr.wr.rdma = {.remote_addr = ordinary.addr, .rkey = mr->rkey};
    }
    if (transfer == Transfer::kAtomic) {
      wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
      ordinary.length = 8;
      wr.wr.atomic = {.remote_addr = own.addr, .compare_add = 1, .swap = 0, .rkey = gone.rkey};
    }
    if (transfer == Transfer::kSend || transfer == Transfer::kReceive) {
      wr.opcode = IBV_WR_SEND;
      ibv_sge to = transfer == Transfer::kReceive ? own : sge(2048, kGoneBytes);
      ibv_recv_wr receive{.wr_id = 2, .sg_list = &to, .num_sge = 1};
      ibv_recv_wr* bad = nullptr;
      ASSERT_EQ(ibv_post_recv(answers, &receive, &bad), 0);
      if (transfer == Transfer::kSend) wr.sg_list = &own;
    }
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(asks, &wr, &bad), 0);
  }
  /// Of the request, when the program waits for an event meanwhile and the helper drives.
  ibv_wc_status status_by_helper() {
    std::this_thread::sleep_for(20ms);  // callers have fallen silent
    return status();
  }
  ibv_wc_status status() {
    ibv_wc wc = next();
    while (wc.wr_id != 1) wc = next();
    return wc.status;
  }

  ibv_qp* asks = nullptr;
  ibv_qp* answers = nullptr;
};

void other_handler(int /*signal*/) {
  _exit(9);
}

/// Handlers of the program, behind the library's back, and back again.
class OtherHandlers {
 public:
  OtherHandlers() {
    struct sigaction other {};
    other.sa_handler = other_handler;
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &other, &before_[i]);
    std::this_thread::sleep_for(10ms);  // every thread asks again meanwhile (docs/memory.md)
  }
  OtherHandlers(const OtherHandlers&) = delete;
  OtherHandlers& operator=(const OtherHandlers&) = delete;
  ~OtherHandlers() {
    for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &before_[i], nullptr);
  }

 private:
  static constexpr std::array kSignals{SIGSEGV, SIGBUS};
  std::array<struct sigaction, 2> before_{};
};

class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
    std::this_thread::sleep_for(10ms);
  }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

TEST_P(GoneMemory, is_as_if_an_adapter_held_its_pages) {
  const auto [gone, driver, transfer] = GetParam();
  Page page;
  const bool never = gone == Gone::kNeverMapped;
  if (never) page.go(gone);
  unsigned access = kAllRights;
  if (never) access |= IBV_ACCESS_ON_DEMAND;
  ibv_mr* region = ibv_reg_mr(pd, page.at(), kPage, access);
  ASSERT_NE(region, nullptr);
  if (!never) page.go(gone);
  std::optional<OtherHandlers> other;
  std::optional<BlockedSignals> blocked;
  if (driver == Driver::kHelperOtherHandler) other.emplace();
  if (driver == Driver::kBlockedPoll) blocked.emplace();
  post(transfer, *region);
  const bool helper = driver == Driver::kHelper || driver == Driver::kHelperOtherHandler;
  const ibv_wc_status status = helper ? status_by_helper() : this->status();
  const bool sends = transfer == Transfer::kSend && gone != Gone::kMappedAnew && gone != Gone::kReadOnly;
  EXPECT_EQ(status, sends ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS);
  if (transfer == Transfer::kRead) {
    EXPECT_EQ(memory[0], gone == Gone::kReadOnly ? kOld : 0);
  }
  EXPECT_EQ(ibv_dereg_mr(region), 0);
}

std::string name_of(const ::testing::TestParamInfo<Case>& given) {
  const auto [gone, driver, transfer] = given.param;
  return std::string(kGoneNames[static_cast<size_t>(gone)]) + "_" +
         kDriverNames[static_cast<size_t>(driver)] + "_" + kTransferNames[static_cast<size_t>(transfer)];
}

const auto kCases = ::testing::Combine(
    ::testing::Values(Gone::kUnmapped, Gone::kTruncated, Gone::kReadOnly, Gone::kNeverMapped,
                      Gone::kMappedAnew),
    ::testing::Values(Driver::kPoll, Driver::kBlockedPoll, Driver::kHelper, Driver::kHelperOtherHandler),
    ::testing::Values(Transfer::kWrite, Transfer::kInlineWrite, Transfer::kRead, Transfer::kAtomic,
                      Transfer::kSend, Transfer::kReceive, Transfer::kReadInto));
INSTANTIATE_TEST_SUITE_P(All, GoneMemory, kCases, name_of);

// ---- registration --------------------

class RegisterGone : public Verbs {
 protected:
  /// 0, or the errno of the refusal.
  int try_to_register(void* at, size_t bytes, unsigned access) {
    ibv_mr* made = ibv_reg_mr(pd, at, bytes, access);
    if (made == nullptr) return errno;
    EXPECT_EQ(ibv_dereg_mr(made), 0);
    return 0;
  }
  static char* map(size_t pages, int rights) {
    void* at = mmap(nullptr, pages * kPage, rights, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_NE(at, MAP_FAILED);
    return static_cast<char*>(at);
  }
};

constexpr unsigned kLocalOnly = IBV_ACCESS_LOCAL_WRITE;

TEST_F(RegisterGone, what_the_kernel_cannot_pin_is_refused) {
  char* at = map(4, PROT_READ | PROT_WRITE);
  EXPECT_EQ(try_to_register(at + 100, 2 * kPage, kLocalOnly), 0);
  ASSERT_EQ(munmap(at + kPage, kPage), 0);
  EXPECT_EQ(try_to_register(at, 3 * kPage, kLocalOnly), EFAULT) << "a hole within";
  EXPECT_EQ(try_to_register(at + 100, kPage, 0), EFAULT) << "it begins before the hole";
  EXPECT_EQ(try_to_register(at + kPage, 8, 0), EFAULT);
  EXPECT_EQ(try_to_register(at, kPage, kLocalOnly), 0);
  EXPECT_EQ(try_to_register(at, 3 * kPage, kLocalOnly | IBV_ACCESS_ON_DEMAND), 0) << "it is not pinned";
  munmap(at, kPage);
  munmap(at + 2 * kPage, 2 * kPage);
}

TEST_F(RegisterGone, what_may_not_be_written_is_registered_for_reading) {
  char* at = map(4, PROT_READ);
  EXPECT_EQ(try_to_register(at, 4 * kPage, IBV_ACCESS_REMOTE_READ), 0);
  EXPECT_EQ(try_to_register(at, 4 * kPage, kLocalOnly), EFAULT);
  ASSERT_EQ(mprotect(at, kPage, PROT_READ | PROT_WRITE), 0);
  ASSERT_EQ(mprotect(at + 3 * kPage, kPage, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(try_to_register(at, 4 * kPage, kLocalOnly), EFAULT) << "each page of a small region is asked for";
  ASSERT_EQ(mprotect(at, kPage, PROT_NONE), 0);
  EXPECT_EQ(try_to_register(at, kPage, 0), EFAULT);
  munmap(at, 4 * kPage);
}

TEST_F(RegisterGone, a_large_region_is_not_brought_in) {
  constexpr size_t kPages = size_t{1} << 18;  // 1 GiB
  char* at = map(kPages, PROT_READ | PROT_WRITE);
  EXPECT_EQ(try_to_register(at, kPages * kPage, kLocalOnly), 0);
  std::array<unsigned char, 64> there{};
  ASSERT_EQ(mincore(at + kPage, there.size() * kPage, there.data()), 0);
  EXPECT_EQ(there, (std::array<unsigned char, 64>{}));
  ASSERT_EQ(munmap(at + kPages / 2 * kPage, kPage), 0);
  EXPECT_EQ(try_to_register(at, kPages * kPage, kLocalOnly), EFAULT);
  munmap(at, kPages * kPage);
}

TEST_F(RegisterGone, a_change_to_such_memory_is_refused_and_the_region_is_as_it_was) {
  char* at = map(1, PROT_READ);
  ibv_mr* made = ibv_reg_mr(pd, memory.data(), 64, kLocalOnly);
  ASSERT_NE(made, nullptr);
  EXPECT_EQ(ibv_rereg_mr(made, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, at, kPage, 0),
            IBV_REREG_MR_ERR_INPUT);
  EXPECT_EQ(errno, EFAULT);
  EXPECT_EQ(made->addr, memory.data());
  EXPECT_EQ(ibv_dereg_mr(made), 0);
  munmap(at, kPage);
}

TEST_F(RegisterGone, a_change_to_other_memory_asks_for_the_rights_of_the_last_change) {
  char* read_only = map(1, PROT_READ);
  ibv_mr* made = ibv_reg_mr(pd, memory.data(), 64, kLocalOnly);
  ASSERT_NE(made, nullptr);
  ASSERT_EQ(ibv_rereg_mr(made, IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
  EXPECT_EQ(ibv_rereg_mr(made, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, read_only, kPage, 0), 0)
      << "the region no longer has the right to write";
  EXPECT_EQ(made->addr, read_only);
  EXPECT_EQ(ibv_dereg_mr(made), 0);
  munmap(read_only, kPage);
}

}  // namespace
}  // namespace weft::test
