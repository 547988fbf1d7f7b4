// Who is on the spare ports of a fabric, and by which names.
#include "tools/show/program_list.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "base/stats_page.h"
#include "fabric/link/limits.h"
#include "tests/support/child_process.h"
#include "tests/support/temp_dir.h"
#include "tools/launch/node_names.h"
#include "tools/launch/used_fabric.h"

namespace weft::tools {
namespace {

/// A program that holds a page, as verbs/process/process_node.cc makes it.
class FakeProgram : public test::ChildProcess {
 public:
  FakeProgram(const std::string& path, uint64_t guid)
      : ChildProcess([&path, guid] { return hold(path, guid); }) {}

 private:
  static Result<StatsPage> hold(const std::string& path, uint64_t guid) {
    Result<StatsPage> page = StatsPage::create_held(path, 64);
    if (page.ok()) {
      page->add("node.guid")->store(guid);
      page->add("node.guid.2")->store(0xDEF);
      page->add("node.guid.3")->store(0);  // a port that has not been up yet
      page->add("qps")->store(3);
      page->add("qp.0.number")->store(17);
      page->add("qp.0.service")->store(2);
      page->add("qp.0.qp_state")->store(3);
      page->add("qp.0.peer_lid")->store(9);
      page->add("qp.0.peer_number")->store(18);
      page->add("qp.1.number")->store(0);
      page->add("qp.1.service")->store(0);
      page->add("qp.2.number")->store(19);
      page->add("qp.2.service")->store(4);
      page->add("qp.2.qp_state")->store(0);
    }
    return page;
  }
};

class ProgramListTest : public ::testing::Test {
 protected:
  ProgramListTest() {
    setenv("WEFT_STATE_DIR", temp_.path().c_str(), 1);
    dir_.emplace(StateDir::create("f").value());
    mkdir(dir_->file("programs").c_str(), 0700);
  }
  ~ProgramListTest() override { unsetenv("WEFT_STATE_DIR"); }
  test::TempDir temp_;
  std::optional<StateDir> dir_;
};

TEST_F(ProgramListTest, a_program_is_listed_while_it_lives) {
  FakeProgram program(program_page(*dir_, "alice"), 0xABC);
  const std::vector<ProgramNode> there = running_programs(*dir_);
  ASSERT_EQ(there.size(), 1U);
  EXPECT_EQ(there[0].name, "alice");
  EXPECT_EQ(there[0].pid, program.pid());
  EXPECT_FALSE(there[0].program.empty());
  EXPECT_EQ(there[0].guid, 0xABCU);
  EXPECT_EQ(there[0].more_guids, std::vector<uint64_t>{0xDEF});
  EXPECT_EQ(there[0].qps, 3U);
  ASSERT_EQ(there[0].shown.size(), 2U) << "the place without a QP is none";
  const ProgramQp& first = there[0].shown[0];
  EXPECT_EQ(first.number, 17U);
  EXPECT_EQ(first.service, "RC");
  EXPECT_EQ(first.state, "RTS");
  EXPECT_EQ(first.peer_lid, 9U);
  EXPECT_EQ(first.peer_number, 18U);
  EXPECT_EQ(there[0].shown[1].service, "UD");
  EXPECT_EQ(there[0].shown[1].state, "RESET");
  EXPECT_TRUE(ended_programs(*dir_).empty());
  program.end();
  EXPECT_TRUE(running_programs(*dir_).empty());
  EXPECT_EQ(ended_programs(*dir_), std::vector<std::string>{"alice"}) << "its counters stay";
}

TEST_F(ProgramListTest, names_that_stay_and_names_of_programs) {
  RunRecord record;
  const SpareRecord spare{"s1", 4, 1000, 64};
  const NodeIdentity bob = node_identity(*dir_, record, spare, "bob").value();
  ProgramNode program;
  program.name = "prog-7";
  program.guid = 5;
  program.more_guids = {6, 8};
  const GuestNames names = guest_names(*dir_, {program});
  EXPECT_EQ(names, (GuestNames{{5, "prog-7"}, {6, "prog-7.2"}, {8, "prog-7.3"}, {bob.guid.value(), "bob"}}))
      << "further adapters are numbered from 2";
  EXPECT_EQ(guest_guid("guest 00000000000000ff"), 0xFFU);
  EXPECT_FALSE(guest_guid("spare").has_value());
  EXPECT_FALSE(guest_guid("guest of honour").has_value());
}

TEST_F(ProgramListTest, a_switch_says_who_is_on_its_spare_ports) {
  control::NodeInfo info;
  info.ports = {{1, "up", 7, "h1", "shm"},
                {2, "down", 0, "spare", ""},
                {3, "up", 900, "guest 00000000000000ff", "shm"},
                {4, "down", 0, "spare", ""}};
  SpareView view;
  add_spare_ports("s1", info, view);
  EXPECT_EQ(view.free["s1"], 2U);
  ASSERT_EQ(view.guests.size(), 1U);
  EXPECT_EQ(view.guests[0].port, 3U);
  EXPECT_EQ(view.guests[0].lid, 900U);
  EXPECT_EQ(view.guests[0].guid, 0xFFU);
}

TEST_F(ProgramListTest, a_program_joins_where_its_name_belongs) {
  RunRecord record;
  record.spare = {{"s1", 4, 1000, 64}, {"s2", 4, 2000, 64}};
  const NodeIdentity bob = node_identity(*dir_, record, record.spare[1], "bob").value();
  EXPECT_EQ(spare_switch(*dir_, record, {"", "bob"})->node, "s2");
  EXPECT_EQ(spare_switch(*dir_, record, {"s1", "bob"})->node, "s1") << "what is asked for comes first";
  EXPECT_EQ(spare_switch(*dir_, record, {"s2", "alice"})->node, "s2");
  EXPECT_NE(node_identity(*dir_, record, record.spare[0], "bob")->lid, bob.lid) << "LIDs belong to switches";
  EXPECT_EQ(spare_switch(*dir_, record, {"", "bob"})->node, "s1") << "and it stays there";
  setenv("WEFT_FABRIC", ("shm:" + dir_->path() + "/s2.sock").c_str(), 1);
  EXPECT_EQ(spare_switch(*dir_, record, {"", ""})->node, "s2") << "that of the program around";
  unsetenv("WEFT_FABRIC");
  EXPECT_FALSE(spare_switch(*dir_, record, {"s3", ""}).ok());
  record.spare.clear();
  EXPECT_FALSE(spare_switch(*dir_, record, {"", ""}).ok());
}

}  // namespace
}  // namespace weft::tools
