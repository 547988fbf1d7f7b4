// Services of the adapter beyond libibverbs, used by a program of hca/: reliable datagrams, the delay
// request,
// one-shot keys, registration by work request.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "tests/support/requirement.h"
#include "tests/support/two_devices.h"

namespace weft::test {
namespace {

using namespace std::chrono_literals;
using adapter::Access;
using adapter::QpType;
using adapter::SendOpcode;
using adapter::SendRegistration;
using adapter::WcStatus;
using hca::Answer;

constexpr Access kShared = Access::kLocalWrite | Access::kRemoteRead | Access::kRemoteWrite;
constexpr uint32_t kQkey = 0x1234;

/// Brings an unconnected QP from RESET to RTS.
Answer open_datagrams(hca::Qp& qp, QpType type) {
  return bring_up(qp, type, {.qkey = kQkey, .sq_psn = Psn(7)});
}

class ConsumerServices : public TwoDevices {
 protected:
  hca::Qp* make(Consumer& side, const adapter::QpConfig& config) {
    return side.context
        ->create_qp(*side.pd, {.send_cq = side.cq, .recv_cq = side.cq, .config = config, .user = nullptr})
        .object;
  }
  /// Makes a connected pair whose requests complete only if they ask for it.
  void connect_pair(SendRegistration registration = SendRegistration::kOff) {
    adapter::QpConfig config;
    config.signal_all = false;
    config.registration = registration;
    near_ = make(a(), config);
    far_ = make(b(), config);
    connect(*near_, Lid(1), *far_, Lid(2));
  }
  Answer post(hca::Qp& qp, const adapter::SendRequest& request) {
    size_t posted = 0;
    return qp.post_send(std::span(&request, 1), posted);
  }
  /// @return a side's completions while both sides are driven for 20 ms
  std::vector<adapter::WorkCompletion> completions(Consumer& side) {
    std::vector<adapter::WorkCompletion> out;
    for (int turn = 0; turn < 400; ++turn) {
      help(1, 50us);
      adapter::WorkCompletion entry;
      while (side.cq->poll(std::span(&entry, 1)) == 1) out.push_back(entry);
    }
    return out;
  }
  /// An RDMA write of `a` to `addr` under `key`.
  WcStatus write(uint64_t addr, Rkey key, uint32_t bytes = 64) {
    const adapter::Sge from = a().sge(0, bytes);
    EXPECT_EQ(post(*near_, {.wr_id = 77,
                            .opcode = SendOpcode::kRdmaWrite,
                            .flags = adapter::kSendSignaled,
                            .sges = std::span(&from, 1),
                            .remote_addr = addr,
                            .rkey = key}),
              Answer::kOk);
    const std::vector<adapter::WorkCompletion> done = completions(a());
    return done.size() == 1 ? done.front().status : WcStatus::kGeneral;
  }

