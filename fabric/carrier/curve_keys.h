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

/// A fresh pair.
Result<CurveKeyPair> generate_curve_keys();
/// Writes the secret key to `path` with mode 0600 and the public one to `path`.pub with mode 0644. Replaces
/// nothing.
Status write_curve_keys(const std::string& path, const CurveKeyPair& keys);
/// Reads a secret key and derives its public key. Refused when others may read the file.
Result<CurveKeyPair> read_curve_secret(const std::string& path);
/// Reads a public key.
Result<std::string> read_curve_public(const std::string& path);

/// A line of the switch's table: which key stands for which node.
struct CurveAllowed {
  std::string name;
  Guid guid;  // 0: of no node; the key may join spare ports
  std::string public_key;
};
/// Lines "NAME GUIDHEX PUBLICKEY", or "NAME - PUBLICKEY" for spare ports. A key or name that occurs twice is
/// refused.
Result<std::vector<CurveAllowed>> read_curve_allow(const std::string& path);

/// True for tcp:// unless the host is a numeric loopback address: a name may lead to another machine, and
/// ZeroMQ takes tcp://SOURCE;DESTINATION. Such an endpoint needs keys.
[[nodiscard]] bool endpoint_needs_curve(const std::string& endpoint);

}  // namespace weft::fabric
