// verbs/refusals.h -- why a change of a QP was refused: which attribute, its value, what is allowed.
#pragma once

#include <string>

#include "verbs/objects.h"

namespace weft::verbs {

/// Says why the last post to `qp` was refused; `unknown` when it did not come as far as the adapter.
void explain_post(const char* call, const Qp& qp, const char* unknown) noexcept;
/// Asks the adapter's tables again, after the adapter has refused.
[[nodiscard]] std::string why_not(const Qp& qp, adapter::QpState from, const adapter::QpAttr& attr,
                                  uint32_t mask, uint32_t ports);

}  // namespace weft::verbs
