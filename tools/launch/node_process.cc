#include "tools/launch/node_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/log.h"
#include "tools/launch/child_process.h"

namespace weft::tools {
namespace {

/// "SIGSEGV"; real-time signals have no names: "SIGRTMIN+1".
std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("SIGRTMIN+{}", number - SIGRTMIN);
}

}  // namespace

NodeProcess::NodeProcess(NodeCommand command, std::string program_path, const StateDir& dir, int netns_fd,
                         int lifeline, std::vector<UniqueFd> descriptors)
    : command_(std::move(command)),
      program_path_(std::move(program_path)),
      control_path_(dir.file(command_.name + ".ctl")),
      log_path_(dir.file(command_.name + ".log")),
      netns_fd_(netns_fd),
      lifeline_(lifeline),
      descriptors_(std::move(descriptors)) {}

Status NodeProcess::start(Instant now) {
  ChildSpec spec;
  spec.handed.push_back(lifeline_);
  std::vector<int> ports;
  for (const UniqueFd& descriptor : descriptors_) {
    ports.push_back(descriptor.valid() ? kFirstHandedFd + static_cast<int>(spec.handed.size()) : -1);
    if (descriptor.valid()) spec.handed.push_back(descriptor.get());
  }
  spec.argv = node::encode(with_descriptors(command_.spec, kFirstHandedFd, ports));
  spec.argv.insert(spec.argv.begin(), program_path_);
  spec.log_path = log_path_;
  spec.netns_fd = netns_fd_;
  Result<pid_t> pid = start_child(spec);
  if (!pid.ok()) {
    next_start_ = now + back_off_;
    back_off_ = std::min(back_off_ * 2, kBackOffMax);
    return pid.error();
  }
  note(fmt::format("{} starts: {}, pid {}", command_.name, command_.program(), pid.value()));
  if (started_ != Instant{}) ++restarts_;
  pid_ = pid.value();
  start_ticks_ = process_start_ticks(pid_);
  started_ = now;
  next_question = now;
  ready_ = false;
  return {};
}

void NodeProcess::ended(int wait_status, Instant now) {
  if (WIFSIGNALED(wait_status)) {
    last_exit_code_ = 128 + WTERMSIG(wait_status);
    last_exit_ =
        fmt::format("killed by signal {} ({}{})", WTERMSIG(wait_status), signal_name(WTERMSIG(wait_status)),
                    WCOREDUMP(wait_status) ? ", core dumped" : "");
  } else {
    last_exit_code_ = WEXITSTATUS(wait_status);
    last_exit_ = fmt::format("ended with code {}", last_exit_code_);
  }
  last_words_ = last_line();
  back_off_ = now - started_ >= kHealthy ? kBackOffFirst : back_off_;
  next_start_ = now + back_off_;
  back_off_ = std::min(back_off_ * 2, kBackOffMax);
  pid_ = 0;
  start_ticks_ = 0;
  ready_ = false;
  info = {};
}

void NodeProcess::answered(bool is_ready) noexcept {
  ready_ = is_ready;
  ever_ready_ = ever_ready_ || is_ready;
}

void NodeProcess::signal(int number) const {
  if (pid_ > 0) kill(pid_, number);
}

RecordedProcess NodeProcess::record() const {
  return {command_.name, command_.program(), pid_, start_ticks_, restarts_};
}

void NodeProcess::note(std::string_view text) const {
  const UniqueFd log(open(log_path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  const std::string line = log_line(LogLevel::kInfo, text);
  // If the log cannot take the line, the line is lost, as a line of the process would be.
  if (log.valid()) [[maybe_unused]]
    const ssize_t written = write(log.get(), line.data(), line.size());
}

std::string NodeProcess::last_line() const {
  std::ifstream in(log_path_, std::ios::ate);
  const auto end = static_cast<std::streamoff>(in.tellg());
  in.seekg(std::max<std::streamoff>(end - 4096, 0));
  // Skips the launcher's own lines, about a start or an interface, which may follow the last words of the
  // process. They are recognised by the program name "weft"; names of the started programs are longer.
  constexpr std::string_view own = " weft[";
  std::string last;
  for (std::string line; std::getline(in, line);)
    if (!line.empty() && line.find(own) == std::string::npos) last = line;
  // Removes "SECONDS LEVEL PROGRAM[PID]: " (base/log.h): the message already names the program.
  const size_t text = last.find("]: ");
  return text == std::string::npos ? last : last.substr(text + 3);
}

}  // namespace weft::tools
