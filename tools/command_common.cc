#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/words.h"
#include "tools/command.h"
#include "tools/program_list.h"

namespace weft::tools {

namespace {

/// Names of the fabrics that `wanted` holds for.
template <class Wanted>
std::vector<std::string> fabrics_that(Wanted wanted) {
  std::vector<std::string> found;
  for (const std::string& fabric : StateDir::fabrics())
    if (Result<StateDir> dir = StateDir::open(fabric); dir.ok() && wanted(dir.value()))
      found.push_back(fabric);
  return found;
}

}  // namespace

Result<StateDir> chosen_fabric(const std::string& name, Among among) {
  if (!name.empty()) {
    Result<StateDir> dir = StateDir::open(name);
    if (dir.ok() && among == Among::kRunning && !dir.value().locked())
      return Error{fmt::format("fabric '{}' is not running; start it with weft up FILE", name)};
    return dir;
  }
  std::vector<std::string> found = fabrics_that([](const StateDir& dir) { return dir.locked(); });
  if (found.empty() && among != Among::kRunning)
    found = fabrics_that([](const StateDir& dir) { return !dir.load().processes.empty(); });
  if (found.empty() && among == Among::kSeen) found = StateDir::fabrics();
  if (found.size() == 1) return StateDir::open(found.front());
  if (found.empty())
    return Error{among == Among::kSeen ? "no fabric has run here; start one with weft up FILE"
                                       : "no fabric is running; start one with weft up FILE"};
  return Error{fmt::format("there are several fabrics; choose with --fabric: {}", joined(found))};
}

Result<RecordedProcess> chosen_node(const RunRecord& record, const std::string& node,
                                    std::vector<std::string> others) {
  std::vector<std::string> known = std::move(others);
  for (const RecordedProcess& process : record.processes) {
    if (process.program == "holder") continue;
    if (process.name == node) return process;
    known.push_back(process.name);
  }
  return Error{fmt::format("there is no node '{}'{}", node, choices(node, known))};
}

Result<RecordedProcess> chosen_process(const StateDir& dir, const RunRecord& record,
                                       const std::string& node) {
  std::vector<std::string> known;
  for (const ProgramNode& program : running_programs(dir)) {
    known.push_back(program.name);
    if (program.name == node)
      return RecordedProcess{node, program.program, program.pid, process_start_ticks(program.pid), 0};
  }
  return chosen_node(record, node, std::move(known));
}

Arguments shielded(Arguments words, std::initializer_list<std::string_view> valued, size_t own) {
  size_t at = 0;
  while (at < words.size() && words[at].starts_with("-") && words[at] != "--")
    at += std::find(valued.begin(), valued.end(), words[at]) != valued.end() ? 2U : 1U;
  const bool shields = at + own < words.size() && words[at] != "--" && words[at + own] != "--";
  if (shields) words.insert(words.begin() + static_cast<ptrdiff_t>(at + own), "--");
  return words;
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

}  // namespace weft::tools
