// sim/verbs/outside.h -- actions of a program of verbs on the fabric below it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/clock.h"
#include "sim/verbs/objects.h"

namespace weft::sim::verbs {

/// Which of a port's names change.
struct NewName {
  bool lid = false;
  bool guid = false;
  uint32_t choice = 0;  // choice of the LID: a new one, or one that is free again
};

/// Owner: the world of a seed, which implements it.
class Outside {
 public:
  virtual ~Outside() = default;
  /// Cuts the link for `lasts`; zero: it is reset. The link must not be cut already.
  virtual void cut(uint32_t link, Duration lasts) = 0;
  /// Does the same after `after`, unless the link is cut then.
  virtual void cut_later(uint32_t link, Duration after, Duration lasts) = 0;
  /// Cuts the link for `lasts`; its port comes back with another LID, another GUID, or both.
  virtual void rename(uint32_t link, Duration lasts, NewName name) = 0;
  /// Kills the switch for `lasts`, with all cells in it; it comes back without state; zero: at once. False
  /// when it is already dead.
  virtual bool crash(uint32_t index, Duration lasts) = 0;
  /// Makes no calls for `lasts`.
  virtual void pause(Duration lasts) = 0;
  /// Empty places with whole links, where an adapter may start.
  [[nodiscard]] virtual std::vector<uint32_t> free_places() const = 0;
  /// Starts an adapter at a free place. The node record lives as long as the world.
  [[nodiscard]] virtual Node& begin(uint32_t place) = 0;
  /// Ends the node's adapter. `at_once`: cells that it has not sent are lost.
  virtual void end(Node& node, bool at_once) = 0;
};

}  // namespace weft::sim::verbs
