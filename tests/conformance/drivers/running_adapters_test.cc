// PUSH-NODE-03 with the parts that weft-host and weft-iou run: two endnodes, one with an Hca and one with a
// Tca, around a switch over shared memory. They do the same work in both directions, and
// both log what goes wrong.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "adapter/bring_up.h"
#include "base/log.h"
#include "base/net/driver_half.h"
#include "hca/hca.h"
#include "node/endnode.h"
#include "tca/tca.h"
#include "tests/support/requirement.h"
#include "tests/support/switch_box.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace adapter;
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kMemoryBytes = 40'000;

/// One endnode with the objects that a consumer of its adapter needs.
struct End {
  SeededRandom random;
  std::unique_ptr<node::Endnode> node;
  std::vector<std::byte> memory = std::vector<std::byte>(kMemoryBytes);
  PdId pd;
  CompletionQueue* cq = nullptr;
  MemoryRegion region;
  QueuePair* qp = nullptr;
  std::vector<WorkCompletion> completions;

  explicit End(uint64_t seed) : random(seed) {}
  [[nodiscard]] ChannelAdapter& adapter() { return node->adapter(); }
  void open() {
    pd = adapter().alloc_pd().value();
    cq = adapter().cqs().create(64).value();
    region = adapter()
                 .memory()
                 .regions.reg_mr(pd, memory, Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead)
                 .value();
    renew();
  }
  void renew() { qp = adapter().create_qp({.pd = pd, .send_cq = cq, .recv_cq = cq}).value(); }
  [[nodiscard]] Sge sge(uint32_t offset, uint32_t bytes) const {
    return {.addr = region.addr + offset, .length = bytes, .lkey = region.lkey};
  }
};

class RunningAdapters : public ::testing::Test {
 protected:
  /// Builds an Hca and a Tca, or two Tcas.
  explicit RunningAdapters(bool with_host = true) {
    log_setup("test", LogLevel::kError);
    std::unique_ptr<RunningAdapter> first = std::make_unique<tca::Tca>(Guid(0x11), ends[0].random);
    if (with_host) first = std::make_unique<hca::Hca>(Guid(0x11), ends[0].random);
    auto tca = std::make_unique<tca::Tca>(Guid(0x22), ends[1].random);
    running = {first.get(), tca.get()};
    ends[0].node =
        std::move(node::Endnode::create(spec_of(0x11, 1), std::move(first), ends[0].random).value());
    ends[1].node = std::move(node::Endnode::create(spec_of(0x22, 2), std::move(tca), ends[1].random).value());
    for (int turn = 0; turn < 2000 && !up(); ++turn) run(1, 1ms);
    EXPECT_TRUE(up()) << "the links do not come up";
    for (End& end : ends) end.open();
    connect({});
  }

