// weft run, weft shell: run a program as an endnode. `weft` executes the program in its own process, so
// signals, exit status and terminal are the program's own.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

#include "base/command_line.h"
#include "base/environment.h"
#include "fabric/carrier/curve_keys.h"
#include "fabric/window/file_device.h"
#include "messages/endnode_address.h"
#include "node/limits.h"
#include "tools/commands/command.h"
#include "tools/fault/fault_control.h"
#include "tools/launch/listen_wait.h"
#include "tools/launch/node_names.h"
#include "tools/launch/program_check.h"
#include "tools/launch/program_files.h"
#include "tools/launch/run_environment.h"
#include "tools/launch/used_fabric.h"

namespace weft::tools {
namespace {

/// Directory for programs that join a switch of another machine. No fabric can have this name.
constexpr std::string_view kRemoteDir = ".remote";

/// Limit for questions to a switch, so that one that does not answer does not delay the program.
constexpr Duration kFaultsTimeout = std::chrono::milliseconds(200);

struct RunOptions {
  std::string fabric;
  JoinWish wish;
  std::string secret_key;
  std::string switch_key;
  bool roce = false;
  bool direct = false;
  std::string direct_file;  // value for WEFT_DIRECT_FILE
  uint32_t adapters = 0;    // NICs; 0: keep the environment's
  std::string addresses;    // value for WEFT_IP, separated by commas; empty: keep the environment's
  bool marks_prompt = false;
  uint32_t wait_port = 0;  // TCP port; 0: start at once

