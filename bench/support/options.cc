#include "bench/support/options.h"

#include <fmt/core.h>

#include <iostream>

namespace weft::bench {

int parse_options(int argc, char** argv, boost::program_options::options_description& known) {
  namespace po = boost::program_options;
  known.add_options()("help", "this text");
  try {
    po::variables_map values;
    po::store(po::parse_command_line(argc, argv, known), values);
    if (values.count("help") != 0) {
      std::cout << known;
      return 0;
    }
    po::notify(values);
  } catch (const po::error& error) {
    fmt::print(stderr, "{}: {}; see --help\n", argv[0], error.what());
    return 2;
  }
  return -1;
}

}  // namespace weft::bench
