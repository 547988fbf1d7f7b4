#include "sim/verbs/key_draws.h"

#include <array>
#include <cstddef>

#include "adapter/adapter.h"

namespace weft::sim::verbs {

using adapter::Access;
using adapter::SendOpcode;
using adapter::WcStatus;
using adapter::WindowKind;

namespace {

constexpr uint32_t kTypedWindowsMax = 4;  // per kind and domain
constexpr uint32_t kChosenBits = 0xFF;    // bits of a type 2 key that its consumer chooses
constexpr Access kRemote = Access::kRemoteRead | Access::kRemoteWrite | Access::kRemoteAtomic;

Access remote_part(Access rights) noexcept {
  return static_cast<Access>(static_cast<uint32_t>(rights) & static_cast<uint32_t>(kRemote));
}

/// True if the next registration may fill this region.
bool fillable(const Region& region) noexcept {
  const bool free = region.key == nullptr || region.key->state == Key::State::kDead;
  return region.reserved && !region.under_way && !region.doubtful && free;
}

}  // namespace

KeyPtr KeyDraws::pick(const Qp& to, adapter::PdId pd, Access right) {
  std::vector<KeyPtr> keys;
  const auto take = [&](const KeyPtr& key) {
    if (has(key->rights, right) && key->opens() && (key->only == nullptr || key->only == &to))
      keys.push_back(key);
  };
  for (auto& region : to.node->regions)
    if (region->pd == pd && region->registered && !region->patches.empty()) take(region->key);
  for (const KeyPtr& window : to.node->windows)
    if (window->region->pd == pd) take(window);
  return keys.empty() ? nullptr : keys[draw_.below(keys.size())];
}

KeyPtr KeyDraws::pick_useless(const Qp& to, adapter::PdId pd, Access right) {
  std::vector<KeyPtr> keys;
  for (auto& region : to.node->regions) {
    const bool lacks = right != Access::kNone && region->registered && !has(region->rights, right);
    if (lacks && region->pd == pd) keys.push_back(region->key);
  }
  if (!keys.empty() && draw_.chance(2)) return keys[draw_.below(keys.size())];
  for (const KeyPtr& key : to.node->dead)
    if (key->region->pd == pd) keys.push_back(key);
  for (const KeyPtr& key : to.node->windows)
    if (key->only != nullptr && key->only != &to && key->region->pd == pd) keys.push_back(key);
  return keys.empty() ? nullptr : keys[draw_.below(keys.size())];
}

bool KeyDraws::peers_end(const Key& key) noexcept {
  const bool ends =
      key.window ? key.typed == nullptr || key.typed->kind == WindowKind::kType2 : key.region->reserved;
  return ends && key.state == Key::State::kGood;
}

void KeyDraws::draft(Qp& qp, Draft& draft, bool wrong) {
  Send& send = *draft.send;
  send.executes_here = true;
  send.allow(WcStatus::kSuccess);
  send.length = 0;
  switch (send.opcode) {
    case SendOpcode::kBindWindow:
      draft_bind(qp, draft);
      break;
    case SendOpcode::kRegister:
      draft_registration(qp, draft, wrong);
      break;
    case SendOpcode::kUnbindWindow:
    case SendOpcode::kLocalInvalidate:
      draft_invalidation(qp, draft, wrong);
      break;
    default:
      break;
  }
  if (send.key != nullptr) return;
  send.opcode = SendOpcode::kDelay;
  draft.request.delay = draw_.between(Duration(0), Duration(20'000));
}

/// A window of this kind and domain without a bind under way; null when there is none.
Window* KeyDraws::pick_window(Node& node, adapter::PdId pd, WindowKind kind) {
  std::vector<Window*> all;
  uint32_t count = 0;
  for (auto& window : node.typed) {
    if (window->pd != pd || window->kind != kind || window->gone) continue;
    ++count;
    const bool free = window->bound == nullptr || window->bound->state == Key::State::kDead;
    const bool ready = kind == WindowKind::kType1 ? !window->under_way() : free;
    if (ready) all.push_back(window.get());
  }
  if (!all.empty() && (count == kTypedWindowsMax || draw_.chance(2))) return all[draw_.below(all.size())];
  if (count == kTypedWindowsMax) return nullptr;
  auto made = node.adapter->memory().windows.alloc_window(pd, kind);
  if (!made.ok()) {
    model_.fail("a window was not allocated: " + made.error().text());
    return nullptr;
  }
  node.typed.push_back(std::make_unique<Window>(Window{pd, kind, made.value(), nullptr}));
  return node.typed.back().get();
}

/// Chooses the key of a bind: a new window of the SAN verbs, or a window of type 1 or 2.
bool KeyDraws::name_window(Node& node, Draft& draft, adapter::PdId pd) {
  Key& key = *draft.send->key;
  adapter::MemoryTable& memory = node.adapter->memory();
  if (draw_.chance(3)) {
    auto made = memory.windows.alloc_rkey(pd);
    if (made.ok()) key.rkey = made.value();
    return made.ok();
  }
  const WindowKind kind = draw_.chance(2) ? WindowKind::kType1 : WindowKind::kType2;
  Window* window = pick_window(node, pd, kind);
  if (window == nullptr) return false;
  key.typed = window;
  if (kind == WindowKind::kType1) {
    key.rkey = memory.windows.promise_key(window->name);
    draft.send->replaces = window->bound;
  } else {
    const uint32_t name = window->name.value();
    key.rkey = Rkey((name & ~kChosenBits) | ((name + 1) & kChosenBits));
  }
  return true;
}

void KeyDraws::draft_bind(Qp& qp, Draft& draft) {
  Send& send = *draft.send;
  Node& node = *qp.node;
  std::vector<Region*> regions;
  for (auto& region : node.regions)
    if (region->pd == qp.config.pd && region->registered && !region->reserved && !region->patches.empty())
      regions.push_back(region.get());
  if (regions.empty()) return;
  Region& region = *regions[draw_.below(regions.size())];
  send.key = std::make_shared<Key>();
  Key& key = *send.key;
  if (!name_window(node, draft, qp.config.pd)) {
    send.key = nullptr;
    return;
  }
  key.region = &region;
  key.begin = draw_.chance(2) ? 0 : draw_.below(region.bytes);
  key.length = draw_.chance(2) ? region.bytes - key.begin : 1 + draw_.below(region.bytes - key.begin);
  key.rights = remote_part(region.rights);
  key.state = Key::State::kBinding;
  key.window = true;
  if (key.typed != nullptr && key.typed->kind == WindowKind::kType2) key.only = &qp;
  // A type 1 bind of length zero only ends the present bind.
  const bool unties = send.replaces != nullptr && draw_.chance(5);
  if (unties) key.begin = key.length = 0;
  draft.request.bind = {key.rkey, region.mr.lkey, unties ? 0 : region.mr.addr + key.begin, key.length,
                        key.rights};
}

/// Invalidates the key of a window or of a registration by work request.
void KeyDraws::draft_invalidation(Qp& qp, Draft& draft, bool wrong) {
  Send& send = *draft.send;
  const bool unbinds = send.opcode == SendOpcode::kUnbindWindow;
  std::vector<KeyPtr> good;
  std::vector<KeyPtr> refused;
  for (const KeyPtr& key : qp.node->windows) {
    if (key->region->pd != qp.config.pd || key->state != Key::State::kGood) continue;
    if (key->typed == nullptr)
      good.push_back(key);
    else if (!unbinds)
      (key->only == &qp ? good : refused).push_back(key);
  }
  for (auto& region : qp.node->regions) {
    if (unbinds || region->pd != qp.config.pd || !region->registered) continue;
    if (region->reserved && region->key->state == Key::State::kGood) good.push_back(region->key);
  }
  std::vector<KeyPtr>& keys = wrong && !refused.empty() ? refused : good;
  if (keys.empty()) return;
  send.key = keys[draw_.below(keys.size())];
  draft.request.bind.window = draft.request.rkey = send.key->rkey;
  const bool by_lkey = !send.key->window && draw_.chance(2);
  if (by_lkey) draft.request.rkey = Rkey(send.key->region->mr.lkey.value());
  if (&keys != &refused) return;
  send.lawful = bit_of(WcStatus::kMwBind);
  send.refused = true;
  tally_("invalidation of another's window");
}

bool KeyDraws::stage(Region& region) {
  adapter::MemoryTable& memory = region.node.adapter->memory();
  std::vector<std::byte*> pages;
  for (uint64_t at = 0; region.pages && at < region.bytes; at += adapter::kPageBytesMin)
    pages.push_back(region.at(at));
  auto staged = region.pages ? memory.regions.stage(region.mr.lkey, {.pages = pages, .length = region.bytes})
                             : memory.regions.stage(region.mr.lkey, {region.at(0), region.bytes});
  if (!staged.ok()) {
    model_.fail("memory was not staged: " + staged.error().text());
    return false;
  }
  region.mr = staged.value();
  return true;
}

void KeyDraws::draft_registration(Qp& qp, Draft& draft, bool wrong) {
  Send& send = *draft.send;
  std::vector<Region*> regions;
  for (auto& region : qp.node->regions)
    if (region->pd == qp.config.pd && fillable(*region)) regions.push_back(region.get());
  if (regions.empty()) return;
  Region& region = *regions[draw_.below(regions.size())];
  if (!stage(region)) return;
  region.mr.addr = 0x2000'0000'0000ULL + (uint64_t{draw_.below(uint64_t{1} << 30)} << 13);
  const Access remote =
      draw_.chance(2) ? draw_.pick(std::array{Access::kRemoteWrite, Access::kRemoteRead}) : kRemote;
  region.rights = Access::kLocalWrite | remote;
  region.key = std::make_shared<Key>(
      Key{region.mr.rkey, &region, 0, region.bytes, region.rights, Key::State::kBinding});
  send.key = region.key;
  draft.request.registration = {region.mr.lkey, region.mr.addr, region.rights};
  if (qp.config.registration == adapter::SendRegistration::kOff) {
    send.lawful = bit_of(WcStatus::kLocalQpOperation);
    tally_("registration on a queue pair without");
  } else if (wrong && qp.config.registration == adapter::SendRegistration::kAnticipatory) {
    // The request has an RKey but gives no remote right.
    draft.request.registration.access = Access::kLocalWrite;
    send.lawful = bit_of(WcStatus::kMwBind);
    tally_("registration with too few rights");
  }
}

void KeyDraws::posted(Send& send) {
  const KeyPtr& key = send.key;
  if (key == nullptr || send.refused) return;
  Region& region = *key->region;
  switch (send.opcode) {
    case SendOpcode::kBindWindow:
      region.node.windows.push_back(key);
      if (key->typed != nullptr) {
        key->typed->bound = key;
        key->typed->name = key->rkey;
      }
      if (send.replaces != nullptr && send.replaces->opens()) model_.ends(send.replaces);
      break;
    case SendOpcode::kRegister:
      region.under_way = true;
      break;
    case SendOpcode::kSendWithInvalidate:
    case SendOpcode::kUnbindWindow:
    case SendOpcode::kLocalInvalidate:
      if (region.reserved && !key->window) {
        region.under_way = region.under_way || send.executes_here;
        model_.ends_registration(region);
      } else {
        model_.ends(key);
      }
      break;
    default:
      break;
  }
}

void KeyDraws::deallocate(Node& node) {
  if (node.windows.empty()) return;
  const KeyPtr key = node.windows[draw_.below(node.windows.size())];
  if (key->state != Key::State::kGood) return;
  model_.ends(key);
  if (!node.adapter->memory().windows.dealloc_rkey(key->rkey))
    return model_.fail("a window was not deallocated");
  model_.ended(key);
  if (key->typed != nullptr) key->typed->gone = true;
  tally_("window deallocated");
}

void KeyDraws::reserve(Region& region) {
  auto made = region.node.adapter->memory().regions.reserve_mr(region.pd, true);
  if (!made.ok()) return model_.fail("no region was reserved: " + made.error().text());
  region.mr = made.value();
  region.key = nullptr;
  region.registered = region.doubtful = region.under_way = false;
}

}  // namespace weft::sim::verbs
