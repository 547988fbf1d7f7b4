// base/strong_id.h -- identifiers of different kinds are different types (house style 8).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace weft {

/// A value of type Rep that cannot be mixed up with an identifier of another kind.
template <class Tag, class Rep>
class StrongId {
 public:
  using rep = Rep;
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) noexcept : value_(value) {}
  [[nodiscard]] constexpr Rep value() const noexcept { return value_; }
  friend constexpr auto operator<=>(const StrongId&, const StrongId&) = default;  // NOLINT: 0, no pointer

 private:
  Rep value_{};
};

/// Hash for unordered containers. Never iterate over one where the order can reach a wire or a trace.
struct StrongIdHash {
  template <class Tag, class Rep>
  size_t operator()(StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>{}(id.value());
  }
};

}  // namespace weft
