// How it works: place_of() splits a counter's name into node, link or port, lane and session, and finds the
// nodes at both ends. Two kinds of rules apply: conditions that hold at both looks (gauges), and counters of
// loss or waiting that grew between the looks.
#include "tools/show/blockers.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "session/netdev_session.h"

namespace weft::tools {
namespace {

struct Place {
  std::string stem;    // the name without its last word
  std::string word;    // the last word
  std::string here;    // the node that owns the counter
  std::string peer;    // the node at the other end of the link or session
  std::string lane;    // of a link; empty elsewhere
  bool spare = false;  // a port to which no endnode has joined; its link is down for that reason
};

std::vector<std::string> split(const std::string& name) {
  std::vector<std::string> words;
  size_t from = 0;
  for (size_t dot = 0; (dot = name.find('.', from)) != std::string::npos; from = dot + 1)
    words.push_back(name.substr(from, dot - from));
  words.push_back(name.substr(from));
  return words;
}

uint64_t value_of(const CounterValues& values, const std::string& name) {
  const auto at = values.find(name);
  return at == values.end() ? 0 : at->second;
}

/// Finds the places that counter names of one fabric mean.
class Reader {
 public:
  Reader(const FabricView& view, const CounterValues& values) : view_(view), values_(values) {}

  [[nodiscard]] Place place_of(const std::string& name) const;

 private:
  [[nodiscard]] std::string node_of(const std::string& name) const;
  [[nodiscard]] std::string switch_of(const std::string& node) const;
  [[nodiscard]] std::string peer_at(const std::string& node, const std::string& port) const;
  [[nodiscard]] bool nobody_at(const std::string& node, const std::string& port) const;
  [[nodiscard]] std::string by_lid(uint64_t lid) const;

