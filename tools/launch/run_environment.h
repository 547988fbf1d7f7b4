// tools/launch/run_environment.h -- the environment variables by which a program finds its fabric and our
// libraries (docs/verbs.md lists them).
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "tools/launch/node_names.h"
#include "tools/launch/state_dir.h"

namespace weft::tools {

/// Paths of the libraries for programs.
struct ProgramLibraries {
  std::string verbs;           // directory with libibverbs.so.1 and libibverbs.so
  std::string preload;         // object to preload; empty when this build has none
  std::string suppressions{};  // directory of suppression files for valgrind and the thread sanitizer
};
/// Looks beside this program, in the layout of a build or an installation. Fails when the libraries were not
/// built.
Result<ProgramLibraries> find_libraries();

/// Variables to set; a variable without a value is removed.
using Environment = std::map<std::string, std::optional<std::string>>;

/// Returns the present value of a variable.
using PresentVariables = std::function<std::string(const char*)>;

/// Where a program joins a fabric of this machine.
struct SparePlace {
  const StateDir& dir;
  const RunRecord& record;
  const SpareRecord& spare;
};
/// The lasting name of a program and the identity that belongs to it; both may be missing.
struct ProgramName {
  std::string name{};
  std::optional<NodeIdentity> identity{};
};
/// Value of WEFT_ADAPTERS for `adapters` adapters that join `switches` in turn.
[[nodiscard]] std::string adapters_value(const StateDir& dir, const std::vector<SpareRecord>& switches,
                                         uint32_t adapters);
/// Environment for a program that joins at `place`.
Environment run_environment(const SparePlace& place, const ProgramName& name,
                            const ProgramLibraries& libraries, const PresentVariables& present);
/// A switch that runs on another machine or in another namespace.
struct RemoteSwitch {
  std::string endpoint;    // tcp://HOST:PORT
  std::string secret_key;  // file with our secret key; empty: the switch uses no keys
  std::string switch_key;  // file with the switch's public key
};
/// Environment for a program that joins `remote`. Variables for cell sizes are left as they are.
Environment remote_environment(const RemoteSwitch& remote, const ProgramLibraries& libraries,
                               const PresentVariables& present);
/// Options for sanitizers and valgrind: they accept the preloaded object and do not report false errors in
/// our libraries. Present options are kept.
Environment sanitizer_environment(const ProgramLibraries& libraries, const PresentVariables& present);
/// Makes a shell's prompt begin with "(MARK) ": PS1 for sh; PROMPT_COMMAND for bash, whose start-up files
/// overwrite PS1; WEFT_SHELL=MARK for prompts of other shells.
Environment prompt_environment(const std::string& mark, const PresentVariables& present);
void apply(const Environment& environment);

}  // namespace weft::tools
