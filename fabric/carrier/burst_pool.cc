// How it works: a ZeroMQ thread that is done with a buffer pushes it on the list `returned`. The owner takes
// this list as a whole. As there is no concurrent pop, a buffer that returns at once causes no ABA problem. A
// lent buffer holds a reference to the store, so the store lives at least as long as the message.
#include "fabric/carrier/burst_pool.h"

#include <atomic>
#include <vector>

namespace weft::fabric {

struct BurstPool::Buffer {
  std::byte* data = nullptr;
  Buffer* next = nullptr;
  std::shared_ptr<Store> keeper;  // set while ZeroMQ has the buffer
};

struct BurstPool::Store {
  Store(uint32_t count, size_t bytes)
      : buffer_bytes(bytes),
        memory(std::make_unique_for_overwrite<std::byte[]>(count * bytes)),
        buffers(count) {
    for (uint32_t i = count; i-- > 0;) {
      buffers[i].data = memory.get() + i * bytes;
      buffers[i].next = free;
      free = &buffers[i];
    }
  }
  size_t buffer_bytes;
  std::unique_ptr<std::byte[]> memory;
  std::vector<Buffer> buffers;
  Buffer* free = nullptr;                   // used by the owner only
  std::atomic<Buffer*> returned = nullptr;  // pushed by any thread
};

BurstPool::BurstPool(uint32_t buffers, size_t buffer_bytes)
    : store_(std::make_shared<Store>(buffers, buffer_bytes)) {}

std::byte* BurstPool::take() noexcept {
  // Pairs with the release in come_back(): ZeroMQ no longer reads the buffer.
  Buffer* back = store_->returned.exchange(nullptr, std::memory_order_acquire);
  while (back != nullptr) {
    Buffer* next = back->next;
    back->next = store_->free;
    store_->free = back;
    back = next;
  }
  Buffer* buffer = store_->free;
  if (buffer == nullptr) return nullptr;
  store_->free = buffer->next;
  return buffer->data;
}

bool BurstPool::lend(std::byte* buffer, size_t bytes, ZmqMessage& out) noexcept {
  const auto index = static_cast<size_t>(buffer - store_->memory.get()) / store_->buffer_bytes;
  Buffer& lent = store_->buffers[index];
  lent.keeper = store_;
  if (out.lend({buffer, bytes}, &BurstPool::come_back, &lent)) return true;
  lent.keeper.reset();
  return false;
}

void BurstPool::come_back(void* /*data*/, void* buffer) noexcept {
  auto& back = *static_cast<Buffer*>(buffer);
  const std::shared_ptr<Store> store = std::move(back.keeper);
  back.next = store->returned.load(std::memory_order_relaxed);
  while (!store->returned.compare_exchange_weak(back.next, &back, std::memory_order_release,
                                                std::memory_order_relaxed)) {
  }
}

}  // namespace weft::fabric
