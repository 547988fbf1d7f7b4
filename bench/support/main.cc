#include "bench/support/options.h"

int main(int argc, char** argv) {
  return weft::bench::run(argc, argv);
}
