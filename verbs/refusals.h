// verbs/refusals.h -- why a change of a QP was refused: which attribute, its value, what is allowed.
#pragma once

#include <string>

#include "verbs/objects.h"

namespace weft::verbs {

/// Asks the adapter's tables again, after the adapter has refused.
[[nodiscard]] std::string why_not(const Qp& qp, adapter::QpState from, const adapter::QpAttr& attr,
                                  uint32_t mask, uint32_t ports);

}  // namespace weft::verbs
