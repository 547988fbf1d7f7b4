#include "rdma_cm/id_table.h"

#include <infiniband/verbs.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include "base/out_of_memory.h"

namespace weft::rdma_cm {
namespace {

constexpr uint16_t kFreePortFirst = 32768;
constexpr uint16_t kFreePorts = 28232;
constexpr int kFreePortTries = 256;

constexpr uint32_t port_key(uint16_t port_space, uint16_t port) noexcept {
  return uint32_t{port_space} << 16 | port;
}

}  // namespace

bool CmId::datagrams() const noexcept {
  return qp_type == IBV_QPT_UD;
}

// ---- identifiers --------------------

CmId* IdTable::create(CmFile& file, uint16_t port_space, uint8_t qp_type) noexcept {
  if (ids_.size() >= kIdsMax) return nullptr;
  while (ids_.contains(next_handle_)) ++next_handle_;
  CmId* id = nullptr;
  const bool made =
      with_memory([&] { id = ids_.emplace(next_handle_, std::make_unique<CmId>()).first->second.get(); });
  if (!made) return nullptr;
  id->handle = next_handle_++;
  id->port_space = port_space;
  id->qp_type = qp_type;
  id->psn = static_cast<uint32_t>(random_.next()) & Psn::kMask;
  enter(*id, file);
  return id;
}

void IdTable::enter(CmId& id, CmFile& file) noexcept {
  id.file = &file;
  id.previous = nullptr;
  id.next = std::exchange(file.ids, &id);
  if (id.next != nullptr) id.next->previous = &id;
}

void IdTable::leave_file(CmId& id) noexcept {
  (id.previous != nullptr ? id.previous->next : id.file->ids) = id.next;
  if (id.next != nullptr) id.next->previous = id.previous;
}

CmId* IdTable::find(const CmFile& file, uint32_t handle) noexcept {
  const auto found = ids_.find(handle);
  if (found == ids_.end() || found->second->file != &file || found->second->unread) return nullptr;
  return found->second.get();
}

CmId* IdTable::with_question(uint32_t handle, uint64_t question) noexcept {
  const auto found = ids_.find(handle);
  return found != ids_.end() && found->second->question == question ? found->second.get() : nullptr;
}

CmId* IdTable::destroy(CmId& id) noexcept {
  CmId* orphans = nullptr;
  drop_events(id, [&](const QueuedEvent& event) {
    if (event.request != nullptr) event.request->next_orphan = std::exchange(orphans, event.request);
    return true;
  });
  release_port(id);
  leave_file(id);
  ids_.erase(id.handle);
  return orphans;
}

Membership* IdTable::join(CmId& id, uint64_t uid) noexcept {
  if (!with_memory([&] { id.groups.push_back(std::make_unique<Membership>()); })) return nullptr;
  Membership& group = *id.groups.back();
  group.handle = next_group_++;
  group.uid = uid;
  return &group;
}

CmId* IdTable::member(const CmFile& file, uint32_t handle, Membership*& out) noexcept {
  for (const auto& [number, id] : ids_) {
    if (id->file != &file) continue;
    for (const auto& group : id->groups) {
      if (group->handle != handle) continue;
      out = group.get();
      return id.get();
    }
  }
  return nullptr;
}

void IdTable::leave(CmId& id, Membership& group) noexcept {
  drop_events(id, [&](const QueuedEvent& event) { return event.group == &group; });
  std::erase_if(id.groups, [&](const auto& each) { return each.get() == &group; });
}

// ---- ports --------------------

/// Whether an identifier at this address has its own family only: by default one of IPv4, as in the kernel.
bool IdTable::has_own_family_only(const CmId& id, const IpAddress& address) noexcept {
  return id.family_option.value_or(address.family == 4);
}

/// 0, or why another identifier does not allow the address, as the kernel's cma_check_port() says it.
int IdTable::conflict(const CmId& id, const IpAddress& address) const noexcept {
  const auto [first, last] = ports_.equal_range(port_key(id.port_space, address.port));
  for (auto at = first; at != last; ++at) {
    const CmId& other = *at->second;
    if (id.reuse_address && other.reuse_address) continue;
    const bool of_family = other.source.family == address.family;
    if (!of_family && has_own_family_only(id, address) && has_own_family_only(other, other.source)) continue;
    if (other.source.is_any() || address.is_any()) return EADDRNOTAVAIL;
    if (other.source.same_ip(address)) return EADDRINUSE;
  }
  return 0;
}

uint16_t IdTable::free_port(const CmId& id, IpAddress address) noexcept {
  for (int i = 0; i < kFreePortTries; ++i) {
    address.port = static_cast<uint16_t>(kFreePortFirst + random_.below(kFreePorts));
    if (conflict(id, address) == 0) return address.port;
  }
  return 0;
}

int IdTable::bind(CmId& id, const IpAddress& address) noexcept {
  IpAddress wanted = address;
  if (wanted.port == 0) wanted.port = free_port(id, address);
  if (wanted.port == 0) return EADDRNOTAVAIL;
  if (const int error = conflict(id, wanted); error != 0) return error;
  if (!with_memory([&] { ports_.emplace(port_key(id.port_space, wanted.port), &id); })) return ENOMEM;
  id.source = wanted;
  return 0;
}

void IdTable::release_port(CmId& id) noexcept {
  const auto [first, last] = ports_.equal_range(port_key(id.port_space, id.source.port));
  const auto found = std::find_if(first, last, [&](const auto& entry) { return entry.second == &id; });
  if (found != last) ports_.erase(found);
}

CmId* IdTable::listener(uint16_t port_space, const IpAddress& address) noexcept {
  CmId* any = nullptr;
  const auto [first, last] = ports_.equal_range(port_key(port_space, address.port));
  for (auto at = first; at != last; ++at) {
    CmId& id = *at->second;
    if (id.state != IdState::kListening) continue;
    if (id.source.same_ip(address)) return &id;
    const bool of_family = id.source.family == address.family;
    if (id.source.is_any() && (of_family || (!has_own_family_only(id, id.source) && any == nullptr)))
      any = &id;
  }
  return any;
}

const CmId* IdTable::at_port(uint16_t port_space, uint16_t port) const noexcept {
  const CmId* out = nullptr;
  const auto [first, last] = ports_.equal_range(port_key(port_space, port));
  for (auto at = first; at != last; ++at) {
    if (out == nullptr || at->second->state == IdState::kListening) out = at->second;
  }
  return out;
}

bool IdTable::is_bound(uint16_t port_space, const IpAddress& address) const noexcept {
  const auto [first, last] = ports_.equal_range(port_key(port_space, address.port));
  return std::any_of(first, last, [&](const auto& entry) {
    const IpAddress& at = entry.second->source;
    return at.family == address.family && (at.is_any() || at.same_ip(address));
  });
}

// ---- events --------------------

bool IdTable::push(CmFile& file, const QueuedEvent& event) noexcept {
  if (!with_memory([&] { file.events.push_back(event); })) return false;
  ++event.id->events_waiting;
  if (event.request != nullptr) event.request->unread = true;
  file.descriptor->add(1);
  return true;
}

bool IdTable::pop(CmFile& file, QueuedEvent& out) noexcept {
  if (file.events.empty()) return false;
  out = file.events.front();
  file.events.pop_front();
  --out.id->events_waiting;
  if (out.request != nullptr) out.request->unread = false;
  return true;
}

template <class Predicate>
void IdTable::drop_events(CmId& id, Predicate drop) {
  if (id.events_waiting == 0) return;
  CmFile& file = *id.file;
  const size_t dropped =
      std::erase_if(file.events, [&](const QueuedEvent& event) { return event.id == &id && drop(event); });
  id.events_waiting -= static_cast<uint32_t>(dropped);
  for (size_t left = dropped; left > 0; --left) file.descriptor->take_back();
}

void IdTable::drop_all_events(CmFile& file) noexcept {
  for (const QueuedEvent& event : file.events) {
    --event.id->events_waiting;
    file.descriptor->take_back();
  }
  file.events.clear();
}

int IdTable::migrate(CmId& id, CmFile& to) noexcept {
  const auto moves = [&](const QueuedEvent& event) { return event.id == &id; };
  const size_t before = to.events.size();
  const bool copied = with_memory([&] {
    std::copy_if(id.file->events.begin(), id.file->events.end(), std::back_inserter(to.events), moves);
  });
  if (!copied) {
    to.events.resize(before);
    return ENOMEM;
  }
  const uint32_t moved = id.events_waiting;
  drop_events(id, [](const QueuedEvent& /*event*/) { return true; });
  id.events_waiting = moved;
  leave_file(id);
  enter(id, to);
  for (size_t i = before; i < to.events.size(); ++i) {
    if (CmId* request = to.events[i].request; request != nullptr) {
      leave_file(*request);
      enter(*request, to);
    }
    to.descriptor->add(1);
  }
  return 0;
}

}  // namespace weft::rdma_cm
