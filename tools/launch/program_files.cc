#include "tools/launch/program_files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/parse_number.h"
#include "base/private_files.h"
#include "base/stats_page.h"
#include "fabric/window/window_door.h"

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

/// A link in each tree that names the PID namespace of the tree's process id.
constexpr const char* kSpace = ".pid-namespace";

fs::path own_space() {
  std::error_code fault;
  return fs::read_symlink("/proc/self/ns/pid", fault);
}

bool is_of_own_space(const fs::path& tree) {
  std::error_code fault;
  const fs::path space = fs::read_symlink(tree / kSpace, fault);
  return !fault && space == own_space();
}

constexpr std::string_view kCounters = ".stats";

/// The number after the last `mark` of a name.
std::optional<pid_t> pid_in(std::string_view name, char mark) {
  const size_t at = name.rfind(mark);
  if (at == std::string_view::npos) return {};
  return parse_number<pid_t>(name.substr(at + 1), 10);
}

/// NAME.stats.PID: StatsPage::create_held() renames it at once, unless its process is killed.
bool is_new_page(const fs::path& path) {
  return path.stem().extension() == kCounters;
}

bool has_ended(pid_t pid) noexcept {
  return kill(pid, 0) != 0 && errno == ESRCH;
}

}  // namespace

std::string make_program_tree(const std::string& directory) {
  std::string tree = fmt::format("{}/sys-{}", directory, getpid());
  for (const std::string& path : {directory, tree}) {
    if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return {};
    if (!open_private_directory(AT_FDCWD, path, "directory").ok()) return {};
  }
  std::error_code exists;
  fs::create_symlink(own_space(), fs::path(tree) / kSpace, exists);
  return tree;
}

void clear_up_programs(const std::string& directory) {
  std::error_code fault;
  std::vector<std::pair<fs::file_time_type, fs::path>> pages;
  std::vector<fs::path> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, fault)) {
    const std::string name = entry.path().filename();
    const bool page = name.ends_with(kCounters);
    const bool fresh = is_new_page(entry.path());
    const std::optional<pid_t> pid =
        fresh ? pid_in(name, '.') : pid_in(page ? entry.path().stem().string() : name, '-');
    if (!pid || *pid <= 0) continue;
    // A page is judged by its lock, because its process id may belong to another PID namespace or be reused.
    if ((page || fresh) && stats_page_holder(entry.path()).has_value()) continue;
    if (page) {
      pages.emplace_back(entry.last_write_time(fault), entry.path());
    } else if (has_ended(*pid) && (fresh || (name.starts_with("sys-") && is_of_own_space(entry.path())))) {
      others.push_back(entry.path());
    }
  }
  for (const fs::path& path : others) fs::remove_all(path, fault);
  fabric::remove_dead_doors(fabric::doors_of(directory));
  std::sort(pages.rbegin(), pages.rend());
  for (size_t i = kEndedProgramsMax; i < pages.size(); ++i) fs::remove(pages[i].second, fault);
}

}  // namespace weft::tools
