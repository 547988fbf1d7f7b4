// What librdmacm is told of an identifier: its path, addresses and GIDs.
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "messages/link_local.h"
#include "rdma_cm/ip_cm.h"
#include "tests/protocol/rdma_cm/commands_fixture.h"

namespace weft::rdma_cm {
namespace {

/// rdma_ucm_query_path_resp with one path.
struct PathAnswer {
  uint32_t num_paths;
  uint32_t reserved;
  ib_path_rec_data path;
};
/// struct sockaddr_ib, which the installed kernel headers do not define.
struct SockaddrIb {
  uint16_t family;
  uint16_t pkey;
  uint32_t flow;
  uint8_t gid[16];
  uint64_t service;
};

class CommandQueries : public CommandsTest {
 protected:
  /// What a is told of `client`.
  template <class Answer>
  Answer ask(uint32_t option) {
    Answer out{};
    rdma_ucm_query body{};
    body.response = Node::at(&out);
    body.id = client;
    body.option = option;
    EXPECT_EQ(a.command(RDMA_USER_CM_CMD_QUERY, body, sizeof out), 0);
    return out;
  }
};

TEST_F(CommandQueries, the_path_has_the_format_of_the_subnet_administration) {
  prepare();
  const auto answer = ask<PathAnswer>(RDMA_USER_CM_QUERY_PATH);
  EXPECT_EQ(answer.num_paths, 1U);
  EXPECT_EQ(answer.path.flags, 1U | 2U | 8U);
  std::array<uint8_t, 64> wire{};
  std::memcpy(wire.data(), answer.path.path_rec, wire.size());
  const Gid peer = link_local_gid(Guid(0x102));
  EXPECT_EQ(std::memcmp(&wire[8], peer.data(), sizeof peer), 0);
  EXPECT_EQ(wire[41], 2U) << "the peer's LID";
  EXPECT_EQ(wire[43], 1U) << "the own LID";
  EXPECT_EQ(wire[49], 0x81U) << "reversible, one path";
  EXPECT_EQ(wire[50] << 8 | wire[51], 0xFFFF);
  constexpr uint8_t kExactly = 2 << 6;
  EXPECT_EQ(wire[54], kExactly | IBV_MTU_4096);
  EXPECT_EQ(wire[55], kExactly | IBV_RATE_10_GBPS);
  EXPECT_EQ(wire[56], kExactly | 14U) << "67 ms";
}

TEST_F(CommandQueries, the_addresses_are_those_of_both_ends) {
  prepare();
  const auto answer = ask<rdma_ucm_query_addr_resp>(RDMA_USER_CM_QUERY_ADDR);
  EXPECT_EQ(be64toh(answer.node_guid), 0x101U);
  EXPECT_EQ(answer.port_num, 1U);
  EXPECT_EQ(be16toh(answer.pkey), 0xFFFF);
  EXPECT_EQ(answer.src_size, sizeof(sockaddr_in));
  EXPECT_EQ(answer.dst_size, sizeof(sockaddr_in));
  sockaddr_in source;
  sockaddr_in destination;
  std::memcpy(&source, &answer.src_addr, sizeof source);
  std::memcpy(&destination, &answer.dst_addr, sizeof destination);
  EXPECT_EQ(source.sin_family, AF_INET);
  EXPECT_EQ(be32toh(source.sin_addr.s_addr), 0x0A000001U);
  EXPECT_EQ(be32toh(destination.sin_addr.s_addr), 0x0A000002U);
  EXPECT_EQ(be16toh(destination.sin_port), 5000);
}

TEST_F(CommandQueries, the_gids_come_with_the_service_of_their_port) {
  prepare();
  const auto answer = ask<rdma_ucm_query_addr_resp>(RDMA_USER_CM_QUERY_GID);
  SockaddrIb destination;
  std::memcpy(&destination, &answer.dst_addr, sizeof destination);
  EXPECT_EQ(answer.dst_size, 48U);
  EXPECT_EQ(destination.family, 27U) << "AF_IB";
  EXPECT_EQ(be16toh(destination.pkey), 0xFFFF);
  const Gid peer = link_local_gid(Guid(0x102));
  EXPECT_EQ(std::memcmp(destination.gid, peer.data(), sizeof peer), 0);
  EXPECT_EQ(be64toh(destination.service), ip_service(RDMA_PS_TCP, 5000));
}

}  // namespace
}  // namespace weft::rdma_cm
