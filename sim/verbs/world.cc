#include "sim/verbs/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "adapter/counters.h"
#include "base/rng.h"
#include "messages/cell.h"
#include "messages/flit.h"
#include "sim/planned_fabric.h"
#include "sim/sim_port.h"
#include "sim/turns.h"
#include "sim/verbs/cell_text.h"
#include "sim/verbs/nics.h"
#include "sim/verbs/outside.h"
#include "sim/verbs/program.h"
#include "sim/verbs/turn_time.h"
#include "sim/verbs/windows.h"

namespace weft::sim::verbs {
namespace {

using namespace std::chrono_literals;

constexpr uint64_t kTurnsMax = 3'000'000;
constexpr Duration kDrainTime = 60s;
constexpr Duration kQuietTime = 30ms;  // after this, everything under way when all QPs failed is over
constexpr size_t kAround = 40;
constexpr size_t kLast = 10;

void count_faults(const SimPort& port, Tally& tally) {
  const fabric::FaultCounts& counts = port.fault_counts();
  tally("cells lost", counts.dropped);
  tally("cells damaged", counts.corrupted);
  tally("cells doubled", counts.duplicated);
  tally("cells swapped", counts.reordered);
  tally("cells late", counts.delayed);
}

/// Takes out of `list` what is due, and acts on it in its order.
template <class Entry, class Act>
void take_due(std::vector<Entry>& list, Instant now, Act act) {
  for (size_t i = 0; i < list.size();) {
    if (list[i].at > now) {
      ++i;
      continue;
    }
    const Entry due = list[i];
    list.erase(list.begin() + static_cast<ptrdiff_t>(i));
    act(due);
  }
}

class World;

/// A place for an adapter with its ports, as a node that takes turns while an adapter is there.
class AdapterNode final : public SimNode {
 public:
  AdapterNode(World& world, uint32_t place) : world_(world), place_(place) {}
  [[nodiscard]] bool alive() const noexcept override;
  int poll(Instant now) noexcept override;
  [[nodiscard]] Instant deadline() const noexcept override;
  [[nodiscard]] bool disturbed() const noexcept override;

