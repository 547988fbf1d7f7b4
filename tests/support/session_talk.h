// tests/support/session_talk.h -- what several rows want a session to say: frames both ways, every kind of
// message, an orderly end.
#pragma once

#include <gtest/gtest.h>

#include <array>

#include "tests/support/session_pair.h"

namespace weft::test {

inline SessionPairOptions in_mode(TransferMode mode, MessageEncoding encoding = MessageEncoding::kBytes) {
  return SessionPairOptions().mode(mode, encoding);
}

/// Small frames both ways and large ones to the unit.
inline void exchange(SessionPair& pair) {
  EXPECT_EQ(pair.stream(0, 0, 40, 1000).size(), 40U);
  EXPECT_EQ(pair.stream(1, 100, 40, 1000).size(), 40U);
  EXPECT_EQ(pair.stream(0, 200, 20, 9000).size(), 20U);
}

/// A request of each side, keepalives, and the flush of a close.
inline void ask_and_close(SessionPair& pair) {
  const std::array<std::byte, 6> mac{std::byte{2}, std::byte{0}, std::byte{0},
                                     std::byte{0}, std::byte{0}, std::byte{42}};
  EXPECT_NE(pair.host().request_config({.request_class = CfgClass::kMacConfig, .code = 2, .data = mac}), 0U);
  pair.run(20);
  EXPECT_NE(pair.unit().request_config({.request_class = CfgClass::kUtility, .code = 4}), 0U);
  pair.run_for(std::chrono::milliseconds(1200));
  pair.host().close();
  pair.run_for(std::chrono::milliseconds(50));
}

}  // namespace weft::test
