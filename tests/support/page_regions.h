// tests/support/page_regions.h -- a region over a list of pages, in one call.
#pragma once

#include <utility>

#include "adapter/memory/regions.h"

namespace weft::test {

inline Refusable<adapter::MemoryRegion> reg_pages(adapter::Regions& regions, adapter::PdId pd,
                                                  const adapter::PageList& pages, adapter::Access access,
                                                  const adapter::RegisterOptions& options = {}) {
  auto table = adapter::AddressTable::make(pages);
  if (!table) return table.error();
  return regions.reg_pages(pd, std::move(*table), access, options);
}

}  // namespace weft::test
