// Where processes meet for memory windows: who is let in, and what strangers at the door cost.
#include "fabric/window/window_door.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/carrier/unix_socket.h"
#include "messages/window_call.h"
#include "tests/support/temp_dir.h"

namespace weft::test {
using namespace fabric;
namespace {

class Doors : public ::testing::Test {
 protected:
  std::vector<WindowCaller> look(WindowDoor& door) {
    std::vector<WindowCaller> out;
    door.look(clock.now(), out);
    return out;
  }
  [[nodiscard]] std::string path_of(int lid) const { return place + "/0-" + std::to_string(lid) + ".sock"; }

  TempDir dir;
  std::string place = dir.path() + "/direct";
  ManualClock clock;
  WindowDoor seven{place};
  WindowDoor nine{place};
};

TEST_F(Doors, a_call_arrives_with_the_lid_of_its_caller) {
  ASSERT_TRUE(seven.open(SubnetId(0), Lid(7)).ok());
  ASSERT_TRUE(nine.open(SubnetId(0), Lid(9)).ok());
  const Result<UniqueFd> called = seven.call(Lid(9));
  ASSERT_TRUE(called.ok());
  const std::vector<WindowCaller> callers = look(nine);
  ASSERT_EQ(callers.size(), 1U);
  EXPECT_EQ(callers[0].lid, Lid(7));
  EXPECT_TRUE(look(seven).empty());
  struct stat info {};
  ASSERT_EQ(stat(place.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700U);
  ASSERT_EQ(stat(path_of(7).c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(Doors, nobody_listens_under_another_lid_a_dead_one_or_another_subnet) {
  ASSERT_TRUE(seven.open(SubnetId(0), Lid(7)).ok());
  EXPECT_FALSE(seven.call(Lid(9)).ok());
  ASSERT_TRUE(nine.open(SubnetId(1), Lid(9)).ok());
  EXPECT_FALSE(seven.call(Lid(9)).ok());
  ASSERT_TRUE(nine.open(SubnetId(0), Lid(9)).ok());
  EXPECT_TRUE(seven.call(Lid(9)).ok());
  nine.close();
  EXPECT_FALSE(seven.call(Lid(9)).ok());
  EXPECT_NE(access(path_of(9).c_str(), F_OK), 0) << "the file is gone";
}

TEST_F(Doors, the_socket_of_a_dead_process_is_replaced_and_one_of_a_living_process_is_not) {
  ASSERT_TRUE(seven.open(SubnetId(0), Lid(7)).ok());
  WindowDoor other{place};
  EXPECT_FALSE(other.open(SubnetId(0), Lid(7)).ok());
  EXPECT_FALSE(other.is_open());
  { const UniqueFd dead = std::move(listen_unix(path_of(9), 1).value()); }  // leaves its file
  EXPECT_EQ(access(path_of(9).c_str(), F_OK), 0);
  EXPECT_TRUE(other.open(SubnetId(0), Lid(9)).ok());
  EXPECT_TRUE(seven.call(Lid(9)).ok());
}

TEST_F(Doors, a_process_that_hides_is_not_found_and_answers_those_that_have_called) {
  ASSERT_TRUE(seven.open(SubnetId(0), Lid(7)).ok());
  ASSERT_TRUE(nine.open(SubnetId(0), Lid(9)).ok());
  const Result<UniqueFd> called = seven.call(Lid(9));
  ASSERT_TRUE(called.ok());
  nine.hide();
  EXPECT_NE(access(path_of(9).c_str(), F_OK), 0);
  EXPECT_FALSE(seven.call(Lid(9)).ok());
  EXPECT_EQ(look(nine).size(), 1U);
  WindowDoor next{place};
  ASSERT_TRUE(next.open(SubnetId(0), Lid(9)).ok());
  nine.close();
  EXPECT_EQ(access(path_of(9).c_str(), F_OK), 0) << "it is another one's";
}

TEST_F(Doors, sockets_of_killed_processes_are_removed_and_others_stay) {
  ASSERT_TRUE(seven.open(SubnetId(0), Lid(7)).ok());
  { const UniqueFd dead = std::move(listen_unix(path_of(9), 1).value()); }  // leaves its file
  const std::string note = place + "/note";
  const UniqueFd file(open(note.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  ASSERT_TRUE(file.valid());
  remove_dead_doors(place);
  EXPECT_NE(access(path_of(9).c_str(), F_OK), 0);
  EXPECT_EQ(access(path_of(7).c_str(), F_OK), 0);
  EXPECT_EQ(access(note.c_str(), F_OK), 0);
  std::vector<pollfd> fds;
  EXPECT_TRUE(look(seven).empty());
  seven.wait_fds(fds);
  EXPECT_EQ(fds.size(), 1U) << "the living process has no caller";
  remove_dead_doors(place + "/none");
}

TEST_F(Doors, a_directory_that_others_may_write_is_refused) {
  ASSERT_EQ(mkdir(place.c_str(), 0700), 0);
  ASSERT_EQ(chmod(place.c_str(), 0777), 0);
  EXPECT_FALSE(seven.open(SubnetId(0), Lid(7)).ok());
}

TEST_F(Doors, a_new_address_replaces_the_former_one) {
  ASSERT_TRUE(seven.open(SubnetId(0), Lid(7)).ok());
  ASSERT_TRUE(seven.open(SubnetId(0), Lid(8)).ok());
  EXPECT_NE(access(path_of(7).c_str(), F_OK), 0);
  EXPECT_EQ(seven.lid(), Lid(8));
}

TEST_F(Doors, callers_that_say_nothing_or_lie_are_hung_up_on) {
  ASSERT_TRUE(nine.open(SubnetId(0), Lid(9)).ok());
  const UniqueFd silent = std::move(connect_unix(path_of(9)).value());
  const UniqueFd liar = std::move(connect_unix(path_of(9)).value());
  const UniqueFd mistaken = std::move(connect_unix(path_of(9)).value());
  const UniqueFd itself = std::move(connect_unix(path_of(9)).value());
  ASSERT_TRUE(send_packet(liar.get(), std::array{std::byte{1}, std::byte{2}}, {}));
  ASSERT_TRUE(send_packet(mistaken.get(), encode_window_call({SubnetId(0), Lid(7), Lid(8)}), {}));
  ASSERT_TRUE(send_packet(itself.get(), encode_window_call({SubnetId(0), Lid(9), Lid(9)}), {}));
  EXPECT_TRUE(look(nine).empty());
  EXPECT_TRUE(peer_hung_up(liar.get()));
  EXPECT_TRUE(peer_hung_up(mistaken.get()));
  EXPECT_TRUE(peer_hung_up(itself.get()));
  EXPECT_FALSE(peer_hung_up(silent.get()));
  EXPECT_EQ(nine.deadline(), clock.now() + kCallerSilenceMax);
  clock.advance(kCallerSilenceMax);
  EXPECT_TRUE(look(nine).empty());
  EXPECT_TRUE(peer_hung_up(silent.get()));
  EXPECT_EQ(nine.deadline(), kNever);
}

TEST_F(Doors, an_order_of_faults_is_handed_over_or_hung_up_on) {
  ASSERT_TRUE(nine.open(SubnetId(0), Lid(9)).ok());
  const UniqueFd tool = std::move(connect_unix(path_of(9)).value());
  const WindowOrder order{.action = WindowOrderAction::kClear, .id = 3};
  ASSERT_TRUE(send_packet(tool.get(), encode_window_order(order), {}));
  std::vector<WindowCaller> callers;
  std::vector<WindowOrderCaller> orders;
  nine.look(clock.now(), callers, &orders);
  ASSERT_EQ(orders.size(), 1U);
  EXPECT_EQ(orders[0].order.id, 3U);
  EXPECT_TRUE(callers.empty());
  EXPECT_FALSE(peer_hung_up(tool.get()));
  const UniqueFd other = std::move(connect_unix(path_of(9)).value());
  ASSERT_TRUE(send_packet(other.get(), encode_window_order(order), {}));
  EXPECT_TRUE(look(nine).empty());
  EXPECT_TRUE(peer_hung_up(other.get())) << "nobody here takes orders";
}

/// While the program has no free descriptor, a caller that waits would keep the sleeper awake.
TEST_F(Doors, a_caller_that_cannot_be_taken_waits_for_the_next_look) {
  ASSERT_TRUE(seven.open(SubnetId(0), Lid(7)).ok());
  ASSERT_TRUE(nine.open(SubnetId(0), Lid(9)).ok());
  const Result<UniqueFd> called = seven.call(Lid(9));
  ASSERT_TRUE(called.ok());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(called.value().get());
  close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_TRUE(look(nine).empty());
  std::vector<pollfd> fds;
  nine.wait_fds(fds);
  EXPECT_TRUE(fds.empty());
  EXPECT_EQ(nine.deadline(), clock.now() + 100ms);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(look(nine).empty());
  clock.advance(100ms);
  EXPECT_EQ(look(nine).size(), 1U);
  nine.wait_fds(fds);
  EXPECT_EQ(fds.size(), 1U);
  EXPECT_EQ(nine.deadline(), kNever);
}

TEST_F(Doors, a_crowd_of_silent_callers_does_not_grow) {
  ASSERT_TRUE(nine.open(SubnetId(0), Lid(9)).ok());
  std::vector<UniqueFd> crowd;
  for (size_t i = 0; i < kSilentCallersMax + 20; ++i) {
    Result<UniqueFd> caller = connect_unix(path_of(9));
    ASSERT_TRUE(caller.ok());
    crowd.push_back(std::move(*caller));
    (void)look(nine);
  }
  std::vector<pollfd> fds;
  nine.wait_fds(fds);
  EXPECT_EQ(fds.size(), 1 + kSilentCallersMax);
  EXPECT_TRUE(peer_hung_up(crowd.back().get()));
  clock.advance(kCallerSilenceMax);
  (void)look(nine);
  ASSERT_TRUE(seven.open(SubnetId(0), Lid(7)).ok());
  const Result<UniqueFd> called = seven.call(Lid(9));
  ASSERT_TRUE(called.ok());
  EXPECT_EQ(look(nine).size(), 1U);
}

}  // namespace
}  // namespace weft::test
