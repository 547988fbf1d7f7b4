// sim/verbs/migration.h -- alternate paths of a program's connections: which paths QPs load, when they are
// asked to migrate, and what the verbs promise when a QP reports a migration.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapter/events.h"
#include "adapter/verbs.h"
#include "base/clock.h"
#include "sim/plan/plan_draw.h"
#include "sim/verbs/links.h"
#include "sim/verbs/objects.h"

namespace weft::sim::verbs {

/// The route of QP `from` by `port` to QP `to` at `to_port`.
[[nodiscard]] Route route_of(const Qp& from, uint8_t port, const Qp& to, uint8_t to_port);

/// The routes between two QPs by each port of both nodes.
[[nodiscard]] std::vector<Route> ways_between(const Qp& from, const Qp& to);

/// For a pair that is starting: chooses an alternate route between both ends, if there is one, which they may
/// load.
void choose_alternate(PlanDraw& draw, Qp& qp, Qp& peer);
/// The attributes with which a QP loads its other route.
void load_alternate(Qp& qp, const Links& links, adapter::QpAttr& attr, uint32_t& mask, Instant now);
/// True if both ends use the same route and may load the other one again.
[[nodiscard]] bool may_load_again(const Qp& qp);
[[nodiscard]] adapter::PathMigState migration_of(const Qp& qp);

/// A link is about to fail. Each armed QP on it must migrate and must report no other event.
void before_failure(std::vector<std::unique_ptr<Node>>& nodes, const Links& links, uint32_t link,
                    uint32_t trunk, bool for_long);
/// True if this request has had no answer by the present path for at least half of the time that the QP's
/// retries last.
[[nodiscard]] bool asked_in_vain(const Qp& qp, const Send& send, const Links& links, Instant now);
/// The QP reports that it has migrated, or (path_refused) could not. @return a violation; empty when there is
/// none
[[nodiscard]] std::string path_migrated(Qp& qp, const Links& links, bool may_be_late, Instant now);
[[nodiscard]] std::string path_refused(Qp& qp, const Links& links, bool may_be_late, Instant now);
/// The port is up again. Every QP that had to leave it must have left. @return a violation; empty when there
/// is none
[[nodiscard]] std::string nobody_stayed(const Node& node, uint8_t port);

}  // namespace weft::sim::verbs