  hca::Qp* near_ = nullptr;
  hca::Qp* far_ = nullptr;
};

TEST_F(ConsumerServices, one_queue_pair_exchanges_reliable_datagrams_with_several) {
  const adapter::QpConfig config{.type = QpType::kRd};
  hca::Qp* one = make(a(), config);
  const std::array<hca::Qp*, 2> others{make(b(), config), make(b(), config)};
  for (hca::Qp* qp : {one, others[0], others[1]}) {
    ASSERT_NE(qp, nullptr);
    ASSERT_EQ(open_datagrams(*qp, QpType::kRd), Answer::kOk);
  }
  const hca::Made<hca::AddressHandle> way = a().context->create_ah(*a().pd, {.dlid = Lid(2)});
  ASSERT_NE(way.object, nullptr);
  // The first cell is lost without a report.
  bool lost = false;
  pipe.set_filter([&lost](int from, std::vector<std::byte>& /*cell*/) {
    return from == 0 && !std::exchange(lost, true) ? Verdict::kDrop : Verdict::kPass;
  });
  for (uint64_t i = 0; i < 2; ++i) {
    ASSERT_EQ(b().recv(*others[i], 10 + i), Answer::kOk);
    ASSERT_EQ(a().recv(*one, 20 + i), Answer::kOk);
    const adapter::Sge from = a().sge(0, 60);
    ASSERT_EQ(post(*one, {.wr_id = i,
                          .opcode = SendOpcode::kSend,
                          .flags = adapter::kSendSignaled,
                          .sges = std::span(&from, 1),
                          .dest = {.qpn = others[i]->number(), .qkey = kQkey},
                          .ah = &way.object->value()}),
              Answer::kOk);
  }
  const std::vector<adapter::WorkCompletion> sent = completions(a());
  const std::vector<adapter::WorkCompletion> got = completions(b());
  ASSERT_EQ(sent.size(), 2U);
  ASSERT_EQ(got.size(), 2U);
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(sent[i].status, WcStatus::kSuccess);
    EXPECT_EQ(got[i].status, WcStatus::kSuccess);
    EXPECT_EQ(got[i].wr_id, 10 + i);
    EXPECT_EQ(got[i].src_qpn, one->number());
    EXPECT_EQ(got[i].src_lid, Lid(1));
  }
  EXPECT_TRUE(lost);
  // The answer goes back to the source of the message.
  const adapter::Sge from = b().sge(0, 50);
  ASSERT_EQ(post(*others[1], {.wr_id = 5,
                              .opcode = SendOpcode::kSend,
                              .flags = adapter::kSendSignaled,
                              .sges = std::span(&from, 1),
                              .dest = {.lid = got[1].src_lid, .qpn = got[1].src_qpn, .qkey = kQkey}}),
            Answer::kOk);
  const std::vector<adapter::WorkCompletion> back = completions(a());
  ASSERT_EQ(back.size(), 1U);
  EXPECT_EQ(back[0].src_qpn, others[1]->number());
  EXPECT_EQ(back[0].byte_count, 50U);
}

TEST_F(ConsumerServices, a_delay_holds_back_what_is_posted_behind_it) {
  connect_pair();
  ASSERT_EQ(b().recv(*far_, 1), Answer::kOk);
  ASSERT_EQ(b().recv(*far_, 2), Answer::kOk);
  const adapter::Sge from = a().sge(0, 64);
  const adapter::SendRequest message{
      .wr_id = 3, .flags = adapter::kSendSignaled, .sges = std::span(&from, 1)};
  const std::array<adapter::SendRequest, 3> list{
      message,
      adapter::SendRequest{
          .wr_id = 4, .opcode = SendOpcode::kDelay, .flags = adapter::kSendSignaled, .delay = 5ms},
      message};
  const Instant posted_at = clock.now();
  ASSERT_EQ(near_->post_batch(list), Answer::kOk);
  std::vector<Instant> arrived;
  adapter::WorkCompletion entry;
  for (int turn = 0; turn < 1000 && arrived.size() < 2; ++turn) {
    help(1, 20us);
    while (b().cq->poll(std::span(&entry, 1)) == 1) arrived.push_back(clock.now());
  }
  ASSERT_EQ(arrived.size(), 2U);
  EXPECT_LT(arrived[0] - posted_at, 1ms);
  EXPECT_GE(arrived[1] - arrived[0], 4900us);
  EXPECT_LT(arrived[1] - posted_at, 7ms);
  std::vector<uint64_t> order;
  for (const adapter::WorkCompletion& done : completions(a())) order.push_back(done.wr_id);
  EXPECT_EQ(order, (std::vector<uint64_t>{3, 4, 3}));
}

TEST_F(ConsumerServices, a_key_for_one_access_serves_once) {
  connect_pair();
  hca::MemoryRegion* once = b().context->reg_mr(*b().pd, b().memory, kShared | Access::kOneShot).object;
  ASSERT_NE(once, nullptr);
  const adapter::MemoryRegion& keys = once->region();
  EXPECT_EQ(write(keys.addr, keys.rkey), WcStatus::kSuccess);
  EXPECT_EQ(write(keys.addr, keys.rkey), WcStatus::kRemoteAccess);
  // Registered again, the region has a key that serves one more operation.
  const Rkey before = keys.rkey;
  ASSERT_EQ(once->rereg({.access = kShared | Access::kOneShot}), Answer::kOk);
  EXPECT_NE(once->region().rkey, before);
  connect_pair();
  EXPECT_EQ(write(once->region().addr, once->region().rkey), WcStatus::kSuccess);
  EXPECT_EQ(write(once->region().addr, once->region().rkey), WcStatus::kRemoteAccess);
}

class ConsumerRegistration : public ConsumerServices {
 protected:
  void SetUp() override {
    ConsumerServices::SetUp();
    connect_pair(SendRegistration::kReactive);
    lent_ = b().context->reserve_mr(*b().pd, true).object;
    ASSERT_NE(lent_, nullptr);
  }
  [[nodiscard]] std::span<std::byte> part(size_t from, size_t bytes) {
    return std::span(b().memory).subspan(from, bytes);
  }