  static fabric::SwitchConfig switching() {
    fabric::SwitchConfig config;
    config.ports = 2;
    config.link.guid = Guid(0x5);
    return config;
  }
  [[nodiscard]] node::EndnodeSpec spec_of(uint64_t guid, uint16_t lid) const {
    node::EndnodeSpec out;
    out.guid = Guid(guid);
    out.lid = Lid(lid);
    out.endpoint = "shm:" + dir.path() + "/s";
    return out;
  }
  [[nodiscard]] bool up() const { return ends[0].node->port().up() && ends[1].node->port().up(); }
  void connect(QpAttr attr) {
    attr.access = Access::kRemoteWrite | Access::kRemoteRead;
    for (size_t i = 0; i < 2; ++i) {
      attr.dlid = Lid(static_cast<uint16_t>(2 - i));
      attr.dest_qpn = ends[1 - i].adapter().qpn(*ends[1 - i].qp);
      ASSERT_EQ(bring_up(ends[i].adapter(), *ends[i].qp, attr), ModifyResult::kOk);
    }
  }
  void run(int turns, Duration step = 10us) {
    for (; turns > 0; --turns) {
      for (End& end : ends) {
        end.node->poll(clock.now());
        std::array<WorkCompletion, 8> got;
        const uint32_t count = end.cq == nullptr ? 0 : end.adapter().cqs().poll(*end.cq, got);
        end.completions.insert(end.completions.end(), got.begin(), got.begin() + count);
      }
      box->poll(clock.now());
      clock.advance(step);
    }
  }
  /// A Send of 20,000 bytes, a write of 9,000 and a read of 7,000 from side `from`; @return both sides'
  /// counters.
  std::array<std::array<uint64_t, 2>, 2> exchange(size_t from) {
    End& here = ends[from];
    End& there = ends[1 - from];
    for (End& end : ends) end.completions.clear();
    const auto cells = [](End& end) {
      return std::array<uint64_t, 2>{end.adapter().counters(*end.qp).get(QpCounter::kCellsSent),
                                     end.adapter().counters(*end.qp).get(QpCounter::kMessagesReceived)};
    };
    std::array<std::array<uint64_t, 2>, 2> before{cells(here), cells(there)};
    for (uint32_t i = 0; i < 20'000; ++i)
      here.memory[i] = static_cast<std::byte>(from * 91 + 1 + i * 7 + (i >> 8));
    const Sge into = there.sge(0, 20'000);
    const Sge source = here.sge(0, 20'000);
    const Sge block = here.sge(5, 9'000);
    const Sge sink = here.sge(30'000, 7'000);
    EXPECT_EQ(there.adapter().post_recv(*there.qp, {.wr_id = 1, .sges = {&into, 1}}), PostResult::kOk);
    EXPECT_EQ(here.adapter().post_send(*here.qp, {.wr_id = 2, .sges = {&source, 1}}), PostResult::kOk);
    EXPECT_EQ(here.adapter().post_send(*here.qp, {.wr_id = 3,
                                                  .opcode = SendOpcode::kRdmaWrite,
                                                  .sges = {&block, 1},
                                                  .remote_addr = there.region.addr + 20'000,
                                                  .rkey = there.region.rkey}),
              PostResult::kOk);
    EXPECT_EQ(here.adapter().post_send(*here.qp, {.wr_id = 4,
                                                  .opcode = SendOpcode::kRdmaRead,
                                                  .sges = {&sink, 1},
                                                  .remote_addr = there.region.addr + 100,
                                                  .rkey = there.region.rkey}),
              PostResult::kOk);
    run(200);
    EXPECT_EQ(std::memcmp(there.memory.data(), here.memory.data(), 20'000), 0) << "the Send";
    EXPECT_EQ(std::memcmp(there.memory.data() + 20'000, here.memory.data() + 5, 9'000), 0) << "the write";
    EXPECT_EQ(std::memcmp(here.memory.data() + 30'000, here.memory.data() + 100, 7'000), 0) << "the read";
    EXPECT_EQ(here.completions.size(), 3U);
    EXPECT_EQ(there.completions.size(), 1U);
    for (const End& end : ends) {
      for (const WorkCompletion& done : end.completions) EXPECT_EQ(done.status, WcStatus::kSuccess);
    }
    std::array<std::array<uint64_t, 2>, 2> after{cells(here), cells(there)};
    for (size_t side = 0; side < 2; ++side) {
      for (size_t i = 0; i < 2; ++i) after[side][i] -= before[side][i];
    }
    return after;
  }

  ManualClock clock;
  TempDir dir;
  std::unique_ptr<SwitchBox> box = std::make_unique<SwitchBox>("shm:" + dir.path() + "/s", switching(),
                                                               nodes_with({Guid(0x11), Guid(0x22)}));
  std::array<End, 2> ends{End{1}, End{2}};
  std::array<RunningAdapter*, 2> running{};
};

TEST_F(RunningAdapters, PUSH_NODE_03_host_and_unit_send_write_read_and_answer_alike) {
  covers("PUSH-NODE-03");
  const auto from_host = exchange(0);
  const auto from_unit = exchange(1);
  EXPECT_EQ(from_host, from_unit) << "the same cells for the same work";
  EXPECT_GE(from_host[0][0], 20'000U / 4096 + 9'000 / 4096 + 1) << "cut into cells";
}

class RunningUnits : public RunningAdapters {
 protected:
  RunningUnits() : RunningAdapters(false) {}
};

TEST_F(RunningUnits, SAN_NODE_03_units_send_write_and_read_with_no_host_in_the_fabric) {
  const auto from_first = exchange(0);
  const auto from_second = exchange(1);
  covers("SAN-NODE-03");
  EXPECT_EQ(from_first, from_second);
  EXPECT_GE(from_first[0][0], 20'000U / 4096 + 9'000 / 4096 + 1) << "cut into cells";
  EXPECT_EQ(box->core.ports(), 2U) << "there is no further endnode";
}

/// A driver half that posts one frame for the other side in its next turn.
class OneFrame final : public DriverHalf {
 public:
  explicit OneFrame(End& end) : end_(end) {}
  int poll(Instant /*now*/) noexcept override {
    if (!std::exchange(ready, false)) return 0;
    const Sge data = end_.sge(0, 64);
    EXPECT_EQ(end_.adapter().post_send(*end_.qp, {.wr_id = 1, .sges = {&data, 1}}), PostResult::kOk);
    return 1;
  }
  [[nodiscard]] Instant deadline() const noexcept override { return kNever; }
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}

  bool ready = false;

 private:
  End& end_;
};

/// A turn that found a frame ends after the frame has left, so that the loop may yield its core.
TEST_F(RunningAdapters, what_a_driver_half_posts_leaves_in_the_same_turn) {
  End& here = ends[0];
  End& there = ends[1];
  OneFrame half(here);
  here.node->add(half);
  const Sge into = there.sge(0, 64);
  ASSERT_EQ(there.adapter().post_recv(*there.qp, {.wr_id = 2, .sges = {&into, 1}}), PostResult::kOk);
  run(20);
  half.ready = true;
  EXPECT_GT(here.node->poll(clock.now()), 1) << "the frame and its cell";
  box->poll(clock.now());
  there.node->poll(clock.now());
  std::array<WorkCompletion, 2> got;
  ASSERT_EQ(there.adapter().cqs().poll(*there.cq, got), 1U) << "without another turn of the sender";
  EXPECT_EQ(got[0].wr_id, 2U);
  EXPECT_EQ(got[0].status, WcStatus::kSuccess);
}

TEST_F(RunningAdapters, a_queue_pair_that_fails_is_logged_with_its_reason_on_either_side) {
  log_setup("test", LogLevel::kWarn);
  for (size_t side = 0; side < 2; ++side) {
    End& here = ends[side];
    for (End& end : ends) {
      ASSERT_TRUE(end.adapter().destroy_qp(end.qp).ok());
      end.renew();
    }
    connect({.ack_timeout = 1ms, .retry_count = 1});
    ASSERT_TRUE(ends[1 - side].adapter().destroy_qp(ends[1 - side].qp).ok());
    const uint32_t number = here.adapter().qpn(*here.qp).value();
    const Sge data = here.sge(0, 64);
    ASSERT_EQ(here.adapter().post_send(*here.qp, {.wr_id = 1, .sges = {&data, 1}}), PostResult::kOk);
    ::testing::internal::CaptureStderr();
    run(200, 1ms);
    const std::string log = ::testing::internal::GetCapturedStderr();
    const std::string wanted = fmt::format("{}: QP {:#x}: QP fatal: transport retry counter exceeded",
                                           side == 0 ? "hca" : "tca", number);
    EXPECT_NE(log.find(wanted), std::string::npos) << log;
    EXPECT_EQ(running[side]->events_seen(AsyncEventKind::kQpFatal), 1U);
    ends[1 - side].renew();
  }
}

TEST_F(RunningAdapters, a_link_that_goes_is_logged) {
  log_setup("test", LogLevel::kInfo);
  ::testing::internal::CaptureStderr();
  ends[0].node.reset();  // like a host that dies
  ends[0].cq = nullptr;
  for (int turn = 0; turn < 50; ++turn) {
    box->poll(clock.now());
    clock.advance(1ms);
  }
  box.reset();
  for (int turn = 0; turn < 50; ++turn) {
    ends[1].node->poll(clock.now());
    clock.advance(10ms);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("tca: port down 1"), std::string::npos) << log;
  EXPECT_EQ(running[1]->events_seen(AsyncEventKind::kPortDown), 1U);
}

/// PUSH-NODE-03 demands the same functions of both, SAN-QP-06 its own sizes.
TEST_F(RunningAdapters, a_unit_holds_what_its_sessions_need_and_a_host_thousands) {
  EXPECT_EQ(ends[0].adapter().limits().queue_pairs, 16382U);
  EXPECT_EQ(ends[1].adapter().limits().queue_pairs, 68U);
  EXPECT_EQ(tca::tca_limits(31).queue_pairs, 128U);
  EXPECT_TRUE(ends[1].adapter().limits().inbound_rdma);
}

}  // namespace
}  // namespace weft::test
