// sim/verbs/program.h -- a random program of verbs. Every call is drawn from the seed and its own number, so
// that leaving out calls changes the others as little as possible.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/plan/plan_draw.h"
#include "sim/saboteur.h"
#include "sim/verbs/draft.h"
#include "sim/verbs/key_draws.h"
#include "sim/verbs/leases.h"
#include "sim/verbs/model.h"
#include "sim/verbs/objects.h"
#include "sim/verbs/outside.h"
#include "sim/verbs/plan.h"

namespace weft::sim::verbs {

/// Owner: the world of a seed.
class Program {
 public:
  /// All references must outlive the program. Each node must have its adapter and LIDs.
  Program(const Plan& plan, std::vector<std::unique_ptr<Node>>& nodes, Model& model, Outside& outside,
          Tally& tally, Saboteur* saboteur, bool tells);

  /// Makes the initial objects.
  void set_up();
  void call(uint64_t number);
  /// Polls some of the completion queues of a node.
  void look(Node& node);
  /// Makes nothing new: continues drains, posts receives for waiting messages, moves broken connections to
  /// the error state.
  void tidy();
  /// Posts receives for waiting messages.
  void feed_hungry();
  /// An outstanding request on an unbroken connection; null when there is none.
  [[nodiscard]] const Send* waits() const;
  /// Moves all QPs to their error state.
  void end();
  void take_events(Node& node);
  void poll_dry(Node& node);

  /// Gives ports the partitions that they share.
  void join_partitions();
  /// A bit for each place whose node was changed since the last call.
  [[nodiscard]] uint64_t take_touched() noexcept { return std::exchange(touched_, 0); }
  /// Texts of the calls, with their numbers.
  [[nodiscard]] const std::vector<std::pair<uint64_t, std::string>>& history() const noexcept {
    return history_;
  }

 private:
  // program_setup.cc: objects.
  void add_node(Node& node);
  void add_region(Node& node, adapter::PdId pd, uint64_t bytes);
  void reserve_region(Node& node, adapter::PdId pd, uint64_t bytes);
  void add_srq(Node& node, adapter::XrcdId xrcd);
  bool register_region(Region& region);
  Qp* add_qp(Node& node, adapter::QpConfig config);
  adapter::QpConfig draw_config(adapter::QpType type);
  void add_pair();
  void add_pair_of(Node& one, Node& other, const adapter::QpConfig& config);
  void add_extended_pair();
  void draw_queues(Qp& qp, adapter::QpConfig& config);
  void join(Qp* a, Qp* b);
  void add_datagram_qp();
  void add_datagram_qp_of(Node& node);
  bool bring_up(Qp& qp, const Qp* peer, uint8_t reads);
  bool connect(Qp& qp);
  bool modify(Qp& qp, const adapter::QpAttr& wanted, uint32_t mask, bool must = true);
  void give_receives(Qp& qp, uint32_t count);

  // program_posts.cc: work requests.
  void post_sends(Qp& qp);
  bool draft_send(Qp& qp, Draft& draft);
  void address(const Qp& qp, Draft& draft);
  void draft_remote(Qp& qp, Draft& draft);
  void draft_wrong(Qp& qp, Draft& draft);
  void wrong_segment(Draft& draft);
  void wrong_queue(Draft& draft);
  void wrong_invalidation(Draft& draft);
  void finish_request(Draft& draft);
  void hand_over(Qp& qp, std::vector<adapter::SendRequest>& list);
  void hand_over_list(Qp& qp, std::vector<adapter::SendRequest>& list);
  void post_receive(Qp& qp, Srq* srq, bool may_be_wrong);
  adapter::SendOpcode draw_opcode(adapter::QpType type);

  // program_fabric.cc: the fabric below.
  [[nodiscard]] Node& any_node();
  bool unsettle();
  [[nodiscard]] uint32_t link_to_cut();
  void cut_link();
  bool strand();
  void rename_port();
  void crash_switch();
  void change_partitions();
  void set_partitions(Node& node, uint8_t port, bool alone);
  void move_path();
  void end_node();
  void begin_node();

  // program.cc: everything else.
  [[nodiscard]] static bool owes(const Qp& qp);
  [[nodiscard]] Qp* pick_qp();
  void upheaval();
  void to_error(Qp& qp);
  void reset(Qp& qp);
  void destroy(Qp& qp);
  void drain(Qp& qp);
  void resume(Qp& qp);
  void repair();
  [[nodiscard]] bool hungry(const Qp& qp) const;
  void renew_region();
  void change_queue(Qp& qp);
  void resize(Cq& cq);
  void feed(Qp& qp);
  void poll_cq(Cq& cq, uint32_t at_most);
  void before_reset(Qp& qp);
  void note(const Node& node, std::string text);

  const Plan& plan_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  Model& model_;
  Outside& outside_;
  Tally& tally_;
  PlanDraw draw_;
  PlanDraw polls_;
  KeyDraws keys_;
  uint64_t number_ = 0;
  uint64_t next_wr_id_ = 1;
  uint32_t next_qp_ = 1;
  uint64_t epochs_ = 0;
  uint64_t touched_ = 0;
  Saboteur* saboteur_;  // null: no bugs are planted
  bool tells_;          // records a history
  std::vector<std::pair<uint64_t, std::string>> history_;
};

}  // namespace weft::sim::verbs
