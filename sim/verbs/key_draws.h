// sim/verbs/key_draws.h -- draws keys for a program of verbs: uses, makes and ends keys of regions and
// windows, by calls and by work requests.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapter/verbs.h"
#include "sim/plan/plan_draw.h"
#include "sim/verbs/draft.h"
#include "sim/verbs/model.h"
#include "sim/verbs/objects.h"

namespace weft::sim::verbs {

/// Owner: the program, which outlives it.
class KeyDraws {
 public:
  KeyDraws(PlanDraw& draw, Model& model, Tally& tally) : draw_(draw), model_(model), tally_(tally) {}

  /// A valid key of this domain that gives the right and may be used with QP `to`; null when there is none.
  [[nodiscard]] KeyPtr pick(const Qp& to, adapter::PdId pd, adapter::Access right);
  /// A key known to peers that is invalid for QP `to`; with `right`, also a key that lacks that right. Null
  /// when there is none.
  [[nodiscard]] KeyPtr pick_useless(const Qp& to, adapter::PdId pd, adapter::Access right);
  /// True if a peer's Send may invalidate the key.
  [[nodiscard]] static bool peers_end(const Key& key) noexcept;
  /// Prepares a bind, unbind, invalidation or registration; if none is possible, a delay. `wrong`: one that
  /// must fail, if possible.
  void draft(Qp& qp, Draft& draft, bool wrong);
  /// A request of draft() was posted.
  void posted(Send& send);
  /// Deallocates a window by a call.
  void deallocate(Node& node);
  /// Registers a region that work requests will fill.
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
