#include "sim/verbs/links.h"

#include <algorithm>
#include <utility>

namespace weft::sim::verbs {

using adapter::AsyncEventKind;

namespace {

using namespace std::chrono_literals;

/// A port that is down for so long is given up, and its connections with it (decisions 2.12).
constexpr Duration kExpires = 10s;
/// A node has had its turn by then, however often it missed one.
constexpr Duration kNoticed = 1ms;

}  // namespace

void Links::begins(uint32_t number) noexcept {
  Link& link = links_[number];
  link.port_lives = true;
  link.ups = 1;
  link.downs = link.tables = 0;
  link.told_up = link.told_down = link.told_expired = link.told_new = link.must_tell_down = false;
}

void Links::cut(uint32_t number, Instant now) noexcept {
  Link& link = links_[number];
  link.cut = true;
  link.cut_spans.push_back({now});
  link.told_expired = false;
  ++link.cuts;
  ++link.downs;
}

std::string Links::mended(uint32_t number, Instant now) {
  Link& link = links_[number];
  link.cut_spans.back().end = now;
  const Duration lasted = now - link.cut_spans.back().begin;
  link.cut = false;
  ++link.ups;
  if (!link.port_lives) return {};
  if (lasted >= kNoticed) link.must_tell_down = true;
  if (lasted >= kExpires + kNoticed && !link.told_expired)
    return "a port was down for long and has not expired";
  return {};
}

void Links::partitions(uint32_t number, bool alone, Instant now) noexcept {
  Link& link = links_[number];
  ++link.tables;
  if (link.alone == alone) return;
  link.alone = alone;
  if (alone)
    link.alone_spans.push_back({now});
  else
    link.alone_spans.back().end = now;
}

std::string Links::told_up(Link& link) {
  if (link.ups == 0) return "there was no reason: its link has not come back";
  if (link.must_tell_down && !link.told_down) return "it never said that it was down";
  if (link.told_up && !link.told_new) return "it never said that it is another link";
  link.told_up = true;
  link.ups = 0;
  link.downs = link.cut ? 1 : 0;  // the next one may have come meanwhile
  link.told_down = link.told_new = link.must_tell_down = false;
  return {};
}

std::string Links::told(uint32_t number, AsyncEventKind kind, Instant now) {
  Link& link = links_[number];
  switch (kind) {
    case AsyncEventKind::kPortUp:
      return told_up(link);
    case AsyncEventKind::kPortDown:
      if (link.downs == 0 && !link.told_down && resets_itself()) {
        ++link.downs;
        ++link.ups;
        ++link.cuts;
      }
      if (link.downs == 0 || std::exchange(link.told_down, true))
        return "there was no reason: its link was not cut";
      return {};
    case AsyncEventKind::kClientReregister:
      link.told_new = true;
      return link.ups == 0 || !link.told_up ? "there was no reason: its link is the old one" : "";
    case AsyncEventKind::kPortExpired:
      if (!link.cut || now - link.cut_spans.back().begin < kExpires || std::exchange(link.told_expired, true))
        return "there was no reason: it was not down for so long";
      return {};
    case AsyncEventKind::kPkeyChange:
      if (link.tables == 0) return "there was no reason: its partitions are the old ones";
      --link.tables;
      return {};
    default:
      return "there was no reason";
  }
}

std::string Links::silent(uint32_t number) const {
  const Link& link = links_[number];
  if (!link.port_lives) return {};
  if (link.ups != 0) return "it never said that it is up again";
  if (link.tables != 0) return "it never said that its partitions have changed";
  return {};
}

/// By the link between two switches.
bool Links::crosses(const Route& route) const noexcept {
  const FabricPlan& fabric = plan_.fabric;
  return fabric.switch_of(route.link + 1) != fabric.switch_of(route.peer_link + 1);
}

bool Links::fails(const Route& route) const noexcept {
  for (const uint32_t link : {route.link, route.peer_link})
    if (links_[link].cut || links_[link].alone) return true;
  return crosses(route) && links_[plan_.fabric.endnodes].cut;
}

Links::Spans Links::dark(const Route& route) const {
  Spans all;
  const auto add = [&](const Spans& spans) { all.insert(all.end(), spans.begin(), spans.end()); };
  if (route.link == route.peer_link) return all;
  add(links_[route.link].alone_spans);
  add(links_[route.peer_link].alone_spans);
  add(links_[route.peer_link].cut_spans);
  if (crosses(route)) add(links_[plan_.fabric.endnodes].cut_spans);
  return all;
}

Duration Links::lasted(const Spans& these, const Spans& those, Instant now) {
  struct Change {
    Instant at{};
    int these = 0;
    int those = 0;
  };
  std::vector<Change> changes;
  for (const Span& span : these) {
    changes.push_back({span.begin, 1, 0});
    changes.push_back({std::min(span.end, now), -1, 0});
  }
  for (const Span& span : those) {
    changes.push_back({span.begin, 0, 1});
    changes.push_back({std::min(span.end, now), 0, -1});
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  Duration sum{};
  int in_these = 0;
  int in_those = 0;
  Instant before{};
  for (const Change& change : changes) {
    if (in_these > 0 && in_those == 0) sum += change.at - before;
    before = change.at;
    in_these += change.these;
    in_those += change.those;
  }
  return sum;
}

Duration Links::silence(const Route& route, Instant now) const {
  return lasted(dark(route), links_[route.link].cut_spans, now);
}

Duration Links::useless(const Route& route, Instant now) const {
  Spans all = dark(route);
  const Spans& own = links_[route.link].cut_spans;
  all.insert(all.end(), own.begin(), own.end());
  return lasted(all, {}, now);
}

}  // namespace weft::sim::verbs
