// Memory of a region that disappears, in each way, under each state of the process's signals, for each kind
// of
// transfer: the process survives, and transfers end as docs/memory.md says, in strict and in tolerant mode.
// Each
// case runs in a child process, because it changes the signals of the whole process.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "adapter/memory/fault_handler.h"
#include "tests/support/adapter_pair.h"

namespace weft::adapter {
namespace {

constexpr uint32_t kPage = 4096;
constexpr uint32_t kGoneBytes = 600;  // three cells
constexpr Access kFullRights =
    Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;
constexpr std::byte kOld{0x40};   // content of the memory before it disappears
constexpr std::byte kSent{0x5C};  // data that a transfer writes to it

enum class Gone { kUnmapped, kTruncated, kReadOnly, kNeverMapped, kMappedAnew };
enum class Signals { kPlain, kBlocked, kOtherBefore, kOtherAfter };
enum class Transfer { kWrite, kInlineWrite, kRead, kRepeatedRead, kAtomic, kSend, kReceive, kReadInto };

constexpr std::array kGoneNames{"unmapped", "truncated", "read_only", "never_mapped", "mapped_anew"};
constexpr std::array kSignalNames{"plain", "blocked", "handler_before", "handler_after"};
constexpr std::array kTransferNames{"write",  "inline_write", "read",    "repeated_read",
                                    "atomic", "send",         "receive", "read_into"};

class CountsGone final : public GoneMemory {
 public:
  void missed() noexcept override { ++times; }
  int times = 0;
};

/// One page in its own file.
class Page {
 public:
  Page() : file_(memfd_create("page", 0)) {
    EXPECT_EQ(ftruncate(file_, kPage), 0);
    at_ = map(nullptr, file_, MAP_SHARED);
    std::memset(at_, static_cast<int>(kOld), kPage);
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
      case Gone::kNeverMapped:
        EXPECT_EQ(munmap(at_, kPage), 0);
        return;
    }
  }
  [[nodiscard]] std::byte* at() const { return at_; }

 private:
  static std::byte* map(std::byte* at, int file, int flags) {
    return static_cast<std::byte*>(mmap(at, kPage, PROT_READ | PROT_WRITE, flags, file, 0));
  }
  int file_;
  std::byte* at_ = nullptr;
};

void other_handler(int /*signal*/) {
  _exit(9);
}

void set_other_handler() {
  for (const int signal : {SIGSEGV, SIGBUS}) std::signal(signal, other_handler);
}

/// Two adapters, one of which has memory that disappears.
class World {
 public:
  World(Gone gone, Transfer transfer, bool tolerant) : gone_(gone), transfer_(transfer) {
    test::PairSide& owner = pair.side(owner_);
    if (tolerant) owner.adapter->memory().computer().tolerate_gone_memory(&missed);
    if (gone == Gone::kNeverMapped) page.go(gone);
    region = owner.adapter->memory().regions.reg_mr(owner.pd, {page.at(), kPage}, kFullRights).value();
    qps = pair.connect({.type = QpType::kRc});
    QpAttr attr;
    attr.access = Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;
    EXPECT_EQ(pair.side(1).adapter->modify_qp(*qps[1], attr, kQpAttrAccess), ModifyResult::kOk);
    std::memset(pair.side(0).memory.data(), static_cast<int>(kSent), kPage);
  }

  WcStatus run() {
    if (transfer_ == Transfer::kRepeatedRead) return repeat_read();
    if (gone_ != Gone::kNeverMapped) page.go(gone_);
    post();
    pair.run();
    return pair.side(0).completions.empty() ? WcStatus::kGeneral : pair.side(0).completions[0].status;
  }
  [[nodiscard]] QpState owner_state() { return pair.side(owner_).adapter->query_qp(*qps[1]).state; }
  [[nodiscard]] std::byte read_byte() { return pair.side(0).memory[kTo]; }

  test::AdapterPair pair;
  Page page;
  MemoryRegion region;
  CountsGone missed;
  std::array<QueuePair*, 2> qps{};

 private:
  static constexpr uint32_t kTo = 8 * kPage;  // target of the other side's reads

  /// Side 0 posts a request to side 1, which owns the memory; for a Send and a read into it side 0 is the
  /// owner.
  void post() {
    SendRequest request{.opcode = SendOpcode::kRdmaWrite, .remote_addr = region.addr, .rkey = region.rkey};
    std::vector<Sge> sges{pair.side(0).sge(0, kGoneBytes)};
    const std::vector<Sge> own{{region.addr, kGoneBytes, region.lkey}};
    if (transfer_ == Transfer::kRead || transfer_ == Transfer::kRepeatedRead) {
      request.opcode = SendOpcode::kRdmaRead;
      sges = {pair.side(0).sge(kTo, kGoneBytes)};
    } else if (transfer_ == Transfer::kReadInto) {
      request.opcode = SendOpcode::kRdmaRead;
      sges = own;
      request.remote_addr = pair.side(1).region.addr;
      request.rkey = pair.side(1).region.rkey;
    } else if (transfer_ == Transfer::kAtomic) {
      request.opcode = SendOpcode::kFetchAdd;
      request.operand = 1;
      sges = {pair.side(0).sge(kTo, 8)};
    } else if (transfer_ == Transfer::kSend || transfer_ == Transfer::kReceive) {
      request.opcode = SendOpcode::kSend;
      const std::vector<Sge> ordinary{pair.side(1).sge(0, kGoneBytes)};
      EXPECT_EQ(pair.post_recv(1, *qps[1], 5, transfer_ == Transfer::kReceive ? own : ordinary),
                PostResult::kOk);
      if (transfer_ == Transfer::kSend) sges = own;
    } else if (transfer_ == Transfer::kInlineWrite) {
      request.flags = kSendInline | kSendSignaled;
      sges[0].length = 200;
    }
    request.sges = sges;
    EXPECT_EQ(pair.side(0).adapter->post_send(*qps[0], request), PostResult::kOk);
  }

