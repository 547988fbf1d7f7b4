// sim/verbs/leases.h -- memory reserved for one work request of a program, and room for its completion.
#pragma once

#include <cstdint>
#include <vector>

#include "adapter/verbs.h"
#include "sim/plan/plan_draw.h"
#include "sim/verbs/objects.h"

namespace weft::sim::verbs {

/// Most segments of a request.
inline constexpr uint32_t kSegmentsMax = 16;

/// Reserves memory for one request, in up to `pieces` parts with guard bytes between them; false when there
/// is none. The present bytes differ from those that will arrive.
[[nodiscard]] bool lease(PlanDraw& draw, Node& node, adapter::PdId pd, uint64_t length, uint32_t pieces,
                         bool may_change, std::vector<Piece>& out);
void give_back(const std::vector<Piece>& pieces);
/// Segments for the adapter. `by_pointer`: inline data, which needs no key.
[[nodiscard]] std::vector<adapter::Sge> segments(const std::vector<Piece>& pieces, bool by_pointer);
/// Number of entries that are certainly free: every outstanding request may need one.
[[nodiscard]] uint32_t room(const Cq& cq);

}  // namespace weft::sim::verbs
