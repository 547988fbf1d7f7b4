// Windows and re-registration from the consumer's side.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/two_devices.h"

namespace weft::test {
namespace {

using adapter::Access;
using adapter::WcStatus;
using adapter::WindowKind;
using hca::Answer;

constexpr Access kAll =
    Access::kLocalWrite | Access::kRemoteWrite | Access::kRemoteRead | Access::kWindowBind;

class ConsumerWindows : public TwoDevices {
 protected:
  void SetUp() override {
    TwoDevices::SetUp();
    near_ = a().make_qp();
    owner_ = b().make_qp();
    connect(*near_, Lid(1), *owner_, Lid(2));
    open_ = b().context->reg_mr(*b().pd, b().memory, kAll).object;
    ASSERT_NE(open_, nullptr);
  }
  [[nodiscard]] hca::WindowBind range(uint64_t offset, uint64_t bytes) const {
    return {.wr_id = 40,
            .flags = adapter::kSendSignaled,
            .region = open_,
            .addr = open_->region().addr + offset,
            .length = bytes,
            .access = Access::kRemoteWrite};
  }
  /// @return the status of a side's next completion, while both sides are driven
  WcStatus next(Consumer& side) {
    adapter::WorkCompletion out;
    for (int turn = 0; turn < 1000; ++turn) {
      turn_both();
      if (side.cq->poll(std::span(&out, 1)) == 1) return out.status;
    }
    return WcStatus::kGeneral;
  }
  void turn_both() {
    adapter::WorkCompletion none;
    static_cast<void>(a().cq->poll(std::span(&none, 0)));
    static_cast<void>(b().cq->poll(std::span(&none, 0)));
  }
  WcStatus write(Rkey key, uint64_t offset, uint32_t bytes) {
    const adapter::Sge from = a().sge(0, bytes);
    const adapter::SendRequest request{.wr_id = 1,
                                       .opcode = adapter::SendOpcode::kRdmaWrite,
                                       .flags = adapter::kSendSignaled,
                                       .sges = std::span(&from, 1),
                                       .remote_addr = open_->region().addr + offset,
                                       .rkey = key};
    size_t posted = 0;
    EXPECT_EQ(near_->post_send(std::span(&request, 1), posted), Answer::kOk);
    return next(a());
  }