  hca::MemoryRegion* lent_ = nullptr;  // belongs to b
};

TEST_F(ConsumerRegistration, its_keys_are_known_before_the_request_is_carried_out) {
  covers("TPT-REG-03");
  ASSERT_EQ(lent_->stage(part(0, 4096)), Answer::kOk);
  const adapter::MemoryRegion keys = lent_->region();
  EXPECT_NE(keys.lkey, Lkey());
  EXPECT_NE(keys.rkey, Rkey());
  ASSERT_EQ(a().recv(*near_, 1), Answer::kOk);
  // The very next request uses the keys.
  const adapter::Sge from{.addr = 0x5000, .length = 64, .lkey = keys.lkey};
  const adapter::SendRequest message{
      .wr_id = 3, .flags = adapter::kSendSignaled, .sges = std::span(&from, 1)};
  std::fill_n(b().memory.begin(), 64, std::byte{0x5A});
  ASSERT_EQ(far_->post_registration({.region = lent_, .access = kShared, .addr = 0x5000}, 2), Answer::kOk);
  EXPECT_EQ(lent_->region().rkey, keys.rkey) << "those that were told";
  EXPECT_EQ(lent_->region().addr, 0x5000U);
  ASSERT_EQ(post(*far_, message), Answer::kOk);
  std::vector<std::pair<uint64_t, WcStatus>> done;
  for (const adapter::WorkCompletion& entry : completions(b())) done.emplace_back(entry.wr_id, entry.status);
  EXPECT_EQ(done,
            (std::vector<std::pair<uint64_t, WcStatus>>{{2, WcStatus::kSuccess}, {3, WcStatus::kSuccess}}));
  ASSERT_EQ(completions(a()).size(), 1U) << "the message";
  EXPECT_EQ(write(0x5000 + 100, keys.rkey), WcStatus::kSuccess);
}

/// One request registers and sends the key; the peer writes and invalidates the key with its answer.
TEST_F(ConsumerRegistration, with_an_operation_is_one_request_and_the_peer_ends_it_with_its_answer) {
  covers("TPT-ULP-01");
  ASSERT_EQ(lent_->stage(part(0, 4096)), Answer::kOk);
  const Rkey key = lent_->region().rkey;
  ASSERT_EQ(a().recv(*near_, 1), Answer::kOk);
  ASSERT_EQ(b().recv(*far_, 2), Answer::kOk);
  const adapter::Sge telling = b().sge(8192, 16);
  const adapter::SendRequest tell{
      .wr_id = 3, .flags = adapter::kSendSignaled, .sges = std::span(&telling, 1)};
  ASSERT_EQ(far_->post_registration({.region = lent_, .access = kShared}, tell), Answer::kOk);
  std::vector<adapter::WorkCompletion> done = completions(b());
  ASSERT_EQ(done.size(), 1U) << "the operation's";
  EXPECT_EQ(done[0].wr_id, 3U);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  ASSERT_EQ(completions(a()).size(), 1U) << "the peer has the message";
  const uint64_t addr = lent_->region().addr;
  EXPECT_EQ(addr, reinterpret_cast<uintptr_t>(b().memory.data()));
  a().memory[0] = std::byte{0xC3};
  EXPECT_EQ(write(addr, key), WcStatus::kSuccess);
  EXPECT_EQ(b().memory[0], std::byte{0xC3});

  const adapter::Sge answer = a().sge(0, 8);
  ASSERT_EQ(post(*near_, {.wr_id = 4,
                          .opcode = SendOpcode::kSendWithInvalidate,
                          .flags = adapter::kSendSignaled,
                          .sges = std::span(&answer, 1),
                          .rkey = key}),
            Answer::kOk);
  done = completions(b());
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].invalidated, key);
  static_cast<void>(completions(a()));
  EXPECT_EQ(write(addr, key), WcStatus::kRemoteAccess) << "the entry is gone";
  // The next registration has other keys.
  ASSERT_EQ(lent_->stage(part(4096, 100)), Answer::kOk);
  EXPECT_NE(lent_->region().rkey, key);
  EXPECT_EQ(lent_->region().length, 100U);
}

