// tests/support/allocation_counter.h -- counts calls of operator new in the whole test program, to show that
// a path takes no memory (house style 18). A program that uses it gets the counting operators.
#pragma once

#include <cstdint>

namespace weft::test {

/// Allocations so far, of all threads.
uint64_t allocations() noexcept;
/// Bytes that they asked for, given back or not.
uint64_t allocated_bytes() noexcept;
/// `look` is called with the size of each allocation from now on, by whoever makes it; null: nobody. There is
/// no memory for one at which it throws.
void watch_allocations(void (*look)(uint64_t bytes)) noexcept;
/// `look` is called before memory is given back, likewise.
void watch_frees(void (*look)()) noexcept;

}  // namespace weft::test
