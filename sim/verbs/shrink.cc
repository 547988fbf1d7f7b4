#include <algorithm>

#include "sim/verbs/world.h"

namespace weft::sim::verbs {

std::set<uint64_t> shrink(const Plan& plan) {
  std::set<uint64_t> left_out;
  for (uint64_t chunk = std::max<uint64_t>(1, plan.operations / 2); chunk > 0; chunk /= 2) {
    for (uint64_t begin = 0; begin < plan.operations; begin += chunk) {
      std::set<uint64_t> attempt = left_out;
      for (uint64_t i = begin; i < begin + chunk && i < plan.operations; ++i) attempt.insert(i);
      if (attempt.size() == left_out.size()) continue;
      if (!run(plan, {.leave_out = &attempt}).ok) left_out = attempt;
    }
  }
  return left_out;
}

}  // namespace weft::sim::verbs
