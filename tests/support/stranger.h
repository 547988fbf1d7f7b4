// tests/support/stranger.h -- another user at a socket of ours, for tests that run as root.
#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "tests/support/temp_dir.h"

namespace weft::test {

/// Acts as another user while it lives; sockets made meanwhile bear that user's credentials.
class AsStranger {
 public:
  AsStranger() { EXPECT_EQ(seteuid(kStranger), 0); }
  AsStranger(const AsStranger&) = delete;
  AsStranger& operator=(const AsStranger&) = delete;
  ~AsStranger() { EXPECT_EQ(seteuid(0), 0); }

 private:
  static constexpr uid_t kStranger = 65534;
};

/// Opens directory and socket to everybody, as if their modes had failed to protect.
inline void open_to_all(const TempDir& dir, const std::string& socket) {
  ASSERT_EQ(chmod(dir.path().c_str(), 0755), 0);
  ASSERT_EQ(chmod(socket.c_str(), 0666), 0);
}

}  // namespace weft::test
