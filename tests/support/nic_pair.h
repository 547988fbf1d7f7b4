// tests/support/nic_pair.h -- two computers with several NICs each, in virtual time. NIC i of one is joined
// to NIC i of the other by a traced pipe, and each computer has a program component for keys that move
// (docs/key_migration.md). A QP begins on the first pipe; an alternate path lets it move to another.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "adapter/adapter.h"
#include "adapter/key_directory.h"
#include "adapter/queues/qp_rules.h"
#include "base/clock.h"
#include "base/rng.h"
#include "node/key_component.h"
#include "tests/support/pipe_port.h"

namespace weft::test {

inline constexpr uint32_t kNicBufferBytes = 1U << 16;

/// One computer. Its keys are of the first NIC unless a test makes others.
struct NicComputer {
  explicit NicComputer(uint64_t seed) : random(seed), memory(kNicBufferBytes) {}
  SeededRandom random;
  node::KeyComponent component;
  adapter::NicKeys* keys = nullptr;
  bool component_runs = true;
  std::unique_ptr<adapter::ChannelAdapter> adapter;
  adapter::PdId pd;
  adapter::CompletionQueue* cq = nullptr;
  std::vector<std::byte> memory;
  adapter::MemoryRegion region;
  std::vector<adapter::WorkCompletion> done;
  std::vector<adapter::AsyncEventKind> events;

  [[nodiscard]] adapter::Sge sge(uint32_t offset, uint32_t bytes) const {
    return {.addr = region.addr + offset, .length = bytes, .lkey = region.lkey};
  }
  void fill(uint32_t offset, uint32_t bytes, int value) { std::memset(&memory[offset], value, bytes); }
  [[nodiscard]] std::byte at(uint32_t offset) const { return memory[offset]; }
  [[nodiscard]] uint64_t count(adapter::AdapterCounter counter) const {
    return adapter->counters().get(counter);
  }
  [[nodiscard]] uint64_t count(node::KeyCounter counter) const { return component.counters().get(counter); }
  [[nodiscard]] adapter::WcStatus last_status() const {
    return done.empty() ? adapter::WcStatus::kGeneral : done.back().status;
  }
};

class NicPair {
 public:
  /// Numbers of the NICs, in order: not 0, 1, ..., so that an index is no number.
  static constexpr std::array<uint8_t, 4> kNumbers{2, 5, 9, 15};
  static constexpr adapter::Access kAll = adapter::Access::kLocalWrite | adapter::Access::kRemoteWrite |
                                          adapter::Access::kRemoteRead | adapter::Access::kRemoteAtomic |
                                          adapter::Access::kWindowBind;

  static constexpr adapter::Access kRemote =
      adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead | adapter::Access::kRemoteAtomic;

  /// `direct`: how the computers find memory windows; they outlive this.
  explicit NicPair(size_t nics, bool verify_cells = false,
                   const std::array<adapter::DirectPaths*, 2>& direct = {}) {
    for (size_t i = 0; i < nics; ++i) pipes.push_back(std::make_unique<Pipe>(256, lid(i, 0), lid(i, 1)));
    for (size_t index = 0; index < 2; ++index) {
      NicComputer& at = end(index);
      adapter::AdapterConfig config{
          .guid = Guid(0x77 + index), .verify_cells = verify_cells, .direct = direct[index]};
      config.nics.assign(kNumbers.begin(), kNumbers.begin() + static_cast<std::ptrdiff_t>(nics));
      at.adapter = std::make_unique<adapter::ChannelAdapter>(config, at.random);
      at.keys = at.adapter->use_directory(at.component);
      if (at.keys != nullptr) at.component.serve(*at.keys);
      for (size_t i = 0; i < nics; ++i)
        at.adapter->ports().attach(pipes[i]->end(static_cast<int>(index)), kNumbers[i]);
      at.pd = at.adapter->alloc_pd().value();
      at.cq = at.adapter->cqs().create(4096).value();
      at.region = at.adapter->memory(kNumbers[0]).regions.reg_mr(at.pd, at.memory, kAll).value();
    }
    run(2);
  }
  ~NicPair() {
    near.adapter.reset();
    far.adapter.reset();
  }

