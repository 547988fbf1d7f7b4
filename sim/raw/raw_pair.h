// sim/raw/raw_pair.h -- two connected or corresponding queue pairs of RC, UC, RD or UD with Sends, RDMA
// writes with idata and RDMA reads. Connections are made out of band; everything else passes the fabric.
// Checks that every WQE completes exactly once and in order, and that data arrives intact.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/rng.h"
#include "sim/raw/raw_end.h"
#include "sim/scenario.h"

namespace weft::sim {

/// Owner: the raw scenario.
class RawPair {
 public:
  /// All references must outlive the pair.
  RawPair(const RawPairPlan& plan, const WorldParts& parts, RawNode& first, RawNode& second);

  /// Like Scenario::step().
  uint32_t step(uint32_t polled, Instant now);
  [[nodiscard]] Instant deadline() const noexcept { return wake_at_; }
  /// The pair's surroundings have changed: the next step() does not rely on `polled`.
  void look_again() noexcept { look_again_ = true; }
  /// An adapter has drained the send queue of one of its QPs.
  void send_queue_drained(const adapter::ChannelAdapter* adapter, Qpn qpn) noexcept;
  /// A node of this pair is dying; its adapter still exists.
  void node_crashed(uint32_t node, Instant now);
  void link_reset(uint32_t link, bool switch_death);
  /// Like Scenario::check_counters().
  void check_counters(uint32_t node, Instant now);
  /// A node was frozen or thawed. QPs of a frozen node are not touched.
  void freeze_changed(Instant now) noexcept;
  void trickle() noexcept;
  void stop() noexcept;
  [[nodiscard]] bool finished() const noexcept;
  [[nodiscard]] bool recovered(Instant since) const;
  [[nodiscard]] bool drained() const noexcept;

 private:
  enum class State : uint8_t { kDown, kUp, kFlushing };

  int connect(Instant now);
  int take_completions(uint32_t side, Instant now);
  void take_send_completion(uint32_t side, const adapter::WorkCompletion& wc, Instant now);
  void take_receive_completion(uint32_t side, const adapter::WorkCompletion& wc, Instant now);
  void take_written(uint32_t side, const adapter::WorkCompletion& wc, Instant now);
  void broke(std::string_view what, adapter::WcStatus status, Instant now);
  int send_more(uint32_t side, Instant now);
  [[nodiscard]] bool post_something(uint32_t side, Instant now);
  [[nodiscard]] bool post_message(uint32_t side, bool write, Instant now);
  [[nodiscard]] bool post_read(uint32_t side, Instant now);
  void check_end(uint32_t side, Instant now);

  // raw_pair_verbs.cc: verbs beside Sends, writes and reads.
  int work_on_windows(uint32_t side, Instant now);
  int work_on_send_queue(uint32_t side, Instant now);
  void take_returned(uint32_t side, const adapter::WorkCompletion& wc, Instant now);
  void take_failed_send(uint32_t side, const RawEnd::Outstanding& what, const adapter::WorkCompletion& wc,
                        Instant now);
  void post_returned(uint32_t side, uint32_t bytes, uint32_t source_offset, Instant now);
  void fail(Instant now);
  int finish_flush(Instant now);
  void excuse_unacknowledged(Instant now);
  [[nodiscard]] bool frozen() const noexcept { return nodes_[0]->frozen || nodes_[1]->frozen; }
  void wake(Instant at) noexcept { wake_at_ = std::min(wake_at_, at); }
  void violation(Instant now, const std::string& text);

  const RawPairPlan& plan_;
  const WorldPlan& world_;
  RawNode* nodes_[2];
  FlowLedger& ledger_;
  CounterCheck& counter_check_;
  Trace& trace_;
  RandomSource& random_;
  Saboteur* saboteur_;
  uint32_t flows_[2] = {0, 0};  // flow from side 0, flow from side 1
  std::unique_ptr<RawEnd> ends_[2];
  State state_ = State::kDown;
  Instant connect_at_{};
  Instant connected_at_{};
  Instant flush_limit_ = kNever;
  Instant next_at_[2] = {};     // time of the next message
  bool sends_polled_[2] = {};   // the CQ of sends was empty after the last poll
  Instant restart_at_[2] = {};  // time at which a drained send queue restarts
  Instant last_move_[2] = {};   // last time that a message was sent or arrived
  uint64_t sent_[2] = {0, 0};
  bool error_has_reason_ = false;  // the connection may die: a node or its link was down
  bool trickle_ = false;
  bool stopped_ = false;
  bool look_again_ = true;
  Instant wake_at_ = kNever;
};

}  // namespace weft::sim
