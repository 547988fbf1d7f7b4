#include "session/own_pools.h"

#include <algorithm>
#include <utility>

#include "base/out_of_memory.h"

namespace weft::session {

namespace {

using C = SessionCounter;
constexpr uint32_t kReceiveSlotsMax = 1024;
/// Freed elements are renewed once they are this part of their pool.
constexpr uint32_t kRenewShare = 4;

static_assert(kOwnElementBytesMin == kVnetBytes + kSessionFrameBytesMin);

}  // namespace

/// Largest Ethernet frame we can take in this mode.
uint32_t own_frame_max(const SessionConfig& config, TransferMode mode) noexcept {
  if (mode != TransferMode::kRdma) return std::min(config.frame_bytes_max, kJumboFrameBytes);
  return std::min(config.frame_bytes_max, config.pools.back().element_bytes - kVnetBytes);
}

uint32_t receive_slots(const SessionConfig& config) noexcept {
  return std::min(config.pools.front().elements, kReceiveSlotsMax);
}

OwnPools::OwnPools(SessionContext& context, SessionChannels& channels)
    : context_(context), channels_(&channels), next_reference_(first_reference()) {}

uint32_t OwnPools::first_reference() const noexcept {
  return context_.config.pool_reference_base +
         (context_.is_host() ? kPoolReferenceFirstHost : kPoolReferenceFirstUnit);
}

Status OwnPools::make() {
  if (!context_.rdma()) return make_receive_slots();
  for (uint32_t i = 0; i < context_.config.pools.size(); ++i) {
    if (Status status = add(i); !status) return status;
  }
  return {};
}

Status OwnPools::add(uint32_t pool_class) {
  const PoolClass& shape = context_.config.pools[pool_class];
  PoolMemory memory = PoolMemory::allocate(size_t{shape.elements} * shape.element_bytes);
  if (!memory) return Error{"out of memory for a receive pool"};
  Refusable<adapter::MemoryRegion> region = channels_->memory().add(memory.span(), true);
  if (!region) return region.error();
  const uint64_t pool_context = context_.config.random_pool_context ? context_.random.next() : 0;
  std::unique_ptr<RecvPool> pool;
  const bool made = with_memory([&] {
    pools_.reserve(pools_.size() + 1);
    pool = std::make_unique<RecvPool>(RecvPool::Shape{.reference = next_reference_,
                                                      .elements = shape.elements,
                                                      .element_bytes = shape.element_bytes,
                                                      .context = pool_context},
                                      std::move(memory));
  });
  if (!made) {  // the region must not outlive its memory
    channels_->memory().remove(region->lkey);
    return Error{"out of memory for a receive pool"};
  }
  pool->expose(region->rkey, region->addr, region->lkey);
  next_reference_ += kPoolReferenceStep;
  pools_.push_back({.pool = std::move(pool), .pool_class = pool_class, .advert_pending = true});
  return {};
}

/// Modes without RDMA: one pool that is the receive WQEs (decisions 2.19).
Status OwnPools::make_receive_slots() {
  const uint32_t slots = receive_slots(context_.config);
  const uint32_t slot_bytes = round_up(own_frame_max(context_.config, context_.peer.mode) + kVnetBytes, 64);
  PoolMemory memory = PoolMemory::allocate(size_t{slots} * slot_bytes);
  if (!memory) return Error{"out of memory for receive slots"};
  Refusable<adapter::MemoryRegion> region = channels_->memory().add(memory.span(), false);
  if (!region) return region.error();
  auto pool = std::make_unique<RecvPool>(
      RecvPool::Shape{
          .reference = kPoolOfReceiveWqes, .elements = slots, .element_bytes = slot_bytes, .context = 0},
      std::move(memory));
  pool->expose(Rkey(), region->addr, region->lkey);
  pools_.push_back({.pool = std::move(pool), .pool_class = 0, .advert_pending = true});
  for (uint32_t slot = 0; slot < slots; ++slot) {
    if (!post_receive(receive_pool(), slot)) return Error{"channel 1 takes no receive work requests"};
  }
  return {};
}

/// Posts a receive WQE for a slot. Does nothing if frames come inside messages.
bool OwnPools::post_receive(RecvPool& pool, uint32_t element) noexcept {
  if (context_.peer.mode != TransferMode::kSendReceive) return true;
  const uint64_t offset = uint64_t{element} * pool.element_bytes() + kVnetBytes;
  return channels_->post_frame_recv(element, {.addr = pool.advert().address + offset,
                                              .length = pool.element_bytes() - kVnetBytes,
                                              .lkey = pool.lkey()});
}

void OwnPools::retire() noexcept {
  for (Pool& own : pools_) own.pool->retire();
  drop_spent();
  renew_at_ = kNever;
  channels_ = nullptr;
}

// ---- numbers ------------------------------------------------------------------------------------

RecvPool* OwnPools::find(uint32_t reference) noexcept {
  for (Pool& own : pools_) {
    if (own.pool->reference() == reference) return own.pool.get();
  }
  return nullptr;
}

bool OwnPools::has_been(uint32_t reference) const noexcept {
  const uint32_t number = reference - first_reference();  // a reference below the first wraps to a huge
                                                          // number
  return number < next_reference_ - first_reference() && number % kPoolReferenceStep == 0;
}

// ---- growth and renewal -------------------------------------------------------------------------

void OwnPools::grow(uint32_t packet_bytes) noexcept {
  const std::vector<PoolClass>& classes = context_.config.pools;
  const auto fits = std::find_if(classes.begin(), classes.end(),
                                 [&](const PoolClass& pools) { return pools.element_bytes >= packet_bytes; });
  const auto wanted = static_cast<uint32_t>(fits - classes.begin());
  // A flushed pool counts until the driver has released its frames, because queue and memory have no room for
  // more pools.
  const auto have =
      std::count_if(pools_.begin(), pools_.end(), [&](const Pool& own) { return own.pool_class == wanted; });
  const bool allowed = fits != classes.end() && have < context_.config.limits.pools_per_class &&
                       context_.now >= grow_at_ && context_.state != SessionState::kClosing;
  if (!allowed || !status_with_memory([&] { return add(wanted); }))
    return context_.count(C::kPoolGetsRefused);
  grow_at_ = context_.now + context_.config.limits.grow_interval;
}

/// New pools, several in one message (PUSH-POOL-05).
bool OwnPools::send_adverts(ControlChannel& control) noexcept {
  const bool any = std::any_of(pools_.begin(), pools_.end(),
                               [](const Pool& own) { return own.advert_pending && own.pool->live(); });
  if (!any) return false;
  BufferRecvPool body;
  for (Pool& own : pools_) {
    if (!own.advert_pending || !own.pool->live() || body.pools.full()) continue;
    PoolAdvert advert = own.pool->advert();
    if (advert.pool == kPoolOfReceiveWqes) {
      advert.address = 0;  // the peer does not write there by address
      advert.element_bytes = context_.peer.frame_bytes_max;
    }
    body.pools.push_back(advert);
  }
  if (body.pools.empty()) return false;
  if (!control.send({.context = control.next_context(), .body = body})) return false;
  for (const PoolAdvert& sent : body.pools) advert_sent(sent.pool);
  context_.count(C::kPoolsAdvertised, body.pools.size());
  return true;
}

void OwnPools::advert_sent(uint32_t reference) noexcept {
  for (Pool& own : pools_) {
    if (own.pool->reference() == reference) own.advert_pending = false;
  }
}

/// True if freed elements make up a quarter of a pool or the delay is over.
bool OwnPools::renewal_due() const noexcept {
  if (renew_at_ == kNever) return false;
  if (context_.now >= renew_at_) return true;
  return std::any_of(pools_.begin(), pools_.end(), [&](const Pool& own) {
    return own.pool->freed() != 0 && own.pool->freed() * kRenewShare >= own.pool->elements();
  });
}

bool OwnPools::send_updates(ControlChannel& control) noexcept {
  BufferRecvPoolUpdate body;
  uint32_t renewed = 0;
  for (Pool& own : pools_) {
    if (!own.pool->live() || own.advert_pending) continue;
    PoolRun run;
    while (!body.runs.full() && own.pool->take_run(run)) {
      body.runs.push_back(run);
      renewed += run.count;
    }
  }
  renew_at_ = body.runs.full() ? context_.now : kNever;
  if (body.runs.empty()) return false;
  // A send slot is free, so this fails only if the session is lost.
  if (!control.send({.context = control.next_context(), .body = body})) return false;
  context_.count(C::kUpdatesOut);
  context_.count(C::kElementsRenewed, renewed);
  return true;
}

bool OwnPools::give_back(RecvPool& pool, uint32_t element) noexcept {
  pool.free_element(element);
  if (!pool.live()) {
    drop_spent();
    return true;
  }
  if (!context_.rdma() && !post_receive(pool, element)) return false;
  if (renew_at_ == kNever) renew_at_ = context_.now + context_.config.limits.renew_delay;
  return true;
}

// ---- flush --------------------------------------------------------------------------------------

void OwnPools::flush(RecvPool& pool) noexcept {
  channels_->memory().remove(pool.lkey());
  pool.retire();
  context_.count(C::kPoolsFreed);
}

void OwnPools::flush_all() noexcept {
  for (Pool& own : pools_) {
    if (own.pool->live() && own.pool->reference() != kPoolOfReceiveWqes) flush(*own.pool);
  }
  drop_spent();
}

BufferPoolFlushRequest OwnPools::to_flush() const noexcept {
  BufferPoolFlushRequest out;
  for (const Pool& own : pools_) {
    if (own.pool->live() && own.pool->reference() != kPoolOfReceiveWqes)
      out.pools.push_back(own.pool->reference());
  }
  return out;
}

/// Frees flushed pools whose last frame the driver has released.
void OwnPools::drop_spent() noexcept {
  std::erase_if(pools_, [](const Pool& own) { return !own.pool->live() && own.pool->indicated() == 0; });
}

void OwnPools::account(SessionConservation& out) const noexcept {
  for (const Pool& own : pools_) {
    const RecvPool& pool = *own.pool;
    out.own_exposed += pool.exposed();
    out.own_indicated += pool.indicated();
    out.own_freed += pool.freed();
    out.own_elements += pool.live() ? pool.elements() : pool.indicated();
  }
}

}  // namespace weft::session
