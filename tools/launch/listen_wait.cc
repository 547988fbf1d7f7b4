#include "tools/launch/listen_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace weft::tools {
namespace {

constexpr Duration kBetweenLooks = std::chrono::milliseconds(5);
/// State TCP_LISTEN in /proc/net/tcp.
constexpr std::string_view kListening = "0A";

/// Parses "  0: 0100007F:4855 00000000:0000 0A ...": number, local address and port, remote address and port,
/// state.
bool line_is_listener(const std::string& line, std::string_view port) {
  std::istringstream words(line);
  std::string number;
  std::string local;
  std::string remote;
  std::string state;
  words >> number >> local >> remote >> state;
  return state == kListening && local.ends_with(port);
}

bool has_listener(uint16_t port) {
  const std::array tables{"/proc/net/tcp", "/proc/net/tcp6"};
  return std::any_of(tables.begin(), tables.end(), [port](const char* path) {
    std::ifstream in(path);
    std::ostringstream text;
    text << in.rdbuf();
    return table_has_listener(text.str(), port);
  });
}

}  // namespace

bool table_has_listener(std::string_view table, uint16_t port) {
  const std::string wanted = fmt::format(":{:04X}", port);
  std::istringstream lines{std::string(table)};
  std::string line;
  while (std::getline(lines, line))
    if (line_is_listener(line, wanted)) return true;
  return false;
}

bool wait_for_listener(uint16_t port, Duration patience) {
  const auto until = std::chrono::steady_clock::now() + patience;
  while (!has_listener(port)) {
    if (std::chrono::steady_clock::now() >= until) return false;
    std::this_thread::sleep_for(kBetweenLooks);
  }
  return true;
}

}  // namespace weft::tools