  [[nodiscard]] NicComputer& end(size_t index) { return index == 0 ? near : far; }
  [[nodiscard]] static Lid lid(size_t pipe, size_t end) {
    return Lid(static_cast<uint16_t>(2 * pipe + end + 1));
  }
  [[nodiscard]] adapter::MemoryTable& list(NicComputer& of, size_t nic) {
    return of.adapter->memory(kNumbers[nic]);
  }

  /// A QP of `near` and one of `far` in RTS on pipe `from`, with pipe `to` as the alternate path of both.
  std::array<adapter::QueuePair*, 2> connect(adapter::QpConfig config = {}, size_t to = 1, size_t from = 0) {
    std::array<adapter::QueuePair*, 2> qps{};
    for (size_t i = 0; i < 2; ++i) {
      config.pd = end(i).pd;
      config.send_cq = config.recv_cq = end(i).cq;
      qps[i] = end(i).adapter->create_qp(config).value();
    }
    for (size_t i = 0; i < 2; ++i) {
      adapter::QpAttr attr{.access = kRemote,
                           .port = port(from),
                           .qkey = 0x1234,
                           .dlid = lid(from, 1 - i),
                           .dest_qpn = end(1 - i).adapter->qpn(*qps[1 - i])};
      if (sets_alternates) {
        attr.alt = alternate(to, i);
        attr.path_mig_state = adapter::PathMigState::kRearm;
      }
      adapter::QpState state = adapter::QpState::kReset;
      const bool moves = adapter::is_connected(config.type) && sets_alternates;
      for (const adapter::QpState next :
           {adapter::QpState::kInit, adapter::QpState::kRtr, adapter::QpState::kRts}) {
        uint32_t mask = adapter::kQpAttrState | adapter::find_qp_rule(config.type, state, next)->required;
        if (next == adapter::QpState::kInit) mask |= adapter::kQpAttrAccess;
        if (moves && next == adapter::QpState::kRtr) mask |= adapter::kQpAttrAltPath;
        if (moves && next == adapter::QpState::kRts) mask |= adapter::kQpAttrPathMigState;
        attr.state = state = next;
        if (i == 1 && next > last_state) break;
        EXPECT_EQ(end(i).adapter->modify_qp(*qps[i], attr, mask), adapter::ModifyResult::kOk);
      }
    }
    if (adapter::is_connected(config.type)) make_ready(qps);
    return qps;
  }
  /// A message without bytes each way: each end learns that the other may move.
  void make_ready(const std::array<adapter::QueuePair*, 2>& qps) {
    for (size_t i = 0; i < 2; ++i) {
      if (i == 1 && last_state != adapter::QpState::kRts) break;
      EXPECT_EQ(end(1 - i).adapter->post_recv(*qps[1 - i], {.sges = {}}), adapter::PostResult::kOk);
      const adapter::Sge nothing = end(i).sge(0, 0);
      EXPECT_EQ(end(i).adapter->post_send(*qps[i], {.sges = {&nothing, 1}}), adapter::PostResult::kOk);
      run(20);
    }
    near.done.clear();
    far.done.clear();
  }
  /// Both ends go to the alternate path.
  void move(const std::array<adapter::QueuePair*, 2>& qps) {
    for (size_t i = 0; i < 2; ++i) {
      if (end(i).adapter->query_qp(*qps[i]).path_mig_state == adapter::PathMigState::kMigrated) continue;
      adapter::QpAttr attr;
      attr.path_mig_state = adapter::PathMigState::kMigrated;
      EXPECT_EQ(end(i).adapter->modify_qp(*qps[i], attr, adapter::kQpAttrPathMigState),
                adapter::ModifyResult::kOk);
    }
    run(4);
  }
  /// Loads pipe `to` as the next alternate path of both ends, which have moved.
  void rearm(const std::array<adapter::QueuePair*, 2>& qps, size_t to) {
    for (size_t i = 0; i < 2; ++i) {
      adapter::QpAttr attr;
      attr.alt = alternate(to, i);
      attr.path_mig_state = adapter::PathMigState::kRearm;
      EXPECT_EQ(
          end(i).adapter->modify_qp(*qps[i], attr, adapter::kQpAttrAltPath | adapter::kQpAttrPathMigState),
          adapter::ModifyResult::kOk);
    }
    make_ready(qps);
  }

