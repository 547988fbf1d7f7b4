// adapter/transport/services.h -- the table of services, and the services of one adapter.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "adapter/transport/service.h"

namespace weft::adapter {

/// Every service of the product.
[[nodiscard]] std::span<const ServiceRow* const> all_services() noexcept;
/// The service of a type; null when there is none.
[[nodiscard]] const ServiceRow* find_service(std::span<const ServiceRow* const> table, QpType type) noexcept;

/// The services of one adapter, each with its object. Owner: the adapter.
class Services {
 public:
  /// `table` must outlive the object; empty: all_services().
  Services(std::span<const ServiceRow* const> table, Engine& engine, CellWriter& writer);

  [[nodiscard]] const ServiceRow* find(QpType type) const noexcept { return find_service(table_, type); }
  /// Null when the adapter has no such service.
  [[nodiscard]] Service* object_of(const ServiceRow& row) const noexcept;

  /// Calls run_turn() of the services that have turns; returns the cells sent.
  uint32_t run_turns() noexcept {
    uint32_t cells = 0;
    for (Service* service : turning_) cells += service->run_turn();
    return cells;
  }
  [[nodiscard]] Instant next_turn() const noexcept {
    Instant at = kNever;
    for (const Service* service : turning_) at = std::min(at, service->next_turn());
    return at;
  }

 private:
  std::span<const ServiceRow* const> table_;
  std::vector<std::unique_ptr<Service>> objects_;  // in the order of table_
  std::vector<Service*> turning_;                  // services with has_turns()
};

}  // namespace weft::adapter
