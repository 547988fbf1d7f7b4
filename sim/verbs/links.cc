#include "sim/verbs/links.h"

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
  link.cut_since = now;
  link.told_expired = false;
  ++link.cuts;
  ++link.downs;
}

std::string Links::mended(uint32_t number, Instant now) {
  Link& link = links_[number];
  const Duration lasted = now - link.cut_since;
  link.cut = false;
  link.cut_for += lasted;
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
    link.alone_since = now;
  else
    link.alone_for += now - link.alone_since;
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
      if (!link.cut || now - link.cut_since < kExpires || std::exchange(link.told_expired, true))
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

Duration Links::without(uint32_t number, Instant now) const noexcept {
  const Link& link = links_[number];
  return link.cut_for + (link.cut ? now - link.cut_since : Duration(0));
}

Duration Links::alone(uint32_t number, Instant now) const noexcept {
  const Link& link = links_[number];
  return link.alone_for + (link.alone ? now - link.alone_since : Duration(0));
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

Duration Links::silence(const Route& route, Instant now) const noexcept {
  if (route.link == route.peer_link) return {};
  Duration sum = alone(route.link, now) + alone(route.peer_link, now) + without(route.peer_link, now);
  if (crosses(route)) sum += without(plan_.fabric.endnodes, now);
  return sum;
}

}  // namespace weft::sim::verbs
