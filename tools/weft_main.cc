// weft: one program with a table of subcommands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string>

#include "base/command_line.h"
#include "base/log.h"
#include "base/standard_descriptors.h"
#include "base/words.h"
#include "tools/commands/command.h"
#include "tools/launch/daemon.h"

namespace weft::tools {
namespace {

struct Subcommand {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments&);
};

constexpr std::array kSubcommands{
    Subcommand{"run", "run a program that uses RDMA verbs on a fabric", command_run},
    Subcommand{"shell", "start a shell whose programs run on a fabric", command_shell},
    Subcommand{"devices", "list the endnodes on the spare ports", command_devices},
    Subcommand{"doctor", "find what keeps programs from running, and the remedy", command_doctor},
    Subcommand{"up", "start a fabric from a topology file and supervise it", command_up},
    Subcommand{"down", "end a running fabric", command_down},
    Subcommand{"status", "list processes and programs with their states", command_status},
    Subcommand{"stat", "show counters of ports, lanes, queue pairs and pools, and what blocks", command_stat},
    Subcommand{"logs", "print the logs of the processes", command_logs},
    Subcommand{"exec", "run a command in the network namespace of a node", command_exec},
    Subcommand{"traffic", "drive the traffic generator of a host", command_traffic},
    Subcommand{"nic", "show a host's LAN NIC and its statistics, set its filters", command_nic},
    Subcommand{"capture", "write the frames or cells of a node to a pcapng file", command_capture},
    Subcommand{"fault", "lose, delay or duplicate cells, cut links, freeze or kill a node", command_fault},
    Subcommand{"demo", "run a small fabric, send frames through it, check every byte", command_demo},
    Subcommand{"keygen", "make CURVE keys for links between machines", command_keygen},
};

void print_help() {
  print_line(
      "usage: weft COMMAND [options]\n\nRuns and inspects fabrics of switches, hosts and I/O "
      "units.\n\ncommands");
  for (const Subcommand& command : kSubcommands)
    print_line(fmt::format("  {:<9} {}", command.name, command.summary));
  print_line("\nweft COMMAND --help explains a command. Exit codes: 0 done, 1 it failed, 2 wrong use.");
}

int wrong_command(const std::string& word) {
  std::vector<std::string> known(kSubcommands.size());
  std::transform(kSubcommands.begin(), kSubcommands.end(), known.begin(),
                 [](const Subcommand& command) { return std::string(command.name); });
  const bool option = word.starts_with("-");
  if (option) known = {"--help", "--version"};
  (void)failure("", word.empty() ? fmt::format("a command is missing; known: {}", joined(known))
                                 : fmt::format("unknown {} '{}'{}", option ? "option" : "command", word,
                                               choices(word, known)));
  return kExitWrongUse;
}

int run(int argc, char** argv) {
  log_setup("weft", LogLevel::kInfo);
  Arguments words(argv + std::min(argc, 1), argv + argc);
  remember_command_line(argc, argv);
  if (words.size() > 1 && words[0] == "help") words = {words[1], "--help"};  // weft help COMMAND
  const std::string word = words.empty() ? "" : words[0];
  if (word == "--help" || word == "-h" || word == "help") {
    print_help();
    return code_after_output("", kExitDone);
  }
  if (word == "--version") {
    print_line(fmt::format("weft {}", kProgramVersion));
    return kExitDone;
  }
  const auto at = std::find_if(kSubcommands.begin(), kSubcommands.end(),
                               [&word](const Subcommand& command) { return command.name == word; });
  if (at == kSubcommands.end()) return wrong_command(word);
  return code_after_output(word, at->run(Arguments(words.begin() + 1, words.end())));
}

}  // namespace
}  // namespace weft::tools

int main(int argc, char** argv) {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("sse4.2") || !__builtin_cpu_supports("popcnt"))
    return weft::tools::failure("", "this processor has no SSE 4.2 and POPCNT (x86-64-v2), which Weft uses");
#endif
  weft::occupy_standard_descriptors();
  try {
    weft::tools::ignore_file_size_signal();
    return weft::tools::run(argc, argv);
  } catch (const std::exception& fault) {
    return weft::tools::failure("", fault.what());
  }
}
