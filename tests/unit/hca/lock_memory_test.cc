// What is taken while the lock of a device is held: nothing. All the others' posts and polls wait meanwhile.
// Where the kernel can be asked, lock_kernel_test.cc shows more; this one runs everywhere.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <new>
#include <span>
#include <vector>

#include "hca/device_core.h"
#include "hca/random_reserve.h"
#include "hca/shared_queue.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

using namespace std::chrono_literals;

hca::DeviceLock* g_lock = nullptr;
uint64_t g_held_bytes = 0;

bool held() {
  if (!g_lock->try_lock()) return true;
  g_lock->unlock();
  return false;
}

void look(uint64_t bytes) {
  if (held()) g_held_bytes += bytes;
}

class LockMemory : public TwoDevices {
 protected:
  LockMemory() { g_lock = &a().pd->context().core().lock; }
  /// Bytes that `call` takes under the lock.
  static uint64_t held_by(const std::function<hca::Object*()>& call) {
    g_held_bytes = 0;
    watch_allocations(look);
    const hca::Object* made = call();
    watch_allocations(nullptr);
    EXPECT_NE(made, nullptr);
    return g_held_bytes;
  }
};

TEST_F(LockMemory, of_objects_is_taken_before_it) {
  hca::Context& one = *a().context;
  const adapter::AhAttr way{.dlid = Lid(2)};
  EXPECT_EQ(held_by([&] { return one.alloc_pd().object; }), 0U);
  EXPECT_EQ(held_by([&] { return one.create_channel().object; }), 0U);
  EXPECT_EQ(held_by([&] { return one.create_cq(4096).object; }), 0U);
  EXPECT_EQ(held_by([&] { return one.open_xrcd({}).object; }), 0U);
  EXPECT_EQ(held_by([&] { return one.open_xrcd({.file = hca::XrcFile{1, 7}}).object; }), 0U);
  EXPECT_EQ(held_by([&] { return one.create_srq(*a().pd, 4096, 4).object; }), 0U);
  EXPECT_EQ(held_by([&] { return a().make_qp(); }), 0U);
  EXPECT_EQ(held_by([&] { return one.reg_mr(*a().pd, a().memory, adapter::Access::kLocalWrite).object; }),
            0U);
  EXPECT_EQ(held_by([&] { return one.alloc_window(*a().pd).object; }), 0U);
  EXPECT_EQ(held_by([&] { return one.create_ah(*a().pd, way).object; }), 0U);
}

TEST_F(LockMemory, of_tables_that_grow_is_taken_before_it) {
  hca::Context& one = *a().context;
  hca::Object* last = nullptr;
  EXPECT_EQ(held_by([&] {
              for (int i = 0; i < 300; ++i) last = a().make_qp();
              return last;
            }),
            0U);
  EXPECT_EQ(held_by([&] {
              for (int i = 0; i < 2000; ++i) last = one.reg_mr(*a().pd, a().memory, {}).object;
              return last;
            }),
            0U);
  EXPECT_EQ(held_by([&] {
              for (int i = 0; i < 1000; ++i)
                last = one.alloc_window(*a().pd, adapter::WindowKind::kType2).object;
              return last;
            }),
            0U);
}

TEST_F(LockMemory, of_a_shared_queue_that_grows_is_taken_before_it) {
  hca::Srq* srq = a().context->create_srq(*a().pd, 16, 2).object;
  ASSERT_NE(srq, nullptr);
  EXPECT_EQ(
      held_by([&] { return srq->modify({.wqes = 4096}, adapter::kSrqWqes) == Answer::kOk ? srq : nullptr; }),
      0U);
  adapter::SrqAttr attr;
  ASSERT_EQ(srq->query(attr), Answer::kOk);
  EXPECT_EQ(attr.wqes, 4096U);
  EXPECT_EQ(srq->modify({.wqes = UINT32_MAX}, adapter::kSrqWqes), Answer::kBadSize);
}

/// A slab of a window's packets has 32 KiB at least.
void refuse_slabs(uint64_t bytes) {
  if (bytes >= 32 * 1024) throw std::bad_alloc();
}

