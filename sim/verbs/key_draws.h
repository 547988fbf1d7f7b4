// sim/verbs/key_draws.h -- keys that a program of verbs uses, makes and ends: of regions and windows, by
// calls and by work requests.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapter/verbs.h"
#include "sim/plan_draw.h"
#include "sim/verbs/draft.h"
#include "sim/verbs/model.h"
#include "sim/verbs/objects.h"

namespace weft::sim::verbs {

/// Owner: the program, which outlives it.
class KeyDraws {
 public:
  KeyDraws(PlanDraw& draw, Model& model, Tally& tally) : draw_(draw), model_(model), tally_(tally) {}

  /// A good key of this domain that gives the right and serves this target; null when there is none.
  [[nodiscard]] KeyPtr pick(const Qp& to, adapter::PdId pd, adapter::Access right);
  /// A key that peers were given and that opens nothing for this target, or, with `right`, does not give
  /// that; null when there is none.
  [[nodiscard]] KeyPtr pick_useless(const Qp& to, adapter::PdId pd, adapter::Access right);
  /// A key that a peer's Send ends.
  [[nodiscard]] static bool peers_end(const Key& key) noexcept;
  /// A bind, an unbind, an invalidation, a registration or, when none can be, a delay. `wrong`: one that
  /// cannot end well, if there is any.
  void draft(Qp& qp, Draft& draft, bool wrong);
  /// Such a request was posted.
  void posted(Send& send);
  /// A window goes by a call.
  void deallocate(Node& node);
  /// A region that work requests fill, not yet filled.
  void reserve(Region& region);

 private:
  void draft_bind(Qp& qp, Draft& draft);
  void draft_invalidation(Qp& qp, Draft& draft, bool wrong);
  void draft_registration(Qp& qp, Draft& draft, bool wrong);
  [[nodiscard]] Window* pick_window(Node& node, adapter::PdId pd, adapter::WindowKind kind);
  [[nodiscard]] bool name_window(Node& node, Draft& draft, adapter::PdId pd);
  [[nodiscard]] bool stage(Region& region);

  PlanDraw& draw_;
  Model& model_;
  Tally& tally_;
};

}  // namespace weft::sim::verbs
