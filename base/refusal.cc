#include "base/refusal.h"

#include <fmt/format.h>

namespace weft {

std::string Refusal::text() const {
  std::string out = fmt::format(fmt::runtime(line_), numbers_[0], numbers_[1]);
  return out.append(ending_);
}

}  // namespace weft
