#include "session/buffer_recv_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weft::session {

namespace {
constexpr size_t kPageBytes = 4096;
}

PoolMemory PoolMemory::allocate(size_t bytes) noexcept {
  PoolMemory out;
  const size_t rounded = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  if (rounded == 0 || rounded < bytes) return out;
  // A mapping of its own, so that the memory of an ended session goes back to the system. On the heap every
  // reconnection would leave a hole too small for the next aligned block of that size.
  void* mapped =
      mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (mapped == MAP_FAILED) return out;
  out.memory_ = {static_cast<std::byte*>(mapped), Free{rounded}};
  out.bytes_ = bytes;
  return out;
}

void PoolMemory::Free::operator()(std::byte* memory) const noexcept {
  munmap(memory, mapped_bytes);
}

RecvPool::RecvPool(const Shape& shape, PoolMemory memory)
    : shape_(shape), memory_(std::move(memory)), states_(shape.elements, State::kFreed) {
  freed_.reset(shape.elements);
  WEFT_CHECK(memory_.span().size() == size_t{shape.elements} * shape.element_bytes, "a pool is its elements");
}

void RecvPool::expose(Rkey handle, uint64_t address, Lkey lkey) noexcept {
  WEFT_CHECK(indicated_ == 0, "elements in use cannot be exposed");
  handle_ = handle;
  address_ = address;
  lkey_ = lkey;
  live_ = true;
  std::fill(states_.begin(), states_.end(), State::kExposed);
  exposed_ = shape_.elements;
  freed_.clear();
}

PoolAdvert RecvPool::advert() const noexcept {
  return {.pool = shape_.reference,
          .elements = shape_.elements,
          .element_bytes = shape_.element_bytes,
          .handle = handle_,
          .address = address_,
          .context = shape_.context};
}

void RecvPool::retire() noexcept {
  live_ = false;
  for (State& state : states_) {
    if (state != State::kIndicated) state = State::kFreed;
  }
  exposed_ = 0;
  freed_.clear();
}

IndicationFault RecvPool::check_element(uint32_t element, uint32_t element_bytes,
                                        uint32_t data_bytes) const noexcept {
  if (!live_) return IndicationFault::kFlushed;
  if (element >= shape_.elements) return IndicationFault::kElementRange;
  if (element_bytes != shape_.element_bytes) return IndicationFault::kSizeWrong;
  if (states_[element] != State::kExposed) return IndicationFault::kElementNotFree;
  return data_bytes <= shape_.element_bytes ? IndicationFault::kNone : IndicationFault::kTooLong;
}

IndicationFault RecvPool::check_write(const PoolElement& used, uint64_t written_va,
                                      uint32_t data_bytes) const noexcept {
  const IndicationFault fault = check_element(used.element, used.element_bytes, data_bytes);
  if (fault != IndicationFault::kNone && fault != IndicationFault::kTooLong) return fault;
  if (written_va != address_ + uint64_t{used.element} * shape_.element_bytes)
    return IndicationFault::kAddressWrong;
  return fault;
}

IndicationFault RecvPool::check_indication(const Indication& used) const noexcept {
  return check_element(used.element, used.element_bytes, used.data_bytes);
}

void RecvPool::indicate(uint32_t element) noexcept {
  states_[element] = State::kIndicated;
  --exposed_;
  ++indicated_;
}

bool RecvPool::is_exposed(uint32_t element) const noexcept {
  return live_ && element < shape_.elements && states_[element] == State::kExposed;
}

std::span<std::byte> RecvPool::element(uint32_t element) const noexcept {
  return memory_.span().subspan(size_t{element} * shape_.element_bytes, shape_.element_bytes);
}

void RecvPool::free_element(uint32_t element) noexcept {
  WEFT_CHECK(states_[element] == State::kIndicated, "only an indicated element is freed");
  states_[element] = State::kFreed;
  --indicated_;
  if (!live_) return;
  freed_.push(element);
}

bool RecvPool::take_run(PoolRun& out) noexcept {
  if (freed_.empty()) return false;
  out = {.pool = shape_.reference, .first = freed_.front(), .count = 0};
  while (!freed_.empty() && freed_.front() == out.first + out.count) {
    states_[freed_.front()] = State::kExposed;
    freed_.pop();
    ++exposed_;
    ++out.count;
  }
  return true;
}

std::string_view to_string(IndicationFault fault) noexcept {
  switch (fault) {
    case IndicationFault::kNone:
      return "none";
    case IndicationFault::kFlushed:
      return "flushed";
    case IndicationFault::kElementRange:
      return "element-range";
    case IndicationFault::kElementNotFree:
      return "element-not-free";
    case IndicationFault::kSizeWrong:
      return "size-wrong";
    case IndicationFault::kAddressWrong:
      return "address-wrong";
    case IndicationFault::kTooLong:
      return "too-long";
    case IndicationFault::kCount:
      break;
  }
  return "?";
}

}  // namespace weft::session
