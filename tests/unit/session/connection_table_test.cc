// The connection's table: every pair of state and event is answered, docs/session.md shows the same tables,
// and what no honest peer says is counted and changes nothing.
#include "session/connection_table.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/scripted_host.h"

namespace weft::session {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
namespace fs = std::filesystem;

std::set<std::string> lines_of_the_document() {
  fs::path root = fs::current_path();
  if (const char* given = std::getenv("WEFT_SOURCE")) root = given;
  while (!fs::exists(root / "session" / "netdev_session.h") && root.has_relative_path())
    root = root.parent_path();
  std::ifstream in(root / "docs" / "session.md");
  EXPECT_TRUE(in.good());
  std::set<std::string> out;
  for (std::string line; std::getline(in, line);) out.insert(line);
  return out;
}

template <class Visit>
void each_event(const Visit& visit) {
  for (uint8_t i = 0; i < static_cast<uint8_t>(ConnectionEvent::kCount); ++i)
    visit(static_cast<ConnectionEvent>(i));
}
template <class Visit>
void each_state(const Visit& visit) {
  for (uint8_t i = 0; i < static_cast<uint8_t>(SessionState::kCount); ++i)
    visit(static_cast<SessionState>(i));
}

TEST(ConnectionTable, answers_every_pair_by_a_step_that_has_a_name) {
  std::set<ConnectionStep> used;
  for (const SessionRole role : {SessionRole::kHost, SessionRole::kUnit}) {
    each_event([&](ConnectionEvent event) {
      each_state([&](SessionState state) {
        const ConnectionStep step = step_for(role, state, event);
        EXPECT_NE(step, ConnectionStep::kUnanswered) << to_string(event) << " while " << to_string(state);
        EXPECT_FALSE(to_string(step).empty());
        used.insert(step);
      });
    });
  }
  EXPECT_EQ(used.size(), static_cast<size_t>(ConnectionStep::kCount) - 1) << "a step that no table names";
}

TEST(ConnectionTable, stands_in_the_document_line_by_line) {
  const std::set<std::string> document = lines_of_the_document();
  for (const SessionRole role : {SessionRole::kHost, SessionRole::kUnit}) {
    each_event([&](ConnectionEvent event) {
      std::string line = "| " + std::string(to_string(event));
      each_state([&](SessionState state) {
        const ConnectionStep step = step_for(role, state, event);
        line += step == ConnectionStep::kIgnore ? " | –" : " | " + std::string(to_string(step));
      });
      line += " |";
      EXPECT_EQ(document.count(line), 1U) << line;
    });
  }
}

TEST(ConnectionTable, what_only_a_unit_says_is_counted_when_a_host_says_it) {
  ScriptedHost host(SessionPairOptions().unit);
  ASSERT_TRUE(host.connect());
  host.advertise();
  ASSERT_EQ(host.unit().state(), SessionState::kOpen);
  host.knock(CmAttribute::kRej, host.nonce);
  EXPECT_EQ(host.count(SessionCounter::kConnectUnexpected), 1U);
  host.knock(CmAttribute::kRtu, host.nonce);
  host.knock(CmAttribute::kDrep, host.nonce);
  host.knock(CmAttribute::kReq, host.nonce);
  EXPECT_EQ(host.count(SessionCounter::kConnectUnexpected), 1U);
  EXPECT_EQ(host.unit().state(), SessionState::kOpen);
}

}  // namespace
}  // namespace weft::session
