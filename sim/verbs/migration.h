// sim/verbs/migration.h -- alternate paths of a program's connections: which they get, when they are asked to
// take them, and what verbs promise of a QP that says it has gone over.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapter/events.h"
#include "adapter/verbs.h"
#include "base/clock.h"
#include "sim/plan_draw.h"
#include "sim/verbs/links.h"
#include "sim/verbs/objects.h"

namespace weft::sim::verbs {

/// The route that this QP has from the beginning, or may have.
[[nodiscard]] Route route_of(const Qp& from, uint8_t port, const Qp& to, uint8_t to_port);

/// Both ends of a pair, which begins: where there is another way between them, they may load it.
void choose_alternate(PlanDraw& draw, Qp& qp, Qp& peer);
/// What a QP loads now of the way it has not taken.
void load_alternate(Qp& qp, const Links& links, adapter::QpAttr& attr, uint32_t& mask, Instant now);
/// Both ends stand on the same way and may load the other one again.
[[nodiscard]] bool may_load_again(const Qp& qp);
[[nodiscard]] adapter::PathMigState migration_of(const Qp& qp);

/// A link is about to fail. Each QP that is armed must leave it, and gets no other event.
void before_failure(std::vector<std::unique_ptr<Node>>& nodes, const Links& links, uint32_t link,
                    uint32_t trunk, bool for_long);
/// This request has had no answer by the path of its QP for half of the time that its retries last, or
/// longer.
[[nodiscard]] bool asked_in_vain(const Qp& qp, const Send& send, const Links& links, Instant now);
/// The QP says that it has gone over, or could not. What is wrong with that; empty when nothing is.
[[nodiscard]] std::string path_migrated(Qp& qp, const Links& links, bool may_be_late, Instant now);
[[nodiscard]] std::string path_refused(Qp& qp, const Links& links, bool may_be_late, Instant now);
/// The port is up again: who was to leave it has.
[[nodiscard]] std::string nobody_stayed(const Node& node, uint8_t port);

}  // namespace weft::sim::verbs
