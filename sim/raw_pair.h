// sim/raw_pair.h -- two queue pairs that talk: RC, UC or UD, Sends, RDMA writes with idata and RDMA reads.
// Connections are made out of band; everything else goes through the fabric. Checks that every WQE
// completes exactly once and in order, and that data arrives whole.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "channel/adapter.h"
#include "sim/flow_ledger.h"
#include "sim/world_plan.h"

namespace weft::sim {

/// What a pair needs to know of the adapter it sits on; null adapter while the node is dead.
struct RawNode {
  ChannelAdapter* adapter = nullptr;
  Lid lid;
  PdId pd;
};

/// One end of a pair during one connection.
class RawEnd {
 public:
  RawEnd(const RawPairPlan& plan, RawNode& node, RandomSource& random);
  ~RawEnd() = default;
  RawEnd(const RawEnd&) = delete;
  RawEnd& operator=(const RawEnd&) = delete;

  bool create();
  bool connect(const RawEnd& peer, Lid peer_lid);
  void fill_receive_queue(Instant now);
  /// Forgets the QP without a word: its adapter is gone.
  void abandon() noexcept { qp_ = nullptr; }
  /// Starts the flush; true once every WQE has come back.
  void fail();
  [[nodiscard]] bool flushed() const noexcept;
  void destroy();

  [[nodiscard]] bool alive() const noexcept { return qp_ != nullptr; }
  [[nodiscard]] uint32_t sends_outstanding() const noexcept { return static_cast<uint32_t>(sends_.size()); }
  [[nodiscard]] uint32_t receives_posted() const noexcept { return static_cast<uint32_t>(receives_.size()); }
  [[nodiscard]] uint32_t free_slots() const noexcept { return free_slots_; }

 private:
  friend class RawPair;
  enum class Kind : uint8_t { kSend, kWrite, kRead };
  struct Outstanding {
    uint64_t wr_id = 0;
    Kind kind = Kind::kSend;
    uint32_t bytes = 0;
    uint32_t source_offset = 0;
  };
  struct Waiting {
    Instant at{};
  };

  [[nodiscard]] std::span<std::byte> send_slot(uint64_t wr_id) noexcept;
  [[nodiscard]] std::span<std::byte> receive_slot(uint64_t wr_id) noexcept;
  bool post_one_receive();

  const RawPairPlan& plan_;
  RawNode& node_;
  RandomSource& random_;
  CompletionQueue* send_cq_ = nullptr;
  CompletionQueue* recv_cq_ = nullptr;
  QueuePair* qp_ = nullptr;
  Psn first_psn_;
  std::vector<std::byte> send_memory_;
  std::vector<std::byte> receive_memory_;
  std::vector<std::byte> window_memory_;  // the peer writes here, slot by slot
  std::vector<std::byte> source_memory_;  // the peer reads here
  MemoryRegion send_mr_, receive_mr_, window_mr_, source_mr_;
  std::deque<Outstanding> sends_;
  std::deque<uint64_t> receives_;
  std::deque<Instant> receives_due_;  // used WQEs that are posted again at this time
  uint64_t next_send_ = 0;
  uint64_t next_receive_ = 0;
  uint32_t next_slot_ = 0;   // of the peer's window
  uint32_t free_slots_ = 0;  // of our window, as the peer counts them
};

/// Owner: the raw scenario.
class RawPair {
 public:
  RawPair(const RawPairPlan& plan, const WorldPlan& world, RawNode& first, RawNode& second,
          FlowLedger& ledger, Trace& trace, RandomSource& random);

  int step(Instant now);
  [[nodiscard]] Instant deadline() const noexcept { return wake_at_; }
  /// A node of this pair dies now; its adapter still exists.
  void node_crashed(uint32_t node, Instant now);
  void link_reset(uint32_t node, Instant now, bool switch_death);
  void trickle() noexcept { trickle_ = true; }
  void stop() noexcept { stopped_ = true; }
  [[nodiscard]] bool finished() const noexcept;
  [[nodiscard]] bool recovered(Instant since) const;
  [[nodiscard]] bool drained() const noexcept;

 private:
  enum class State : uint8_t { kDown, kUp, kFlushing };

  int connect(Instant now);
  int take_completions(uint32_t side, Instant now);
  void take_send_completion(uint32_t side, const WorkCompletion& wc, Instant now);
  void take_receive_completion(uint32_t side, const WorkCompletion& wc, Instant now);
  int send_more(uint32_t side, Instant now);
  bool post(uint32_t side, Instant now);
  bool post_read(RawEnd& from, RawEnd& to, Instant now);
  void fail(Instant now);
  int finish_flush(Instant now);
  void excuse_unacknowledged(Instant now);
  void wake(Instant at) noexcept { wake_at_ = std::min(wake_at_, at); }
  void complain(Instant now, const std::string& text);
  [[nodiscard]] RawNode& node(uint32_t side) noexcept { return *nodes_[side]; }

  const RawPairPlan& plan_;
  const WorldPlan& world_;
  RawNode* nodes_[2];
  FlowLedger& ledger_;
  Trace& trace_;
  RandomSource& random_;
  uint32_t flows_[2] = {0, 0};  // from side 0, from side 1
  std::unique_ptr<RawEnd> ends_[2];
  State state_ = State::kDown;
  Instant connect_at_{};
  Instant flush_limit_ = kNever;
  Instant next_at_[2] = {};    // next message
  Instant last_move_[2] = {};  // a message was sent or arrived
  uint64_t sent_[2] = {0, 0};
  bool error_has_reason_ = false;  // the connection may die: a node or its link was away
  bool trickle_ = false;
  bool stopped_ = false;
  Instant wake_at_ = kNever;
};

}  // namespace weft::sim
