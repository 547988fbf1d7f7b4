// The order of the bytes of one write to window memory: where the last bytes are, and that they move last.
#include "fabric/window/window_words.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>

namespace weft::test {
using namespace fabric;
namespace {

constexpr size_t kPage = 4096;

/// Two pages, of which the second cannot be written to until the first write to it: that write waits in the
/// handler, which looks at what is already in the first page.
struct TwoPages {
  std::byte* memory = nullptr;
  const std::byte* expected = nullptr;  // of the bytes that end the first page
  size_t bytes = 0;
  int faults = 0;
  bool were_there = false;
};
TwoPages pages;

void on_fault(int, siginfo_t*, void*) {
  ++pages.faults;
  pages.were_there =
      std::equal(pages.expected, pages.expected + pages.bytes, pages.memory + kPage - pages.bytes);
  static_cast<void>(mprotect(pages.memory + kPage, kPage, PROT_READ | PROT_WRITE));
}

class LastBytes : public ::testing::Test {
 protected:
  void SetUp() override {
    void* const memory = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    pages.memory = static_cast<std::byte*>(memory);
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    ASSERT_EQ(sigaction(SIGSEGV, &action, &before_), 0);
  }
  void TearDown() override {
    sigaction(SIGSEGV, &before_, nullptr);
    munmap(pages.memory, 2 * kPage);
  }

  std::array<std::byte, kPage> local_{};

 private:
  struct sigaction before_ {};
};

TEST_F(LastBytes, move_after_all_others) {
  std::fill(local_.begin(), local_.end(), std::byte{0x5A});
  for (size_t last = 1; last <= kWindowWordBytes; ++last) {
    for (const size_t bytes : {9U, 15U, 16U, 17U, 31U, 64U, 100U, 200U, 500U, 3000U}) {
      SCOPED_TRACE(testing::Message()
                   << bytes << " bytes, " << last << " of them behind the last word boundary");
      std::fill_n(pages.memory, kPage, std::byte{0});
      ASSERT_EQ(mprotect(pages.memory + kPage, kPage, PROT_READ), 0);
      pages.expected = local_.data();
      pages.bytes = bytes - last;
      pages.faults = 0;
      pages.were_there = false;
      const DmaRequest request{.remote = kPage - pages.bytes, .local = local_.data(), .bytes = bytes};
      ASSERT_EQ(move_in_window({pages.memory, 2 * kPage}, request), DmaStatus::kGood);
      EXPECT_EQ(pages.faults, 1);
      EXPECT_TRUE(pages.were_there);
      EXPECT_TRUE(std::equal(local_.begin(), local_.begin() + bytes, pages.memory + request.remote));
    }
  }
}

TEST_F(LastBytes, nothing_behind_the_range_changes) {
  std::fill(local_.begin(), local_.end(), std::byte{0x5A});
  for (size_t bytes = 0; bytes < 40; ++bytes) {
    std::fill_n(pages.memory, kPage, std::byte{0});
    const DmaRequest request{.remote = 3, .local = local_.data(), .bytes = bytes};
    ASSERT_EQ(move_in_window({pages.memory, kPage}, request), DmaStatus::kGood);
    EXPECT_EQ(std::count(pages.memory, pages.memory + kPage, std::byte{0x5A}), static_cast<ptrdiff_t>(bytes));
    EXPECT_EQ(pages.memory[3 + bytes], std::byte{0});
  }
}

}  // namespace
}  // namespace weft::test
