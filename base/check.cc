#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace weft {

void check_failed(const char* file, int line, const char* expression, const char* text) noexcept {
  std::fprintf(stderr, "%s:%d: check failed: %s: %s\n", file, line, expression, text);
  std::abort();
}

}  // namespace weft
