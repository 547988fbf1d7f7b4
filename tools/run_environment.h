// tools/run_environment.h -- the environment by which a program finds its fabric and our libraries
// (docs/verbs.md lists the variables).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/result.h"
#include "tools/node_names.h"
#include "tools/state_dir.h"

namespace weft::tools {

/// Where the libraries for programs are.
struct ProgramLibraries {
  std::string verbs;           // directory with libibverbs.so.1 and libibverbs.so
  std::string preload;         // object to preload; empty when this build has none
  std::string suppressions{};  // directory with what valgrind and the thread sanitizer shall not report
};
/// Beside this program, as the build and an installation have them. Fails when they were not built.
Result<ProgramLibraries> find_libraries();

/// Variables to set, or, where there is no value, to remove.
using Environment = std::map<std::string, std::optional<std::string>>;

/// For a program that joins by `spare`, as `name` if that is not empty; `present` gives what a variable is
/// now.
Environment run_environment(const StateDir& dir, const RunRecord& record, const SpareRecord& spare,
                            const std::string& name, const std::optional<NodeIdentity>& identity,
                            const ProgramLibraries& libraries, const std::string& library_path,
                            const std::string& preload);
/// Where a switch is that another machine, or another namespace, runs.
struct RemoteSwitch {
  std::string endpoint;    // tcp://HOST:PORT
  std::string secret_key;  // files, where it wants keys: our own,
  std::string switch_key;  // and the public one of the switch
};
/// For a program that joins there. What the environment says of cell sizes stays as it is.
Environment remote_environment(const RemoteSwitch& remote, const ProgramLibraries& libraries,
                               const std::string& library_path, const std::string& preload);
/// For programs with sanitizers, and for valgrind: they take the object that we preload, and do not report
/// what they cannot see in our libraries. What a variable says stays; `present` gives what it says now.
Environment sanitizer_environment(const ProgramLibraries& libraries,
                                  const std::function<std::string(const char*)>& present);
/// What makes the prompt of a shell begin with "(MARK) ": PS1 for sh, PROMPT_COMMAND for bash, whose start-up
/// files set PS1 anew, and WEFT_SHELL=MARK for the prompts of others. `present` as above.
Environment prompt_environment(const std::string& mark,
                               const std::function<std::string(const char*)>& present);
void apply(const Environment& environment);

}  // namespace weft::tools
