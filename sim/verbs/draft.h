// sim/verbs/draft.h -- a work request being prepared: the record for the model, and the request for the
// adapter.
#pragma once

#include <memory>
#include <vector>

#include "adapter/verbs.h"
#include "sim/verbs/objects.h"

namespace weft::sim::verbs {

struct Draft {
  SendPtr send = std::make_shared<Send>();
  adapter::SendRequest request;
  std::vector<adapter::Sge> sges;
};

}  // namespace weft::sim::verbs
