// bench/support/options.h -- what the measurement programs share at their start: main(), and command lines
// with --help and one line on wrong use.
#pragma once

#include <boost/program_options.hpp>

namespace weft::bench {

/// The measurement program itself: each defines it, and main() calls it. @return exit code
int run(int argc, char** argv);

/// Parses the command line into the variables bound to `known`, and adds --help.
/// @return -1 to go on, else the exit code: 0 after --help, 2 after wrong use
[[nodiscard]] int parse_options(int argc, char** argv, boost::program_options::options_description& known);

}  // namespace weft::bench