  [[nodiscard]] bool remote() const { return fabric.starts_with("tcp://"); }
  /// Mark for a shell's prompt: the fabric's name, with --node preceded by that name.
  [[nodiscard]] std::string mark(const std::string& name) const {
    return wish.node.empty() ? name : fmt::format("{}@{}", wish.node, name);
  }
};

/// Prints the faults that strike the program, so that its errors are no surprise.
void tell_faults(const char* command, const std::string& fabric, const std::string& node_switch,
                 uint64_t guid) {
  Result<StateDir> dir = StateDir::open(fabric);
  if (!dir.ok()) return;
  FaultControl control(std::move(dir).value(), kFaultsTimeout);
  const Result<std::vector<SetFault>> faults = control.list_of(node_switch);
  if (!faults.ok()) return;
  for (const SetFault& one : faults.value()) {
    const FaultRule& rule = one.fault.rule;
    const bool ours = rule.guid != Guid{} ? rule.guid == Guid(guid) : rule.port == kFaultEveryPort;
    if (ours)
      (void)failure(
          command, fmt::format("note: fault {} is in force for this program: {}; weft fault clear {} ends it",
                               one.name(), describe_fault(rule), one.name()));
  }
}

/// Makes the directory for the /sys files of the program and its children. If that fails (read-only or full),
/// the program has no files below /sys but still has its device.
std::optional<std::string> program_tree(const std::string& programs) {
  const std::string tree = make_program_tree(programs);
  const int fault = errno;
  if (tree.empty()) {
    const std::string what =
        fmt::format("no device below /sys for the program: cannot write to {}", programs);
    (void)failure("run", errno_error(what, fault).text);
    return std::nullopt;
  }
  clear_up_programs(programs);
  return tree;
}

/// Joins a fabric of this machine. The caller must hold `use` until the program runs. `name` is set to the
/// fabric's name.
Result<Environment> join_here(const char* command, const RunOptions& options,
                              const ProgramLibraries& libraries, UniqueFd& use, std::string& name) {
  Result<UsedFabric> fabric = use_fabric(options.fabric);
  if (!fabric.ok()) return fabric.error();
  if (!fabric->note.empty()) (void)failure("run", fabric->note);
  const uint32_t adapters = std::max(options.adapters, 1U);
  Result<std::vector<SpareRecord>> switches =
      spare_switches(fabric->dir, fabric->record, options.wish, adapters);
  if (!switches.ok()) return switches.error();
  const SpareRecord& spare = switches->front();
  ProgramName node{.name = options.wish.node};
  if (!node.name.empty()) {
    Result<NodeIdentity> known = node_identity(fabric->dir, fabric->record, spare, node.name);
    if (!known.ok()) return known.error();
    node.identity = *known;
  }
  const std::optional<std::string> tree = program_tree(fabric->dir.file("programs"));
  Environment out =
      run_environment({fabric->dir, fabric->record, spare}, node, libraries, environment_variable);
  if (options.adapters != 0) out["WEFT_ADAPTERS"] = adapters_value(fabric->dir, *switches, adapters);
  out["WEFT_SYSFS"] = tree;
  use = std::move(fabric->use);
  name = fabric->dir.fabric();
  tell_faults(command, fabric->dir.fabric(), spare.node, node.identity ? node.identity->guid.value() : 0);
  return out;
}

/// Joins a switch of another launcher. Names, LIDs and files of that fabric are not available here.
Result<Environment> join_there(const RunOptions& options, const ProgramLibraries& libraries) {
  if (!options.wish.node.empty() || !options.wish.switch_name.empty())
    return Error{
        fmt::format("--node and --switch need a fabric of this machine; {} is not one", options.fabric)};
  if (options.secret_key.empty() != options.switch_key.empty())
    return Error{"--key and --switch-key must be given together"};
  if (options.secret_key.empty() && fabric::endpoint_needs_curve(options.fabric))
    return Error{fmt::format(
        "{} leaves this machine and needs keys: --key FILE --switch-key FILE; weft keygen makes them",
        options.fabric)};
  if (!options.secret_key.empty()) {
    if (Result<fabric::CurveKeyPair> key = fabric::read_curve_secret(options.secret_key); !key)
      return key.error();
    if (Result<std::string> key = fabric::read_curve_public(options.switch_key); !key) return key.error();
  }
  Result<StateDir> dir = StateDir::create(std::string(kRemoteDir));
  if (!dir.ok()) return dir.error();
  const std::optional<std::string> tree = program_tree(dir->file("programs"));
  Environment out = remote_environment({options.fabric, options.secret_key, options.switch_key}, libraries,
                                       environment_variable);
  if (options.adapters != 0) out["WEFT_ADAPTERS"] = std::to_string(options.adapters);
  out["WEFT_SYSFS"] = tree;
  return out;
}

/// Opens the file as the program will, so that an unusable file is a refusal and not a silent way through the
/// switch.
Status check_direct_file(const std::string& path_and_side) {
  if (path_and_side.empty()) return {};
  const std::string path = path_and_side.substr(0, path_and_side.rfind(':'));
  const Result<UniqueFd> file = fabric::open_window_file(path, true);
  return file.ok() ? Status{} : Status{Error{"--direct-file: " + file.error().text}};
}

/// The mistake in PATH:SIDE; empty when there is none.
std::string direct_file_fault(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string side = colon == std::string::npos ? std::string() : text.substr(colon + 1);
  return colon == 0 || (side != "0" && side != "1") ? "must be PATH:SIDE, and the side is 0 or 1"
                                                    : std::string();
}

Status prepare(const char* command, const RunOptions& options, UniqueFd& use) {
  Result<ProgramLibraries> libraries = find_libraries();
  if (!libraries.ok()) return libraries.error();
  if (!options.remote() && (!options.secret_key.empty() || !options.switch_key.empty()))
    return Error{"--key and --switch-key are for --fabric tcp://HOST:PORT"};
  if (const std::string wrong = address_list_fault(options.addresses); !wrong.empty())
    return Error{"--ip: " + wrong};
  if (Status usable = check_direct_file(options.direct_file); !usable) return usable;
  std::string fabric = options.fabric;
  Result<Environment> environment = options.remote() ? join_there(options, *libraries)
                                                     : join_here(command, options, *libraries, use, fabric);
  if (!environment.ok()) return environment.error();
  if (options.roce) (*environment)["WEFT_FLAVOUR"] = "roce";
  if (options.direct && options.remote())
    (void)failure(command, fmt::format("note: --direct has no effect with {}: all traffic takes the switch",
                                       options.fabric));
  if (options.direct) (*environment)["WEFT_DIRECT"] = "1";
  if (!options.direct_file.empty()) (*environment)["WEFT_DIRECT_FILE"] = options.direct_file;
  if (!options.addresses.empty()) (*environment)["WEFT_IP"] = options.addresses;
  if (options.marks_prompt)
    environment->merge(prompt_environment(options.mark(fabric), environment_variable));
  environment->merge(sanitizer_environment(*libraries, environment_variable));
  apply(*environment);
  return {};
}

/// Longest wait of --wait-listen. A server takes seconds to start on a loaded machine; a server that is still
/// missing after 30 s was probably not started.
constexpr std::chrono::seconds kListenPatience{30};

/// Executes `words` in this process; returns only on failure.
int become(const char* command, Arguments words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  restore_signals();
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
  if (const auto port = static_cast<uint16_t>(options.wait_port);
      port != 0 && !wait_for_listener(port, kListenPatience)) {
    (void)failure(command, fmt::format("no program listens at TCP port {} after {} s; start its server first",
                                       port, kListenPatience.count()));
    return kExitNoFabric;
  }
  UniqueFd use;
  if (Status ready = prepare(command, options, use); !ready.ok()) {
    (void)failure(command, ready.error().text);
    return kExitNoFabric;
  }
  if (const std::string reason = unserved_reason(*program); !reason.empty())
    (void)failure(command,
                  fmt::format("{} {}: it runs, but sees no RDMA device of the fabric", *program, reason));
  return become(command, words);
}

/// Options that choose the place to join; common to weft run and weft shell.
void add_options(CommandLine& line, RunOptions& options) {
  line.text("fabric,f", "NAME|FILE", options.fabric,
            "a running fabric, a topology file, or tcp://HOST:PORT of a switch elsewhere (default)");
  line.text("switch", "NAME", options.wish.switch_name,
            "the switch to join (one with most free ports); of several adapters NAME,NAME, in turn");
  line.text("node", "NAME", options.wish.node, "a lasting name, with its own GUID and LID");
  line.text("ip", "ADDRESS", options.addresses,
            "IP addresses for connection management, separated by commas (10.87.0.0 plus the LID)");
  line.flag("roce", options.roce, "the port appears as RoCE: Ethernet, with GIDs from IP addresses");
  line.flag("direct", options.direct,
            "RC and UD to programs of this machine that have it too go through memory, not through the "
            "switch");
  line.value(
      "direct-file", "PATH:SIDE", false,
      [&options](const std::string& text) {
        options.direct_file = text;
        return direct_file_fault(text);
      },
      "RC and UD to the one program that shares this file, at the other side (0 or 1), go through the file");
  line.number("adapters", "N", options.adapters, 1, node::kLinksMax,
              "the program's computer joins by N adapters, each with a port and a LID of its own (1)");
  line.text("key", "FILE", options.secret_key, "with tcp://: our secret key, NAME.secret of weft keygen");
  line.text("switch-key", "FILE", options.switch_key, "with tcp://: the switch's public key");
}

}  // namespace

int command_run(const Arguments& arguments) {
  RunOptions options;
  Arguments words;
  CommandLine line("weft run", "weft run [options] [--] PROGRAM [ARGUMENTS]",
                   "Runs a program that uses RDMA verbs as an endnode of a fabric. The program finds an RDMA "
                   "device on a machine without one.\nIf no fabric runs, one is started; it ends a second "
                   "after its last program. Needs no rights. The exit code is the\nprogram's; 125 when there "
                   "is no fabric, 126 when the program cannot be run, 127 when it is not found.");
  add_options(line, options);
  line.number(
      "wait-listen", "PORT", options.wait_port, 1, 65535,
      "starts the program when another one listens at this TCP port of the machine; waits at most 30 s");
  line.words("PROGRAM", words, 1, 65536);
  if (std::optional<int> code =
          line.parse(shielded(arguments,
                              {"--fabric", "-f", "--node", "--switch", "--key", "--switch-key", "--ip",
                               "--direct-file", "--adapters", "--wait-listen", "--config"},
                              0)))
    return *code;
  return run("run", options, words);
}

int command_shell(const Arguments& arguments) {
  RunOptions options;
  Arguments words;
  CommandLine line(
      "weft shell", "weft shell [options]",
      "Starts $SHELL. Each program that it runs is an endnode of a fabric, as with weft run. The prompt "
      "begins with the\nfabric's name. With --node one program at a time has the name.");
  add_options(line, options);
  line.words("", words, 0, 0);
  if (std::optional<int> code = line.parse(arguments)) return *code;
  options.marks_prompt = true;
  const std::string shell = environment_variable("SHELL");
  return run("shell", options, {shell.empty() ? "/bin/sh" : shell});
}

}  // namespace weft::tools