  /// A write of `bytes` bytes from the start of near's memory to `offset` of far's region, or of memory under
  /// another key.
  adapter::PostResult write(adapter::QueuePair& qp, Rkey key, uint64_t va, uint32_t bytes,
                            uint32_t flags = adapter::kSendSignaled) {
    const adapter::Sge from = near.sge(0, bytes);
    return near.adapter->post_send(qp, {.wr_id = ++posted_,
                                        .opcode = adapter::SendOpcode::kRdmaWrite,
                                        .flags = flags,
                                        .sges = {&from, 1},
                                        .remote_addr = va,
                                        .rkey = key});
  }
  adapter::PostResult write(adapter::QueuePair& qp, uint32_t offset, uint32_t bytes) {
    return write(qp, far.region.rkey, far.region.addr + offset, bytes);
  }
  adapter::PostResult read(adapter::QueuePair& qp, Rkey key, uint64_t va, uint32_t to, uint32_t bytes) {
    const adapter::Sge into = near.sge(to, bytes);
    return near.adapter->post_send(qp, {.wr_id = ++posted_,
                                        .opcode = adapter::SendOpcode::kRdmaRead,
                                        .sges = {&into, 1},
                                        .remote_addr = va,
                                        .rkey = key});
  }
  /// A key of NIC `nic` of far, bound to `bytes` bytes at `offset` of the region that NIC 0 or `nic` has.
  Rkey bound_key(size_t nic, uint32_t offset, uint32_t bytes,
                 adapter::Access rights = adapter::Access::kRemoteWrite | adapter::Access::kRemoteRead) {
    adapter::MemoryTable& table = list(far, nic);
    const adapter::MemoryRegion region =
        nic == 0 ? far.region : table.regions.reg_mr(far.pd, far.memory, kAll).value();
    const Rkey key = table.windows.alloc_rkey(far.pd).value();
    EXPECT_EQ(table.windows.bind_rkey(far.pd, {.window = key,
                                               .region = region.lkey,
                                               .addr = region.addr + offset,
                                               .length = bytes,
                                               .access = rights}),
              adapter::AccessFault::kNone);
    return key;
  }

  void run_one(NicComputer& at) {
    at.adapter->poll(clock.now());
    if (at.component_runs && at.component.has_work()) at.component.poll();
    std::array<adapter::WorkCompletion, 32> some;
    uint32_t got = 0;
    while ((got = at.adapter->cqs().poll(*at.cq, some)) > 0)
      at.done.insert(at.done.end(), some.begin(), some.begin() + got);
    for (adapter::AsyncEvent event; at.adapter->next_event(event);) at.events.push_back(event.kind);
  }
  void run(int turns = 60, Duration step = std::chrono::microseconds(10)) {
    for (int i = 0; i < turns; ++i, clock.advance(step)) {
      run_one(near);
      run_one(far);
    }
  }

  ManualClock clock;
  adapter::QpState last_state = adapter::QpState::kRts;  // of far's QPs in connect()
  bool sets_alternates = true;  // connect() does; otherwise the QPs find their ways by themselves
  std::vector<std::unique_ptr<Pipe>> pipes;
  NicComputer near{21};
  NicComputer far{22};

 private:
  [[nodiscard]] static uint8_t port(size_t pipe) { return static_cast<uint8_t>(pipe + 1); }
  [[nodiscard]] static adapter::AlternatePath alternate(size_t pipe, size_t end) {
    return {.dlid = lid(pipe, 1 - end), .port = port(pipe)};
  }

  uint64_t posted_ = 0;
};

}  // namespace weft::test
