#include "session/remote_pool.h"

#include <algorithm>
#include <bit>

namespace weft::session {

namespace {

constexpr uint32_t kWordBits = 64;
/// Room of the ring of renewed elements at first.
constexpr size_t kRenewedMin = 64;

constexpr uint64_t bit_of(uint32_t element) noexcept {
  return uint64_t{1} << element % kWordBits;
}

}  // namespace

bool RemotePools::Pool::is_free(uint32_t element) const noexcept {
  return (in_use[element / kWordBits] & bit_of(element)) == 0;
}

void RemotePools::Pool::push(uint32_t element) noexcept {
  if (renewed.full())  // within the memory that add() has reserved
    renewed.widen(std::min<size_t>(std::max(2 * renewed.capacity(), kRenewedMin), advert.elements));
  renewed.push(element);
  in_use[element / kWordBits] &= ~bit_of(element);
}

uint32_t RemotePools::Pool::pop() noexcept {
  uint32_t element = fresh;
  if (fresh < advert.elements) {
    ++fresh;
  } else {
    element = renewed.front();
    renewed.pop();
  }
  in_use[element / kWordBits] |= bit_of(element);
  return element;
}

RemotePools::Pool* RemotePools::find(uint32_t reference) const noexcept {
  for (const auto& pool : pools_) {
    if (pool->advert.pool == reference) return pool.get();
  }
  return nullptr;
}

RemotePoolFault RemotePools::add(const PoolAdvert& advert) {
  if (find(advert.pool) != nullptr) return RemotePoolFault::kTaken;
  if (pools_.size() >= pools_max_ || elements_ + advert.elements > elements_max_)
    return RemotePoolFault::kLimit;
  auto pool = std::make_unique<Pool>();
  pool->advert = advert;
  pool->by_idata = fits_idata(advert.pool, advert.elements, advert.element_bytes);
  pool->renewed.expect(advert.elements);
  pool->in_use.resize((size_t{advert.elements} + kWordBits - 1) / kWordBits);
  const auto larger = std::find_if(pools_.begin(), pools_.end(), [&](const auto& other) {
    return other->advert.element_bytes > advert.element_bytes;
  });
  pools_.insert(larger, std::move(pool));
  elements_ += advert.elements;
  free_ += advert.elements;
  return RemotePoolFault::kNone;
}

RemotePoolFault RemotePools::renew_all(Pool& pool, uint32_t& renewed) noexcept {
  for (uint32_t word = 0; word < pool.in_use.size(); ++word) {
    while (pool.in_use[word] != 0) {
      pool.push(word * kWordBits + static_cast<uint32_t>(std::countr_zero(pool.in_use[word])));
      ++renewed;
    }
  }
  if (renewed == 0) return RemotePoolFault::kNotConsumed;
  free_ += renewed;
  consumed_ -= renewed;
  return RemotePoolFault::kNone;
}

RemotePoolFault RemotePools::renew(const PoolRun& run, uint32_t& renewed) noexcept {
  renewed = 0;
  Pool* pool = find(run.pool);
  if (pool == nullptr) return RemotePoolFault::kUnknown;
  if (run.count == 0) return renew_all(*pool, renewed);
  if (run.first >= pool->advert.elements || run.count > pool->advert.elements - run.first) {
    return RemotePoolFault::kRange;
  }
  RemotePoolFault fault = RemotePoolFault::kNone;
  for (uint32_t i = run.first; i < run.first + run.count; ++i) {
    if (pool->is_free(i)) {
      fault = RemotePoolFault::kNotConsumed;
      break;
    }
    pool->push(i);
    ++renewed;
  }
  free_ += renewed;
  consumed_ -= renewed;
  return fault;
}

bool RemotePools::remove(uint32_t reference) noexcept {
  const auto at = std::find_if(pools_.begin(), pools_.end(),
                               [&](const auto& pool) { return pool->advert.pool == reference; });
  if (at == pools_.end()) return false;
  elements_ -= (*at)->advert.elements;
  free_ -= (*at)->free();
  consumed_ -= (*at)->advert.elements - (*at)->free();
  pools_.erase(at);
  return true;
}

void RemotePools::clear() noexcept {
  pools_.clear();
  elements_ = 0;
  free_ = 0;
  consumed_ = 0;
}

bool RemotePools::take(uint32_t bytes, RemoteElement& out) noexcept {
  for (const auto& pool : pools_) {
    const PoolAdvert& advert = pool->advert;
    if (pool->free() == 0 || advert.element_bytes < bytes) continue;
    const uint32_t element = pool->pop();
    --free_;
    ++consumed_;
    out = {.pool = advert.pool,
           .element = element,
           .element_bytes = advert.element_bytes,
           .address = advert.address + uint64_t{element} * advert.element_bytes,
           .handle = advert.handle};
    return true;
  }
  return false;
}

uint32_t RemotePools::element_bytes_max() const noexcept {
  return pools_.empty() ? 0 : pools_.back()->advert.element_bytes;
}

bool RemotePools::all_by_idata() const noexcept {
  return std::all_of(pools_.begin(), pools_.end(), [](const auto& pool) { return pool->by_idata; });
}

bool RemotePools::running_low(BufferRecvPoolGet& out) const noexcept {
  for (size_t first = 0; first < pools_.size();) {
    const uint32_t bytes = pools_[first]->advert.element_bytes;
    uint64_t elements = 0;
    uint64_t free = 0;
    size_t next = first;
    for (; next < pools_.size() && pools_[next]->advert.element_bytes == bytes; ++next) {
      elements += pools_[next]->advert.elements;
      free += pools_[next]->free();
    }
    if (free * 4 < elements && pools_[first]->advert.pool != kPoolOfReceiveWqes) {
      out = {.packet_bytes = bytes, .packets = pools_[first]->advert.elements};
      return true;
    }
    first = next;
  }
  return false;
}

BufferPoolFlushRequest RemotePools::to_flush() const noexcept {
  BufferPoolFlushRequest out;
  for (const auto& pool : pools_) {
    if (pool->advert.pool != kPoolOfReceiveWqes) out.pools.push_back(pool->advert.pool);
  }
  return out;
}

std::string_view to_string(RemotePoolFault fault) noexcept {
  switch (fault) {
    case RemotePoolFault::kNone:
      return "none";
    case RemotePoolFault::kTaken:
      return "taken";
    case RemotePoolFault::kLimit:
      return "limit";
    case RemotePoolFault::kUnknown:
      return "unknown";
    case RemotePoolFault::kRange:
      return "range";
    case RemotePoolFault::kNotConsumed:
      return "not-consumed";
    case RemotePoolFault::kCount:
      break;
  }
  return "?";
}

}  // namespace weft::session
