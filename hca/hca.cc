#include "hca/hca.h"

#include "adapter/bring_up.h"

namespace weft::hca {

adapter::ModifyResult Hca::connect(adapter::QueuePair& qp, const adapter::QpAttr& attr) {
  return adapter::bring_up(adapter(), qp, attr);
}

}  // namespace weft::hca
