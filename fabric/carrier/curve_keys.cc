#include "fabric/carrier/curve_keys.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <zmq.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <sstream>

#include "base/text_file.h"
#include "base/unique_fd.h"

namespace weft::fabric {
namespace {

constexpr size_t kKeyChars = 40;
using KeyBuffer = std::array<char, kKeyChars + 1>;

bool looks_like_key(const std::string& text) {
  std::array<uint8_t, 32> raw{};
  return text.size() == kKeyChars && zmq_z85_decode(raw.data(), text.c_str()) != nullptr;
}

bool is_comment(const std::string& line) {
  return line.empty() || line == "#" || line.starts_with("# ");
}

/// The first line of a key file that is not a comment. It must be a key.
Result<std::string> read_key_line(const std::string& path, FileTrust trust) {
  const Result<std::string> text = read_text_file(path, trust);
  if (!text) return text.error();
  std::istringstream in(text.value());
  std::string line;
  while (std::getline(in, line)) {
    if (is_comment(line)) continue;
    if (!looks_like_key(line)) break;
    return line;
  }
  return Error{fmt::format("{} holds no key: make one with weft keygen", path)};
}

Status write_file(const std::string& path, const std::string& text, mode_t mode) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode));
  if (!fd.valid()) return errno_error("cannot create " + path, errno);
  if (write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return errno_error("cannot write " + path, errno);
  }
  return {};
}

}  // namespace

Result<CurveKeyPair> generate_curve_keys() {
  KeyBuffer public_key{};
  KeyBuffer secret_key{};
  if (zmq_curve_keypair(public_key.data(), secret_key.data()) != 0) {
    return Error{"this libzmq has no CURVE: links between machines are not possible"};
  }
  return CurveKeyPair{public_key.data(), secret_key.data()};
}

Status write_curve_keys(const std::string& path, const CurveKeyPair& keys) {
  Status secret = write_file(path, keys.secret_key + "\n", 0600);
  return secret ? write_file(path + ".pub", keys.public_key + "\n", 0644) : secret;
}

Result<CurveKeyPair> read_curve_secret(const std::string& path) {
  Result<std::string> secret = read_key_line(path, FileTrust::kSecret);
  if (!secret) return secret.error();
  KeyBuffer public_key{};
  if (zmq_curve_public(public_key.data(), secret->c_str()) != 0) {
    return Error{fmt::format("{} holds no CURVE secret key", path)};
  }
  return CurveKeyPair{public_key.data(), *secret};
}

Result<std::string> read_curve_public(const std::string& path) {
  return read_key_line(path, FileTrust::kOwn);
}

Result<std::vector<CurveAllowed>> read_curve_allow(const std::string& path) {
  const Result<std::string> text = read_text_file(path, FileTrust::kOwn);
  if (!text) return text.error();
  std::istringstream in(text.value());
  std::vector<CurveAllowed> out;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (is_comment(line)) continue;
    std::istringstream words(line);
    CurveAllowed entry;
    std::string guid_text;
    std::string rest;
    uint64_t guid = 0;
    const bool three =
        static_cast<bool>(words >> entry.name >> guid_text >> entry.public_key) && !(words >> rest);
    const bool guest = guid_text == "-";
    const char* from = guid_text.data() + (guid_text.starts_with("0x") ? 2 : 0);
    const char* to = guid_text.data() + guid_text.size();
    const bool good =
        three && (guest || std::from_chars(from, to, guid, 16).ptr == to) && looks_like_key(entry.public_key);
    if (!good) {
      return Error{
          fmt::format("{}:{}: write NAME GUIDHEX PUBLICKEY, with - as GUID if the key may join spare "
                      "ports",
                      path, number)};
    }
    entry.guid = Guid(guid);
    for (const CurveAllowed& other : out) {
      if (other.name != entry.name && other.public_key != entry.public_key) continue;
      return Error{fmt::format("{}:{}: the file has this name or this key already", path, number)};
    }
    out.push_back(std::move(entry));
  }
  return out;
}

bool endpoint_needs_curve(const std::string& endpoint) {
  constexpr std::string_view kTcp = "tcp://";
  if (!endpoint.starts_with(kTcp)) return false;
  std::string host = endpoint.substr(kTcp.size(), endpoint.rfind(':') - kTcp.size());
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  in_addr four{};
  in6_addr six{};
  const bool loopback = (inet_pton(AF_INET, host.c_str(), &four) == 1 && ntohl(four.s_addr) >> 24 == 127) ||
                        (inet_pton(AF_INET6, host.c_str(), &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six));
  return !loopback;
}

}  // namespace weft::fabric
