// base/command_line.h -- the options of every program: --help, --version and --config FILE always exist;
// wrong use prints one line with the mistake and its remedy, and exits with 2.
//
//   CommandLine line("weft-host", "weft-host [options]", "Runs the host half of the split network driver.");
//   line.text("name", "NAME", name, "of the node");
//   line.number("lid", "N", lid, 1, 0xFFFE, "local identifier");
//   if (std::optional<int> code = line.parse(argc, argv)) return *code;
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

/// Version that every program prints and puts into NodeInfo.
inline constexpr const char* kProgramVersion = "0.1.0";

/// Declares options, then parses once. Variables given to the declaring calls outlive parse() and keep their
/// value where the option is absent. A name "fabric,f" adds the short form -f.
class CommandLine {
 public:
  CommandLine(std::string program, std::string usage, std::string purpose);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  void flag(const char* name, bool& out, const char* help);
  void text(const char* name, const char* value_name, std::string& out, const char* help);
  void number(const char* name, const char* value_name, uint64_t& out, uint64_t lowest, uint64_t highest,
              const char* help);
  void number(const char* name, const char* value_name, uint32_t& out, uint32_t lowest, uint32_t highest,
              const char* help);
  /// May be given several times; each use appends.
  void texts(const char* name, const char* value_name, std::vector<std::string>& out, const char* help);
  /// Hexadecimal with or without 0x.
  void hex(const char* name, const char* value_name, uint64_t& out, const char* help);
  /// An option with a syntax of its own. `take` gets each value and returns the mistake in it, or an empty
  /// text; with `many` the option may be repeated.
  using ValueReader = std::function<std::string(const std::string&)>;
  void value(const char* name, const char* value_name, bool many, ValueReader take, const char* help);
  /// Positional arguments, `lowest` to `highest` in number. Everything after "--" is positional.
  void words(const char* value_name, std::vector<std::string>& out, size_t lowest, size_t highest);

  /// Empty if the program shall run; otherwise its exit code: 0 after --help or --version, 2 after wrong use.
  /// The file named by --config (lines "name = value") supplies options that the command line does not give.
  [[nodiscard]] std::optional<int> parse(int argc, const char* const* argv);
  [[nodiscard]] std::optional<int> parse(const std::vector<std::string>& arguments);

  /// Prints "PROGRAM: text; see PROGRAM --help" and returns 2: for checks between options.
  [[nodiscard]] int wrong_use(std::string_view text) const;
  /// True when the option stood on the command line or in the file.
  [[nodiscard]] bool given(const std::string& name) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
