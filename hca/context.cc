#include "hca/context.h"

#include <initializer_list>
#include <list>
#include <memory>
#include <utility>

#include "adapter/queues/shared_receive_queue.h"
#include "adapter/queues/shared_receives.h"
#include "hca/device_core.h"

namespace weft::hca {

Context::Context(DeviceCore& core, std::shared_ptr<EventFd> descriptor)
    : ContextBase(core), source_{std::move(descriptor)}, ports_(core.ports.count() + size_t{1}) {
  for (size_t number = 1; number < ports_.size(); ++number)
    ports_[number].port = static_cast<uint8_t>(number);
}

Context::~Context() = default;

// ---- making --------------------

/// Adds the object to this context's list. Under the lock.
template <class T>
T* Context::keep(std::unique_ptr<T> object) noexcept {
  object->refs.older = newest_;
  if (newest_ != nullptr) newest_->refs.newer = object.get();
  newest_ = object.get();
  return object.release();
}

/// Makes an object of this context that uses `uses` (null: none) and enters what `take` gets from the
/// adapter.
template <class T, class Take, class... Args>
Made<T> Context::make(std::initializer_list<const Object*> uses, Take&& take, Args&&... args) {
  if (core().forked()) return Refusal(Reason::kForked);
  for (const Object* used : uses) {
    if (used != nullptr && &used->context() != this) return Refusal(Reason::kForeignObject);
  }
  auto made = std::make_unique<T>(*this, std::forward<Args>(args)...);
  const HoldToMake hold(core());
  auto taken = take(*made);
  if (!taken) return taken.error();
  made->enter(taken.value());
  return keep(std::move(made));
}

Made<ProtectionDomain> Context::alloc_pd() {
  return make<ProtectionDomain>({}, [this](auto&) { return core().adapter.alloc_pd(); });
}

Made<CompletionChannel> Context::create_channel() {
  if (core().forked()) return Refusal(Reason::kForked);
  std::shared_ptr<EventFd> descriptor = EventFd::create();
  if (descriptor == nullptr) return Refusal(Reason::kNoDescriptor);
  auto channel = std::make_unique<CompletionChannel>(*this, std::move(descriptor));
  const Hold hold(core());
  return keep(std::move(channel));
}

Made<Cq> Context::create_cq(uint32_t cqes, CompletionChannel* channel, void* user, uint32_t vector) {
  auto room = core().adapter.cqs().make(cqes);  // allocated outside the lock
  if (!room) return room.error();
  return make<Cq>(
      {channel}, [&](auto&) { return core().adapter.cqs().create(std::move(*room), vector); }, user, **room,
      channel);
}

Made<XrcDomain> Context::open_xrcd(const XrcOpen& open) {
  SharedXrcds entry;  // the entry for the list of shared domains, allocated outside the lock
  if (open.file) entry.emplace(*open.file, SharedXrcd{});
  const auto take = [&](auto&) -> Refusable<adapter::XrcdId> {
    SharedXrcds& all = core().xrcds;
    const auto shared = open.file ? all.find(*open.file) : all.end();
    const bool there = shared != all.end();
    if (there && open.exclusive) return Refusal(Reason::kTaken);
    if (open.file && !there && !open.create) return Refusal(Reason::kAgain);
    if (there) {
      ++shared->second.opens;
      return shared->second.id;
    }
    const Refusable<adapter::XrcdId> made = core().adapter.srqs().alloc_xrcd();
    if (made && open.file) {
      entry.begin()->second = {.id = made.value(), .opens = 1};
      all.insert(entry.extract(entry.begin()));
    }
    return made;
  };
  return make<XrcDomain>({}, take, open.file);
}

Made<Srq> Context::create_srq(ProtectionDomain& pd, uint32_t wqes, uint32_t sges, void* user,
                              const XrcPlace& xrc) {
  adapter::SrqConfig config{.pd = pd.id(), .wqes = wqes, .sges = sges, .hold_places = true};
  if (xrc.domain != nullptr) config.xrcd = xrc.domain->id();
  if (xrc.cq != nullptr) config.cq = &xrc.cq->queue();
  adapter::SharedReceives& srqs = core().adapter.srqs();
  Refusable<adapter::SrqMemory> memory = srqs.make(config);
  if (!memory) return memory.error();
  return make<Srq>(
      {&pd, xrc.domain, xrc.cq}, [&](auto&) { return srqs.create(std::move(*memory)); }, user, pd, **memory,
      xrc);
}

Made<Qp> Context::create_qp(ProtectionDomain& pd, const QpInit& init) {
  adapter::QpConfig config = init.config;
  config.pd = pd.id();
  config.wanted_qpn = init.management ? kQpnGsi : adapter::kQpnAny;
  config.hold_places = !init.management;
  config.send_cq = init.send_cq != nullptr ? &init.send_cq->queue() : nullptr;
  config.recv_cq = init.recv_cq != nullptr ? &init.recv_cq->queue() : nullptr;
  config.srq = init.srq != nullptr ? &init.srq->queue() : nullptr;
  Refusable<adapter::QpMemory> memory = core().adapter.make_qp(config);
  if (!memory) return memory.error();
  return make<Qp>(
      {&pd, init.send_cq, init.recv_cq, init.srq},
      [&](auto&) { return core().adapter.create_qp(std::move(*memory)); }, init, &pd);
}

Made<Qp> Context::create_target(XrcDomain& domain, const QpInit& init) {
  adapter::QpConfig config = init.config;
  config.type = adapter::QpType::kXrcRecv;
  config.xrcd = domain.id();
  Refusable<adapter::QpMemory> memory = core().adapter.make_qp(config);
  if (!memory) return memory.error();
  auto target = std::make_shared<Qp::Target>();
  std::list<Qp*> place(1);
  const auto take = [&](Qp& made) {
    Refusable<adapter::QueuePair*> pair = core().adapter.create_qp(std::move(*memory));
    if (pair) made.join(std::move(target), place);
    return pair;
  };
  return make<Qp>({&domain}, take, QpInit{.xrcd = &domain, .user = init.user, .shared = init.shared});
}

Made<Qp> Context::open_target(XrcDomain& domain, Qpn number, void* user) {
  std::list<Qp*> place(1);
  const auto take = [&](Qp& made) -> Refusable<adapter::QueuePair*> {
    const auto* other = static_cast<const Qp*>(core().find_qp(number));
    if (other == nullptr || other->target_ == nullptr || other->xrcd_->id() != domain.id())
      return Refusal(Reason::kNoSuchObject, "open_qp: the domain has no target of this number");
    made.join(other->target_, place);
    made.shared_ = other->shared_;
    return other->pair_;
  };
  return make<Qp>({&domain}, take, QpInit{.xrcd = &domain, .user = user});
}

Made<MemoryRegion> Context::reg_mr(ProtectionDomain& pd, std::span<std::byte> memory, adapter::Access access,
                                   const adapter::RegisterOptions& options) {
  return make<MemoryRegion>(
      {&pd}, [&](auto&) { return core().adapter.memory().regions.reg_mr(pd.id(), memory, access, options); },
      pd);
}

Made<MemoryRegion> Context::reg_pages(ProtectionDomain& pd, const adapter::PageList& pages,
                                      adapter::Access access, const adapter::RegisterOptions& options) {
  auto table = adapter::AddressTable::make(pages);  // allocated outside the lock
  if (!table) return table.error();
  const auto take = [&](auto&) {
    return core().adapter.memory().regions.reg_pages(pd.id(), std::move(*table), access, options);
  };
  return make<MemoryRegion>({&pd}, take, pd);
}

Made<MemoryRegion> Context::share_mr(ProtectionDomain& pd, const MemoryRegion& existing,
                                     adapter::Access access, const adapter::RegisterOptions& options) {
  if (&existing.context().core() != &core()) return Refusal(Reason::kForeignObject);
  const auto take = [&](auto&) {
    return core().adapter.memory().regions.share_mr(pd.id(), existing.region().lkey, access, options);
  };
  return make<MemoryRegion>({&pd}, take, pd);
}

Made<MemoryRegion> Context::reg_addresses(ProtectionDomain& pd, adapter::AddressKind kind, uint64_t address,
                                          uint64_t length, adapter::Access access,
                                          const adapter::RegisterOptions& options) {
  adapter::AddressSpaces* spaces = core().spaces;
  if (spaces == nullptr)
    return Refusal(Reason::kMissingObject, "reg_addresses: the device has no memory manager");
  return make<MemoryRegion>(
      {&pd}, [&](auto&) { return spaces->reg_addresses(pd.id(), kind, address, length, access, options); },
      pd);
}

Made<MemoryRegion> Context::reserve_mr(ProtectionDomain& pd, bool with_rkey) {
  return make<MemoryRegion>(
      {&pd}, [&](auto&) { return core().adapter.memory().regions.reserve_mr(pd.id(), with_rkey); }, pd);
}

Made<Window> Context::alloc_window(ProtectionDomain& pd, adapter::WindowKind kind) {
  return make<Window>(
      {&pd}, [&](auto&) { return core().adapter.memory().windows.alloc_window(pd.id(), kind); }, pd, kind);
}

Made<AddressHandle> Context::create_ah(ProtectionDomain& pd, const adapter::AhAttr& attr) {
  return make<AddressHandle>(
      {&pd}, [&](auto&) { return core().adapter.make_ah(pd.id(), attr); }, pd);
}

// ---- ending --------------------

Answer Context::destroy(Object* object) noexcept {
  std::unique_ptr<Object> owned(object);
  if (core().forked()) return Answer::kOk;
  bool unacknowledged = false;
  const Answer answer = after_transfers([&] { return unmake(*object, unacknowledged); });
  if (answer != Answer::kOk) {
    static_cast<void>(owned.release());
    return answer;
  }
  if (unacknowledged) core().wait_for_acknowledgements(*object);
  return Answer::kOk;
}

/// Takes an object out of adapter and context, unless it is in use.
Answer Context::unmake(Object& object, bool& unacknowledged) noexcept {
  const Hold hold(core());
  const Answer answer = object.refs.users != 0 ? Answer::kBusy : object.release();
  if (answer != Answer::kOk) return answer;
  unlink(object);
  object.refs.ended = true;
  if (const uint32_t dropped = waiting_.drop(object.events)) core().deferred.take_back(source_, dropped);
  unacknowledged = object.refs.unacknowledged != 0;
  return answer;
}

void Context::unlink(Object& object) noexcept {
  Object* older = object.refs.older;
  Object* newer = object.refs.newer;
  if (older != nullptr) older->refs.newer = newer;
  (newer != nullptr ? newer->refs.older : newest_) = older;
}

/// Releases newest objects first, because an object is newer than those it uses. The exception is a region,
/// which may be newer than a window bound to it: the second pass releases such regions.
bool Context::release_all(Object*& ended) noexcept {
  bool in_transfer = false;
  for (int pass = 0; pass < 2; ++pass) {
    for (Object* at = newest_; at != nullptr;) {
      Object* object = std::exchange(at, at->refs.older);
      object->abandon();
      if (object->refs.users != 0) continue;
      const Answer answer = object->release();
      in_transfer |= answer == Answer::kAgain;
      if (answer != Answer::kOk) continue;
      unlink(*object);
      waiting_.drop(object->events);
      object->refs.older = std::exchange(ended, object);
    }
  }
  core().deferred.forget(source_);
  return !in_transfer;
}

// ---- events --------------------

void Context::add_event(const AsyncEvent& event) noexcept {
  WaitingEvents& of = event.object != nullptr ? event.object->events : ports_[event.port];
  if (waiting_.add(of, static_cast<uint8_t>(event.kind))) core().deferred.owe(source_);
}

Answer Context::get_async_event(AsyncEvent& out) {
  for (;;) {
    if (!core().prepare_to_wait()) return Answer::kForked;
    const Answer unit = source_.descriptor->take();
    if (unit != Answer::kOk) return unit;
    const Hold hold(core());
    if (waiting_.empty()) {
      source_.descriptor->no_event_for_unit();
      continue;
    }
    const auto& of = static_cast<const WaitingEvents&>(waiting_.front());
    out = {.object = of.object, .port = of.port};
    out.kind = static_cast<EventKind>(waiting_.take_first());
    if (out.object != nullptr) ++out.object->refs.unacknowledged;
    return Answer::kOk;
  }
}

void Context::ack_async_event(const AsyncEvent& event) noexcept {
  if (event.object == nullptr || core().forked()) return;
  const Hold hold(core());
  core().events.acknowledge(*event.object, 1);
}

}  // namespace weft::hca
