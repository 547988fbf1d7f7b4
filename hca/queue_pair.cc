#include "hca/queue_pair.h"

#include <algorithm>
#include <utility>

#include "hca/channel.h"
#include "hca/device_core.h"
#include "hca/memory.h"
#include "hca/shared_queue.h"

namespace weft::hca {

Qp::Qp(ContextBase& context, const QpInit& init, ProtectionDomain* pd) noexcept
    : Object(context, init.user),
      shared_(init.shared),
      xrcd_(init.xrcd),
      uses_{pd, init.send_cq, init.recv_cq, init.srq, init.xrcd} {}

void Qp::enter(adapter::QueuePair* pair) noexcept {
  DeviceCore& device = core();
  pair_ = pair;
  number_ = device.adapter.qpn(*pair);
  if (device.adapter.user(*pair) == nullptr) {
    device.adapter.set_user(*pair, as_user());
    device.qps.enter(device.adapter, *pair);
  }
  for (Object* used : uses_) {
    if (used != nullptr) ++used->refs.users;
  }
}

void Qp::join(std::shared_ptr<Target> target, std::list<Qp*>& place) noexcept {
  target_ = std::move(target);
  place.front() = this;
  target_->handles.splice(target_->handles.end(), place);
}

template <class Request>
Answer Qp::post(std::span<const Request> list, size_t& posted) noexcept {
  for (const Request& request : list) {
    const Answer answer = core().adapter.post(*pair_, request);
    if (answer != Answer::kOk) return answer;
    ++posted;
  }
  return Answer::kOk;
}

Answer Qp::post_send(std::span<const adapter::SendRequest> list, size_t& posted) noexcept {
  DeviceCore& device = core();
  posted = 0;
  if (const Answer why = device.refusal(); why != Answer::kOk) return why;
  Hold hold(device);
  const Answer answer = post(list, posted);
  if (posted != 0) device.adapter.ring_send(*pair_);
  if (device.serves_windows()) {
    device.caller_posts(*pair_, hold.now());
  } else {
    device.caller_turn(hold.now());
  }
  return answer;
}

Answer Qp::post_all(std::span<const adapter::SendRequest> list) noexcept {
  adapter::ChannelAdapter& adapter = core().adapter;
  size_t posted = 0;
  const Answer answer = post(list, posted);
  if (answer == Answer::kOk) {
    adapter.ring_send(*pair_);
  } else {
    adapter.take_back_posts(*pair_);
  }
  return answer;
}

Answer Qp::post_batch(std::span<const adapter::SendRequest> list) noexcept {
  DeviceCore& device = core();
  if (const Answer why = device.refusal(); why != Answer::kOk) return why;
  Hold hold(device);
  const Answer answer = post_all(list);
  if (device.serves_windows()) {
    device.caller_posts(*pair_, hold.now());
  } else {
    device.caller_turn(hold.now());
  }
  return answer;
}

Answer Qp::post_recv(std::span<const adapter::RecvRequest> list, size_t& posted) noexcept {
  DeviceCore& device = core();
  posted = 0;
  if (const Answer why = device.refusal(); why != Answer::kOk) return why;
  HoldUntimed hold(device);
  const Answer answer = post(list, posted);
  if (posted != 0 && device.adapter.ring_recv(*pair_)) device.caller_turn(hold.now());
  return answer;
}

Answer Qp::bind_window(Window& window, const WindowBind& bind, Rkey& key) noexcept {
  DeviceCore& device = core();
  if (device.forked()) return Answer::kForked;
  if (window.kind() != adapter::WindowKind::kType1) return Answer::kBindWrongType;
  if (&window.pd() != uses_[0]) return Answer::kBindWrongPd;
  if (bind.region == nullptr && (bind.addr != 0 || bind.length != 0)) return Answer::kMissingObject;
  if (has(bind.access, adapter::Access::kZeroBased)) return Answer::kBindBadRights;
  Hold hold(device);
  adapter::MemoryTable& memory = device.adapter.memory();
  const Rkey next = memory.windows.promise_key(window.key());
  if (next == Rkey()) return Answer::kTableFull;  // 255 binds of the window have not completed
  const adapter::SendRequest request{
      .wr_id = bind.wr_id,
      .opcode = adapter::SendOpcode::kBindWindow,
      .flags = bind.flags,
      .bind = {.window = next,
               .region = bind.region != nullptr ? bind.region->region().lkey : Lkey(),
               .addr = bind.addr,
               .length = bind.length,
               .access = bind.access}};
  const Answer answer = device.adapter.post_send(*pair_, request);
  if (answer == Answer::kOk) {
    key = next;
    window.set_key(next);
  } else {
    memory.windows.withdraw_promise(window.key());
  }
  device.caller_turn(hold.now());
  return answer;
}

Answer Qp::register_and(const Registration& what, std::span<adapter::SendRequest> list) noexcept {
  DeviceCore& device = core();
  if (device.forked()) return Answer::kForked;
  if (what.region == nullptr) return Answer::kMissingObject;
  if (&what.region->pd() != uses_[0]) return Answer::kForeignObject;
  Hold hold(device);
  const uint64_t addr = what.addr.value_or(what.region->staged_addr());
  list.front().opcode = adapter::SendOpcode::kRegister;
  list.front().registration = {what.region->region().lkey, addr, what.access};
  const Answer answer = post_all(list);
  if (answer == Answer::kOk) what.region->begin_at(addr);
  device.caller_turn(hold.now());
  return answer;
}

Answer Qp::post_registration(const Registration& what, uint64_t wr_id, uint32_t flags) noexcept {
  adapter::SendRequest request{.wr_id = wr_id, .flags = flags};
  return register_and(what, std::span(&request, 1));
}

Answer Qp::post_registration(const Registration& what, const adapter::SendRequest& operation) noexcept {
  std::array<adapter::SendRequest, 2> both{adapter::SendRequest{.wr_id = operation.wr_id}, operation};
  return register_and(what, both);
}

Answer Qp::modify(const adapter::QpAttr& attr, uint32_t mask) noexcept {
  DeviceCore& device = core();
  if (device.forked()) return Answer::kForked;
  Hold hold(device);
  if (refs.ended) return Answer::kNoSuchObject;
  const Answer answer = device.adapter.modify_qp(*pair_, attr, mask);
  if (answer != Answer::kOk) return answer;
  device.qps.note(device.adapter, *pair_);
  if ((mask & adapter::kQpAttrState) != 0 && attr.state != adapter::QpState::kReset) device.need_helper();
  device.caller_turn(hold.now());
  return answer;
}

void Qp::fail() noexcept {
  static_cast<void>(
      core().adapter.modify_qp(*pair_, {.state = adapter::QpState::kErr}, adapter::kQpAttrState));
}

Answer Qp::query(adapter::QpAttr& attr, adapter::QpConfig& config) const noexcept {
  DeviceCore& device = core();
  if (device.forked()) return Answer::kForked;
  const Hold hold(device);
  if (refs.ended) return Answer::kNoSuchObject;
  attr = device.adapter.query_qp(*pair_);
  config = device.adapter.config(*pair_);
  return Answer::kOk;
}

Answer Qp::attach_mcast(const Gid& gid, Lid lid) noexcept {
  if (core().forked()) return Answer::kForked;
  const Hold hold(core());
  if (refs.ended) return Answer::kNoSuchObject;
  return reason_of(core().adapter.attach_mcast(*pair_, gid, lid));
}

Answer Qp::detach_mcast(const Gid& gid, Lid lid) noexcept {
  if (core().forked()) return Answer::kForked;
  const Hold hold(core());
  if (refs.ended) return Answer::kNoSuchObject;
  return reason_of(core().adapter.detach_mcast(*pair_, gid, lid));
}

Answer Qp::register_protocol(uint8_t next_header, const Gid& address) noexcept {
  if (core().forked()) return Answer::kForked;
  const Hold hold(core());
  return reason_of(core().adapter.register_protocol(*pair_, next_header, address));
}

Answer Qp::unregister_protocol(uint8_t next_header, const Gid& address) noexcept {
  if (core().forked()) return Answer::kForked;
  const Hold hold(core());
  return reason_of(core().adapter.unregister_protocol(*pair_, next_header, address));
}

void Qp::abandon() noexcept {
  core().adapter.leave_groups_and_protocols(*pair_);
}

/// Removes this handle from its target. Events of the target then go to the first remaining handle.
bool Qp::let_go() noexcept {
  if (target_ == nullptr) return true;
  std::list<Qp*>& handles = target_->handles;
  place_.splice(place_.end(), handles, std::find(handles.begin(), handles.end(), this));
  if (handles.empty()) return true;
  core().adapter.set_user(*pair_, handles.front()->as_user());
  return false;
}

Answer Qp::release() noexcept {
  DeviceCore& device = core();
  device.caller_turn(device.clock.now());  // posted requests leave, and pending events still find the QP
  Target* const target = target_.get();
  if (let_go()) {
    adapter::QpMemory* const memory = target == nullptr ? &memory_ : &target->memory;
    if (const auto ended = device.adapter.destroy_qp(pair_, memory); !ended) return reason_of(ended);
    device.qps.leave(*pair_);
    device.caller_turn(device.clock.now());  // the QP's last acknowledgement leaves
  }
  for (Object* used : uses_) {
    if (used != nullptr) --used->refs.users;
  }
  return Answer::kOk;
}

}  // namespace weft::hca
