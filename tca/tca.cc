#include "tca/tca.h"

#include "adapter/bring_up.h"

namespace weft::tca {

adapter::ModifyResult Tca::accept(adapter::QueuePair& qp, const adapter::QpAttr& attr) {
  return adapter::bring_up(adapter(), qp, attr, adapter::QpState::kRtr);
}
adapter::ModifyResult Tca::confirm(adapter::QueuePair& qp, const adapter::QpAttr& attr) {
  return adapter::bring_up(adapter(), qp, attr, adapter::QpState::kRts);
}

}  // namespace weft::tca
