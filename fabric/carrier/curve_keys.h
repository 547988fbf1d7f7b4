// fabric/carrier/curve_keys.h -- CURVE keys in files (decisions section 4): secrets with mode 0600, never on
// a command line. A key is 40 printable characters (Z85); a line that begins with "# " is a comment.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "messages/ids.h"

namespace weft::fabric {

struct CurveKeyPair {
  std::string public_key;
  std::string secret_key;
};

/// Makes a new pair.
Result<CurveKeyPair> generate_curve_keys();
/// Writes the secret key to `path` with mode 0600 and the public key to `path`.pub with mode 0644. Fails if a
/// file exists.
Status write_curve_keys(const std::string& path, const CurveKeyPair& keys);
/// Reads a secret key and derives its public key. Refuses a file that other users may read.
Result<CurveKeyPair> read_curve_secret(const std::string& path);
/// Reads a public key.
Result<std::string> read_curve_public(const std::string& path);

/// A line of the switch's table: the node that owns a key.
struct CurveAllowed {
  std::string name;
  Guid guid;  // 0: no fixed node; the key may join spare ports
  std::string public_key;
};
/// Reads lines "NAME GUIDHEX PUBLICKEY", or "NAME - PUBLICKEY" for spare ports. Refuses a key or name that
/// occurs twice.
Result<std::vector<CurveAllowed>> read_curve_allow(const std::string& path);

/// True for tcp:// unless the host is a numeric loopback address. Such an endpoint needs keys. A host name
/// counts as remote, because it may resolve to another machine; so does tcp://SOURCE;DESTINATION, which
/// ZeroMQ accepts.
[[nodiscard]] bool endpoint_needs_curve(const std::string& endpoint);

}  // namespace weft::fabric
