// sim/verbs/model.h -- the reference: what the verbs promise for everything that a program has posted. It
// knows the program's calls and the results, and nothing about the adapter's implementation.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "adapter/events.h"
#include "base/clock.h"
#include "sim/verbs/links.h"
#include "sim/verbs/objects.h"
#include "sim/verbs/plan.h"

namespace weft::sim::verbs {

/// Counts of events in a run by kind, so that a run of many seeds shows what it never tried.
struct Tally {
  std::map<std::string, uint64_t> count;
  void operator()(const std::string& what, uint64_t times = 1) { count[what] += times; }
  Tally& operator+=(const Tally& other);
};

/// Owner: the world of a seed.
class Model {
 public:
  /// All references must outlive the model.
  Model(const Plan& plan, std::vector<std::unique_ptr<Node>>& nodes, Tally& tally)
      : plan_(plan), nodes_(nodes), tally_(tally), links_(plan) {}

  /// Sets the time stamp of the calls that follow.
  void at(Instant time) noexcept { time_ = time; }
  [[nodiscard]] Instant time() const noexcept { return time_; }
  [[nodiscard]] Links& links() noexcept { return links_; }
  Tick tick() noexcept { return ++now_; }
  [[nodiscard]] const std::vector<std::string>& violations() const noexcept { return violations_; }
  void fail(const std::string& what);
  /// The request about which the last statement was made, for failure reports.
  [[nodiscard]] const Send* suspect() const noexcept { return suspect_.get(); }

  // ---- calls of the program
  void posted(Qp& qp, const SendPtr& send);
  /// A pair of connected QPs, or a datagram QP, starts again.
  void begins(Qp& qp) noexcept;
  /// The program, or an event, has moved the QP to its error state. `exact`: earlier completions have been
  /// polled.
  void stopped(Qp& qp, bool exact);
  /// The node ends, with requests under way.
  void died(Node& node);
  /// A port of the node gets another partition table.
  void partitions(Node& node, uint8_t port, bool alone);
  /// A link is about to be cut for `lasts`, or (mended) has come back.
  void cut(uint32_t link, Duration lasts);
  void mended(uint32_t link);
  /// A switch dies for `lasts` and takes the links `lost` down.
  void switch_dies(const std::vector<uint32_t>& lost, Duration lasts);
  /// The port at the link comes back now with this LID and, if `other_guid`, another GUID.
  void renamed(uint32_t link, Lid lid, bool other_guid);
  /// The QP was reset or destroyed: none of its requests completes any more.
  void forgotten(Qp& qp);
  /// The QP is in the error state and all completions are polled: remaining unsignaled requests have
  /// succeeded.
  void retire_silent(Qp& qp);
  /// A key is about to end, or (deregistered) a region with all its keys.
  void ends(const KeyPtr& key);
  void ended(const KeyPtr& key);
  void deregistered(Region& region);
  /// Another work request is about to end the registration that a work request made.
  void ends_registration(Region& region);

  // ---- results
  void completed(Node& node, Cq& cq, const adapter::WorkCompletion& wc);
  void event(Node& node, const adapter::AsyncEvent& event);
  void polled_dry(Cq& cq, bool told);

  // ---- end of a run
  /// With everything quiet, checks that nothing is under way.
  void settle();

 private:
  [[nodiscard]] bool may_now(const Send& send, adapter::WcStatus status) const;
  /// True if the sender may have given the request up, because its peer was out of reach long enough.
  [[nodiscard]] bool out_of_reach(const Send& send) const;
  [[nodiscard]] bool of_failed_dma(const Qp& qp, adapter::WcStatus status) const noexcept;
  [[nodiscard]] std::array<Duration, 2> silence(const Send& send) const;
  /// The QP was given up when it found the port of its other path down. True if its present path had given no
  /// answer for as long as its retries last; from then on its requests may end with that status.
  [[nodiscard]] bool knows_ways(const Qp& qp) const;
  [[nodiscard]] bool had_no_way(const Qp& qp) const;
  [[nodiscard]] bool explains_stuck(Qp& qp);
  /// True if on every path of the connection a port already had another LID when the request was posted, and
  /// still has.
  [[nodiscard]] bool cannot_pass(const Send& send) const;
  void port_event(Node& node, const adapter::AsyncEvent& event);
  void expire(const Node& node, uint8_t port);
  void lid_changes(Node& node, uint8_t port, Lid lid);
  void explain_fatal(Qp& qp, const adapter::AsyncEvent& event, const std::string& text);
  void send_completed(Qp& qp, const adapter::WorkCompletion& wc);
  void send_succeeded(Qp& qp, const SendPtr& send);
  void send_failed(Qp& qp, const SendPtr& send, adapter::WcStatus status);
  void read_succeeded(const Send& send);
  void receive_completed(Qp& qp, const Cq& cq, const adapter::WorkCompletion& wc);
  void receive_succeeded(Qp& qp, const ReceivePtr& receive, const adapter::WorkCompletion& wc);
  void receive_failed(Qp& qp, const ReceivePtr& receive, const adapter::WorkCompletion& wc);
  [[nodiscard]] static ReceivePtr take_receive(Qp& qp, const Cq& cq, const adapter::WorkCompletion& wc);
  /// A bind, registration or invalidation failed.
  static void in_doubt(const Send& send, adapter::WcStatus status) noexcept;
  void ran_low(const Node& node, Srq& srq);
  void spoil(const Region& region);
  [[nodiscard]] SendPtr take_message(Qp& qp, const Receive& receive, const adapter::WorkCompletion& wc);
  void arrived(const Qp& qp, std::deque<SendPtr>& messages, size_t index);
  [[nodiscard]] Qp* sender_of(Qp& qp, const adapter::WorkCompletion& wc) const;
  [[nodiscard]] bool had_lid(const Qp& qp, Lid lid, Instant since) const;
  [[nodiscard]] std::string differs(const Qp& qp, const Send& send, const Receive& receive,
                                    const adapter::WorkCompletion& wc) const;
  void open_operation(const SendPtr& send);
  void close_operation(const SendPtr& send, bool certain, const uint64_t* found);
  void close_up_to(Qp& to, const Qp* from, uint64_t index);
  void stop_receiving(Qp& qp);
  void close_all(Qp& qp);
  void allow_to(const Qp& to, adapter::WcStatus status);
  void expect_nothing_of(const Node& node);
  template <class Visit>
  void each_send(Visit visit) {
    for (auto& node : nodes_)
      for (auto& qp : node->qps)
        for (const SendPtr& send : qp->sends) visit(send);
  }
  void release(const std::vector<Piece>& pieces, bool accept);
  void check_lost(Node& node);

  const Plan& plan_;
  std::vector<std::unique_ptr<Node>>& nodes_;
  Tally& tally_;
  Tick now_ = 0;
  std::vector<std::string> violations_;
  SendPtr suspect_;
  Instant time_{};
  Links links_;
  std::map<const Node*, std::vector<SendPtr>>
      lost_;  // unacknowledged messages that never arrived, by receiver
};

[[nodiscard]] adapter::WcOpcode completion_of(adapter::SendOpcode opcode) noexcept;
[[nodiscard]] std::string_view name_of(adapter::SendOpcode opcode) noexcept;
[[nodiscard]] std::string describe(const Send& send);

}  // namespace weft::sim::verbs
