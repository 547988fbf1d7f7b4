// tests/unit/preload/fake_engine.h -- what the preloaded object asks of the drop-in library, written down.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace weft::test {

struct FakeEngine {
  int asked = 0;   // how often the object has asked for the engine, which the first time loads the library
  int next = 100;  // the descriptor that the next channel gets; negative: none can be opened
  std::vector<int> closed{};
  std::vector<std::pair<int, int>> moved{};  // from, to
  std::vector<int> awaited{};
  std::string root{};  // directory of the device's files; empty: there is no device
};
/// The only one. A test sets it to {} first.
FakeEngine& fake_engine() noexcept;

}  // namespace weft::test
