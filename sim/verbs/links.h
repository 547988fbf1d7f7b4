// sim/verbs/links.h -- the links of a fabric as a program of verbs knows them: when each was cut and mended,
// which events its port has reported, and for how long it transported nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "adapter/events.h"
#include "base/clock.h"
#include "sim/verbs/objects.h"
#include "sim/verbs/plan.h"

namespace weft::sim::verbs {

/// Owner: the model. A returned text describes a violation; an empty text means none.
class Links {
 public:
  /// `plan` must outlive the links.
  explicit Links(const Plan& plan);

  // ---- events of the fabric
  /// An adapter starts on this link, which is whole; its port has reported nothing yet.
  void begins(uint32_t link) noexcept;
  void ends(uint32_t link) noexcept { links_[link].port_lives = false; }
  void cut(uint32_t link, Instant now) noexcept;
  [[nodiscard]] std::string mended(uint32_t link, Instant now);
  /// The port comes back now with this LID and, if `other_guid`, another GUID.
  void renamed(uint32_t link, Lid lid, bool other_guid, Instant now);
  /// The port has another table of partitions. `alone`: it shares no partition with another port.
  void partitions(uint32_t link, bool alone, Instant now) noexcept;

  // ---- reports
  /// Handles an event of the port at the link.
  [[nodiscard]] std::string told(uint32_t link, adapter::AsyncEventKind kind, Instant now);
  /// With everything quiet, checks that the port has reported all changes.
  [[nodiscard]] std::string silent(uint32_t link) const;

  // ---- state
  [[nodiscard]] bool is_cut(uint32_t link) const noexcept { return links_[link].cut; }
  [[nodiscard]] bool is_alone(uint32_t link) const noexcept { return links_[link].alone; }
  [[nodiscard]] uint64_t cuts(uint32_t link) const noexcept { return links_[link].cuts; }
  [[nodiscard]] Lid lid(uint32_t link) const noexcept { return links_[link].lids.back().second; }
  /// True if the port at the link had this LID at some time after `since`.
  [[nodiscard]] bool had(uint32_t link, Lid lid, Instant since) const noexcept;
  /// True if one of the route's two ports has another LID now.
  [[nodiscard]] bool is_stale(const Route& route) const noexcept;
  /// True if one of the two ports has had another LID during all the time after `since`.
  [[nodiscard]] bool is_stale_since(const Route& route, Instant since) const noexcept;
  /// True if the port talks to itself, perhaps because it got the LID that another port had.
  [[nodiscard]] bool loops(const Route& route) const noexcept { return lid(route.link) == route.peer; }
  /// True if nothing passes by the route now.
  [[nodiscard]] bool fails(const Route& route) const noexcept;
  /// Total time for which a QP got no answer by this route although its own port was up.
  [[nodiscard]] Duration silence(const Route& route, Instant now) const;
  /// Total time for which the route was useless to a QP that has another one: like silence(), plus the time
  /// for which its own port was down.
  [[nodiscard]] Duration useless(const Route& route, Instant now) const;
  /// Total time for which at least `many` of these routes were useless at once.
  [[nodiscard]] Duration useless(std::span<const Route> routes, size_t many, Instant now) const;
  /// True if the route was never useless from `begin` to `end`.
  [[nodiscard]] bool is_whole(const Route& route, Instant begin, Instant end) const;

  /// True if a link sometimes resets by itself, because flits are lost or damaged.
  [[nodiscard]] bool resets_itself() const noexcept {
    return plan_.flit_faults.drop_ppm != 0 || plan_.flit_faults.corrupt_ppm != 0;
  }

 private:
  struct Span {
    Instant begin{};
    Instant end = kNever;  // kNever: not over
  };
  using Spans = std::vector<Span>;
  struct Link {
    bool port_lives = false;
    bool cut = false;
    bool alone = false;
    uint64_t cuts = 0;
    Spans cut_spans;
    Spans alone_spans;
    std::vector<std::pair<Instant, Lid>> lids;  // each with the time from which it was valid
    uint64_t guids = 0;                         // number of GUIDs before the present one
    // Changes that the port has not reported yet.
    uint32_t ups = 0;  // times that it came up after its last report
    uint32_t downs = 0;
    uint32_t tables = 0;
    bool told_up = false;       // at least once
    bool told_down = false;     // after it last came up
    bool told_expired = false;  // at least once for the present cut
    Instant waits_from{};       // when it was cut, or expired last
    bool told_new = false;      // has reported that the link is another one
    bool told_lid = false;      // has reported another LID
    bool told_gid = false;
    Lid known_lid;  // LID when it last came up
    uint64_t known_guid = 0;
    bool must_tell_down = false;
  };

  [[nodiscard]] static std::string told_up(Link& link);
  [[nodiscard]] static std::string told_name(Link& link, adapter::AsyncEventKind kind);
  /// Adds the times for which the port had another LID than `lid`.
  void add_stale(uint32_t link, Lid lid, Spans& out) const;
  [[nodiscard]] bool crosses(const Route& route) const noexcept;
  /// Times for which no answer came by this route, apart from the state of its own port.
  [[nodiscard]] Spans dark(const Route& route) const;
  /// The same and the times for which its own port was down.
  [[nodiscard]] Spans useless_times(const Route& route) const;
  /// Total time up to `now` for which one of `these` lasted and none of `those`.
  [[nodiscard]] static Duration lasted(const Spans& these, const Spans& those, Instant now);

  const Plan& plan_;
  std::vector<Link> links_;
};

}  // namespace weft::sim::verbs
