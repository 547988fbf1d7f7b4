#include "base/environment.h"

#include <fmt/format.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

namespace weft {
namespace {

namespace fs = std::filesystem;

/// Our UID as seen outside of our user namespace. Inside `unshare -Ur` every user is 0, but `weft status`
/// runs outside.
uid_t outer_uid() {
  std::ifstream map("/proc/self/uid_map");
  const uint64_t own = geteuid();
  uint64_t inside = 0;
  uint64_t outside = 0;
  for (uint64_t count = 0; map >> inside >> outside >> count;)
    if (own >= inside && own - inside < count) return static_cast<uid_t>(outside + (own - inside));
  return static_cast<uid_t>(own);
}

bool writable(const fs::path& path) noexcept {
  return access(path.c_str(), W_OK) == 0;
}

}  // namespace

std::string environment_variable(const char* name) {
  const char* value = secure_getenv(name);
  return value != nullptr ? value : "";
}

std::string state_directory_base() {
  if (std::string set = environment_variable("WEFT_STATE_DIR"); !set.empty()) return set;
  const std::string own = fmt::format("weft-{}", outer_uid());
  std::vector<fs::path> places{fs::path("/tmp") / own, fs::path("/dev/shm") / own};
  if (const std::string runtime = environment_variable("XDG_RUNTIME_DIR"); runtime.starts_with('/'))
    places.insert(places.begin(), fs::path(runtime) / "weft");
  std::error_code ignored;
  for (const fs::path& place : places)
    if (writable(place) || (!fs::exists(place, ignored) && writable(place.parent_path()))) return place;
  return places.front();
}

}  // namespace weft
