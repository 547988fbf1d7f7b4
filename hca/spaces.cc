#include "hca/spaces.h"

#include "hca/device_core.h"
#include "hca/memory.h"

namespace weft::hca {

Answer Spaces::assign(ProtectionDomain& pd, adapter::ProcessId process, adapter::ProcessMode mode) {
  if (core_.forked()) return Answer::kForked;
  if (&pd.context().core() != &core_) return Answer::kForeignObject;
  const Hold hold(core_);
  return reason_of(spaces_.assign(pd.id(), process, mode));
}

Answer Spaces::segment_table_update(adapter::ProcessId process, const adapter::Segment& segment) {
  if (core_.forked()) return Answer::kForked;
  const Hold hold(core_);
  spaces_.segment_table_update(process, segment);
  return Answer::kOk;
}

Answer Spaces::map_local_page(uint64_t address, uint64_t bytes) {
  if (core_.forked()) return Answer::kForked;
  const Hold hold(core_);
  return reason_of(spaces_.map_local_page(address, bytes));
}

Answer Spaces::page_changed(const adapter::PageEntry& entry) {
  if (core_.forked()) return Answer::kForked;
  const Hold hold(core_);
  spaces_.page_changed(entry);
  return Answer::kOk;
}

}  // namespace weft::hca
