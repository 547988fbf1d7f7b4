#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "tools/command.h"

namespace weft {

Result<StateDir> chosen_fabric(const std::string& name) {
  if (!name.empty()) return StateDir::open(name);
  std::vector<std::string> running;
  for (const std::string& fabric : StateDir::fabrics()) {
    Result<StateDir> dir = StateDir::open(fabric);
    if (dir.ok() && dir.value().locked()) running.push_back(fabric);
  }
  if (running.size() == 1) return StateDir::open(running.front());
  if (running.empty()) return Error{"no fabric is running; start one with weft up FILE"};
  return Error{
      fmt::format("several fabrics are running; choose with --fabric: {}", fmt::join(running, ", "))};
}

Result<RecordedProcess> chosen_node(const RunRecord& record, const std::string& node) {
  std::vector<std::string> known;
  for (const RecordedProcess& process : record.processes) {
    if (process.program == "holder") continue;
    if (process.name == node) return process;
    known.push_back(process.name);
  }
  if (known.empty()) return Error{"the fabric is not running; start it with weft up FILE"};
  return Error{fmt::format("there is no node '{}'; known: {}", node, fmt::join(known, ", "))};
}

void print_line(std::string_view text) {
  std::string line(text);
  line += '\n';
  for (size_t at = 0; at < line.size();) {
    const ssize_t written = write(STDOUT_FILENO, line.data() + at, line.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

int failure(std::string_view command, std::string_view text) {
  const std::string line = fmt::format("weft{}{}: {}\n", command.empty() ? "" : " ", command, text);
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  return kExitFailed;
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace weft