  /// The responses are lost, the memory disappears, and the request is repeated.
  WcStatus repeat_read() {
    pair.pipe.set_filter([](int from, std::vector<std::byte>&) {
      return from == 1 ? test::Verdict::kDrop : test::Verdict::kPass;
    });
    post();
    pair.run(20);
    if (gone_ != Gone::kNeverMapped) page.go(gone_);
    pair.pipe.set_filter({});
    pair.run(4000, 1ms);
    return pair.side(0).completions.empty() ? WcStatus::kGeneral : pair.side(0).completions[0].status;
  }

  Gone gone_;
  Transfer transfer_;
  const int owner_ = transfer_ == Transfer::kSend || transfer_ == Transfer::kReadInto ? 0 : 1;
};

WcStatus strict_status(Transfer transfer) {
  switch (transfer) {
    case Transfer::kSend:
    case Transfer::kReadInto:
      return WcStatus::kLocalProtection;
    default:
      return WcStatus::kRemoteOperation;
  }
}

using Case = std::tuple<Gone, Signals, Transfer>;

class GoneMemoryMatrix : public ::testing::TestWithParam<Case> {
 protected:
  void check(bool tolerant) {
    const auto [gone, signals, transfer] = GetParam();
    World world(gone, transfer, tolerant);
    if (signals == Signals::kOtherAfter) set_other_handler();
    if (signals == Signals::kBlocked) {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, nullptr);
    }
    thread_guard.way = GuardWay::kUnknown;
    const bool reads =
        transfer == Transfer::kRead || transfer == Transfer::kRepeatedRead || transfer == Transfer::kSend;
    const bool there = gone == Gone::kMappedAnew || (gone == Gone::kReadOnly && reads);
    const bool never = gone == Gone::kNeverMapped && transfer == Transfer::kRepeatedRead;
    const bool succeeds = there || (tolerant && transfer != Transfer::kSend);
    const WcStatus status = world.run();
    if (!succeeds && transfer == Transfer::kRepeatedRead) {
      EXPECT_NE(status, WcStatus::kSuccess)
          << "each repetition is dropped, and ends nothing at the responder";
    } else {
      EXPECT_EQ(status, succeeds ? WcStatus::kSuccess : strict_status(transfer));
    }
    EXPECT_EQ(world.missed.times > 0, tolerant && !there && transfer != Transfer::kSend);
    const bool of_peer = transfer != Transfer::kSend && transfer != Transfer::kReadInto;
    if (of_peer && !never) {
      const bool stays = succeeds || transfer == Transfer::kRepeatedRead;
      EXPECT_EQ(world.owner_state(), stays ? QpState::kRts : QpState::kErr);
    }
    if (succeeds && (transfer == Transfer::kRead || transfer == Transfer::kRepeatedRead)) {
      EXPECT_EQ(world.read_byte(), gone == Gone::kReadOnly ? kOld : std::byte{0});
    }
    if (gone == Gone::kMappedAnew && transfer == Transfer::kWrite) {
      EXPECT_EQ(*world.page.at(), kSent);
    }
  }
};

TEST_P(GoneMemoryMatrix, ends_no_process) {
  for (const bool tolerant : {false, true}) {
    const pid_t child = fork();
    if (child == 0) {
      for (const int signal : {SIGSEGV, SIGBUS}) std::signal(signal, SIG_DFL);
      if (std::get<Signals>(GetParam()) == Signals::kOtherBefore) set_other_handler();
      check(tolerant);
      _exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status) << ", tolerant " << tolerant;
    EXPECT_EQ(WEXITSTATUS(status), 0) << "tolerant " << tolerant;
  }
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const auto [gone, signals, transfer] = info.param;
  return std::string(kGoneNames[static_cast<size_t>(gone)]) + "_" +
         kSignalNames[static_cast<size_t>(signals)] + "_" + kTransferNames[static_cast<size_t>(transfer)];
}

const auto kCases = ::testing::Combine(
    ::testing::Values(Gone::kUnmapped, Gone::kTruncated, Gone::kReadOnly, Gone::kNeverMapped,
                      Gone::kMappedAnew),
    ::testing::Values(Signals::kPlain, Signals::kBlocked, Signals::kOtherBefore, Signals::kOtherAfter),
    ::testing::Values(Transfer::kWrite, Transfer::kInlineWrite, Transfer::kRead, Transfer::kRepeatedRead,
                      Transfer::kAtomic, Transfer::kSend, Transfer::kReceive, Transfer::kReadInto));
INSTANTIATE_TEST_SUITE_P(All, GoneMemoryMatrix, kCases, name_of);

}  // namespace
}  // namespace weft::adapter
