#include "base/result.h"

#include <system_error>

namespace weft {

Error errno_error(std::string what, int errno_value) {
  return Error{std::move(what) + ": " + std::generic_category().message(errno_value)};
}

}  // namespace weft
