#include "fabric/carrier/link_connect.h"

#include <fmt/format.h>

#include <optional>

#include "base/time_span.h"
#include "fabric/carrier/curve_keys.h"
#include "fabric/carrier/limits.h"
#include "fabric/carrier/shm_connector.h"
#include "fabric/carrier/zmq_connector.h"

namespace weft::fabric {
namespace {

constexpr std::string_view kShmPrefix = "shm:";

/// Reads the key files that are named.
Status read_keys(const LinkEndpointConfig& config, ZmqConnectorConfig& out) {
  if (!config.curve_secret_file.empty()) {
    Result<CurveKeyPair> keys = read_curve_secret(config.curve_secret_file);
    if (!keys) return keys.error();
    out.own_keys = *keys;
  }
  if (!config.curve_server_file.empty()) {
    Result<std::string> key = read_curve_public(config.curve_server_file);
    if (!key) return key.error();
    out.server_public_key = *key;
  }
  return {};
}

Result<std::unique_ptr<LinkSupervisor>> connector_for(const LinkEndpointConfig& config,
                                                      RandomSource& random) {
  if (config.endpoint.starts_with(kShmPrefix)) {
    return make_shm_connector(config.endpoint.substr(kShmPrefix.size()), config.link, random);
  }
  ZmqConnectorConfig zmq{config.link, config.endpoint, {}, {}, config.silence};
  if (Status read = read_keys(config, zmq); !read) return read.error();
  return make_zmq_connector(zmq, random);
}

}  // namespace

Result<Duration> parse_silence(const std::string& text) {
  const std::optional<Duration> span = parse_time_span(text);
  if (span && *span >= kZmqSilenceMin && *span <= kZmqSilenceMax)
    return Duration(std::chrono::floor<std::chrono::milliseconds>(*span));
  return Error{fmt::format("'{}' is not a time from {} to {}, like 2s or 1500ms", text,
                           format_time_span(kZmqSilenceMin), format_time_span(kZmqSilenceMax))};
}

Status check_link_endpoint(const LinkEndpointConfig& config) {
  const std::string& endpoint = config.endpoint;
  if (endpoint == kShmPrefix) return Error{"endpoint shm: names no socket: write shm:PATH"};
  const bool zmq = endpoint.starts_with("ipc://") || endpoint.starts_with("tcp://");
  if (!zmq && !endpoint.starts_with(kShmPrefix)) {
    return Error{fmt::format("endpoint {}: write shm:PATH, ipc://PATH or tcp://HOST:PORT", endpoint)};
  }
  if (config.curve_secret_file.empty() != config.curve_server_file.empty()) {
    return Error{"--curve-secret and --curve-server belong together"};
  }
  if (config.curve_secret_file.empty() && endpoint_needs_curve(endpoint)) {
    return Error{
        fmt::format("{} leaves this machine and needs keys: --curve-secret FILE --curve-server FILE; weft "
                    "keygen makes them",
                    endpoint)};
  }
  ZmqConnectorConfig keys;
  return read_keys(config, keys);
}

Result<std::unique_ptr<LinkSupervisor>> make_connector(const LinkEndpointConfig& config,
                                                       RandomSource& random) {
  Status fits = check_link_config(config.link);
  if (!fits) return fits.error();
  if (Status good = check_link_endpoint(config); !good) return good.error();
  if (config.link.guid == Guid{} && !config.link.any_port) return Error{"a link needs the GUID of its node"};
  return connector_for(config, random);
}

Result<std::unique_ptr<LinkConnection>> connect_link(const LinkEndpointConfig& config, RandomSource& random) {
  Result<std::unique_ptr<LinkSupervisor>> supervisor = make_connector(config, random);
  if (!supervisor) return supervisor.error();
  return std::make_unique<LinkConnection>(config.timers, std::move(*supervisor));
}

}  // namespace weft::fabric
