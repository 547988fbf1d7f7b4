#include "sim/verbs/links.h"

#include <algorithm>
#include <utility>

namespace weft::sim::verbs {

using adapter::AsyncEventKind;

namespace {

using namespace std::chrono_literals;

/// If a port is down for this long, its connections are given up (decisions 2.12).
constexpr Duration kExpires = 10s;
/// By this time a node has had a turn, even if it missed some.
constexpr Duration kNoticed = 1ms;

}  // namespace

Links::Links(const Plan& plan) : plan_(plan), links_(plan.fabric.links()) {
  for (uint32_t link = 0; link < links_.size(); ++link)
    links_[link].lids.emplace_back(Instant{}, Lid(static_cast<uint16_t>(link + 1)));
}

void Links::begins(uint32_t number) noexcept {
  Link& link = links_[number];
  link.port_lives = true;
  link.ups = 1;
  link.downs = link.tables = 0;
  link.told_up = link.told_down = link.told_expired = link.told_new = link.must_tell_down = false;
  link.told_lid = link.told_gid = false;
  link.known_lid = link.lids.back().second;
  link.known_guid = link.guids;
}

void Links::cut(uint32_t number, Instant now) noexcept {
  Link& link = links_[number];
  link.cut = true;
  link.cut_spans.push_back({now});
  link.told_expired = false;
  link.waits_from = now;
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

void Links::renamed(uint32_t number, Lid lid, bool other_guid, Instant now) {
  Link& link = links_[number];
  link.lids.emplace_back(now, lid);
  if (other_guid) ++link.guids;
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
  if (link.known_lid != link.lids.back().second && !link.told_lid)
    return "it never said that its LID is another";
  if (link.known_guid != link.guids && !link.told_gid) return "it never said that its GID is another";
  link.known_lid = link.lids.back().second;
  link.known_guid = link.guids;
  link.told_lid = link.told_gid = false;
  link.told_up = true;
  link.ups = 0;
  link.downs = link.cut ? 1 : 0;  // another cut may have happened meanwhile
  link.told_down = link.told_new = link.must_tell_down = false;
  return {};
}

/// Handles an event about a new LID or GID; returns an error text.
std::string Links::told_name(Link& link, AsyncEventKind kind) {
  const bool lid = kind == AsyncEventKind::kLidChange;
  const bool other = lid ? link.known_lid != link.lids.back().second : link.known_guid != link.guids;
  if (!other || std::exchange(lid ? link.told_lid : link.told_gid, true))
    return "there was no reason: it has the name that it had";
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
      // It expires again for QPs made meanwhile.
      if (!link.cut || now - std::exchange(link.waits_from, now) < kExpires)
        return "there was no reason: the link was not cut for 10 s, or it was reported within these 10 s";
      link.told_expired = true;
      return {};
    case AsyncEventKind::kLidChange:
    case AsyncEventKind::kGidChange:
      return told_name(link, kind);
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

/// True if the route uses the link between the two switches.
bool Links::crosses(const Route& route) const noexcept {
  const FabricPlan& fabric = plan_.fabric;
  return fabric.switch_of(route.link + 1) != fabric.switch_of(route.peer_link + 1);
}

bool Links::had(uint32_t number, Lid lid, Instant since) const noexcept {
  const auto& lids = links_[number].lids;
  for (size_t i = 0; i < lids.size(); ++i) {
    const Instant end = i + 1 < lids.size() ? lids[i + 1].first : kNever;
    if (lids[i].second == lid && end >= since) return true;
  }
  return false;
}

bool Links::is_stale(const Route& route) const noexcept {
  return lid(route.link) != route.own || lid(route.peer_link) != route.peer;
}

bool Links::is_stale_since(const Route& route, Instant since) const noexcept {
  const auto away = [&](uint32_t link, Lid lid) {
    const auto& lids = links_[link].lids;
    return lids.back().second != lid && !had(link, lid, since);
  };
  return away(route.link, route.own) || away(route.peer_link, route.peer);
}

void Links::add_stale(uint32_t number, Lid lid, Spans& out) const {
  const auto& lids = links_[number].lids;
  for (size_t i = 0; i < lids.size(); ++i)
    if (lids[i].second != lid)
      out.push_back({lids[i].first, i + 1 < lids.size() ? lids[i + 1].first : kNever});
}

bool Links::fails(const Route& route) const noexcept {
  if (is_stale(route)) return true;
  for (const uint32_t link : {route.link, route.peer_link})
    if (links_[link].cut || links_[link].alone) return true;
  return crosses(route) && links_[plan_.fabric.endnodes].cut;
}

Links::Spans Links::dark(const Route& route) const {
  Spans all;
  const auto add = [&](const Spans& spans) { all.insert(all.end(), spans.begin(), spans.end()); };
  add_stale(route.link, route.own, all);
  add_stale(route.peer_link, route.peer, all);
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
  // A QP with loopback sends also while its port is down.
  const bool asks = route.link != route.peer_link && had(route.link, route.peer, Instant{});
  return lasted(dark(route), asks ? Spans{} : links_[route.link].cut_spans, now);
}

Links::Spans Links::useless_times(const Route& route) const {
  Spans all = dark(route);
  const Spans& own = links_[route.link].cut_spans;
  all.insert(all.end(), own.begin(), own.end());
  return all;
}

Duration Links::useless(const Route& route, Instant now) const {
  return useless(std::span(&route, 1), 1, now);
}

Duration Links::useless(std::span<const Route> routes, size_t many, Instant now) const {
  struct Change {
    Instant at{};
    size_t route = 0;
    int by = 0;
  };
  std::vector<Change> changes;
  for (size_t i = 0; i < routes.size(); ++i) {
    for (const Span& span : useless_times(routes[i])) {
      changes.push_back({span.begin, i, 1});
      changes.push_back({std::min(span.end, now), i, -1});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  std::vector<int> reasons(routes.size());
  Duration sum{};
  Instant before{};
  for (const Change& change : changes) {
    const auto dead = std::count_if(reasons.begin(), reasons.end(), [](int count) { return count > 0; });
    if (static_cast<size_t>(dead) >= many) sum += change.at - before;
    before = change.at;
    reasons[change.route] += change.by;
  }
  return sum;
}

bool Links::is_whole(const Route& route, Instant begin, Instant end) const {
  const Spans times = useless_times(route);
  return std::none_of(times.begin(), times.end(),
                      [&](const Span& span) { return span.begin < end && span.end > begin; });
}

}  // namespace weft::sim::verbs