  hca::Qp* near_ = nullptr;
  hca::Qp* owner_ = nullptr;
  hca::MemoryRegion* open_ = nullptr;
};

TEST_F(ConsumerWindows, of_type_1_tell_their_key_with_the_post) {
  hca::Window* window = b().context->alloc_window(*b().pd, WindowKind::kType1).object;
  ASSERT_NE(window, nullptr);
  const Rkey first = window->key();
  Rkey key;
  ASSERT_EQ(owner_->bind_window(*window, range(0, 64), key), Answer::kOk);
  EXPECT_NE(key, first);
  EXPECT_EQ(window->key(), key);
  ASSERT_EQ(next(b()), WcStatus::kSuccess);
  EXPECT_EQ(write(key, 0, 64), WcStatus::kSuccess);
  EXPECT_EQ(b().context->destroy(open_), Answer::kBusy) << "the window is bound to it";
  Rkey second;
  ASSERT_EQ(owner_->bind_window(*window, {.flags = adapter::kSendSignaled}, second), Answer::kOk);
  ASSERT_EQ(next(b()), WcStatus::kSuccess);
  EXPECT_EQ(write(key, 0, 64), WcStatus::kRemoteAccess);
  EXPECT_EQ(b().context->destroy(window), Answer::kOk);
  EXPECT_EQ(b().context->destroy(open_), Answer::kOk);
}

TEST_F(ConsumerWindows, of_type_1_refuse_what_does_not_fit_and_keep_their_key) {
  hca::ProtectionDomain* other = b().context->alloc_pd().object;
  hca::Window* window = b().context->alloc_window(*b().pd, WindowKind::kType1).object;
  hca::Window* foreign = b().context->alloc_window(*other, WindowKind::kType1).object;
  hca::Window* second = b().context->alloc_window(*b().pd, WindowKind::kType2).object;
  Rkey key;
  EXPECT_EQ(owner_->bind_window(*second, range(0, 8), key), Answer::kBindWrongType);
  EXPECT_EQ(owner_->bind_window(*foreign, range(0, 8), key), Answer::kBindWrongPd);
  hca::WindowBind bind = range(0, 8);
  bind.region = nullptr;
  EXPECT_EQ(owner_->bind_window(*window, bind, key), Answer::kMissingObject);
  bind = range(0, 8);
  bind.access = Access::kRemoteWrite | Access::kZeroBased;
  EXPECT_EQ(owner_->bind_window(*window, bind, key), Answer::kBindBadRights);
  const Rkey before = window->key();
  hca::Qp* idle = b().make_qp();
  EXPECT_EQ(idle->bind_window(*window, range(0, 8), key), Answer::kBadState) << "RESET takes no request";
  EXPECT_EQ(window->key(), before);
  EXPECT_EQ(key, Rkey());
  // A fault that only the adapter can find is reported by a completion.
  ASSERT_EQ(owner_->bind_window(*window, range(0, Consumer::kBytes + 1), key), Answer::kOk);
  EXPECT_EQ(next(b()), WcStatus::kMwBind);
  EXPECT_EQ(b().context->destroy(window), Answer::kOk) << "under a key that was never bound";
}

TEST_F(ConsumerWindows, of_type_2_are_bound_by_requests_under_a_key_of_the_program_s) {
  hca::Window* window = b().context->alloc_window(*b().pd, WindowKind::kType2).object;
  const Rkey key((window->key().value() & ~0xFFU) | ((window->key().value() + 1) & 0xFFU));
  const adapter::SendRequest request{.opcode = adapter::SendOpcode::kBindWindow,
                                     .flags = adapter::kSendSignaled,
                                     .bind = {.window = key,
                                              .region = open_->region().lkey,
                                              .addr = open_->region().addr,
                                              .length = 64,
                                              .access = Access::kRemoteWrite}};
  size_t posted = 0;
  ASSERT_EQ(owner_->post_send(std::span(&request, 1), posted), Answer::kOk);
  ASSERT_EQ(next(b()), WcStatus::kSuccess);
  EXPECT_EQ(write(key, 0, 64), WcStatus::kSuccess);
  EXPECT_EQ(b().context->destroy(window), Answer::kOk);
  EXPECT_EQ(write(key, 0, 64), WcStatus::kRemoteAccess);
}

TEST_F(ConsumerWindows, a_region_registered_anew_has_new_keys_and_may_change_its_domain) {
  hca::ProtectionDomain* other = b().context->alloc_pd().object;
  const adapter::MemoryRegion before = open_->region();
  ASSERT_EQ(open_->rereg({.access = Access::kLocalWrite | Access::kRemoteWrite}), Answer::kOk);
  const adapter::MemoryRegion renewed = open_->region();
  EXPECT_NE(renewed.lkey, before.lkey);
  EXPECT_NE(renewed.rkey, before.rkey);
  EXPECT_EQ(renewed.addr, before.addr);
  EXPECT_EQ(write(renewed.rkey, 0, 8), WcStatus::kSuccess);
  std::vector<std::byte> smaller(64);
  ASSERT_EQ(open_->rereg({.memory = smaller, .options = {.base_addr = 4096}}, other), Answer::kOk);
  EXPECT_EQ(open_->region().addr, 4096U);
  EXPECT_EQ(open_->region().length, 64U);
  EXPECT_EQ(&open_->pd(), other);
  EXPECT_EQ(b().context->destroy(other), Answer::kBusy);
  EXPECT_EQ(open_->rereg({.access = Access::kRemoteWrite}), Answer::kBadRights)
      << "a remote right without the local one";
  EXPECT_EQ(open_->rereg({}, a().pd), Answer::kForeignObject) << "of another context";
  EXPECT_EQ(write(renewed.rkey, 0, 8), WcStatus::kRemoteAccess) << "an old key";
  EXPECT_EQ(b().context->destroy(open_), Answer::kOk);
  hca::MemoryRegion* moves = b().context->reg_mr(*other, smaller, kAll).object;
  ASSERT_EQ(moves->rereg({}, b().pd), Answer::kOk);
  EXPECT_EQ(b().context->destroy(other), Answer::kOk) << "nothing holds it any more";
  EXPECT_EQ(b().context->destroy(moves), Answer::kOk);
}

TEST_F(ConsumerWindows, a_region_with_windows_is_not_registered_anew) {
  hca::Window* window = b().context->alloc_window(*b().pd, WindowKind::kType1).object;
  Rkey key;
  ASSERT_EQ(owner_->bind_window(*window, range(0, 64), key), Answer::kOk);
  ASSERT_EQ(next(b()), WcStatus::kSuccess);
  const Lkey before = open_->region().lkey;
  EXPECT_EQ(open_->rereg({.access = Access::kLocalWrite}), Answer::kBusy);
  EXPECT_EQ(open_->region().lkey, before);
  EXPECT_EQ(write(key, 0, 64), WcStatus::kSuccess);
}

/// The region cannot end before the window that is bound to it. What stays would use up the table of domains.
TEST_F(ConsumerWindows, closing_a_context_ends_a_region_that_is_newer_than_its_window) {
  for (uint32_t life = 0; life <= b().device.limits().protection_domains; ++life) {
    hca::Context* context = b().device.open().object;
    hca::ProtectionDomain* domain = context->alloc_pd().object;
    ASSERT_NE(domain, nullptr) << life;
    hca::Cq* cq = context->create_cq(16).object;
    hca::Qp* qp = context->create_qp(*domain, {.send_cq = cq, .recv_cq = cq, .config = {}}).object;
    hca::Window* window = context->alloc_window(*domain, WindowKind::kType1).object;
    hca::MemoryRegion* region = context->reg_mr(*domain, b().memory, kAll).object;
    ASSERT_TRUE(qp != nullptr && window != nullptr && region != nullptr);
    ASSERT_EQ(bring_up(*qp, Qpn(9), Lid(1)), Answer::kOk);
    hca::WindowBind bind = range(0, 64);
    bind.region = region;
    bind.addr = region->region().addr;
    Rkey key;
    ASSERT_EQ(qp->bind_window(*window, bind, key), Answer::kOk);
    adapter::WorkCompletion bound;
    while (cq->poll(std::span(&bound, 1)) == 0) {
    }
    ASSERT_EQ(bound.status, WcStatus::kSuccess);
    b().device.close(context);
  }
}

TEST_F(ConsumerWindows, binds_that_were_not_posted_promise_nothing) {
  hca::ProtectionDomain* domain = b().context->alloc_pd().object;
  const hca::QpInit make{.send_cq = b().cq, .recv_cq = b().cq, .config = {}, .user = nullptr};
  hca::Qp* ended = b().context->create_qp(*domain, make).object;
  hca::Qp* idle = b().context->create_qp(*domain, make).object;
  hca::Window* window = b().context->alloc_window(*domain, WindowKind::kType1).object;
  ASSERT_NE(window, nullptr);
  ASSERT_EQ(ended->modify({.state = adapter::QpState::kErr}, adapter::kQpAttrState), Answer::kOk);
  const hca::WindowBind bind{.wr_id = 1, .flags = adapter::kSendSignaled};
  Rkey flushed;
  ASSERT_EQ(ended->bind_window(*window, bind, flushed), Answer::kOk) << "the window's key, never to be used";
  Rkey refused;
  for (int i = 0; i < 255; ++i) ASSERT_NE(idle->bind_window(*window, bind, refused), Answer::kOk);
  EXPECT_EQ(refused, Rkey());
  ASSERT_EQ(next(b()), WcStatus::kFlushed);
  for (int i = 0; i < 254; ++i) {
    ASSERT_EQ(ended->bind_window(*window, bind, flushed), Answer::kOk) << i;
    ASSERT_EQ(next(b()), WcStatus::kFlushed);
  }
  EXPECT_EQ(ended->bind_window(*window, bind, flushed), Answer::kTableFull)
      << "all 255 keys ahead are promised";
  EXPECT_EQ(b().context->destroy(window), Answer::kOk);
  EXPECT_EQ(b().context->destroy(ended), Answer::kOk);
  EXPECT_EQ(b().context->destroy(idle), Answer::kOk);
  EXPECT_EQ(b().context->destroy(domain), Answer::kOk);
}

}  // namespace
}  // namespace weft::test
