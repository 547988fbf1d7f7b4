// tests/support/two_devices.h -- two devices of hca/ over a pipe in virtual time, each with a context and
// what a program makes first.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "adapter/queues/qp_rules.h"
#include "hca/context.h"
#include "hca/device.h"
#include "tests/support/pipe_port.h"

namespace weft::test {

/// Counts what a device asks of its helper.
class ScriptedHelper final : public hca::Helper {
 public:
  [[nodiscard]] bool start() noexcept override {
    ++starts;
    return can_start;
  }
  void kick() noexcept override { ++kicks; }
  int starts = 0;
  int kicks = 0;
  bool can_start = true;
};

/// One end, as a program sees it.
struct Consumer {
  static constexpr uint32_t kBytes = 1U << 16;

  enum OnGoneMemory : bool { kTolerant = false, kStrict = true };  // docs/memory.md

  /// @param direct where it meets others for memory windows; empty: nowhere
  Consumer(uint64_t number, const Clock& clock, OnGoneMemory gone = kStrict, const std::string& direct = {},
           uint8_t nics = 1)
      : random(number),
        link_random(number + 100),
        device({.guid = Guid(0x1000 + number),
                .strict_memory = gone == kStrict,
                .direct_programs = direct,
                .nics = nics},
               clock, random, link_random),
        memory(kBytes) {
    device.set_helper(&helper);
  }
  ~Consumer() {
    if (context != nullptr) device.close(context);
  }
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  /// Opens the device and makes a PD, a channel, a CQ on it and a region.
  void open() {
    context = device.open().object;
    ASSERT_NE(context, nullptr);
    pd = context->alloc_pd().object;
    channel = context->create_channel().object;
    cq = context->create_cq(256, channel).object;
    const adapter::Access all =
        adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead;
    region = context->reg_mr(*pd, memory, all).object;
    ASSERT_NE(region, nullptr);
  }
  hca::Qp* make_qp(hca::Cq* other = nullptr) {
    hca::Cq* use = other != nullptr ? other : cq;
    return context->create_qp(*pd, {.send_cq = use, .recv_cq = use, .config = {}, .user = this}).object;
  }
  [[nodiscard]] adapter::Sge sge(uint32_t offset, uint32_t bytes) const {
    return {.addr = region->region().addr + offset, .length = bytes, .lkey = region->region().lkey};
  }
  hca::Answer send(hca::Qp& qp, uint64_t wr_id, uint32_t bytes = 64) {
    const adapter::Sge from = sge(0, bytes);
    const adapter::SendRequest request{
        .wr_id = wr_id, .flags = adapter::kSendSignaled, .sges = std::span(&from, 1)};
    size_t posted = 0;
    return qp.post_send(std::span(&request, 1), posted);
  }
  hca::Answer recv(hca::Qp& qp, uint64_t wr_id, uint32_t bytes = 64) {
    const adapter::Sge to = sge(kBytes / 2, bytes);
    const adapter::RecvRequest request{.wr_id = wr_id, .sges = std::span(&to, 1)};
    size_t posted = 0;
    return qp.post_recv(std::span(&request, 1), posted);
  }

