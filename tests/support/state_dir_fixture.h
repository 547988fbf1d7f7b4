// tests/support/state_dir_fixture.h -- the fixture of tests that have a state directory of their own.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/support/temp_dir.h"

namespace weft::test {

/// WEFT_STATE_DIR names an empty directory while a test runs.
class StateDirFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(base_.empty());
    setenv("WEFT_STATE_DIR", base_.c_str(), 1);
  }
  void TearDown() override { unsetenv("WEFT_STATE_DIR"); }

 private:
  TempDir dir_;

 protected:
  const std::string base_ = dir_.path();
};

}  // namespace weft::test