TEST_F(ConsumerRegistration, for_one_access_ends_with_it_and_tells_its_outcome) {
  covers("TPT-ULP-02");
  ASSERT_EQ(lent_->stage(part(0, 4096)), Answer::kOk);
  const adapter::MemoryRegion keys = lent_->region();
  ASSERT_EQ(far_->post_registration({.region = lent_, .access = kShared | Access::kOneShot, .addr = 0}, 9),
            Answer::kOk);
  const std::vector<adapter::WorkCompletion> done = completions(b());
  ASSERT_EQ(done.size(), 1U) << "a completion for the registration";
  EXPECT_EQ(done[0].wr_id, 9U);
  EXPECT_EQ(done[0].opcode, adapter::WcOpcode::kRegister);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(write(0, keys.rkey), WcStatus::kSuccess);
  EXPECT_EQ(write(0, keys.rkey), WcStatus::kRemoteAccess);
}

TEST_F(ConsumerRegistration, that_fails_takes_its_operation_with_it) {
  const adapter::Sge telling = b().sge(8192, 16);
  const adapter::SendRequest tell{
      .wr_id = 3, .flags = adapter::kSendSignaled, .sges = std::span(&telling, 1)};
  ASSERT_EQ(far_->post_registration({.region = lent_, .access = kShared}, tell), Answer::kOk)
      << "nothing is staged";
  std::vector<std::pair<uint64_t, WcStatus>> done;
  for (const adapter::WorkCompletion& entry : completions(b())) done.emplace_back(entry.wr_id, entry.status);
  EXPECT_EQ(done,
            (std::vector<std::pair<uint64_t, WcStatus>>{{3, WcStatus::kMwBind}, {3, WcStatus::kFlushed}}));
  EXPECT_TRUE(completions(a()).empty()) << "nothing was sent";
}

TEST_F(ConsumerRegistration, is_refused_by_the_call_where_the_call_can_see_it) {
  EXPECT_EQ(b().region->stage(b().memory), Answer::kNoSuchKey) << "an ordinary region";
  EXPECT_EQ(lent_->stage({}), Answer::kBadRange);
  hca::ProtectionDomain* other = b().context->alloc_pd().object;
  hca::MemoryRegion* foreign = b().context->reserve_mr(*other, false).object;
  ASSERT_EQ(foreign->stage(part(0, 8)), Answer::kOk);
  EXPECT_EQ(foreign->region().rkey, Rkey()) << "none was wanted";
  EXPECT_EQ(far_->post_registration({.region = foreign}, 1), Answer::kForeignObject);
  EXPECT_EQ(far_->post_registration({}, 1), Answer::kMissingObject);
  EXPECT_EQ(b().context->destroy(other), Answer::kBusy) << "its region is there";
  EXPECT_EQ(b().context->destroy(foreign), Answer::kOk);
  EXPECT_EQ(b().context->destroy(other), Answer::kOk);
  // Both or neither: here the operation has no destination key.
  ASSERT_EQ(lent_->stage(part(0, 4096)), Answer::kOk);
  const adapter::Sge from = b().sge(0, 8);
  const adapter::SendRequest bad{.wr_id = 3,
                                 .opcode = SendOpcode::kRdmaWrite,
                                 .flags = adapter::kSendSignaled,
                                 .sges = std::span(&from, 1)};
  EXPECT_EQ(far_->post_registration({.region = lent_, .access = kShared}, bad), Answer::kNoRemoteKey);
  EXPECT_TRUE(completions(b()).empty());
  EXPECT_EQ(lent_->stage(part(0, 2048)), Answer::kOk) << "it is not registered";
  // While it is registered it accepts no other memory.
  ASSERT_EQ(far_->post_registration({.region = lent_, .access = kShared}, 4), Answer::kOk);
  ASSERT_EQ(completions(b()).size(), 1U);
  EXPECT_EQ(lent_->stage(part(0, 4096)), Answer::kWrongMoment);
  EXPECT_EQ(b().context->destroy(lent_), Answer::kOk);
}

}  // namespace
}  // namespace weft::test
