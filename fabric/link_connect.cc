#include "fabric/link_connect.h"

#include <fmt/format.h>

#include "fabric/shm_connector.h"

namespace weft {
namespace {

constexpr std::string_view kShmPrefix = "shm:";

}  // namespace

Result<std::unique_ptr<LinkConnection>> connect_link(const LinkEndpointConfig& config, RandomSource& random) {
  Status fits = check_link_config(config.link);
  if (!fits) return fits.error();
  if (config.link.guid == Guid{}) return Error{"a link needs the GUID of its node"};
  if (config.endpoint.starts_with(kShmPrefix)) {
    const std::string path = config.endpoint.substr(kShmPrefix.size());
    if (path.empty()) return Error{"endpoint shm: names no socket: write shm:PATH"};
    return std::make_unique<LinkConnection>(config.timers, make_shm_connector(path, config.link, random));
  }
  return Error{fmt::format("endpoint {}: write shm:PATH, ipc://PATH or tcp://HOST:PORT", config.endpoint)};
}

}  // namespace weft
