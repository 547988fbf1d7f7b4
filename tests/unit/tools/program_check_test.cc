// Commands that are looked for as a shell does.
#include "tools/launch/program_check.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/support/temp_dir.h"

namespace weft::tools {
namespace {

/// A shell exits with 126 in the first case and with 127 in the second.
TEST(FindCommand, a_program_that_may_not_be_run_is_told_from_one_that_is_not_there) {
  const test::TempDir dir;
  const std::string path = std::getenv("PATH");
  setenv("PATH", ("/no/such/folder:" + dir.path()).c_str(), 1);
  std::ofstream(dir.path() + "/program") << "#!/bin/sh\n";
  bool not_found = true;
  EXPECT_FALSE(find_command("program", not_found).ok());
  EXPECT_FALSE(not_found);
  EXPECT_FALSE(find_command("another", not_found).ok());
  EXPECT_TRUE(not_found);
  chmod((dir.path() + "/program").c_str(), 0700);
  EXPECT_EQ(find_command("program", not_found).value(), dir.path() + "/program");
  EXPECT_FALSE(not_found);
  setenv("PATH", path.c_str(), 1);
}

}  // namespace
}  // namespace weft::tools
