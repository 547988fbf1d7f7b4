#include "tools/launch/program_check.h"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace weft::tools {
namespace {

constexpr int kInterpretersMax = 4;  // the limit of the kernel
constexpr size_t kHeaderBytes = 4096;
constexpr int kOwnClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
#if defined(__x86_64__)
constexpr uint16_t kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr uint16_t kOwnMachine = EM_AARCH64;
#else
constexpr uint16_t kOwnMachine = EM_NONE;  // not compared
#endif
using Header = std::conditional_t<kOwnClass == ELFCLASS64, Elf64_Ehdr, Elf32_Ehdr>;
using Segment = std::conditional_t<kOwnClass == ELFCLASS64, Elf64_Phdr, Elf32_Phdr>;

bool may_run(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

/// The dynamic loader ignores LD_LIBRARY_PATH and LD_PRELOAD when a program gains rights.
std::string rights_reason(const std::string& file) {
  struct stat info {};
  if (stat(file.c_str(), &info) != 0) return {};
  if ((info.st_mode & S_ISUID) != 0 && info.st_uid != getuid()) return "is set-uid";
  if ((info.st_mode & S_ISGID) != 0 && info.st_gid != getgid()) return "is set-gid";
  if (getuid() != 0 && getxattr(file.c_str(), "security.capability", nullptr, 0) > 0)
    return "has file capabilities";
  return {};
}

/// A program without a PT_INTERP segment uses no dynamic loader.
std::string image_reason(int fd, const std::string& head) {
  if (head[EI_CLASS] != kOwnClass)
    return fmt::format("is a {}-bit program", kOwnClass == ELFCLASS64 ? 32 : 64);
  Header header;
  std::memcpy(&header, head.data(), sizeof header);
  if (kOwnMachine != EM_NONE && header.e_machine != kOwnMachine)
    return "is a program of another architecture";
  if (header.e_type != ET_EXEC && header.e_type != ET_DYN) return {};
  if (header.e_phentsize != sizeof(Segment)) return {};
  for (uint32_t i = 0; i < header.e_phnum; ++i) {
    Segment segment;
    const auto at = static_cast<off_t>(header.e_phoff + uint64_t{i} * sizeof segment);
    if (pread(fd, &segment, sizeof segment, at) != static_cast<ssize_t>(sizeof segment)) return {};
    if (segment.p_type == PT_INTERP) return {};
  }
  return "is statically linked";
}

/// The interpreter that a script names; empty when the file is no script.
std::string interpreter_of(const std::string& head) {
  if (!head.starts_with("#!")) return {};
  std::istringstream line(head.substr(2, head.find('\n') - 2));
  std::string interpreter;
  line >> interpreter;
  return interpreter;
}

}  // namespace

Result<std::string> find_command(const std::string& word, bool& not_found) {
  not_found = false;
  if (word.find('/') != std::string::npos) {
    if (may_run(word)) return word;
    not_found = access(word.c_str(), F_OK) != 0;
    return errno_error("cannot run " + word, not_found ? ENOENT : EACCES);
  }
  const char* path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
  bool refused = false;
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + word;
    if (may_run(file)) return file;
    refused = refused || access(file.c_str(), F_OK) == 0;
  }
  not_found = !refused;
  return Error{
      fmt::format("cannot run {}: {}", word, refused ? "permission denied" : "no such program in PATH")};
}

std::string unserved_reason(const std::string& file) {
  std::string at = file;
  for (int depth = 0; depth <= kInterpretersMax; ++depth) {
    const std::string of = at == file ? "" : fmt::format(" (its interpreter {})", at);
    const UniqueFd fd(open(at.c_str(), O_RDONLY | O_CLOEXEC));
    std::string head(kHeaderBytes, '\0');
    const ssize_t got = fd.valid() ? read(fd.get(), head.data(), head.size()) : -1;
    if (got <= 0) return {};
    head.resize(static_cast<size_t>(got));
    if (head.size() >= sizeof(Header) && head.starts_with(std::string_view(ELFMAG, SELFMAG))) {
      const std::string rights = rights_reason(at);
      const std::string reason = rights.empty() ? image_reason(fd.get(), head) : rights;
      return reason.empty() ? reason : reason + of;
    }
    at = interpreter_of(head);
    if (at.empty()) return {};
  }
  return {};
}

}  // namespace weft::tools
