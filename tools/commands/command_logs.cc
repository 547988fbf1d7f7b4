// weft logs: prints the logs of all processes as one, in the order of time.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "base/command_line.h"
#include "base/private_files.h"
#include "base/words.h"
#include "tools/commands/command.h"

namespace weft::tools {
namespace {

using namespace std::chrono_literals;

struct LogFile {
  std::string path;
  std::string name;
  std::streamoff at = 0;  // bytes read so far
  uint64_t time_us = 0;   // time of the last line that had one
};

struct LogLine {
  uint64_t time_us = 0;  // microseconds since 1970; a line without a time has that of the line before it
  std::string name;
  std::string text;
};

/// Removes "SECONDS.MICROSECONDS " (base/log.h) from the start of a line. Nothing if the line begins
/// otherwise.
std::optional<uint64_t> take_time(std::string& line) {
  uint64_t seconds = 0;
  uint64_t micros = 0;
  const char* end = line.data() + line.size();
  const auto whole = std::from_chars(line.data(), end, seconds);
  if (whole.ec != std::errc() || whole.ptr == end || *whole.ptr != '.') return {};
  const auto part = std::from_chars(whole.ptr + 1, end, micros);
  if (part.ec != std::errc() || part.ptr == end || *part.ptr != ' ') return {};
  line.erase(0, static_cast<size_t>(part.ptr + 1 - line.data()));
  return seconds * 1'000'000 + micros;
}

/// Appends the new complete lines of a log. A last line without line end is read by the next call.
void read_new(LogFile& file, std::vector<LogLine>& lines) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(file.path, ignored);
  if (!ignored && size < static_cast<uintmax_t>(file.at))
    file.at = 0;  // the log was renamed for its length, and a new one begun
  std::ifstream in(file.path, std::ios::binary);
  in.seekg(file.at);
  for (std::string line; std::getline(in, line) && !in.eof();) {
    file.at += static_cast<std::streamoff>(line.size()) + 1;
    file.time_us = take_time(line).value_or(file.time_us);
    lines.push_back({file.time_us, file.name, std::move(line)});
  }
}

std::string format_time(uint64_t time_us) {
  const auto seconds = static_cast<time_t>(time_us / 1'000'000);
  tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:02}-{:02} {:02}:{:02}:{:02}.{:06}", local.tm_mon + 1, local.tm_mday, local.tm_hour,
                     local.tm_min, local.tm_sec, time_us % 1'000'000);
}

/// One object per line, so that --follow needs no end; docs/json.md.
void print_json(const LogLine& line) {
  print_line(fmt::format("{{\"time_us\":{},\"node\":{},\"text\":{}}}", line.time_us, json_text(line.name),
                         json_text(line.text)));
}

/// Prints the new lines that are not older than `since_us`. A line without a time has that of the line before
/// it.
void print_new(std::vector<LogFile>& files, uint64_t since_us, bool json) {
  std::vector<LogLine> lines;
  for (LogFile& file : files) read_new(file, lines);
  std::erase_if(lines, [since_us](const LogLine& line) { return line.time_us < since_us; });
  std::stable_sort(lines.begin(), lines.end(),
                   [](const LogLine& a, const LogLine& b) { return a.time_us < b.time_us; });
  for (const LogLine& line : lines) {
    if (json) {
      print_json(line);
    } else {
      print_line(fmt::format("{} {:<10} {}", format_time(line.time_us), line.name, line.text));
    }
  }
}

/// The logs in a state directory. They remain when the fabric ends.
std::vector<LogFile> logs_in(const StateDir& dir) {
  std::vector<LogFile> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path(), ignored))
    if (entry.path().extension() == ".log" && open_own_file(AT_FDCWD, entry.path(), O_RDONLY).valid())
      files.push_back({entry.path(), entry.path().stem()});
  std::sort(files.begin(), files.end(), [](const LogFile& a, const LogFile& b) { return a.name < b.name; });
  return files;
}

}  // namespace

int command_logs(const Arguments& arguments) {
  std::string fabric;
  bool follow = false;
  bool all = false;
  bool json = false;
  Arguments nodes;
  CommandLine line("weft logs", "weft logs [options] [NODE...]",
                   "Prints the logs of all processes of the latest run, in the order of time, with the cause "
                   "of every death. Also works after\nthe fabric has ended.");
  line.text("fabric,f", "NAME", fabric, "which fabric, when there are several");
  line.flag("follow,F", follow, "continues with new lines until Ctrl-C");
  line.flag("all", all, "also earlier runs");
  line.flag("json", json, "one JSON object per line");
  line.words("NODE", nodes, 0, 64);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  Result<StateDir> dir = chosen_fabric(fabric, Among::kSeen);
  if (!dir.ok()) return failure("logs", dir.error().text);
  std::vector<LogFile> files = logs_in(dir.value());
  std::vector<std::string> known(files.size());
  std::transform(files.begin(), files.end(), known.begin(), [](const LogFile& file) { return file.name; });
  for (const std::string& node : nodes)
    if (std::find(known.begin(), known.end(), node) == known.end())
      return failure("logs", fmt::format("fabric '{}' has no log of a node '{}'{}", dir.value().fabric(),
                                         node, choices(node, known)));
  if (!nodes.empty())
    std::erase_if(files, [&nodes](const LogFile& file) {
      return std::find(nodes.begin(), nodes.end(), file.name) == nodes.end();
    });
  const uint64_t since_us = all ? 0 : dir.value().started_us();
  for (;;) {
    print_new(files, since_us, json);
    if (!follow || output_failed()) return kExitDone;
    std::this_thread::sleep_for(100ms);
  }
}

}  // namespace weft::tools
