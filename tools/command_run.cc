// weft run, weft shell: a program as an endnode of its own. Nothing of ours stays around the program: we
// become it, so that signals, exit status and terminal are its own.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <optional>

#include "base/command_line.h"
#include "base/environment.h"
#include "tools/command.h"
#include "tools/node_names.h"
#include "tools/program_check.h"
#include "tools/program_files.h"
#include "tools/run_environment.h"
#include "tools/used_fabric.h"

namespace weft::tools {
namespace {

struct RunOptions {
  std::string fabric;
  std::string node;
  bool roce = false;
};

/// Joins the fabric; `use` is to be held until the program runs.
Status prepare(const RunOptions& options, UniqueFd& use) {
  Result<ProgramLibraries> libraries = find_libraries();
  if (!libraries.ok()) return libraries.error();
  Result<UsedFabric> fabric = use_fabric(options.fabric);
  if (!fabric.ok()) return fabric.error();
  Result<SpareRecord> spare = spare_switch(fabric->record, fabric->dir.fabric());
  if (!spare.ok()) return spare.error();
  std::optional<NodeIdentity> identity;
  if (!options.node.empty()) {
    Result<NodeIdentity> known = node_identity(fabric->dir, fabric->record, *spare, options.node);
    if (!known.ok()) return known.error();
    identity = *known;
  }
  const std::string programs = fabric->dir.file("programs");
  const std::string tree = make_program_tree(programs);
  if (tree.empty()) return errno_error("cannot make a directory in " + programs, errno);
  clear_up_programs(programs);
  Environment environment =
      run_environment(fabric->dir, fabric->record, *spare, options.node, identity, *libraries,
                      environment_variable("LD_LIBRARY_PATH"), environment_variable("LD_PRELOAD"));
  environment["WEFT_SYSFS"] = tree;
  if (options.roce) environment["WEFT_FLAVOUR"] = "roce";
  apply(environment);
  use = std::move(fabric->use);
  return {};
}

/// Becomes `words`; returns only when that fails.
int become(const char* command, Arguments words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int fault = errno;
  (void)failure(command, errno_error("cannot run " + words[0], fault).text);
  return fault == ENOENT ? kExitNotFound : kExitCannotRun;
}

int run(const char* command, const RunOptions& options, const Arguments& words) {
  bool not_found = false;
  Result<std::string> program = find_command(words[0], not_found);
  if (!program.ok()) {
    (void)failure(command, program.error().text);
    return not_found ? kExitNotFound : kExitCannotRun;
  }
  UniqueFd use;
  if (Status ready = prepare(options, use); !ready.ok()) {
    (void)failure(command, ready.error().text);
    return kExitNoFabric;
  }
  if (const std::string reason = unserved_reason(*program); !reason.empty())
    (void)failure(command,
                  fmt::format("{} {}: it runs, but sees no RDMA device of the fabric", *program, reason));
  return become(command, words);
}

}  // namespace

int command_run(const Arguments& arguments) {
  RunOptions options;
  Arguments words;
  CommandLine line(
      "weft run", "weft run [options] [--] PROGRAM [ARGUMENTS]",
      "Runs a program of the verbs on a fabric, as an endnode of its own: it finds an RDMA device where the "
      "machine has none.\nA fabric is started when none runs, and ends a second after its last program. "
      "Needs no "
      "rights. The exit code is\nthe program's; 125 when there is no fabric, 126 when the program cannot be "
      "run, 127 "
      "when it is not found.");
  line.text("fabric,f", "NAME|FILE", options.fabric, "a running fabric, or a topology file (default)");
  line.text("node", "NAME", options.node, "a name that stays, with a GUID and a LID of its own");
  line.flag("roce", options.roce, "the port is one of RoCE version 2: Ethernet, with GIDs of IP addresses");
  line.words("PROGRAM", words, 1, 65536);
  if (std::optional<int> code = line.parse(shielded(arguments, {"--fabric", "-f", "--node", "--config"}, 0)))
    return *code;
  return run("run", options, words);
}

int command_shell(const Arguments& arguments) {
  RunOptions options;
  Arguments words;
  CommandLine line(
      "weft shell", "weft shell [options]",
      "Starts a shell whose programs are endnodes of a fabric, each of its own, as with weft run; "
      "$SHELL says which.");
  line.text("fabric,f", "NAME|FILE", options.fabric, "a running fabric, or a topology file (default)");
  line.words("", words, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  const std::string shell = environment_variable("SHELL");
  return run("shell", options, {shell.empty() ? "/bin/sh" : shell});
}

}  // namespace weft::tools
