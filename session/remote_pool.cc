#include "session/remote_pool.h"

#include <algorithm>

namespace weft::session {

void RemotePools::Pool::push(uint32_t element) noexcept {
  free.push(element);
  is_free[element] = true;
}

uint32_t RemotePools::Pool::pop() noexcept {
  const uint32_t element = free.front();
  free.pop();
  is_free[element] = false;
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
  pool->free.reset(advert.elements);
  pool->is_free.resize(advert.elements);
  for (uint32_t i = 0; i < advert.elements; ++i) pool->push(i);
  elements_ += advert.elements;
  free_ += advert.elements;
  const auto larger = std::find_if(pools_.begin(), pools_.end(), [&](const auto& other) {
    return other->advert.element_bytes > advert.element_bytes;
  });
  pools_.insert(larger, std::move(pool));
  return RemotePoolFault::kNone;
}

RemotePoolFault RemotePools::renew_all(Pool& pool, uint32_t& renewed) noexcept {
  if (pool.free.full()) return RemotePoolFault::kNotConsumed;
  for (uint32_t i = 0; i < pool.advert.elements; ++i) {
    if (pool.is_free[i]) continue;
    pool.push(i);
    ++renewed;
  }
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
    if (pool->is_free[i]) {
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
  free_ -= (*at)->free.size();
  consumed_ -= (*at)->advert.elements - (*at)->free.size();
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
    if (pool->free.empty() || advert.element_bytes < bytes) continue;
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
      free += pools_[next]->free.size();
    }
    if (free * 4 < elements && pools_[first]->advert.pool != kPoolOfReceiveWqes) {
      out = {.packet_bytes = bytes, .packets = pools_[first]->advert.elements};
      return true;
    }
    first = next;
  }
  return false;
}

std::vector<uint32_t> RemotePools::references() const {
  std::vector<uint32_t> out;
  for (const auto& pool : pools_) out.push_back(pool->advert.pool);
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
