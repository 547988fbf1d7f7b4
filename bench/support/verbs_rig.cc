#include "bench/support/verbs_rig.h"

#include <fmt/core.h>

#include <string>

#include "adapter/bring_up.h"
#include "base/check.h"

namespace weft::bench {
namespace {

constexpr uint32_t kWqes = 1024;
constexpr double kConnectSeconds = 5;

adapter::AdapterConfig adapter_config(bool host) {
  adapter::AdapterConfig config;
  config.guid = Guid(host ? 2 : 3);
  return config;
}

}  // namespace

VerbsEnd::VerbsEnd(fabric::CellPort& port, VerbsExchange& exchange, bool host, size_t bytes)
    : exchange_(exchange),
      host_(host),
      random_(host ? 1 : 2),
      adapter_(adapter_config(host), random_),
      memory_(bytes, std::byte{7}),
      completions_(kWqes) {
  adapter_.ports().attach(port);
  const adapter::PdId pd = adapter_.alloc_pd().value();
  const adapter::Access rights =
      adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead;
  region_ = adapter_.memory().regions.reg_mr(pd, memory_, rights).value();
  cq_ = adapter_.cqs().create(4 * kWqes).value();
  adapter::QpConfig config;
  config.pd = pd;
  config.send_cq = config.recv_cq = cq_;
  config.send_wqes = config.recv_wqes = kWqes;
  qp_ = adapter_.create_qp(config).value();
  move_to(adapter::QpState::kInit, {});
  psn_ = Psn(static_cast<uint32_t>(random_.next()));
  VerbsName& own = exchange_.names[host ? 0 : 1];
  own.qpn = adapter_.qpn(*qp_).value();
  own.psn = psn_.value();
  own.rkey = region_.rkey.value();
  own.addr = region_.addr;
  own.valid.store(true);
}

void VerbsEnd::move_to(adapter::QpState state, adapter::QpAttr attr) {
  attr.access = adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead;
  const adapter::ModifyResult result = adapter::bring_up(adapter_, *qp_, attr, state);
  WEFT_CHECK(result == adapter::ModifyResult::kOk, std::string(to_string(result)).c_str());
}

void VerbsEnd::bring_up() {
  move_to(adapter::QpState::kRts, {.dlid = host_ ? kUnitLid : kHostLid,
                                   .rq_psn = Psn(peer().psn),
                                   .sq_psn = psn_,
                                   .dest_qpn = Qpn(peer().qpn)});
  exchange_.names[host_ ? 0 : 1].connected.store(true);
}

void VerbsEnd::wait_for(const std::atomic<bool>& flag) {
  const double deadline = seconds_now() + kConnectSeconds;
  while (!flag.load()) {
    WEFT_CHECK(seconds_now() < deadline, "the other side did not come");
    poll();
    yield_core();
  }
}

void VerbsEnd::connect() {
  wait_for(peer().valid);
  bring_up();
  wait_for(peer().connected);
}

std::span<const adapter::WorkCompletion> VerbsEnd::completions() noexcept {
  const uint32_t count = adapter_.cqs().poll(*cq_, completions_);
  for (uint32_t i = 0; i < count; ++i) {
    WEFT_CHECK(completions_[i].status == adapter::WcStatus::kSuccess, "a work request failed");
  }
  return std::span(completions_).first(count);
}

WriteStream::WriteStream(VerbsEnd& end, uint32_t bytes, uint32_t window, uint32_t list)
    : end_(end), bytes_(bytes), window_(window), list_(list), sges_(window), requests_(window) {
  for (uint32_t i = 0; i < window; ++i) {
    requests_[i].opcode = adapter::SendOpcode::kRdmaWrite;
    requests_[i].sges = {&sges_[i], 1};
    requests_[i].rkey = Rkey(end.peer().rkey);
  }
}

uint32_t WriteStream::post() noexcept {
  uint32_t posted = 0;
  for (;;) {
    const uint32_t room = window_ - outstanding_;
    const uint32_t count = list_ == 0 ? room : list_;
    if (count == 0 || count > room) return posted;
    for (uint32_t i = 0; i < count; ++i) {
      sges_[i] = end_.sge(at_, bytes_);
      requests_[i].remote_addr = end_.peer().addr + at_;
      at_ = (at_ + bytes_) % kMemoryBytes;
    }
    size_t accepted = 0;
    const auto result = end_.adapter().post_send(end_.qp(), std::span(requests_).first(count), accepted);
    WEFT_CHECK(result == adapter::PostResult::kOk, "a write was not taken");
    outstanding_ += count;
    posted += count;
  }
}

uint32_t WriteStream::complete() noexcept {
  const auto count = static_cast<uint32_t>(end_.completions().size());
  outstanding_ -= count;
  completed_ += count;
  return count;
}

}  // namespace weft::bench
