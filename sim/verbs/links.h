// sim/verbs/links.h -- the links of a fabric as a program of verbs knows them: when each was cut and came
// back, what ports have told of it, and for how long it carried nothing.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "adapter/events.h"
#include "base/clock.h"
#include "sim/verbs/objects.h"
#include "sim/verbs/plan.h"

namespace weft::sim::verbs {

/// Owner: the model. Every text that a method returns says what is wrong; an empty one that nothing is.
class Links {
 public:
  /// `plan` must outlive the links.
  explicit Links(const Plan& plan);

  // ---- what happens
  /// An adapter begins on this link: its port has told nothing yet. Its link is there.
  void begins(uint32_t link) noexcept;
  void ends(uint32_t link) noexcept { links_[link].port_lives = false; }
  void cut(uint32_t link, Instant now) noexcept;
  [[nodiscard]] std::string mended(uint32_t link, Instant now);
  /// The port will come back, now, with this LID and perhaps another GUID.
  void renamed(uint32_t link, Lid lid, bool other_guid, Instant now);
  /// The port has another table of partitions; `alone`: it shares none with another port.
  void partitions(uint32_t link, bool alone, Instant now) noexcept;

  // ---- what comes back
  /// What the port at the link says.
  [[nodiscard]] std::string told(uint32_t link, adapter::AsyncEventKind kind, Instant now);
  /// All is quiet: it has said everything.
  [[nodiscard]] std::string silent(uint32_t link) const;

  // ---- what is known
  [[nodiscard]] bool is_cut(uint32_t link) const noexcept { return links_[link].cut; }
  [[nodiscard]] bool is_alone(uint32_t link) const noexcept { return links_[link].alone; }
  [[nodiscard]] uint64_t cuts(uint32_t link) const noexcept { return links_[link].cuts; }
  [[nodiscard]] Lid lid(uint32_t link) const noexcept { return links_[link].lids.back().second; }
  /// The port at the link had this LID at some time since then.
  [[nodiscard]] bool had(uint32_t link, Lid lid, Instant since) const noexcept;
  /// One of its ports has another LID now.
  [[nodiscard]] bool is_stale(const Route& route) const noexcept;
  /// And has had another one since then, and all the time.
  [[nodiscard]] bool is_stale_since(const Route& route, Instant since) const noexcept;
  /// Its port talks to itself, be it because it was given the LID that another port had.
  [[nodiscard]] bool loops(const Route& route) const noexcept { return lid(route.link) == route.peer; }
  /// Nothing passes by it now.
  [[nodiscard]] bool fails(const Route& route) const noexcept;
  /// Time, in all, for which a QP got no answer by this route though its port was up.
  [[nodiscard]] Duration silence(const Route& route, Instant now) const;
  /// And that it was of no use to one that could take another: its own port was down, too.
  [[nodiscard]] Duration useless(const Route& route, Instant now) const;

  /// Where flits are lost or damaged, a link gives up now and then and begins anew by itself.
  [[nodiscard]] bool resets_itself() const noexcept {
    return plan_.flit_faults.drop_ppm != 0 || plan_.flit_faults.corrupt_ppm != 0;
  }

 private:
  struct Span {
    Instant begin{};
    Instant end = kNever;  // it lasts
  };
  using Spans = std::vector<Span>;
  struct Link {
    bool port_lives = false;
    bool cut = false;
    bool alone = false;
    uint64_t cuts = 0;
    Spans cut_spans;
    Spans alone_spans;
    std::vector<std::pair<Instant, Lid>> lids;  // and since when
    uint64_t guids = 0;                         // it had before this one
    // What its port has still to tell.
    uint32_t ups = 0;  // it came up since it said so last
    uint32_t downs = 0;
    uint32_t tables = 0;
    bool told_up = false;    // ever
    bool told_down = false;  // since it was up
    bool told_expired = false;
    bool told_new = false;  // that it is another link
    bool told_lid = false;  // that its LID is another
    bool told_gid = false;
    Lid known_lid;  // when it came up last
    uint64_t known_guid = 0;
    bool must_tell_down = false;
  };

  [[nodiscard]] static std::string told_up(Link& link);
  [[nodiscard]] static std::string told_name(Link& link, adapter::AsyncEventKind kind);
  /// When the port had another LID.
  void add_stale(uint32_t link, Lid lid, Spans& out) const;
  [[nodiscard]] bool crosses(const Route& route) const noexcept;
  /// When nothing came back by this route, whatever its own port did.
  [[nodiscard]] Spans dark(const Route& route) const;
  /// How long, up to now, any of `these` lasted and none of `those`.
  [[nodiscard]] static Duration lasted(const Spans& these, const Spans& those, Instant now);

  const Plan& plan_;
  std::vector<Link> links_;
};

}  // namespace weft::sim::verbs
