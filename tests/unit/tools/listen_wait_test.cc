// Whether a server listens, from the kernel's table of sockets.
#include "tools/launch/listen_wait.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace weft::tools {
namespace {

constexpr std::string_view kTable =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
    "   0: 0100007F:4855 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 101 1 0\n"
    "   1: 0100007F:4856 0100007F:C350 01 00000000:00000000 00:00000000 00000000     0        0 102 1 0\n"
    "   2: 0100007F:C350 0100007F:4857 01 00000000:00000000 00:00000000 00000000     0        0 103 1 0\n";
constexpr std::string_view kTableOfIpv6 =
    "  sl  local_address                         remote_address                        st tx_queue rx_queue\n"
    "   0: 00000000000000000000000000000000:4858 00000000000000000000000000000000:0000 0A "
    "00000000:00000000\n";

TEST(ListenWait, a_listening_socket_counts_and_a_connected_one_does_not) {
  EXPECT_TRUE(table_has_listener(kTable, 0x4855));
  EXPECT_FALSE(table_has_listener(kTable, 0x4856)) << "connected: its listener may be gone";
  EXPECT_FALSE(table_has_listener(kTable, 0x4857)) << "a remote port";
  EXPECT_FALSE(table_has_listener(kTable, 0x485)) << "part of a port";
  EXPECT_TRUE(table_has_listener(kTableOfIpv6, 0x4858));
  EXPECT_FALSE(table_has_listener({}, 0x4858));
}

TEST(ListenWait, ends_when_the_port_listens_and_when_patience_does) {
  const UniqueFd server{socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  socklen_t length = sizeof address;
  ASSERT_EQ(getsockname(server.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  const uint16_t port = ntohs(address.sin_port);
  EXPECT_FALSE(wait_for_listener(port, {})) << "bound, and not listening";
  ASSERT_EQ(listen(server.get(), 1), 0);
  EXPECT_TRUE(wait_for_listener(port, std::chrono::seconds(10)));
}

}  // namespace
}  // namespace weft::tools
