#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/words.h"
#include "tools/commands/command.h"
#include "tools/show/program_list.h"

namespace weft::tools {

Result<StateDir> chosen_fabric(const std::string& name, Among among) {
  if (!name.empty()) {
    Result<StateDir> dir = StateDir::open(name);
    if (dir.ok() && among == Among::kRunning && !dir.value().locked())
      return Error{StateDir::not_running(name)};
    return dir;
  }
  Result<SeenFabrics> seen = SeenFabrics::look();
  return seen.ok() ? seen->choose(among) : Result<StateDir>(seen.error());
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
  // A node is preferred to a program of the same name.
  for (const RecordedProcess& process : record.processes)
    if (process.name == node) return chosen_node(record, node);
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

namespace {
int output_fault = 0;  // errno of the first failed write to standard output
}  // namespace

void print_raw(std::string_view text) {
  while (!text.empty() && output_fault == 0) {
    const ssize_t written = write(STDOUT_FILENO, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) output_fault = written == 0 ? EIO : errno;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
}

bool output_failed() noexcept {
  return output_fault != 0;
}

void print_line(std::string_view text) {
  print_raw(printable(text, true) + "\n");
}

int code_after_output(std::string_view command, int code) {
  if (output_fault == 0) return code;
  return failure(command, errno_error("cannot write to standard output", output_fault).text);
}

int failure(std::string_view command, std::string_view text) {
  const std::string line =
      fmt::format("weft{}{}: {}\n", command.empty() ? "" : " ", command, printable(text, true));
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  return kExitFailed;
}

namespace {
sighandler_t file_size_action = SIG_DFL;
}  // namespace

void ignore_file_size_signal() noexcept {
  file_size_action = signal(SIGXFSZ, SIG_IGN);
}

void restore_signals() noexcept {
  signal(SIGXFSZ, file_size_action);
}

std::string json_text(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const size_t bytes = utf8_bytes(text);
    const char c = text[0];
    if (bytes == 0) {
      out += "\\ufffd";  // stands for a byte that is not valid UTF-8
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += text.substr(0, bytes);
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return out + "\"";
}

}  // namespace weft::tools
