#include "tools/launch/run_environment.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>

namespace weft::tools {
namespace {

namespace fs = std::filesystem;

/// `first`, then the other words of `list`. `separators` are the characters between words; the first of them
/// joins the result.
std::string put_first(const std::string& first, const std::string& list, const std::string& separators) {
  std::string out = first;
  for (size_t at = 0; at < list.size();) {
    const size_t end = std::min(list.find_first_of(separators, at), list.size());
    const std::string word = list.substr(at, end - at);
    if (!word.empty() && word != first) out += separators[0] + word;
    at = end + 1;
  }
  return out;
}

/// Variables that every program gets: our libraries come first, and identities of a surrounding program are
/// removed.
Environment common_environment(const ProgramLibraries& libraries, const PresentVariables& present) {
  Environment out;
  for (const char* variable : {"WEFT_NODE", "WEFT_GUID", "WEFT_LID", "WEFT_IDENTITY", "WEFT_NODE_DIR",
                               "WEFT_CURVE_SECRET", "WEFT_CURVE_SERVER"})
    out[variable] = std::nullopt;
  out["LD_LIBRARY_PATH"] = put_first(libraries.verbs, present("LD_LIBRARY_PATH"), ":");
  if (!libraries.preload.empty())
    out["LD_PRELOAD"] = put_first(libraries.preload, present("LD_PRELOAD"), ": ");
  return out;
}

/// `options` with `option` appended, unless `key` already occurs in it.
std::string with_option(const std::string& options, char separator, const std::string& key,
                        const std::string& option) {
  if (options.find(key) != std::string::npos) return options;
  return options.empty() ? option : options + separator + option;
}

}  // namespace

Result<ProgramLibraries> find_libraries() {
  std::error_code ignored;
  const fs::path beside = fs::read_symlink("/proc/self/exe", ignored).parent_path().parent_path();
  for (const char* libdir : {"lib", WEFT_LIBDIR}) {
    const fs::path at = beside / libdir / "weft";
    if (access((at / "verbs/libibverbs.so.1").c_str(), R_OK) != 0) continue;
    if (at.string().find_first_of(" :;\t\n") != std::string::npos) {
      return Error{
          fmt::format("the loader of programs takes no libraries from a path with a space, ':' or ';': "
                      "move or install Weft, which is in {}",
                      beside.string())};
    }
    const fs::path preload = at / "libweft_preload.so";
    const fs::path share = beside / "share" / "weft";
    return ProgramLibraries{at / "verbs", access(preload.c_str(), R_OK) == 0 ? preload.string() : "",
                            access((share / "tsan.supp").c_str(), R_OK) == 0 ? share.string() : ""};
  }
  return Error{
      fmt::format("libibverbs.so.1 is not in {}/lib/weft/verbs: build it (libibverbs-dev must be installed) "
                  "or install Weft",
                  beside.string())};
}

std::string adapters_value(const StateDir& dir, const std::vector<SpareRecord>& switches, uint32_t adapters) {
  if (switches.size() == 1) return std::to_string(adapters);
  std::string out;
  for (uint32_t i = 1; i < adapters; ++i) {
    const std::string& node = switches[i % switches.size()].node;
    out += fmt::format("{}shm:{}/{}.sock", out.empty() ? "" : ",", dir.path(), node);
  }
  return out;
}

Environment run_environment(const SparePlace& place, const ProgramName& name,
                            const ProgramLibraries& libraries, const PresentVariables& present) {
  Environment out = common_environment(libraries, present);
  const RunRecord& record = place.record;
  out["WEFT_FABRIC"] = fmt::format("shm:{}/{}.sock", place.dir.path(), place.spare.node);
  out["WEFT_NODE_DIR"] = place.dir.file("programs");
  for (const char* variable : {"WEFT_CELL_PAYLOAD", "WEFT_FLIT_PAYLOAD"}) out[variable] = std::nullopt;
  if (record.cell_payload != 0) out["WEFT_CELL_PAYLOAD"] = std::to_string(record.cell_payload);
  if (record.flit_payload != 0) out["WEFT_FLIT_PAYLOAD"] = std::to_string(record.flit_payload);
  if (record.direct) out["WEFT_DIRECT"] = "1";
  if (!name.name.empty()) out["WEFT_NODE"] = name.name;
  if (name.identity.has_value()) {
    out["WEFT_GUID"] = fmt::format("{:016x}", name.identity->guid.value());
    out["WEFT_IDENTITY"] = fmt::format("{:016x}", name.identity->secret);
    out["WEFT_LID"] = std::to_string(name.identity->lid.value());
  }
  return out;
}

Environment remote_environment(const RemoteSwitch& remote, const ProgramLibraries& libraries,
                               const PresentVariables& present) {
  Environment out = common_environment(libraries, present);
  out["WEFT_FABRIC"] = remote.endpoint;
  // Paths are made absolute because the program may change its directory before it opens the device.
  if (!remote.secret_key.empty()) out["WEFT_CURVE_SECRET"] = fs::absolute(remote.secret_key).string();
  if (!remote.switch_key.empty()) out["WEFT_CURVE_SERVER"] = fs::absolute(remote.switch_key).string();
  return out;
}

Environment sanitizer_environment(const ProgramLibraries& libraries, const PresentVariables& present) {
  Environment out;
  // The sanitizer's runtime refuses to start with a preloaded object. The variable also reaches programs that
  // this program starts; changing its list of preloaded objects would not.
  out["ASAN_OPTIONS"] =
      with_option(present("ASAN_OPTIONS"), ':', "verify_asan_link_order", "verify_asan_link_order=0");
  if (libraries.suppressions.empty()) return out;
  const std::string threads = libraries.suppressions + "/tsan.supp";
  out["TSAN_OPTIONS"] = with_option(present("TSAN_OPTIONS"), ':', "suppressions=", "suppressions=" + threads);
  const std::string valgrind = libraries.suppressions + "/valgrind.supp";
  out["VALGRIND_OPTS"] = with_option(present("VALGRIND_OPTS"), ' ', valgrind, "--suppressions=" + valgrind);
  return out;
}

Environment prompt_environment(const std::string& mark, const PresentVariables& present) {
  Environment out;
  out["WEFT_SHELL"] = mark;
  const std::string prompt = present("PS1");
  const std::string begin = fmt::format("({}) ", mark);
  out["PS1"] = prompt.starts_with(begin) ? prompt : begin + (prompt.empty() ? "$ " : prompt);
  // bash reads its start-up files, which set PS1, only after it has taken over the environment.
  const std::string command = R"([ "${PS1#"($WEFT_SHELL) "}" != "$PS1" ] || PS1="($WEFT_SHELL) $PS1")";
  const std::string before = present("PROMPT_COMMAND");
  out["PROMPT_COMMAND"] = before.find("WEFT_SHELL") != std::string::npos ? before
                          : before.empty()                               ? command
                                                                         : before + "; " + command;
  return out;
}

void apply(const Environment& environment) {
  for (const auto& [name, value] : environment) {
    if (value.has_value()) {
      setenv(name.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name.c_str());
    }
  }
}

}  // namespace weft::tools
