// Names and descriptions of plans for output and command lines.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/plan/world_plan.h"

namespace weft::sim {
namespace {

constexpr std::array<std::string_view, static_cast<size_t>(Profile::kCount)> kProfileNames{
    "mixed", "clean", "flits", "cells", "crashes", "pressure", "everything"};
constexpr std::array<std::string_view, static_cast<size_t>(Traffic::kCount)> kTrafficNames{"any", "cells",
                                                                                           "raw", "netdev"};
constexpr std::array<std::string_view, kConfigChangeKinds> kChangeNames{
    "set MTU",      "set MAC",         "set promiscuous", "set multicast",
    "set features", "read statistics", "clear statistics"};

double milliseconds(Instant at) {
  return std::chrono::duration<double, std::milli>(at.time_since_epoch()).count();
}

void describe_faults(const WorldPlan& plan, std::string& out) {
  for (const FaultWindow& w : plan.faults) {
    out += fmt::format(
        "  {} faults on link {} from end {}: {:.3f}..{:.3f} ms drop {} corrupt {} duplicate {} reorder {} "
        "delay {} ppm{}\n",
        w.layer == FaultLayer::kFlit ? "flit" : "cell", w.link, w.from_end, milliseconds(w.begin),
        milliseconds(w.end), w.rates.drop_ppm, w.rates.corrupt_ppm, w.rates.duplicate_ppm,
        w.rates.reorder_ppm, w.rates.delay_ppm, w.rates.cut ? ", nothing passes" : "");
  }
  for (const CutWindow& w : plan.cuts) {
    out +=
        fmt::format("  link {} cut: {:.3f}..{:.3f} ms\n", w.link, milliseconds(w.begin), milliseconds(w.end));
  }
  for (const Crash& c : plan.crashes) {
    out += fmt::format("  node {} dead: {:.3f}..{:.3f} ms\n", c.node, milliseconds(c.at),
                       milliseconds(c.back_at));
  }
  for (const Freeze& f : plan.freezes) {
    out += fmt::format("  node {} frozen: {:.3f}..{:.3f} ms\n", f.node, milliseconds(f.at),
                       milliseconds(f.until));
  }
}

std::string describe_verbs(const RawVerbsPlan& verbs) {
  std::string out;
  const auto add = [&](bool on, std::string_view what) {
    if (on) out += fmt::format(", {}", what);
  };
  add(verbs.windows, "windows");
  add(verbs.one_shot, "one-shot keys");
  add(verbs.revokes, "unbinds under way");
  add(verbs.fenced, "fences");
  add(verbs.inline_data, "inline");
  add(verbs.drains, "drains");
  add(verbs.takes_memory, "takes memory");
  return out;
}

}  // namespace

std::string_view to_string(Profile profile) noexcept {
  return profile < Profile::kCount ? kProfileNames[static_cast<size_t>(profile)] : "unknown";
}

bool parse_profile(std::string_view text, Profile& out) noexcept {
  const auto at = std::find(kProfileNames.begin(), kProfileNames.end(), text);
  if (at == kProfileNames.end()) return false;
  out = static_cast<Profile>(at - kProfileNames.begin());
  return true;
}

std::string_view to_string(Traffic traffic) noexcept {
  return traffic < Traffic::kCount ? kTrafficNames[static_cast<size_t>(traffic)] : "unknown";
}

bool parse_traffic(std::string_view text, Traffic& out) noexcept {
  const auto at = std::find(kTrafficNames.begin(), kTrafficNames.end(), text);
  if (at == kTrafficNames.end()) return false;
  out = static_cast<Traffic>(at - kTrafficNames.begin());
  return true;
}

std::string_view type_name(adapter::QpType type) noexcept {
  switch (type) {
    case adapter::QpType::kRc:
      return "rc";
    case adapter::QpType::kUc:
      return "uc";
    case adapter::QpType::kUd:
      return "ud";
    case adapter::QpType::kRd:
      return "rd";
    case adapter::QpType::kRaw:
      return "raw";
    case adapter::QpType::kXrcSend:
    case adapter::QpType::kXrcRecv:
      return "xrc";
  }
  return "unknown";
}

std::string describe(const WorldPlan& plan) {
  const FabricPlan& f = plan.fabric;
  std::string out = fmt::format(
      "seed {} profile {} traffic {}: {} endnodes, cell payload {}, flit payload {}, {} lanes x {} "
      "credits{}{}\n",
      plan.seed, to_string(plan.profile), to_string(plan.traffic), f.endnodes, f.cell_payload_bytes,
      f.flit_payload_bytes, f.lanes, f.credits_per_lane, f.cut_through ? ", cut-through" : "",
      f.receiver_rereads ? ", rereading links" : "",
      f.far_nodes != 0 ? fmt::format(", second switch for nodes {:#x}", f.far_nodes) : "");
  for (const CellFlowPlan& c : plan.cell_flows) {
    out += fmt::format("  cells {} -> {} lane {}: {} of {}..{} bytes\n", c.from, c.to, c.vl.value(), c.cells,
                       c.bytes_min, c.bytes_max);
  }
  for (const RawPairPlan& p : plan.raw_pairs) {
    out +=
        fmt::format("  {} nodes {} <-> {} messages {}/{} of {}..{} bytes, {} send {} recv WQEs{}{}{}\n",
                    type_name(p.type), p.nodes[0], p.nodes[1], p.messages[0], p.messages[1], p.bytes_min,
                    p.bytes_max, p.send_wqes, p.recv_wqes, p.one_sided ? ", one-sided too" : "",
                    p.ack_mode == adapter::AckMode::kStrict ? ", strict acks" : "", describe_verbs(p.verbs));
  }
  for (const SessionPlan& s : plan.sessions) {
    out += fmt::format("  session host {} unit {} {} {} frames {}/{} of {}..{} bytes, pools {} x {}\n",
                       s.host_node, s.unit_node, weft::to_string(s.mode), weft::to_string(s.encoding),
                       s.frames[0], s.frames[1], s.bytes_min, s.bytes_max, s.pool_elements,
                       s.pool_element_bytes);
    for (const ConfigChange& c : s.changes) {
      out +=
          fmt::format("    {} at {:.3f} ms\n", kChangeNames[static_cast<size_t>(c.kind)], milliseconds(c.at));
    }
    if (s.close_at != kNever) out += fmt::format("    closes at {:.3f} ms\n", milliseconds(s.close_at));
  }
  describe_faults(plan, out);
  return out;
}

}  // namespace weft::sim