TEST_F(LockMemory, that_is_not_to_be_had_costs_requests_and_not_the_device) {
  constexpr size_t kQps = 100;
  std::vector<hca::Qp*> qps(kQps);
  for (hca::Qp*& qp : qps) qp = connected()[0];
  hca::DeviceCore& core = a().pd->context().core();
  const adapter::Sge from = a().sge(0, 8);
  const adapter::SendRequest write{.opcode = adapter::SendOpcode::kRdmaWrite,
                                   .flags = adapter::kSendSignaled,
                                   .sges = std::span(&from, 1),
                                   .remote_addr = b().region->region().addr,
                                   .rkey = b().region->region().rkey};
  const auto write_all = [&] {
    const hca::Hold hold(core);
    for (const hca::Qp* qp : qps) {
      adapter::QueuePair& pair = *core.adapter.find_qp(qp->number());
      ASSERT_EQ(core.adapter.post(pair, write), adapter::PostResult::kOk);
      core.adapter.ring_send(pair);
    }
  };
  std::map<adapter::WcStatus, size_t> done;
  const auto poll_all = [&] {
    done.clear();
    for (int turns = 0; turns < 100; ++turns) {
      std::array<adapter::WorkCompletion, 16> got;
      const auto count = static_cast<size_t>(a().cq->poll(got));
      for (size_t i = 0; i < count; ++i) ++done[got[i].status];
    }
  };
  write_all();
  watch_allocations(refuse_slabs);
  poll_all();
  watch_allocations(nullptr);
  EXPECT_GT(done[adapter::WcStatus::kLocalQpOperation], 0U);
  EXPECT_EQ(done[adapter::WcStatus::kSuccess], 0U) << "nobody has answered yet";
  const size_t failed = done[adapter::WcStatus::kLocalQpOperation];
  help(200, 1ms);
  poll_all();
  EXPECT_EQ(done[adapter::WcStatus::kSuccess], kQps - failed) << "all that had memory";
  const hca::Qp& fresh = *connected()[0];
  {
    const hca::Hold hold(core);
    adapter::QueuePair& pair = *core.adapter.find_qp(fresh.number());
    ASSERT_EQ(core.adapter.post(pair, write), adapter::PostResult::kOk);
    core.adapter.ring_send(pair);
  }
  help(10);
  poll_all();
  EXPECT_EQ(done[adapter::WcStatus::kSuccess], 1U);
}

// ---- random numbers --------------------

/// Counts, and does not like to be asked under the lock.
class Counting final : public RandomSource {
 public:
  [[nodiscard]] uint64_t next() noexcept override {
    if (g_lock != nullptr && held()) ++under_lock;
    ++asked;
    return numbers_.next();
  }
  uint64_t asked = 0;
  uint64_t under_lock = 0;

 private:
  SeededRandom numbers_{5};
};

TEST(RandomReserve, is_not_refilled_under_the_lock) {
  g_lock = nullptr;
  ManualClock clock;
  Counting source;
  SeededRandom link_random(6);
  hca::Device device({.guid = Guid(0x1001)}, clock, source, link_random);
  hca::Context* context = device.open().object;
  hca::ProtectionDomain* pd = context->alloc_pd().object;
  g_lock = &context->core().lock;
  std::array<std::byte, 64> memory{};
  for (int i = 0; i < 6000; ++i) ASSERT_NE(context->reg_mr(*pd, memory, {}).object, nullptr);
  for (int i = 0; i < 1000; ++i)
    ASSERT_NE(context->alloc_window(*pd, adapter::WindowKind::kType2).object, nullptr);
  EXPECT_GT(source.asked, 1500U);
  EXPECT_EQ(source.under_lock, 0U);
  device.close(context);
}

TEST(RandomReserve, gives_what_its_source_gives_in_its_order) {
  SeededRandom source(7);
  SeededRandom same(7);
  hca::RandomReserve reserve(source);
  bool low = false;
  reserve.report_to(low);
  for (size_t i = 0; i < hca::RandomReserve::kLow; ++i) {
    EXPECT_FALSE(low || reserve.low());
    EXPECT_EQ(reserve.next(), same.next());
  }
  EXPECT_FALSE(reserve.low());
  EXPECT_EQ(reserve.next(), same.next());
  EXPECT_TRUE(low && reserve.low()) << "one less than it should have";
  const hca::RandomReserve::Draw drawn = reserve.draw();
  reserve.take(drawn);
  EXPECT_FALSE(reserve.low());
  for (size_t i = 0; i < 3 * hca::RandomReserve::kLow; ++i)
    EXPECT_EQ(reserve.next(), same.next()) << "also when it is empty";
}

}  // namespace
}  // namespace weft::test
