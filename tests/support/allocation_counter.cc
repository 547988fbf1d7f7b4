#include "tests/support/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<uint64_t> g_allocations{0};
std::atomic<uint64_t> g_bytes{0};
std::atomic<void (*)(uint64_t)> g_look{nullptr};
std::atomic<void (*)()> g_look_at_free{nullptr};

void count(std::size_t bytes) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  g_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (const auto look = g_look.load(std::memory_order_relaxed); look != nullptr) look(bytes);
}

void give_back(void* memory) noexcept {
  if (const auto look = g_look_at_free.load(std::memory_order_relaxed); look != nullptr && memory != nullptr)
    look();
  std::free(memory);
}
}  // namespace

[[gnu::noinline]] void* operator new(std::size_t bytes) {
  count(bytes);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    count(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return std::malloc(bytes);
}
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t align) {
  count(bytes);
  const auto unit = static_cast<std::size_t>(align);
  if (void* memory = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept {
  give_back(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  give_back(memory);
}

namespace weft::test {

uint64_t allocations() noexcept {
  return g_allocations.load(std::memory_order_relaxed);
}

uint64_t allocated_bytes() noexcept {
  return g_bytes.load(std::memory_order_relaxed);
}

void watch_allocations(void (*look)(uint64_t bytes)) noexcept {
  g_look.store(look, std::memory_order_relaxed);
}

void watch_frees(void (*look)()) noexcept {
  g_look_at_free.store(look, std::memory_order_relaxed);
}

}  // namespace weft::test
