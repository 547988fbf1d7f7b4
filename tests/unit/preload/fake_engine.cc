#include "tests/unit/preload/fake_engine.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "preload/engine.h"

namespace weft::test {
namespace {

/// The preloaded object reads its environment when it is loaded, before the first test.
[[gnu::constructor(101)]] void set_environment() {
  setenv("WEFT_FABRIC", "a fabric", 1);
  setenv("WEFT_SYSFS", "/empty", 1);
}

}  // namespace

FakeEngine& fake_engine() noexcept {
  static FakeEngine only;
  return only;
}

}  // namespace weft::test

namespace weft::preload {

const Engine* engine() noexcept {
  static const Engine calls{
      .cm_open = []() -> int { return test::fake_engine().next; },
      .cm_write = [](int, const void*, size_t bytes) -> ssize_t { return static_cast<ssize_t>(bytes); },
      .cm_await_reader = [](int descriptor) { test::fake_engine().awaited.push_back(descriptor); },
      .cm_close =
          [](int descriptor) {
            test::fake_engine().closed.push_back(descriptor);
            return 0;
          },
      .cm_move =
          [](int descriptor, int copy) {
            test::fake_engine().moved.emplace_back(descriptor, copy);
            return 0;
          },
      .system_root =
          [](char* out, size_t bytes) {
            const std::string& root = test::fake_engine().root;
            if (root.empty() || root.size() >= bytes) return -1;
            std::memcpy(out, root.c_str(), root.size() + 1);
            return 0;
          }};
  ++test::fake_engine().asked;
  return &calls;
}

}  // namespace weft::preload
