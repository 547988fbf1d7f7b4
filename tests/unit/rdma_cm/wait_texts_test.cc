// What connection management says of a program that waits for seconds.
#include "rdma_cm/wait_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <array>
#include <string>
#include <utility>

namespace weft::rdma_cm {
namespace {

using ::testing::HasSubstr;

CmId id_in(IdState state) {
  CmId id{.uid = 1,
          .state = state,
          .source = make_ipv4(0x0A570001, 7470),
          .destination = make_ipv4(0x0A570002, 7471)};
  return id;
}

std::string line_of(CmId& id, bool normal) {
  CmFile file{.ids = &id};
  const WaitText text = describe_wait(file);
  EXPECT_EQ(text.normal, normal) << text.line;
  return text.line;
}

TEST(WaitTexts, an_identifier_is_told_its_next_step) {
  const std::array<std::pair<IdState, const char*>, 4> kMissing{
      {{IdState::kIdle, "an id has no address: call rdma_resolve_addr, or rdma_bind_addr and rdma_listen"},
       {IdState::kBound, "the id at 10.87.0.1 port 7470 does not listen: call rdma_listen"},
       {IdState::kAddressResolved, "the address of 10.87.0.2 port 7471 is resolved: call rdma_resolve_route"},
       {IdState::kRouteResolved,
        "the route to 10.87.0.2 port 7471 is resolved: call rdma_create_qp and rdma_connect"}}};
  for (const auto& [state, words] : kMissing) {
    CmId id = id_in(state);
    EXPECT_THAT(line_of(id, false), HasSubstr(words));
  }
  CmId server = id_in(IdState::kListening);
  EXPECT_THAT(line_of(server, true), HasSubstr("no connection request has come to 10.87.0.1 port 7470"));
  CmId asking = id_in(IdState::kAddressQuery);
  EXPECT_THAT(line_of(asking, true), HasSubstr("no endnode has answered for 10.87.0.2 port 7471 yet"));
}

TEST(WaitTexts, a_connection_says_which_side_has_to_act) {
  CmId request = id_in(IdState::kConnect);
  request.uid = 0;
  request.peer_lid = Lid(2);
  EXPECT_THAT(
      line_of(request, false),
      HasSubstr(
          "a connection request of 10.87.0.2 port 7471 (LID 2) waits: call rdma_accept or rdma_reject"));
  Connection connection{.state = CmState::kReqSent};
  CmId client = id_in(IdState::kConnect);
  client.connection = &connection;
  EXPECT_THAT(line_of(client, false), HasSubstr("the program there has to call rdma_get_cm_event"));
  connection.state = CmState::kRepSent;
  EXPECT_THAT(line_of(client, false), HasSubstr("waits until 10.87.0.2 port 7471 takes the answer"));
  connection.state = CmState::kEstablished;
  EXPECT_THAT(line_of(client, true), HasSubstr("the connection with 10.87.0.2 port 7471 is established"));
}

TEST(WaitTexts, a_channel_without_identifiers_and_one_with_many) {
  CmFile file;
  EXPECT_THAT(describe_wait(file).line, HasSubstr("no rdma_cm_id has this event channel"));
  EXPECT_FALSE(describe_wait(file).normal);
  std::array<CmId, 6> ids;
  for (CmId& id : ids) {
    id.next = file.ids;
    file.ids = &id;
  }
  EXPECT_THAT(describe_wait(file).line, HasSubstr("; and 2 ids more"));
}

TEST(WaitTexts, a_thread_that_sleeps_within_the_librarys_struct_is_recognised) {
  const auto line = [](long number, const char* address) {
    return std::to_string(number) + " " + address + " 0x80 0x0 0x0 0x0 0x0 0x7ffd0 0x7fff0\n";
  };
  EXPECT_TRUE(waits_in(0x55001000, line(SYS_futex, "0x550010a8")));
  EXPECT_TRUE(waits_in(0x55001000, line(SYS_futex, "0x55001000")));
  EXPECT_FALSE(waits_in(0x55001000, line(SYS_futex, "0x55000ff8")));
  EXPECT_FALSE(waits_in(0x55001000, line(SYS_futex, "0x55002000")));
  EXPECT_FALSE(waits_in(0x55001000, line(SYS_read, "0x550010a8")));
  EXPECT_FALSE(waits_in(0x55001000, "running\n"));
  EXPECT_FALSE(waits_in(0x55001000, ""));
}

}  // namespace
}  // namespace weft::rdma_cm
