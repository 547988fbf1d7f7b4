// Which fabric a command means that names none, from state directories in every state that there is.
#include "tools/launch/fabric_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/support/state_dir_fixture.h"

namespace weft::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FabricChoice : public test::StateDirFixture {
 protected:
  void TearDown() override {
    running_.clear();
    StateDirFixture::TearDown();
  }

  /// One that has ended.
  void seen(const std::string& name, uint64_t started_us = 1) {
    ASSERT_TRUE(StateDir::create(name).ok());
    std::ofstream(base_ + "/" + name + "/started") << started_us << '\n';
  }
  /// One whose launcher was killed.
  void left(const std::string& name) {
    seen(name);
    RunRecord record;
    record.processes = {{"s1", "weft-switch", 1, 1, 0}};
    ASSERT_TRUE(StateDir::open(name).value().save(record).ok());
  }
  void running(const std::string& name, bool ends_unused = false) {
    seen(name);
    running_.push_back(StateDir::open(name).value());
    RunRecord record;
    record.ends_unused = ends_unused;
    ASSERT_TRUE(running_.back().save(record).ok());
    ASSERT_TRUE(running_.back().lock().ok());
  }
  static std::string chosen(Among among = Among::kRunning) {
    Result<StateDir> dir = SeenFabrics::look().value().choose(among);
    return dir.ok() ? dir->fabric() : "! " + dir.error().text;
  }

  std::vector<StateDir> running_;
};

TEST_F(FabricChoice, none_is_found_where_none_is) {
  EXPECT_THAT(chosen(), HasSubstr("no fabric is running"));
  EXPECT_THAT(chosen(Among::kSeen), HasSubstr("no fabric has run here"));
  seen("old");
  left("torn");
  EXPECT_THAT(chosen(), HasSubstr("no fabric is running")) << "neither runs";
  EXPECT_FALSE(SeenFabrics::look().value().any_runs());
}

TEST_F(FabricChoice, what_runs_goes_before_what_is_left_and_that_before_what_has_ended) {
  seen("a", 7);
  EXPECT_EQ(chosen(Among::kSeen), "a");
  seen("b", 9);
  seen("c", 8);
  EXPECT_EQ(chosen(Among::kSeen), "b") << "the latest";
  left("d");
  EXPECT_EQ(chosen(Among::kSeen), "d");
  EXPECT_EQ(chosen(Among::kLeft), "d");
  running("e");
  for (const Among among : {Among::kRunning, Among::kLeft, Among::kSeen}) EXPECT_EQ(chosen(among), "e");
  EXPECT_THAT(SeenFabrics::look().value().found(Among::kSeen).value(), ElementsAre("e"));
}

TEST_F(FabricChoice, of_several_the_one_that_stays_is_meant) {
  running("default", true);
  running("mine");
  EXPECT_EQ(chosen(), "mine");
  EXPECT_EQ(SeenFabrics::look().value().meant(), "mine");
  running("other");
  EXPECT_EQ(chosen(), "! there are several fabrics; choose with --fabric: default, mine, other");
  EXPECT_EQ(SeenFabrics::look().value().meant(), "");
  EXPECT_THAT(SeenFabrics::look().value().staying(), ElementsAre("mine", "other"));
}

TEST_F(FabricChoice, one_that_is_refused_is_named_where_no_other_is_found) {
  seen("open");
  chmod((base_ + "/open").c_str(), 0777);
  EXPECT_THAT(chosen(), HasSubstr("open"));
  EXPECT_THAT(chosen(), HasSubstr("WEFT_STATE_DIR to another"));
  EXPECT_FALSE(SeenFabrics::look().value().found(Among::kLeft).ok());
  running("mine");
  EXPECT_EQ(chosen(), "mine") << "and does not stand in the way of one that runs";
  chmod(base_.c_str(), 0777);
  EXPECT_FALSE(SeenFabrics::look().ok());
  chmod(base_.c_str(), 0700);
}

TEST_F(FabricChoice, the_directory_chosen_is_the_one_that_was_looked_at) {
  left("torn");
  SeenFabrics all = SeenFabrics::look().value();
  std::filesystem::rename(base_ + "/torn", base_ + "/moved");
  seen("torn");
  Result<StateDir> dir = all.choose(Among::kLeft);
  ASSERT_TRUE(dir.ok());
  EXPECT_EQ(dir->load().processes.size(), 1U) << "another of its name has none";
}

}  // namespace
}  // namespace weft::tools
