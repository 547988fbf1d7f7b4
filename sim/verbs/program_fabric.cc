// Actions of a program on the fabric below it: it cuts links, changes partitions, migrates connections,
// starts and ends nodes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/verbs/migration.h"
#include "sim/verbs/program.h"

namespace weft::sim::verbs {

namespace {

using namespace std::chrono_literals;

constexpr uint32_t kNodesMin = 2;   // living at a time
constexpr uint32_t kNodesMax = 20;  // in total
constexpr Duration kLongPause = 5ms;
constexpr uint16_t kPartition = 0x8000;  // full member; one such P_Key for each number below

}  // namespace

Node& Program::any_node() {
  std::vector<Node*> living;
  for (auto& node : nodes_)
    if (node->adapter != nullptr) living.push_back(node.get());
  return *living[draw_.below(living.size())];
}

/// False if this call does not disturb the fabric.
bool Program::unsettle() {
  if (!plan_.unsteady()) return false;
  uint32_t what = draw_.below(kMillion);
  if (what < plan_.cut_ppm) return cut_link(), true;
  what -= plan_.cut_ppm;
  if (what < plan_.partition_ppm) return change_partitions(), true;
  what -= plan_.partition_ppm;
  if (what < plan_.migration_ppm) return move_path(), true;
  what -= plan_.migration_ppm;
  if (what < plan_.life_ppm) return draw_.chance(2) ? end_node() : begin_node(), true;
  what -= plan_.life_ppm;
  if (what < plan_.rename_ppm) return rename_port(), true;
  what -= plan_.rename_ppm;
  if (what >= plan_.crash_ppm) return false;
  crash_switch();
  return true;
}

/// Any link, or one that a QP could leave. A QP that finds other ways by itself gets something to do first.
uint32_t Program::link_to_cut() {
  const uint32_t link = draw_.below(plan_.fabric.links());
  if (plan_.finds_ways && !draw_.chance(3)) {
    Qp* qp = pick_qp();
    if (qp == nullptr || !qp->finds_ways || qp->life != Life::kReady || qp->broken) return link;
    post_sends(*qp);
    if (qp->handle == nullptr) return link;
    return qp->node->links[qp->node->adapter->query_qp(*qp->handle).port - 1U];
  }
  if (plan_.migration_ppm == 0 || draw_.chance(3)) return link;
  for (uint32_t i = 0; i < 4; ++i) {
    const Qp* qp = pick_qp();
    const bool leaves = qp != nullptr && qp->ways == 2 && qp->life == Life::kReady;
    if (leaves && migration_of(*qp) == adapter::PathMigState::kArmed) return qp->routes[qp->on].link;
  }
  return link;
}

/// Cuts links for no time, for less than any timeout, for longer than some timeouts, or for longer than all.
void Program::cut_link() {
  if (plan_.migration_ppm != 0 && draw_.chance(2) && strand()) return;
  const uint32_t links = plan_.fabric.links();
  const uint32_t link = link_to_cut();
  const std::array<Duration, 6> longest{0ns, 2ms, 100ms, 700ms, 9s, 12s};
  const uint32_t kind = draw_.below(longest.size());
  const Duration least = kind == 5 ? 10'010ms : kind == 0 ? 0ns : 10us;
  const Duration lasts = draw_.between(least, longest[kind]);
  std::vector<uint32_t> chosen{link};
  if (draw_.chance(3)) chosen.push_back((link + 1) % links);  // sometimes also the adapter's other port
  for (const uint32_t one : chosen) {
    if (model_.links().is_cut(one)) continue;
    note(*nodes_.front(), fmt::format("link {} is cut for {} us", one, lasts / 1us));
    outside_.cut(one, lasts);
    tally_(lasts >= 10s ? "link cut for long" : "link cut");
  }
  if (lasts > kLongPause && !draw_.chance(4)) outside_.pause(lasts + draw_.between(0ns, Duration(20ms)));
}

/// Makes the present path of a QP give no answer, because its port leaves every partition. Its other port
/// goes down just when the QP's retries end, or for a while before. False when no drawn QP has such paths.
bool Program::strand() {
  const auto may_be = [](const Qp* qp) {
    if (qp == nullptr || qp->ways != 2 || !qp->may_post() || qp->broken || !qp->acknowledged()) return false;
    const bool both = migration_of(*qp) == adapter::PathMigState::kArmed &&
                      migration_of(*qp->peer) == adapter::PathMigState::kArmed;
    return both && !qp->is_target();
  };
  Qp* qp = pick_qp();
  for (uint32_t i = 0; i < 6 && !may_be(qp); ++i) qp = pick_qp();
  if (!may_be(qp)) return false;
  const Route way = qp->routes[qp->on];
  const Route other = qp->routes[1U - qp->on];
  if (other.link == way.link || model_.links().fails(way) || model_.links().fails(other)) return false;
  set_partitions(*qp->node, way.port, true);
  if (qp->handle == nullptr || !qp->may_post()) return true;
  post_sends(*qp);
  const Duration patience = qp->patience;
  outside_.cut_later(other.link, draw_.between(patience / 4, patience), patience / 2);
  outside_.pause(patience * 2);
  note(*qp->node, fmt::format("QP {} is to be stranded", qp->id));
  tally_("QP without any way");
  return true;
}

/// Kills a switch for a time like those of cuts: none, less than connections survive, or until their ports
/// expire.
void Program::crash_switch() {
  const uint32_t index = draw_.below(plan_.fabric.switches());
  const std::array<Duration, 6> longest{0ns, 2ms, 100ms, 700ms, 9s, 12s};
  const uint32_t kind = draw_.below(longest.size());
  const Duration lasts = draw_.between(kind == 5 ? Duration(10'010ms) : Duration(0), longest[kind]);
  note(*nodes_.front(), fmt::format("switch {} dies for {} us", index, lasts / 1us));
  if (!outside_.crash(index, lasts)) return;
  tally_(lasts >= 10s ? "switch died for long" : "switch died");
  if (lasts > kLongPause && !draw_.chance(4)) outside_.pause(lasts + draw_.between(0ns, Duration(20ms)));
}

/// Gives a port another LID or GUID, so that addresses known to peers no longer lead to it.
void Program::rename_port() {
  const Node& node = any_node();
  const uint32_t link = node.links[draw_.below(node.links.size())];
  if (model_.links().is_cut(link)) return;
  const uint32_t what = draw_.below(4);
  const NewName name{.lid = what != 0, .guid = what < 2, .choice = draw_.below(1000)};
  const std::array<Duration, 4> longest{0ns, 2ms, 100ms, 700ms};
  const Duration lasts = draw_.between(0ns, longest[draw_.below(longest.size())]);
  note(node, fmt::format("link {} is cut for {} us, and comes back with another{}{}", link, lasts / 1us,
                         name.lid ? " LID" : "", name.guid ? " GUID" : ""));
  outside_.rename(link, lasts, name);
  if (lasts > kLongPause || draw_.chance(4)) outside_.pause(lasts + draw_.between(0ns, Duration(20ms)));
}

/// Adds a partition, or leaves all partitions of other ports.
void Program::change_partitions() {
  Node& node = any_node();
  const auto port = static_cast<uint8_t>(1 + draw_.below(node.links.size()));
  const uint32_t link = node.links[port - 1U];
  const bool alone = !model_.links().is_alone(link) && draw_.chance(2);
  set_partitions(node, port, alone);
  if (alone && draw_.chance(2)) outside_.pause(draw_.between(Duration(1ms), Duration(500ms)));
}

void Program::set_partitions(Node& node, uint8_t port, bool alone) {
  const std::array<uint16_t, 2> alone_table{static_cast<uint16_t>(kPartition | (node.links[port - 1U] + 1)),
                                            0};
  const std::array<uint16_t, 2> table{0xFFFF, static_cast<uint16_t>(kPartition | 0x100)};
  model_.partitions(node, port, alone);
  note(node, fmt::format("port {} has {} partitions", port, alone ? "other" : "the usual"));
  if (!node.adapter->ports().set_pkeys(port, alone ? alone_table : table))
    model_.fail("partitions of a port were not changed");
  touched_ |= uint64_t{1} << node.place;
  tally_(alone ? "port without its partition" : "partitions of a port changed");
  take_events(node);
}

/// Migrates a connection, or loads an alternate path again.
void Program::move_path() {
  if (draw_.chance(2) && strand()) return;
  Qp* qp = nullptr;
  for (uint32_t i = 0; i < 6 && (qp == nullptr || qp->ways != 2); ++i) qp = pick_qp();
  if (qp == nullptr || qp->ways != 2 || qp->peer->handle == nullptr) return;
  take_events(*qp->node);
  take_events(*qp->peer->node);
  if (may_load_again(*qp)) {
    for (Qp* end : {qp, qp->peer}) {
      adapter::QpAttr attr;
      uint32_t mask = 0;
      load_alternate(*end, model_.links(), attr, mask, model_.time());
      note(*end->node, fmt::format("QP {} gets an alternate path", end->id));
      modify(*end, attr, mask);
    }
    tally_("alternate path loaded again");
    return;
  }
  const adapter::QpAttr now = qp->node->adapter->query_qp(*qp->handle);
  // A QP whose send queue has stopped may not have reported it yet.
  const bool may_send = qp->life == Life::kReady && now.state == adapter::QpState::kRts;
  if (!may_send || now.path_mig_state != adapter::PathMigState::kArmed) return;
  if (!qp->loaded || (!qp->peer->was_loaded && qp->peer->life == Life::kReady && !qp->broken))
    return model_.fail(fmt::format("QP {} is armed, and its peer has no other path", qp->id));
  adapter::QpAttr attr;
  attr.path_mig_state = adapter::PathMigState::kMigrated;
  qp->asked = true;
  note(*qp->node, fmt::format("QP {} is to take its alternate path", qp->id));
  modify(*qp, attr, adapter::kQpAttrPathMigState);
  take_events(*qp->node);
  tally_("alternate path asked for");
  if (qp->asked)
    model_.fail(fmt::format("QP {} was to take its alternate path, and no event said so", qp->id));
}

/// Ends a node, with everything under way, or after its objects were destroyed.
void Program::end_node() {
  const auto lives = [](const auto& node) { return node->adapter != nullptr; };
  if (std::count_if(nodes_.begin(), nodes_.end(), lives) <= kNodesMin) return;
  Node& node = any_node();
  const bool at_once = draw_.chance(2);
  if (!at_once) {
    for (auto& qp : node.qps)
      if (qp->handle != nullptr) destroy(*qp);
    take_events(node);
  }
  note(node, at_once ? "dies" : "leaves");
  tally_(at_once ? "node died" : "node left");
  model_.died(node);
  outside_.end(node, at_once);
}

void Program::begin_node() {
  const std::vector<uint32_t> places = outside_.free_places();
  if (places.empty() || nodes_.size() >= kNodesMax) return;
  const uint32_t place = places[draw_.below(places.size())];
  Node* before = nullptr;
  for (auto& node : nodes_)
    if (node->place == place) before = node.get();
  Node& node = outside_.begin(place);
  add_node(node);
  note(node, fmt::format("begins in place {}", place));
  tally_(before != nullptr ? "LID taken again" : "spare port taken");
  node.succeeds = before != nullptr;
  if (before != nullptr) {  // peers that still have these keys may try them at the new node
    for (auto& region : before->regions)
      if (region->key != nullptr) node.dead.push_back(region->key);
    for (const KeyPtr& key : before->windows) node.dead.push_back(key);
  }
  const uint32_t datagram = draw_.between(0, 3);
  for (uint32_t i = 0; i < datagram; ++i) add_datagram_qp_of(node);
  const uint32_t pairs = draw_.between(1, 2);
  for (uint32_t i = 0; i < pairs; ++i) {
    const adapter::QpConfig config = draw_config(adapter::QpType::kRc);
    add_pair_of(node, any_node(), config);
  }
}

}  // namespace weft::sim::verbs