  const FabricView& view_;
  const CounterValues& values_;
};

/// Finds the node by the known names, because a node's name may contain dots.
std::string Reader::node_of(const std::string& name) const {
  for (const auto& [node, life] : view_.lives)
    if (name.starts_with(node + ".")) return node;
  return name.substr(0, name.find('.'));
}

std::string Reader::switch_of(const std::string& node) const {
  for (const RecordedPort& port : view_.ports)
    if (port.peer == node) return port.node;
  return "the switch";
}

std::string Reader::peer_at(const std::string& node, const std::string& port) const {
  for (const RecordedPort& known : view_.ports)
    if (known.node == node && std::to_string(known.number) == port && known.peer != kSparePort)
      return known.peer;
  return "port " + port;
}

bool Reader::nobody_at(const std::string& node, const std::string& port) const {
  return std::any_of(view_.ports.begin(), view_.ports.end(), [&](const RecordedPort& known) {
    return known.node == node && std::to_string(known.number) == port && known.peer == kSparePort;
  });
}

std::string Reader::by_lid(uint64_t lid) const {
  const auto at = view_.lids.find(lid);
  return at == view_.lids.end() ? fmt::format("lid {}", lid) : at->second;
}

Place Reader::place_of(const std::string& name) const {
  Place place;
  place.here = node_of(name);
  const std::vector<std::string> words = split(name.substr(place.here.size() + 1));
  place.word = words.back();
  place.stem = name.substr(0, name.size() - place.word.size());
  const auto word = [&words](size_t i) { return i < words.size() ? words[i] : std::string{}; };
  for (size_t i = 1; i + 1 < words.size(); ++i)
    if (words[i] == "vl" && words[i - 1] == "link") place.lane = words[i + 1];
  if (word(0) == "link") place.peer = switch_of(place.here);
  if (word(0) == "port") {
    place.peer = peer_at(place.here, word(1));
    place.spare = nobody_at(place.here, word(1));
  }
  if (word(0) != "unit") return place;
  uint64_t lid = 0;
  if (word(1) == "acceptor") {
    lid = value_of(values_, fmt::format("{}.unit.acceptor.session.{}.now.peer_lid", place.here, word(3)));
  } else {
    std::from_chars(word(1).data(), word(1).data() + word(1).size(), lid);
  }
  if (lid != 0) place.peer = by_lid(lid);
  return place;
}

/// A counter of waiting or loss and its text: {0} is the node that counts, {1} its peer, {2} the lane.
struct WaitRule {
  std::string_view word;
  const char* text;
};
constexpr std::array kLossRules{
    WaitRule{"drop_standstill",
             "{0} dropped cells from {1}: their destination does not read, and they took the buffers of "
             "other cells"},
    WaitRule{"drop_lifetime", "{0} dropped cells from {1} after 2 s: their destination does not read"},
    WaitRule{"drop_port_down", "{0} dropped cells from {1}: their destination has not joined, or has left"},
    WaitRule{"drop_fault", "cells from {1} were lost at {0}: a fault strikes them (weft fault list)"},
    WaitRule{"slow_host_drops", "{0} dropped frames from its LAN: a host's pools stayed full"},
    WaitRule{"socket_drops", "the kernel dropped frames of the LAN: {0} reads its socket too slowly"},
    WaitRule{"interface_read_drops",
             "the interface of {0} dropped frames that came in: {0} reads too slowly, or gave it no carrier "
             "because its session or the unit's LAN is down"},
    WaitRule{"interface_read_errors", "the interface of {0} got damaged frames"},
    WaitRule{"interface_write_drops", "the interface of {0} dropped frames that went out"},
    WaitRule{"interface_write_errors", "the interface of {0} could not pass frames on"},
    WaitRule{"read_too_long", "{0} dropped frames of its interface that are longer than an element"},
    WaitRule{"read_malformed", "{0} dropped frames of its interface that are no Ethernet frames"},
    WaitRule{"read_errors", "the system refused {0} a read of its interface"},
    WaitRule{"write_too_long", "the interface of {0} refused frames longer than its MTU"},
    WaitRule{"write_malformed", "the interface of {0} refused frames whose headers contradict each other"},
    WaitRule{"write_errors", "the interface of {0} refused frames"},
    WaitRule{"too_long_for_mtu", "{0} dropped frames longer than the MTU of its NIC or of their host"},
    WaitRule{"too_long_for_host", "{0} dropped frames longer than a host's elements"},
    WaitRule{"uncuttable_for_host", "{0} dropped frames that it cannot cut for a host"},
    WaitRule{"foreign_source", "{0} dropped frames whose source address is not their host's own"},
    WaitRule{"group_source", "{0} dropped frames with a group address as source"},
    WaitRule{"bad_vnet_header", "{0} dropped frames with an impossible offload header"},
    WaitRule{"lan_bad_vnet_header", "{0} dropped LAN frames with an impossible offload header"},
    WaitRule{"lan_read_refused", "{0} dropped LAN frames that fit no element"},
    WaitRule{"read_refused", "{0} dropped frames of its OS that fit no element"},
    WaitRule{"nic_down", "{0} dropped frames: its NIC is down or gone"},
    WaitRule{"nic_refused", "the NIC of {0} refused frames"},
    WaitRule{"os_down", "{0} dropped frames from {1}: its OS interface is down or gone"},
    WaitRule{"os_refused", "the OS interface of {0} refused frames from {1}"},
    WaitRule{"segments_dropped", "the interface of {0} refused pieces of cut frames"},
    WaitRule{"too_many_segments", "{0} dropped frames that would become thousands of pieces"},
    WaitRule{"not_segmentable", "{0} dropped frames that would have to be cut and cannot be"}};
constexpr std::array kWaitRules{
    WaitRule{"credit_stalls", "lane {2} from {0} to {1} waited for credit: {1} drains it too slowly"},
    WaitRule{"slot_stalls", "the link from {0} to {1} was full: {1} reads it too slowly"},
    WaitRule{"peer_stalled", "{1} did not read the link from {0} for a second"},
    WaitRule{"no_element_turns", "frames from {0} waited for a free element in the pools of {1}"},
    WaitRule{"claim_no_element", "frames from {0} waited for a free element in the pools of {1}"},
    WaitRule{"claim_no_memory",
             "{0} had no registered memory left for frames to {1}: acknowledgements come too slowly"},
    WaitRule{"host_busy_turns", "frames from the LAN of {0} waited for a host whose pools are full"},
    WaitRule{"nic_busy_turns", "the LAN interface of {0} took no frame"},
    WaitRule{"os_busy_turns", "the OS interface of {0} for {1} took no frame: its reader is slow or stopped"},
    WaitRule{"rnr_naks_received", "{1} had no receive request posted for {0}"},
    WaitRule{"stash_full", "{0} had no room for cells that came before the first cell of their packet"},
};

template <size_t kCount>
const WaitRule* rule_for(const std::array<WaitRule, kCount>& rules, std::string_view word) {
  const auto at =
      std::find_if(rules.begin(), rules.end(), [&](const WaitRule& rule) { return rule.word == word; });
  return at == rules.end() ? nullptr : &*at;
}

/// Text for a condition that holds at both looks; empty when there is none.
std::string standing(const Place& place, const CounterValues& before, const CounterValues& after) {
  const auto still = [&](const std::string& name, auto holds) {
    return before.contains(name) && holds(value_of(before, name)) && holds(value_of(after, name));
  };
  const auto zero = [](uint64_t value) { return value == 0; };
  if (place.word == "up" && place.lane.empty() && !place.spare && still(place.stem + "up", zero))
    return fmt::format("the link between {} and {} is down", place.here, place.peer);
  if (place.word == "credits" && !place.lane.empty() && !place.spare && still(place.stem + "credits", zero) &&
      value_of(before, place.stem + "flits_sent") == value_of(after, place.stem + "flits_sent") &&
      value_of(after, place.stem + "flits_sent") != 0)
    return fmt::format("lane {} from {} to {} has no credit: {} does not drain it", place.lane, place.here,
                       place.peer, place.peer);
  if (place.word == "peer_free" && still(place.stem + "peer_free", zero) &&
      value_of(after, place.stem + "peer_elements") != 0)
    return fmt::format("the pools of {} for {} are full: none of their {} elements is taken", place.peer,
                       place.here, value_of(after, place.stem + "peer_elements"));
  if (place.word == "interface_gone" &&
      value_of(after, place.stem + "interface_back") < value_of(after, place.stem + place.word))
    return fmt::format("an interface of {} is gone (deleted or renamed); weft status names it", place.here);
  const auto not_open = [](uint64_t state) {
    return state != static_cast<uint64_t>(session::SessionState::kOpen);
  };
  if (place.word == "state" && place.stem.find(".acceptor.") == std::string::npos &&
      still(place.stem + "state", not_open))
    return fmt::format("the session of {} with {} is not open", place.here, place.peer);
  return {};
}

/// Appends a line unless the list already has it.
void add_line(std::vector<std::string>& lines, std::string line) {
  if (!line.empty() && std::find(lines.begin(), lines.end(), line) == lines.end())
    lines.push_back(std::move(line));
}

}  // namespace

uint64_t growth(const CounterValues& before, const std::string& name, uint64_t now) {
  const auto at = before.find(name);
  return at == before.end() || at->second > now ? now : now - at->second;
}

std::vector<std::string> find_blockers(const FabricView& view, const CounterValues& before,
                                       const CounterValues& after, double seconds) {
  std::vector<std::string> lines;
  for (const auto& [node, life] : view.lives) {
    if (life == FabricView::Life::kGone) add_line(lines, node + " does not run");
    if (life == FabricView::Life::kFrozen) add_line(lines, node + " is frozen (stopped by a signal)");
  }
  for (const std::string& fault : view.faults) add_line(lines, fault);
  const Reader reader(view, after);
  std::vector<std::pair<uint64_t, std::string>> losses;
  std::vector<std::pair<uint64_t, std::string>> waits;
  for (const auto& [name, value] : after) {
    const Place place = reader.place_of(name);
    add_line(lines, standing(place, before, after));
    const WaitRule* const loss = rule_for(kLossRules, place.word);
    const WaitRule* const rule = loss != nullptr ? loss : rule_for(kWaitRules, place.word);
    const uint64_t grown = growth(before, name, value);
    // Waiting of a queue pair is also counted by its lane; only the lane's line is shown.
    if (rule == nullptr || grown == 0 || (place.word == "credit_stalls" && place.lane.empty())) continue;
    (loss != nullptr ? losses : waits)
        .emplace_back(grown,
                      fmt::format("{} ({}, {:.0f}/s)",
                                  fmt::format(fmt::runtime(rule->text), place.here, place.peer, place.lane),
                                  name, static_cast<double>(grown) / seconds));
  }
  for (auto* const list : {&losses, &waits}) {
    std::stable_sort(list->begin(), list->end(),
                     [](const auto& a, const auto& b) { return a.first > b.first; });
    for (auto& [grown, line] : *list) add_line(lines, std::move(line));
  }
  return lines;
}

bool counts_losses(std::string_view name) noexcept {
  return rule_for(kLossRules, name.substr(name.rfind('.') + 1)) != nullptr;
}

}  // namespace weft::tools
