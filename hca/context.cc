#include "hca/context.h"

#include <list>
#include <memory>
#include <utility>

#include "adapter/queues/shared_receive_queue.h"
#include "adapter/queues/shared_receives.h"
#include "hca/device_core.h"

namespace weft::hca {

Context::Context(DeviceCore& core, std::shared_ptr<EventFd> descriptor)
    : ContextBase(core), source_{std::move(descriptor)}, ports_(core.ports.size() + 1) {
  for (size_t number = 1; number < ports_.size(); ++number)
    ports_[number].port = static_cast<uint8_t>(number);
}

Context::~Context() = default;

// ---- making --------------------

/// Adds the object to this context's list. Under the lock.
template <class T>
T* Context::keep(std::unique_ptr<T> object) noexcept {
  object->books.older = newest_;
  if (newest_ != nullptr) newest_->books.newer = object.get();
  newest_ = object.get();
  return object.release();
}

Made<ProtectionDomain> Context::alloc_pd() {
  if (core().forked()) return {.answer = Answer::kForked};
  auto pd = std::make_unique<ProtectionDomain>(*this);
  const Hold hold(core());
  const Refusable<adapter::PdId> id = core().adapter.alloc_pd();
  if (!id) return {.answer = Answer::kNoMemory};
  pd->enter(id.value());
  return {.object = keep(std::move(pd))};
}

Made<CompletionChannel> Context::create_channel() {
  if (core().forked()) return {.answer = Answer::kForked};
  std::shared_ptr<EventFd> descriptor = EventFd::create();
  if (descriptor == nullptr) return {.answer = Answer::kNoDescriptor};
  auto channel = std::make_unique<CompletionChannel>(*this, std::move(descriptor));
  const Hold hold(core());
  return {.object = keep(std::move(channel))};
}

Made<Cq> Context::create_cq(uint32_t cqes, CompletionChannel* channel, void* user) {
  if (core().forked()) return {.answer = Answer::kForked};
  if (cqes == 0 || cqes > core().adapter.limits().cqes_per_queue) return {.answer = Answer::kInvalid};
  if (channel != nullptr && &channel->context() != this) return {.answer = Answer::kInvalid};
  auto room = std::make_unique<adapter::CompletionQueue>(cqes);  // allocated outside the lock
  auto made = std::make_unique<Cq>(*this, user, *room, channel);
  const Hold hold(core());
  if (!core().adapter.create_cq(std::move(room))) return {.answer = Answer::kNoMemory};
  Cq* cq = keep(std::move(made));
  cq->queue().events.user = cq->as_user();
  if (channel != nullptr) ++channel->books.users;
  return {.object = cq};
}

Made<XrcDomain> Context::open_xrcd(const XrcOpen& open) {
  DeviceCore& device = core();
  if (device.forked()) return {.answer = Answer::kForked};
  auto domain = std::make_unique<XrcDomain>(*this, open.file);
  SharedXrcds entry;  // the entry for the list of shared domains, allocated outside the lock
  if (open.file) entry.emplace(*open.file, SharedXrcd{});
  const Hold hold(device);
  const auto shared = open.file ? device.xrcds.find(*open.file) : device.xrcds.end();
  const bool there = shared != device.xrcds.end();
  if (there && open.exclusive) return {.answer = Answer::kInvalid};
  if (open.file && !there && !open.create) return {.answer = Answer::kAgain};
  adapter::XrcdId id{};
  if (there) {
    id = shared->second.id;
    ++shared->second.opens;
  } else {
    const Refusable<adapter::XrcdId> made = device.adapter.srqs().alloc_xrcd();
    if (!made) return {.answer = Answer::kNoMemory};
    id = made.value();
    if (open.file) {
      entry.begin()->second = {.id = id, .opens = 1};
      device.xrcds.insert(entry.extract(entry.begin()));
    }
  }
  domain->enter(id);
  return {.object = keep(std::move(domain))};
}

Made<Srq> Context::create_srq(ProtectionDomain& pd, uint32_t wqes, uint32_t sges, void* user,
                              const XrcPlace& xrc) {
  if (core().forked()) return {.answer = Answer::kForked};
  const adapter::AdapterLimits& most = core().adapter.limits();
  if (&pd.context() != this || wqes == 0 || wqes > most.wqes_per_queue || sges > most.sges_per_wqe)
    return {.answer = Answer::kInvalid};
  const bool both = (xrc.domain != nullptr) == (xrc.cq != nullptr);
  if (!both || (xrc.domain != nullptr && (&xrc.domain->context() != this || &xrc.cq->context() != this)))
    return {.answer = Answer::kInvalid};
  adapter::SrqConfig config{.pd = pd.id(), .wqes = wqes, .sges = sges, .hold_places = true};
  if (xrc.domain != nullptr) {
    config.xrcd = xrc.domain->id();
    config.cq = &xrc.cq->queue();
  }
  adapter::SrqMemory memory = adapter::SharedReceives::make(config);
  auto made = std::make_unique<Srq>(*this, user, pd, *memory, xrc);
  const Hold hold(core());
  if (!core().adapter.srqs().create(config, std::move(memory))) return {.answer = Answer::kNoMemory};
  made->enter();
  return {.object = keep(std::move(made))};
}

namespace {

/// Whether a QP of this type may name the queue. SRQs of an XRC domain serve its targets, which name none;
/// XRC initiators receive nothing.
bool serves(const Srq& queue, adapter::QpType type) noexcept {
  return queue.queue().config.xrcd == adapter::XrcdId() && type != adapter::QpType::kXrcSend;
}

}  // namespace

Made<Qp> Context::create_qp(ProtectionDomain& pd, const QpInit& init) {
  if (core().forked()) return {.answer = Answer::kForked};
  if (init.send_cq == nullptr || init.recv_cq == nullptr) return {.answer = Answer::kInvalid};
  if (&init.send_cq->context() != this || &init.recv_cq->context() != this || &pd.context() != this)
    return {.answer = Answer::kInvalid};
  if (init.srq != nullptr && (&init.srq->context() != this || !serves(*init.srq, init.config.type)))
    return {.answer = Answer::kInvalid};
  const adapter::AdapterLimits& most = core().adapter.limits();
  if (init.config.send_wqes > most.wqes_per_queue || init.config.recv_wqes > most.wqes_per_queue ||
      init.config.sges > most.sges_per_wqe)
    return {.answer = Answer::kInvalid};
  adapter::QpConfig config = init.config;
  config.pd = pd.id();
  config.wanted_qpn = init.management ? kQpnGsi : adapter::kQpnAny;
  config.hold_places = !init.management;
  config.srq = init.srq != nullptr ? &init.srq->queue() : nullptr;
  adapter::QpMemory memory = core().adapter.make_qp(config);
  auto made = std::make_unique<Qp>(*this, init, &pd);
  const HoldToMake hold(core());
  config.send_cq = &init.send_cq->queue();
  config.recv_cq = &init.recv_cq->queue();
  Refusable<adapter::QueuePair*> pair = core().adapter.create_qp(config, std::move(memory));
  if (!pair) return {.answer = Answer::kNoMemory};
  made->enter(**pair);
  return {.object = keep(std::move(made))};
}

Made<Qp> Context::create_target(XrcDomain& domain, const QpInit& init) {
  if (core().forked()) return {.answer = Answer::kForked};
  if (&domain.context() != this) return {.answer = Answer::kInvalid};
  const QpInit target{.xrcd = &domain, .user = init.user};
  adapter::QpConfig config = init.config;
  config.type = adapter::QpType::kXrcRecv;
  config.xrcd = domain.id();
  adapter::QpMemory memory = core().adapter.make_qp(config);
  auto made = std::make_unique<Qp>(*this, target);
  auto handles = std::make_shared<std::list<Qp*>>();
  std::list<Qp*> place{made.get()};
  const HoldToMake hold(core());
  Refusable<adapter::QueuePair*> pair = core().adapter.create_qp(config, std::move(memory));
  if (!pair) return {.answer = Answer::kNoMemory};
  made->enter(**pair);
  made->join(std::move(handles), place);
  return {.object = keep(std::move(made))};
}

Made<Qp> Context::open_target(XrcDomain& domain, Qpn number, void* user) {
  if (core().forked()) return {.answer = Answer::kForked};
  if (&domain.context() != this) return {.answer = Answer::kInvalid};
  auto made = std::make_unique<Qp>(*this, QpInit{.xrcd = &domain, .user = user});
  std::list<Qp*> place{made.get()};
  const Hold hold(core());
  const Object* found = core().find_qp(number);
  if (found == nullptr) return {.answer = Answer::kInvalid};
  const auto& other = static_cast<const Qp&>(*found);
  if (other.handles() == nullptr || other.xrcd()->id() != domain.id()) return {.answer = Answer::kInvalid};
  made->enter(other.pair());
  made->join(other.handles(), place);
  return {.object = keep(std::move(made))};
}

Made<MemoryRegion> Context::reg_mr(ProtectionDomain& pd, std::span<std::byte> memory, adapter::Access access,
                                   const adapter::RegisterOptions& options) {
  using adapter::Access;
  if (core().forked()) return {.answer = Answer::kForked};
  const bool peers_write = has(access, Access::kRemoteWrite) || has(access, Access::kRemoteAtomic);
  if (&pd.context() != this || memory.empty() || (peers_write && !has(access, Access::kLocalWrite)))
    return {.answer = Answer::kInvalid};
  if (adapter::MemoryTable::objection(pd.id(), memory, access, options) != nullptr)
    return {.answer = Answer::kInvalid};
  auto made = std::make_unique<MemoryRegion>(*this, pd);
  const HoldToMake hold(core());
  adapter::MemoryTable& table = core().adapter.memory();
  const Refusable<adapter::MemoryRegion> region = table.reg_mr(pd.id(), memory, access, options);
  if (!region) return {.answer = table.is_confined(pd.id()) ? Answer::kInvalid : Answer::kNoMemory};
  made->enter(region.value());
  return {.object = keep(std::move(made))};
}

Made<MemoryRegion> Context::reg_addresses(ProtectionDomain& pd, adapter::AddressKind kind, uint64_t address,
                                          uint64_t length, adapter::Access access,
                                          const adapter::RegisterOptions& options) {
  if (core().forked()) return {.answer = Answer::kForked};
  if (&pd.context() != this || core().spaces == nullptr) return {.answer = Answer::kInvalid};
  auto made = std::make_unique<MemoryRegion>(*this, pd);
  const HoldToMake hold(core());
  const Refusable<adapter::MemoryRegion> region =
      core().spaces->reg_addresses(pd.id(), kind, address, length, access, options);
  if (!region) return {.answer = Answer::kInvalid};
  made->enter(region.value());
  return {.object = keep(std::move(made))};
}

Made<MemoryRegion> Context::reserve_mr(ProtectionDomain& pd, bool with_rkey) {
  if (core().forked()) return {.answer = Answer::kForked};
  if (&pd.context() != this) return {.answer = Answer::kInvalid};
  auto made = std::make_unique<MemoryRegion>(*this, pd);
  const HoldToMake hold(core());
  adapter::MemoryTable& table = core().adapter.memory();
  const Refusable<adapter::MemoryRegion> region = table.reserve_mr(pd.id(), with_rkey);
  if (!region) return {.answer = table.is_confined(pd.id()) ? Answer::kInvalid : Answer::kNoMemory};
  made->enter(region.value());
  return {.object = keep(std::move(made))};
}

Made<Window> Context::alloc_window(ProtectionDomain& pd, adapter::WindowKind kind) {
  if (core().forked()) return {.answer = Answer::kForked};
  if (&pd.context() != this) return {.answer = Answer::kInvalid};
  auto made = std::make_unique<Window>(*this, pd, kind);
  const HoldToMake hold(core());
  const Refusable<Rkey> key = core().adapter.memory().alloc_window(pd.id(), kind);
  if (!key) return {.answer = Answer::kNoMemory};
  made->enter(key.value());
  return {.object = keep(std::move(made))};
}

Made<AddressHandle> Context::create_ah(ProtectionDomain& pd, const adapter::AhAttr& attr) {
  if (core().forked()) return {.answer = Answer::kForked};
  if (&pd.context() != this) return {.answer = Answer::kInvalid};
  auto made = std::make_unique<AddressHandle>(*this, pd);
  const Hold hold(core());
  const Refusable<adapter::AddressHandle> value = core().adapter.make_ah(pd.id(), attr);
  if (!value) return {.answer = Answer::kInvalid};
  made->enter(value.value());
  return {.object = keep(std::move(made))};
}

// ---- ending --------------------

Answer Context::destroy(Object* object) noexcept {
  std::unique_ptr<Object> owned(object);
  if (core().forked()) return Answer::kOk;
  bool waits = false;
  {
    const Hold hold(core());
    const Answer answer = object->books.users != 0 ? Answer::kBusy : object->release();
    if (answer != Answer::kOk) {
      static_cast<void>(owned.release());
      return answer;
    }
    unlink(*object);
    if (const uint32_t dropped = waiting_.drop(object->events)) core().errands.take_back(source_, dropped);
    waits = object->books.unacknowledged != 0;
  }
  if (waits) core().wait_for_acknowledgements(*object);
  return Answer::kOk;
}

void Context::unlink(Object& object) noexcept {
  Object* older = object.books.older;
  Object* newer = object.books.newer;
  if (older != nullptr) older->books.newer = newer;
  (newer != nullptr ? newer->books.older : newest_) = older;
}

/// Releases newest objects first, because an object is newer than those it uses. The exception is a region,
/// which may be newer than a window bound to it: the second pass releases such regions.
Object* Context::release_all() noexcept {
  Object* ended = nullptr;
  for (int pass = 0; pass < 2; ++pass) {
    for (Object* at = newest_; at != nullptr;) {
      Object* object = std::exchange(at, at->books.older);
      object->abandon();
      if (object->books.users != 0 || object->release() != Answer::kOk) continue;
      unlink(*object);
      waiting_.drop(object->events);
      object->books.older = std::exchange(ended, object);
    }
  }
  core().errands.forget(source_);
  return ended;
}

// ---- events --------------------

void Context::add_event(const AsyncEvent& event) noexcept {
  WaitingEvents& of = event.object != nullptr ? event.object->events : ports_[event.port];
  if (waiting_.add(of, static_cast<uint8_t>(event.kind))) core().errands.owe(source_);
}

Answer Context::get_async_event(AsyncEvent& out) {
  for (;;) {
    if (!core().prepare_to_wait()) return Answer::kForked;
    const Answer unit = source_.descriptor->take();
    if (unit != Answer::kOk) return unit;
    const Hold hold(core());
    if (waiting_.empty()) continue;
    const auto& of = static_cast<const WaitingEvents&>(waiting_.front());
    out = {.object = of.object, .port = of.port};
    out.kind = static_cast<EventKind>(waiting_.take_first());
    if (out.object != nullptr) ++out.object->books.unacknowledged;
    return Answer::kOk;
  }
}

void Context::ack_async_event(const AsyncEvent& event) noexcept {
  if (event.object == nullptr || core().forked()) return;
  const Hold hold(core());
  core().acknowledge(*event.object, 1);
}

}  // namespace weft::hca
