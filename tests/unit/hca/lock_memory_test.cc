// What is taken while the lock of a device is held: books at most, never an object, a queue or what a queue
// grows to, for all the others' posts and polls wait meanwhile.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>

#include "hca/device_core.h"
#include "hca/shared_queue.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/two_devices.h"

namespace weft::test {
using hca::Answer;
namespace {

/// An entry of a map of the device, or of what it owes the kernel.
constexpr uint64_t kBookBytes = 64;

hca::EngineLock* g_lock = nullptr;
uint64_t g_held_bytes = 0;

void look(uint64_t bytes) {
  if (g_lock->try_lock()) return g_lock->unlock();
  g_held_bytes += bytes;
}

class LockMemory : public TwoDevices {
 protected:
  LockMemory() { g_lock = &a().pd->context().core().lock; }
  /// Bytes that `call` takes under the lock, the second time: tables that double are no news then.
  static uint64_t held_by(const std::function<hca::Object*()>& call) {
    EXPECT_NE(call(), nullptr);
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
  EXPECT_LE(held_by([&] { return one.create_channel().object; }), kBookBytes);
  EXPECT_LE(held_by([&] { return one.create_cq(4096).object; }), kBookBytes);
  EXPECT_EQ(held_by([&] { return one.open_xrcd({}).object; }), 0U);
  uint64_t inode = 0;
  EXPECT_EQ(held_by([&] { return one.open_xrcd({.file = hca::XrcFile{1, ++inode}}).object; }), 0U);
  EXPECT_LE(held_by([&] { return one.create_srq(*a().pd, 4096, 4).object; }), kBookBytes);
  EXPECT_LE(held_by([&] { return a().make_qp(); }), kBookBytes);
  EXPECT_EQ(held_by([&] { return one.reg_mr(*a().pd, a().memory, adapter::Access::kLocalWrite).object; }),
            0U);
  EXPECT_EQ(held_by([&] { return one.alloc_window(*a().pd).object; }), 0U);
  EXPECT_EQ(held_by([&] { return one.create_ah(*a().pd, way).object; }), 0U);
}

TEST_F(LockMemory, of_a_shared_queue_that_grows_is_taken_before_it) {
  hca::Srq* srq = a().context->create_srq(*a().pd, 16, 2).object;
  ASSERT_NE(srq, nullptr);
  uint32_t wqes = 1024;
  EXPECT_EQ(held_by([&] {
              wqes *= 2;
              return srq->modify({.wqes = wqes}, adapter::kSrqWqes) == Answer::kOk ? srq : nullptr;
            }),
            0U);
  adapter::SrqAttr attr;
  ASSERT_EQ(srq->query(attr), Answer::kOk);
  EXPECT_EQ(attr.wqes, 4096U);
  EXPECT_EQ(srq->modify({.wqes = UINT32_MAX}, adapter::kSrqWqes), Answer::kInvalid);
}

}  // namespace
}  // namespace weft::test
