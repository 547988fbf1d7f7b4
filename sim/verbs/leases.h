// sim/verbs/leases.h -- memory that a work request of a program has for itself, and room for its completion.
#pragma once

#include <cstdint>
#include <vector>

#include "adapter/verbs.h"
#include "sim/plan_draw.h"
#include "sim/verbs/objects.h"

namespace weft::sim::verbs {

/// Most data segments of a request.
inline constexpr uint32_t kSegmentsMax = 16;

/// Memory for one request alone, in up to `pieces` parts, with bytes that it may not touch between; false
/// when there is none. What is there before is never what comes.
[[nodiscard]] bool lease(PlanDraw& draw, Node& node, adapter::PdId pd, uint64_t length, uint32_t pieces,
                         bool may_change, std::vector<Piece>& out);
void give_back(const std::vector<Piece>& pieces);
/// As the adapter gets them; `by_pointer`: inline data, which needs no key.
[[nodiscard]] std::vector<adapter::Sge> segments(const std::vector<Piece>& pieces, bool by_pointer);
/// Entries that are still free for certain: every request that has not come back may need one.
[[nodiscard]] uint32_t room(const Cq& cq);

}  // namespace weft::sim::verbs
