// weft: one program, a table of subcommands.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <string>

#include "base/command_line.h"
#include "base/log.h"
#include "tools/command.h"

namespace weft {
namespace {

struct Subcommand {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments&);
};

constexpr std::array kSubcommands{
    Subcommand{"up", "start a fabric from a topology file and watch over it", command_up},
    Subcommand{"down", "end a running fabric", command_down},
    Subcommand{"status", "what runs, and in which state it is", command_status},
    Subcommand{"stat", "counters of ports, lanes, queue pairs and pools; what blocks", command_stat},
    Subcommand{"logs", "what the processes have logged", command_logs},
    Subcommand{"exec", "run a command in the network namespace of a node", command_exec},
    Subcommand{"traffic", "drive the traffic generator of a host", command_traffic},
    Subcommand{"capture", "write the Ethernet frames at a driver to a pcapng file", command_capture},
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
  std::string known;
  for (const Subcommand& command : kSubcommands)
    known += fmt::format("{}{}", known.empty() ? "" : ", ", command.name);
  (void)failure("", word.empty() ? fmt::format("a command is missing; known: {}", known)
                                 : fmt::format("unknown command '{}'; known: {}", word, known));
  return 2;
}

int run(int argc, char** argv) {
  log_setup("weft", LogLevel::kInfo);
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "--help" || word == "-h" || word == "help") {
    print_help();
    return 0;
  }
  if (word == "--version") {
    print_line(fmt::format("weft {}", kProgramVersion));
    return 0;
  }
  const auto at = std::find_if(kSubcommands.begin(), kSubcommands.end(),
                               [&word](const Subcommand& command) { return command.name == word; });
  if (at == kSubcommands.end()) return wrong_command(word);
  return at->run(Arguments(argv + 2, argv + argc));
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) {
  try {
    return weft::run(argc, argv);
  } catch (const std::exception& fault) {
    return weft::failure("", fault.what());
  }
}
