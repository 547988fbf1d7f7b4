// node/spec_codec.h -- a NodeSpec as the command line of its program: the launcher writes it, and
// weft-switch, weft-host and weft-iou read it. Both use one description of the options, so that
// decode(encode(spec)) == spec. People use the same options (docs/man).
#pragma once

#include <exception>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/standard_descriptors.h"
#include "node/spec.h"

namespace weft::node {

/// "weft-switch", "weft-host", "weft-iou".
[[nodiscard]] const char* program_of(const NodeSpec& spec) noexcept;
[[nodiscard]] inline const ProcessSpec& process_of(const NodeSpec& spec) noexcept {
  return *std::visit([](const ProcessSpec& part) { return &part; }, spec);
}
[[nodiscard]] inline ProcessSpec& process_of(NodeSpec& spec) noexcept {
  return *std::visit([](ProcessSpec& part) { return &part; }, spec);
}

/// The arguments without the program's name. Options with default values are left out.
[[nodiscard]] std::vector<std::string> encode(const SwitchSpec& spec);
[[nodiscard]] std::vector<std::string> encode(const HostSpec& spec);
[[nodiscard]] std::vector<std::string> encode(const UnitSpec& spec);
[[nodiscard]] std::vector<std::string> encode(const NodeSpec& spec);

/// Parses a command line. Empty if the program shall run; otherwise its exit code: 0 after --help or
/// --version, 2 after one line with the error.
[[nodiscard]] std::optional<int> decode(const std::vector<std::string>& arguments, SwitchSpec& out);
[[nodiscard]] std::optional<int> decode(const std::vector<std::string>& arguments, HostSpec& out);
[[nodiscard]] std::optional<int> decode(const std::vector<std::string>& arguments, UnitSpec& out);

/// Why a program cannot run with this spec, as far as it can be checked without reading files; empty if it
/// can. decode() calls it, and so may code that builds a spec.
[[nodiscard]] std::string spec_fault(const SwitchSpec& spec);
[[nodiscard]] std::string spec_fault(const HostSpec& spec);
[[nodiscard]] std::string spec_fault(const UnitSpec& spec);

/// main() of a program: reads `argv`, then run(spec). If memory runs out during start, prints one line and
/// exits with 1.
template <class Spec, class Run>
int run_program(int argc, char** argv, Run run) {
  occupy_standard_descriptors();
  try {
    Spec spec;
    const std::vector<std::string> arguments(argv + (argc > 0 ? 1 : 0), argv + argc);
    if (const std::optional<int> code = decode(arguments, spec)) return *code;
    return run(spec);
  } catch (const std::bad_alloc&) {
    log_write(LogLevel::kError, "out of memory: raise ulimit -v, or give it smaller pools");
  } catch (const std::exception& fault) {
    log_write(LogLevel::kError, fault.what());
  }
  return 1;
}

}  // namespace weft::node