 private:
  World& world_;
  uint32_t place_;
};

class World final : private FabricObserver, private Outside {
 public:
  World(const Plan& plan, const RunOptions& options)
      : plan_(plan),
        options_(options),
        random_(plan.seed),
        link_random_(plan.seed ^ 0x6c69'6e6bULL),
        window_random_(plan.seed ^ 0x7769'6e64ULL),
        fabric_(fabric_of(plan_.fabric, *this), link_random_),
        model_(plan_, nodes_, outcome_.tally),
        turns_(random_, plan.skip_ppm),
        windows_(
            plan_.adapters, plan_.dma_faults,
            plan.window_datagrams ? cell_bytes_max(plan.fabric.cell_payload_bytes) : 0, window_random_,
            [this](Lid lid) { return neighbour_with(lid); },
            [this](uint32_t place) { return only_lid(place); },
            [this](uint32_t place) { turns_.wake(place); }) {
    build();
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  Outcome run();

  [[nodiscard]] bool lives(uint32_t place) const noexcept { return adapters_[place] != nullptr; }
  int poll_adapter(uint32_t place, Instant now) noexcept;
  [[nodiscard]] Instant adapter_deadline(uint32_t place) const noexcept {
    return adapters_[place]->deadline();
  }
  [[nodiscard]] bool adapter_disturbed(uint32_t place) const noexcept;

 private:
  enum class Phase : uint8_t { kProgram, kDrain, kQuiet, kOver };

  struct Mend {
    Instant at{};
    uint32_t link = 0;
    NewName name;
  };
  struct Return {
    Instant at{};
    uint32_t index = 0;  // index of the switch
  };
  struct Cut {
    Instant at{};
    uint32_t link = 0;
    Duration lasts{};
  };

  void build();
  // Implementation of Outside.
  void cut(uint32_t link, Duration lasts) override;
  void cut_later(uint32_t link, Duration after, Duration lasts) override {
    cuts_.push_back({now_ + after, link, lasts});
  }
  void rename(uint32_t link, Duration lasts, NewName name) override;
  bool crash(uint32_t index, Duration lasts) override;
  void pause(Duration lasts) override {
    next_call_ = std::max(next_call_, now_ + lasts);
    next_meal_ = now_ + 1ms;
  }
  [[nodiscard]] std::vector<uint32_t> free_places() const override;
  [[nodiscard]] Node& begin(uint32_t place) override;
  void end(Node& node, bool at_once) override;

  [[nodiscard]] std::vector<uint32_t> links_of(uint32_t place) const;
  [[nodiscard]] uint32_t neighbour_with(Lid lid) noexcept;
  [[nodiscard]] Lid only_lid(uint32_t place) noexcept;
  [[nodiscard]] Instant next_rewiring() const noexcept;
  void mend_links();
  void return_switches();
  void whole_again(uint32_t link);
  void cut_links();
  void take_name(uint32_t link, NewName name);
  [[nodiscard]] Lid free_lid(uint32_t choice);
  void wire(uint32_t link);
  void call_program();
  void turn();
  void advance(int work);
  void change_phase();
  void describe_failure();
  void describe_counters(const Qp& qp);
  void on_flit(uint32_t link_and_end, std::span<const std::byte> flit) noexcept override {
    hash(flit.size() << 8);
    if (!options_.cells || flit.size() <= kFlitHeaderBytes + kCellHeaderBytes) return;
    const std::string line = text_of_cell(flit.subspan(kFlitHeaderBytes));
    if (line.empty()) return;
    fmt::print("{:.3f} us call {} link {}.{} {}\n",
               std::chrono::duration<double, std::micro>(now_.time_since_epoch()).count(), outcome_.calls,
               link_and_end >> 1, link_and_end & 1, line);
  }
  void tamper(uint32_t link_and_end, std::span<std::byte> flit) noexcept override {
    if (options_.saboteur != nullptr) options_.saboteur->on_flit(link_and_end >> 1, link_and_end & 1, flit);
  }
  void hash(uint64_t value) noexcept {
    outcome_.hash =
        (outcome_.hash ^ value ^ static_cast<uint64_t>(now_.time_since_epoch().count())) * 0x100'0000'01B3ULL;
  }

  Plan plan_;
  RunOptions options_;
  Outcome outcome_;
  SeededRandom random_;
  SeededRandom link_random_;
  SeededRandom window_random_;
  Instant now_{};
  SimFabric fabric_;
  std::vector<std::unique_ptr<SimPort>> ports_;  // by link
  Model model_;
  Turns turns_;
  Windows windows_;  // outlives the adapters
  std::vector<std::unique_ptr<SeededRandom>> adapter_random_;
  std::vector<std::unique_ptr<Nics>> nics_;                         // in the order of nodes_
  std::vector<std::unique_ptr<adapter::ChannelAdapter>> adapters_;  // by place; null: the place is empty
  std::vector<Node*> at_;                                           // in the order of adapters_
  std::vector<std::unique_ptr<Node>> nodes_;                        // also those that have ended
  std::vector<Mend> mends_;
  std::vector<Cut> cuts_;       // future cuts
  std::vector<NewName> names_;  // names that ports get when their links are whole again
  std::vector<Return> returns_;
  uint16_t lids_ = 0;  // number of LIDs ever used
  std::unique_ptr<Program> program_;
  Phase phase_ = Phase::kProgram;
  Instant phase_end_ = kNever;
  Instant next_call_{};
  Instant next_tidy_ = kNever;
  Instant next_meal_ = kNever;  // while the program makes no calls
};

bool AdapterNode::alive() const noexcept {
  return world_.lives(place_);
}
int AdapterNode::poll(Instant now) noexcept {
  return world_.poll_adapter(place_, now);
}
Instant AdapterNode::deadline() const noexcept {
  return world_.adapter_deadline(place_);
}
bool AdapterNode::disturbed() const noexcept {
  return world_.adapter_disturbed(place_);
}

void World::build() {
  for (uint32_t index = 0; index < fabric_.switches(); ++index) fabric_.start_switch(index);
  ports_.resize(plan_.fabric.endnodes);
  names_.resize(fabric_.links());
  lids_ = static_cast<uint16_t>(plan_.fabric.endnodes);
  adapters_.resize(plan_.adapters);
  at_.resize(plan_.adapters);
  for (uint32_t link = 0; link < fabric_.links(); ++link)
    for (uint32_t end = 0; end < 2; ++end) fabric_.cable(link).set_faults(end, plan_.flit_faults);
  for (uint32_t place = 0; place < plan_.adapters; ++place)
    turns_.add(std::make_unique<AdapterNode>(*this, place));
  for (uint32_t index = 0; index < fabric_.switches(); ++index)
    turns_.add(std::make_unique<SimSwitch>(fabric_, index));
  if (fabric_.switches() == 2) wire(plan_.fabric.endnodes);
  for (uint32_t place = 0; place < plan_.adapters; ++place)
    if ((plan_.vacant >> place & 1) == 0) static_cast<void>(begin(place));
  // Every port must learn its LID before the first QP is made.
  for (uint32_t i = 0; i < 50; ++i) {
    static_cast<void>(turns_.take(now_));
    now_ += 1us;
  }
  program_ = std::make_unique<Program>(plan_, nodes_, model_, static_cast<Outside&>(*this), outcome_.tally,
                                       options_.saboteur, options_.tells);
  for (auto& node : nodes_) program_->take_events(*node);  // events of the ports coming up
  program_->set_up();
}

std::vector<uint32_t> World::links_of(uint32_t place) const {
  std::vector<uint32_t> links;
  for (uint32_t link = 0; link < plan_.adapter_of.size(); ++link)
    if (plan_.adapter_of[link] == place) links.push_back(link);
  return links;
}

/// The place of the adapter on the same machine that has this LID.
uint32_t World::neighbour_with(Lid lid) noexcept {
  for (uint32_t link = 0; link < plan_.adapter_of.size(); ++link) {
    const uint32_t place = plan_.adapter_of[link];
    if (model_.links().lid(link) == lid && (plan_.direct >> place & 1) != 0 && lives(place)) return place;
  }
  return Windows::kNowhere;
}

/// 0 when the adapter has several.
Lid World::only_lid(uint32_t place) noexcept {
  const std::vector<uint32_t> links = links_of(place);
  return links.size() == 1 ? model_.links().lid(links[0]) : Lid(0);
}

std::vector<uint32_t> World::free_places() const {
  std::vector<uint32_t> places;
  for (uint32_t place = 0; place < plan_.adapters; ++place) {
    const std::vector<uint32_t> links = links_of(place);
    const bool whole = std::none_of(links.begin(), links.end(), [&](uint32_t link) {
      return fabric_.is_cut(link) || fabric_.switch_is_dead(link);
    });
    if (!lives(place) && whole) places.push_back(place);
  }
  return places;
}

Node& World::begin(uint32_t place) {
  const auto number = static_cast<uint32_t>(nodes_.size());
  adapter::AdapterConfig config{.guid = Guid(0x5745'4654'0000'0000ULL + number)};
  nics_.push_back(std::make_unique<Nics>(number, links_of(place).size()));
  config.nics = nics_.back()->numbers();
  config.finds_ways = plan_.finds_ways;
  config.limits.queue_pairs = 1022;
  config.limits.completion_queues = 16;
  config.limits.shared_receive_queues = 8;
  config.limits.protection_domains = 8;
  config.limits.keys = 4096;
  if ((plan_.direct >> place & 1) != 0) config.direct = &windows_.paths_of(place);
  uint64_t secret = plan_.seed * 64 + number;
  if (options_.saboteur != nullptr) options_.saboteur->on_birth(place, secret);
  adapter_random_.push_back(std::make_unique<SeededRandom>(secret));
  adapters_[place] = std::make_unique<adapter::ChannelAdapter>(config, *adapter_random_.back());
  nics_.back()->join(*adapters_[place]);
  auto node = std::make_unique<Node>();
  node->number = number;
  node->place = place;
  node->adapter = adapters_[place].get();
  at_[place] = node.get();
  for (const uint32_t link : links_of(place)) {
    fabric_.set_endnode_alive(link, true);
    wire(link);
    model_.links().begins(link);
    ports_[link] = std::make_unique<SimPort>(fabric_.cable(link), link_random_, plan_.cell_faults,
                                             options_.saboteur, place);
    node->adapter->ports().attach(ports_[link]->cells(), config.nics[node->links.size()]);
    node->lids.push_back(model_.links().lid(link));
    node->links.push_back(link);
  }
  nodes_.push_back(std::move(node));
  turns_.wake(place);
  if (program_ != nullptr) static_cast<void>(poll_adapter(place, now_));  // its ports come up
  return *nodes_.back();
}

void World::end(Node& node, bool at_once) {
  const uint32_t place = node.place;
  if (!at_once) static_cast<void>(adapters_[place]->poll(now_));  // its last cells leave
  windows_.dies(place);
  count_moves(adapters_[place].get(), outcome_.tally);
  adapters_[place].reset();
  node.adapter = nullptr;
  at_[place] = nullptr;
  for (const uint32_t link : node.links) {
    count_faults(*ports_[link], outcome_.tally);
    ports_[link].reset();
    fabric_.set_endnode_alive(link, false);
    wire(link);
  }
}

void World::wire(uint32_t link) {
  if (fabric_.wire(link, now_) != LinkRefusal::kNone) model_.fail("a link was refused");
}

void World::cut(uint32_t link, Duration lasts) {
  rename(link, lasts, {});
}

void World::rename(uint32_t link, Duration lasts, NewName name) {
  model_.cut(link, lasts);
  fabric_.cut(link, true);
  wire(link);
  mends_.push_back({now_ + lasts, link, name});
  mend_links();
}

/// A LID that was never used, or (about half of the time) one that is free again.
Lid World::free_lid(uint32_t choice) {
  std::vector<Lid> free;
  for (uint16_t lid = 1; lid <= lids_; ++lid) {
    bool used = false;
    for (uint32_t link = 0; link < plan_.fabric.endnodes; ++link)
      used = used || model_.links().lid(link) == Lid(lid);
    if (!used) free.emplace_back(lid);
  }
  if (!free.empty() && choice % 2 == 0) return free[choice / 2 % free.size()];
  return Lid(++lids_);
}

void World::take_name(uint32_t link, NewName name) {
  const Lid before = model_.links().lid(link);
  const Lid lid = name.lid ? free_lid(name.choice) : before;
  if (options_.saboteur != nullptr && lid != before) options_.saboteur->on_rename(before, lid);
  model_.renamed(link, lid, name.guid);
  if (lid != before)
    outcome_.tally(lid.value() > plan_.fabric.endnodes ? "LID changed" : "LID of another port taken over");
  if (name.guid) outcome_.tally("GUID changed");
  fabric_.rename(link, lid, name.guid);
}

Instant World::next_rewiring() const noexcept {
  Instant next = kNever;
  for (const Mend& mend : mends_) next = std::min(next, mend.at);
  for (const Cut& cut : cuts_) next = std::min(next, cut.at);
  for (const Return& back : returns_) next = std::min(next, back.at);
  return next;
}

void World::cut_links() {
  take_due(cuts_, now_, [&](const Cut& due) {
    if (!model_.links().is_cut(due.link)) cut(due.link, due.lasts);
  });
}

void World::mend_links() {
  take_due(mends_, now_, [&](const Mend& due) {
    if (due.name.lid || due.name.guid) names_[due.link] = due.name;
    fabric_.cut(due.link, false);
    whole_again(due.link);
  });
}

/// The link is whole again, if no other cut and no dead switch prevents it.
void World::whole_again(uint32_t link) {
  if (fabric_.is_cut(link) || fabric_.switch_is_dead(link)) return;
  if (const NewName name = std::exchange(names_[link], {}); name.lid || name.guid) take_name(link, name);
  model_.mended(link);
  wire(link);
}

bool World::crash(uint32_t index, Duration lasts) {
  const auto is_it = [&](const Return& back) { return back.index == index; };
  if (std::any_of(returns_.begin(), returns_.end(), is_it)) return false;
  std::vector<uint32_t> lost;
  for (uint32_t link = 0; link < fabric_.links(); ++link)
    if (fabric_.attached(link, index) && !model_.links().is_cut(link)) lost.push_back(link);
  model_.switch_dies(lost, lasts);
  returns_.push_back({now_ + lasts, index});
  if (options_.saboteur == nullptr || options_.saboteur->lets_happen(WorldFault::kCrash)) {
    fabric_.crash_switch(index);
    for (const uint32_t link : lost) wire(link);
  }
  return_switches();
  return true;
}

void World::return_switches() {
  take_due(returns_, now_, [&](const Return& due) {
    if (fabric_.switch_at(due.index) == nullptr) fabric_.start_switch(due.index);
    for (uint32_t link = 0; link < fabric_.links(); ++link)
      if (fabric_.attached(link, due.index)) whole_again(link);
    turns_.wake(plan_.adapters + due.index);
  });
}

int World::poll_adapter(uint32_t place, Instant now) noexcept {
  const Duration before = cpu_time();
  const int work = adapters_[place]->poll(now);
  nics_[at_[place]->number]->turn();
  outcome_.slowest_turn = std::max(outcome_.slowest_turn, cpu_time() - before);
  if (program_ != nullptr) program_->take_events(*at_[place]);
  return work;
}

bool World::adapter_disturbed(uint32_t place) const noexcept {
  if (windows_.rings(place, now_)) return true;
  for (uint32_t link = 0; link < ports_.size(); ++link)
    if (plan_.adapter_of[link] == place && ports_[link] != nullptr && ports_[link]->disturbed()) return true;
  return false;
}

void World::call_program() {
  const uint64_t number = outcome_.calls++;
  const bool left_out = options_.leave_out != nullptr && options_.leave_out->count(number) != 0;
  const auto most = static_cast<uint64_t>(plan_.gap.count()) + 1;
  next_call_ = now_ + Duration(static_cast<int64_t>(random_.below(most)));
  if (!left_out) program_->call(number);
}

void World::turn() {
  model_.at(now_);
  mend_links();
  return_switches();
  cut_links();
  int work = turns_.take(now_);
  if (phase_ == Phase::kProgram && now_ >= next_call_) {
    next_meal_ = kNever;
    call_program();
    ++work;
  }
  if (phase_ == Phase::kProgram && now_ >= next_meal_) {
    program_->feed_hungry();
    next_meal_ = now_ + 100ms;
  }
  if (phase_ == Phase::kDrain && now_ >= next_tidy_) {
    program_->tidy();
    next_tidy_ = now_ + 1ms;
  }
  for (auto& node : nodes_)
    if (node->adapter != nullptr) program_->look(*node);
  const uint64_t touched = program_->take_touched();
  for (uint32_t place = 0; place < adapters_.size(); ++place) {
    if ((touched >> place & 1) == 0) continue;
    turns_.wake(place);
    ++work;
  }
  change_phase();
  advance(work);
}

void World::advance(int work) {
  const auto spread = static_cast<uint64_t>((plan_.step_max - plan_.step_min).count());
  const Duration step = plan_.step_min + Duration(static_cast<int64_t>(random_.below(spread + 1)));
  if (work != 0) {
    now_ += step;
    return;
  }
  Instant due = std::min({turns_.next_deadline(), phase_end_, next_rewiring()});
  if (phase_ == Phase::kProgram) due = std::min({due, next_call_, next_meal_});
  if (phase_ == Phase::kDrain) due = std::min(due, next_tidy_);
  now_ = std::max(now_ + step, due == kNever ? now_ : due);
}

void World::change_phase() {
  switch (phase_) {
    case Phase::kProgram:
      if (outcome_.calls < plan_.operations) return;
      program_->join_partitions();
      phase_ = Phase::kDrain;
      phase_end_ = now_ + kDrainTime;
      next_tidy_ = now_;
      return;
    case Phase::kDrain:
      if (!mends_.empty() || !cuts_.empty() || !returns_.empty()) return;
      if (const Send* waits = program_->waits(); waits != nullptr) {
        if (now_ < phase_end_) return;
        model_.fail(fmt::format("requests that must end never came back: {}; {} receives stand there",
                                describe(*waits),
                                waits->to == nullptr        ? 0
                                : waits->to->srq != nullptr ? waits->to->srq->receives.size()
                                                            : waits->to->receives.size()));
      }
      program_->end();
      phase_ = Phase::kQuiet;
      phase_end_ = now_ + kQuietTime;
      return;
    case Phase::kQuiet:
      if (now_ < phase_end_) return;
      for (auto& node : nodes_)
        if (node->adapter != nullptr) program_->poll_dry(*node);
      model_.settle();
      phase_ = Phase::kOver;
      return;
    case Phase::kOver:
      return;
  }
}

void World::describe_failure() {
  const auto& history = program_->history();
  const Send* suspect = model_.suspect();
  size_t end = history.size();
  const std::string name = suspect != nullptr ? fmt::format("wr {} ", suspect->wr_id) : "";
  for (size_t i = 0; suspect != nullptr && i < history.size(); ++i) {
    if (history[i].second.find(name) == std::string::npos) continue;
    end = std::min(history.size(), i + kAround / 2);
    break;
  }
  for (size_t i = end > kAround ? end - kAround : 0; i < end; ++i)
    outcome_.around.push_back(fmt::format("call {}: {}", history[i].first, history[i].second));
  const size_t last = std::max(end, history.size() - std::min(history.size(), kLast));
  if (last != end) outcome_.around.push_back("...");
  for (size_t i = last; i < history.size(); ++i)
    outcome_.around.push_back(fmt::format("call {}: {}", history[i].first, history[i].second));
  if (suspect == nullptr) return;
  outcome_.around.push_back("suspect: " + describe(*suspect));
  describe_counters(*suspect->from);
  if (suspect->to != nullptr) describe_counters(*suspect->to);
}

void World::describe_counters(const Qp& qp) {
  std::string line = fmt::format("QP {}:", qp.id);
  if (qp.handle == nullptr) return;
  const auto& counters = qp.node->adapter->counters(*qp.handle);
  const auto names = adapter::counter_labels(adapter::QpCounter{});
  for (size_t i = 0; i < static_cast<size_t>(adapter::QpCounter::kCount); ++i) {
    const uint64_t value = counters.get(static_cast<adapter::QpCounter>(i));
    if (value != 0) line += fmt::format(" {} {}", names[i], value);
  }
  outcome_.around.push_back(line);
}

Outcome World::run() {
  while (phase_ != Phase::kOver && model_.violations().empty()) {
    turn();
    if (++outcome_.turns == kTurnsMax) model_.fail("the run does not end");
  }
  for (const auto& port : ports_)
    if (port != nullptr) count_faults(*port, outcome_.tally);
  for (const auto& adapter : adapters_) count_moves(adapter.get(), outcome_.tally);
  windows_.count(outcome_.tally);
  outcome_.violations = model_.violations();
  outcome_.ok = outcome_.violations.empty();
  outcome_.ended = now_;
  if (!outcome_.ok) describe_failure();
  return outcome_;
}

}  // namespace

Outcome run(const Plan& plan, const RunOptions& options) {
  World world(plan, options);
  return world.run();
}

}  // namespace weft::sim::verbs
