// weft run, weft shell: a program as an endnode of its own. Nothing of ours stays around the program: we
// become it, so that signals, exit status and terminal are its own.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <string_view>

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

/// Of programs that join a switch of another machine: no fabric has this name.
constexpr std::string_view kRemoteDir = ".remote";

struct RunOptions {
  std::string fabric;
  JoinWish wish;
  std::string secret_key;
  std::string switch_key;
  bool roce = false;

  [[nodiscard]] bool remote() const { return fabric.starts_with("tcp://"); }
};

/// Joins a fabric of this machine; `use` is to be held until the program runs.
Result<Environment> join_here(const RunOptions& options, const ProgramLibraries& libraries, UniqueFd& use) {
  Result<UsedFabric> fabric = use_fabric(options.fabric);
  if (!fabric.ok()) return fabric.error();
  Result<SpareRecord> spare = spare_switch(fabric->dir, fabric->record, options.wish);
  if (!spare.ok()) return spare.error();
  const std::string& node = options.wish.node;
  std::optional<NodeIdentity> identity;
  if (!node.empty()) {
    Result<NodeIdentity> known = node_identity(fabric->dir, fabric->record, *spare, node);
    if (!known.ok()) return known.error();
    identity = *known;
  }
  const std::string programs = fabric->dir.file("programs");
  const std::string tree = make_program_tree(programs);
  if (tree.empty()) return errno_error("cannot make a directory in " + programs, errno);
  clear_up_programs(programs);
  Environment out =
      run_environment(fabric->dir, fabric->record, *spare, node, identity, libraries,
                      environment_variable("LD_LIBRARY_PATH"), environment_variable("LD_PRELOAD"));
  out["WEFT_SYSFS"] = tree;
  use = std::move(fabric->use);
  return out;
}

/// Joins a switch that somebody else runs, whose names, LIDs and files are not ours.
Result<Environment> join_there(const RunOptions& options, const ProgramLibraries& libraries) {
  if (!options.wish.node.empty() || !options.wish.switch_name.empty())
    return Error{
        fmt::format("--node and --switch are of a fabric of this machine, and {} is none", options.fabric)};
  for (const std::string& key : {options.secret_key, options.switch_key})
    if (!key.empty() && access(key.c_str(), R_OK) != 0) return errno_error("cannot read key " + key, errno);
  if (options.secret_key.empty() != options.switch_key.empty())
    return Error{"--key and --switch-key go together"};
  Result<StateDir> dir = StateDir::create(std::string(kRemoteDir));
  if (!dir.ok()) return dir.error();
  const std::string programs = dir->file("programs");
  const std::string tree = make_program_tree(programs);
  if (tree.empty()) return errno_error("cannot make a directory in " + programs, errno);
  clear_up_programs(programs);
  Environment out =
      remote_environment({options.fabric, options.secret_key, options.switch_key}, libraries,
                         environment_variable("LD_LIBRARY_PATH"), environment_variable("LD_PRELOAD"));
  out["WEFT_SYSFS"] = tree;
  return out;
}

Status prepare(const RunOptions& options, UniqueFd& use) {
  Result<ProgramLibraries> libraries = find_libraries();
  if (!libraries.ok()) return libraries.error();
  if (!options.remote() && (!options.secret_key.empty() || !options.switch_key.empty()))
    return Error{"--key and --switch-key are for --fabric tcp://HOST:PORT"};
  Result<Environment> environment =
      options.remote() ? join_there(options, *libraries) : join_here(options, *libraries, use);
  if (!environment.ok()) return environment.error();
  if (options.roce) (*environment)["WEFT_FLAVOUR"] = "roce";
  apply(*environment);
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

/// Where to join, of weft run and weft shell alike.
void add_options(CommandLine& line, RunOptions& options) {
  line.text("fabric,f", "NAME|FILE", options.fabric,
            "a running fabric, a topology file, or tcp://HOST:PORT of a switch elsewhere (default)");
  line.text("switch", "NAME", options.wish.switch_name,
            "the switch to join; without, one with most free ports");
  line.text("key", "FILE", options.secret_key, "with tcp://: our secret key, NAME.secret of weft keygen");
  line.text("switch-key", "FILE", options.switch_key, "with tcp://: the switch's public key");
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
      "run, "
      "127 when it is not found.");
  add_options(line, options);
  line.text("node", "NAME", options.wish.node, "a name that stays, with a GUID and a LID of its own");
  line.flag("roce", options.roce, "the port is one of RoCE version 2: Ethernet, with GIDs of IP addresses");
  line.words("PROGRAM", words, 1, 65536);
  if (std::optional<int> code = line.parse(shielded(
          arguments, {"--fabric", "-f", "--node", "--switch", "--key", "--switch-key", "--config"}, 0)))
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
  add_options(line, options);
  line.words("", words, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  const std::string shell = environment_variable("SHELL");
  return run("shell", options, {shell.empty() ? "/bin/sh" : shell});
}

}  // namespace weft::tools
