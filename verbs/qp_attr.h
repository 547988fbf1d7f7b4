// verbs/qp_attr.h -- attributes of queue pairs in libibverbs' codes and in the adapter's values.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <cstring>

#include "verbs/objects.h"

namespace weft::verbs {

/// The number in a field of an enumeration, which a program may have set to any value.
template <class Enum>
[[nodiscard]] uint32_t raw(const Enum& field) noexcept {
  uint32_t number = 0;
  static_assert(sizeof number == sizeof field);
  std::memcpy(&number, &field, sizeof number);
  return number;
}

/// An ibv_modify_qp() call for the adapter: attributes in the adapter's values and their mask. If the adapter
/// cannot express the call, `fault` says why; otherwise it is null.
struct QpChange {
  adapter::QpAttr attr{};
  uint32_t mask = 0;
  const char* fault = nullptr;
  uint32_t value = 0;  // with a fault: the wrong value
  int error = 0;       // with a fault: the errno
};
/// What the values of a change depend on.
struct ChangeBasis {
  ibv_qp_type type{};
  adapter::QpState state{};  // of the QP, before the change
  uint8_t port = 0;          // of the QP; 0 before INIT
  uint32_t ports = 0;        // of the device
  int gids = 0;              // entries of the port's GID table
};
[[nodiscard]] QpChange qp_change_of(const ibv_qp_attr& given, int mask, const ChangeBasis& basis) noexcept;
/// After a path migration, moves the alternate address and timeout to those in force.
void settle(KeptAttr& kept, const adapter::QpAttr& now) noexcept;
/// Keeps the values that ibv_query_qp() must return exactly as the program set them.
void remember(KeptAttr& kept, const ibv_qp_attr& attr, int mask) noexcept;
/// Fills `out` in libibverbs' codes from the adapter's attributes and the kept values.
void answer_query(KeptAttr& kept, const adapter::QpAttr& attr, ibv_qp_attr& out) noexcept;

}  // namespace weft::verbs
