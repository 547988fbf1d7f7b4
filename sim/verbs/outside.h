// sim/verbs/outside.h -- what a program of verbs does to the fabric under it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "sim/verbs/objects.h"

namespace weft::sim::verbs {

/// What of a port's names becomes another one.
struct NewName {
  bool lid = false;
  bool guid = false;
  uint32_t choice = 0;  // which LID: one that was never used, or one that is free again
};

/// Owner: the world of a seed, which is one.
class Outside {
 public:
  virtual ~Outside() = default;
  /// The link is gone for `lasts`; zero: it is back at once. Not while it is cut.
  virtual void cut(uint32_t link, Duration lasts) = 0;
  /// The same, when some time has passed; not if it is cut then.
  virtual void cut_later(uint32_t link, Duration after, Duration lasts) = 0;
  /// The link is cut for `lasts`; its port comes back with another LID or another GUID, or both.
  virtual void rename(uint32_t link, Duration lasts, NewName name) = 0;
  /// The switch is gone for `lasts`, with all cells in it, and comes back without state; zero: at once. False
  /// when it is not there.
  virtual bool crash(uint32_t index, Duration lasts) = 0;
  /// Makes no call for `lasts`.
  virtual void pause(Duration lasts) = 0;
  /// Places where an adapter may begin: empty ones whose links are whole.
  [[nodiscard]] virtual std::vector<uint32_t> free_places() const = 0;
  /// An adapter begins at a free place. It lives as long as the world.
  [[nodiscard]] virtual Node& begin(uint32_t place) = 0;
  /// It ends; `at_once`: what it has not sent yet is gone with it.
  virtual void end(Node& node, bool at_once) = 0;
};

}  // namespace weft::sim::verbs
