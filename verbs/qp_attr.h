// verbs/qp_attr.h -- attributes of queue pairs: libibverbs' codes and the adapter's values.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "verbs/objects.h"

namespace weft::verbs {

/// The part of `mask` that the adapter knows, and `attr` in its values. Null, or why it cannot be said to an
/// adapter.
struct QpChange {
  adapter::QpAttr attr{};
  uint32_t mask = 0;
  const char* fault = nullptr;
  int error = 0;  // with `fault`
};
[[nodiscard]] QpChange qp_change_of(const ibv_qp_attr& given, int mask) noexcept;
/// A QP that has migrated has the address that was its alternate one.
void settle(Qp& qp, const adapter::QpAttr& now) noexcept;
/// Keeps what a query has to give back as the program said it.
void remember(Qp& qp, const ibv_qp_attr& attr, int mask) noexcept;
/// What the adapter has, in libibverbs' codes.
void answer_query(const Qp& qp, const adapter::QpAttr& attr, ibv_qp_attr& out) noexcept;

}  // namespace weft::verbs