  SeededRandom random;
  SeededRandom link_random;
  ScriptedHelper helper;
  hca::Device device;
  std::vector<std::byte> memory;
  hca::Context* context = nullptr;
  hca::ProtectionDomain* pd = nullptr;
  hca::CompletionChannel* channel = nullptr;
  hca::Cq* cq = nullptr;
  hca::MemoryRegion* region = nullptr;
};

/// From RESET to `target`, with the attributes of `attr` that the service needs.
inline hca::Answer bring_up(hca::Qp& qp, adapter::QpType type, adapter::QpAttr attr,
                            adapter::QpState target = adapter::QpState::kRts) {
  using namespace adapter;
  QpState from = QpState::kReset;
  for (const QpState to : {QpState::kInit, QpState::kRtr, QpState::kRts}) {
    if (to > target) break;
    attr.state = to;
    const hca::Answer answer = qp.modify(attr, kQpAttrState | find_qp_rule(type, from, to)->required);
    if (answer != hca::Answer::kOk) return answer;
    from = to;
  }
  return hca::Answer::kOk;
}

/// RESET to RTS, towards `peer` at `dlid`.
inline hca::Answer bring_up(hca::Qp& qp, Qpn peer, Lid dlid) {
  return bring_up(qp, adapter::QpType::kRc,
                  {.access = adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead,
                   .dlid = dlid,
                   .rq_psn = Psn(5),
                   .sq_psn = Psn(5),
                   .dest_qpn = peer});
}

inline void connect(hca::Qp& a, Lid lid_a, hca::Qp& b, Lid lid_b) {
  ASSERT_EQ(bring_up(a, b.number(), lid_b), hca::Answer::kOk);
  ASSERT_EQ(bring_up(b, a.number(), lid_a), hca::Answer::kOk);
}

/// A QP of each of two devices on LID 1 and LID 2, connected. False: a call was refused.
inline bool make_connected(Consumer& a, Consumer& b, std::array<hca::Qp*, 2>& qps) {
  qps = {a.make_qp(), b.make_qp()};
  return bring_up(*qps[0], qps[1]->number(), Lid(2)) == hca::Answer::kOk &&
         bring_up(*qps[1], qps[0]->number(), Lid(1)) == hca::Answer::kOk;
}

/// Posts one message of `a` and its receive of `b`.
inline bool post_one(Consumer& a, Consumer& b, const std::array<hca::Qp*, 2>& qps, uint64_t wr_id) {
  return b.recv(*qps[1], wr_id) == hca::Answer::kOk && a.send(*qps[0], wr_id) == hca::Answer::kOk;
}

/// Polls both ends. @return how many messages `b` has; less than nothing when one of them failed
inline int poll_both(Consumer& a, Consumer& b) {
  std::array<adapter::WorkCompletion, 16> got;
  static_cast<void>(a.cq->poll(got));
  const int arrived = b.cq->poll(got);
  for (int i = 0; i < arrived; ++i) {
    if (got[static_cast<size_t>(i)].status != adapter::WcStatus::kSuccess) return -1;
  }
  return arrived;
}

class TwoDevices : public ::testing::Test {
 protected:
  TwoDevices() {
    for (int i = 0; i < 2; ++i) {
      at[static_cast<size_t>(i)] = std::make_unique<Consumer>(static_cast<uint64_t>(i) + 1, clock);
      at[static_cast<size_t>(i)]->device.attach(pipe.end(i));
      at[static_cast<size_t>(i)]->open();
    }
  }
  Consumer& a() { return *at[0]; }
  Consumer& b() { return *at[1]; }
  /// A QP of each side, connected.
  std::array<hca::Qp*, 2> connected() {
    const std::array<hca::Qp*, 2> qps{a().make_qp(), b().make_qp()};
    connect(*qps[0], Lid(1), *qps[1], Lid(2));
    return qps;
  }
  /// What the helper threads do while nobody calls, for so long.
  void help(int turns = 50, Duration step = std::chrono::microseconds(10)) {
    for (int i = 0; i < turns; ++i) {
      for (const auto& side : at) static_cast<void>(side->device.help(false));
      clock.advance(step);
    }
  }
  /// One completion of `cq`; a status that no completion has when there is none.
  static adapter::WorkCompletion next(hca::Cq& cq) {
    adapter::WorkCompletion out{.status = adapter::WcStatus::kGeneral};
    for (int i = 0; i < 8 && cq.poll(std::span(&out, 1)) == 0; ++i) {
    }
    return out;
  }
  static bool readable(int fd) {
    pollfd look{fd, POLLIN, 0};
    return ::poll(&look, 1, 0) == 1;
  }

  ManualClock clock;
  Pipe pipe;
  std::array<std::unique_ptr<Consumer>, 2> at;
};

}  // namespace weft::test
