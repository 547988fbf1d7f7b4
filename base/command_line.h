// base/command_line.h -- options of every program, one way: --help, --version and --config FILE always exist,
// wrong use prints one line that says what and how to mend it and exits 2.
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
  /// An option of a form of its own. `take` gets each value and answers what is wrong with it, or nothing;
  /// with `many` the option may stand several times.
  using ValueReader = std::function<std::string(const std::string&)>;
  void value(const char* name, const char* value_name, bool many, ValueReader take, const char* help);
  /// Words without option: `lowest` to `highest` of them. Everything after "--" counts as such words.
  void words(const char* value_name, std::vector<std::string>& out, size_t lowest, size_t highest);

  /// Nothing when the program is to run; otherwise its exit code: 0 after --help or --version, 2 after wrong
  /// use. Options of the file named by --config (lines "name = value") fill in what the command line leaves
  /// out.
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
