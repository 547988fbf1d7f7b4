// sim/verbs/draft.h -- a work request on its way: what the model hears of it, and what the adapter gets.
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
