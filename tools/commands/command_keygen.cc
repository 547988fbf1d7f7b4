// weft keygen.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <optional>

#include "base/command_line.h"
#include "base/unique_fd.h"
#include "tools/commands/command.h"

namespace weft::tools {
namespace {

constexpr size_t kKeyText = 41;  // 40 characters of Z85 and the final zero

Status write_key(const std::string& path, const char* key, mode_t mode, bool force) {
  if (force) unlink(path.c_str());
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.valid() && errno == EEXIST)
    return Error{fmt::format(
        "{} exists; nodes that use this key could not connect any more; --force replaces it", path)};
  if (!fd.valid()) return errno_error("cannot create " + path, errno);
  const std::string line = fmt::format("{}\n", key);
  if (fchmod(fd.get(), mode) != 0 ||
      write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return errno_error("cannot write " + path, errno);
  return {};
}

Status make_pair(const std::string& dir, const std::string& node, bool force) {
  std::array<char, kKeyText> open_key{};
  std::array<char, kKeyText> secret_key{};
  if (zmq_curve_keypair(open_key.data(), secret_key.data()) != 0)
    return Error{"this ZeroMQ has no CURVE; install libzmq5 with libsodium"};
  if (Status done = write_key(dir + "/" + node + ".secret", secret_key.data(), 0600, force); !done.ok())
    return done;
  Status done = write_key(dir + "/" + node + ".public", open_key.data(), 0644, true);
  secret_key.fill(0);
  return done;
}

}  // namespace

int command_keygen(const Arguments& arguments) {
  std::string dir = "keys";
  bool force = false;
  Arguments nodes;
  CommandLine line("weft keygen", "weft keygen [options] NODE...",
                   "Makes a CURVE key pair for each node: DIR/NODE.secret, readable by its owner only, and "
                   "DIR/NODE.public.\nA node needs its own secret key and the public key of its switch; a "
                   "switch needs the public keys of all its nodes.");
  line.text("dir", "DIR", dir, "directory for the keys (keys)");
  line.flag("force", force, "replaces keys that exist");
  line.words("NODE", nodes, 1, 1024);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  for (const std::string& node : nodes)
    if (node.empty() || node.find('/') != std::string::npos || node.front() == '.')
      return line.wrong_use(fmt::format("'{}' is not a node name", node));
  if (mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST)
    return failure("keygen", errno_error("cannot create " + dir, errno).text);
  int code = kExitDone;
  for (const std::string& node : nodes)  // a key that exists keeps no other node from getting its own
    if (Status made = make_pair(dir, node, force); !made.ok()) code = failure("keygen", made.error().text);
  return code;
}

}  // namespace weft::tools
