#include "adapter/transport/services.h"

#include <array>

#include "adapter/transport/direct/direct_service.h"
#include "adapter/transport/raw/raw_service.h"
#include "adapter/transport/rd/rd_service.h"
#include "adapter/transport/reliable/reliable_service.h"
#include "adapter/transport/unreliable/unreliable_service.h"

namespace weft::adapter {
namespace {

constexpr std::array<const ServiceRow*, 8> kServices{&kRcRow,  &kUcRow,      &kUdRow,      &kRdRow,
                                                     &kRawRow, &kXrcSendRow, &kXrcRecvRow, &kRcDirectRow};

}  // namespace

std::span<const ServiceRow* const> all_services() noexcept {
  return kServices;
}

const ServiceRow* find_service(std::span<const ServiceRow* const> table, QpType type) noexcept {
  for (const ServiceRow* row : table) {
    if (row->type == type) return row;
  }
  return nullptr;
}

Services::Services(std::span<const ServiceRow* const> table, Engine& engine, CellWriter& writer)
    : table_(table.empty() ? all_services() : table) {
  for (const ServiceRow* row : table_) {
    objects_.push_back(row->make(engine, writer));
    if (objects_.back()->has_turns()) turning_.push_back(objects_.back().get());
  }
}

Service* Services::object_of(const ServiceRow& row) const noexcept {
  for (size_t i = 0; i < table_.size(); ++i) {
    if (table_[i] == &row) return objects_[i].get();
  }
  return nullptr;
}

}  // namespace weft::adapter
