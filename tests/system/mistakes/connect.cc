// The third program of most beginners: rdma_cm, with one mistake: connect server|client ADDRESS MISTAKE. It
// says which events came.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

constexpr uint16_t kPort = 7470;
std::string_view mistake;

[[noreturn]] void fail(const char* what) {
  std::printf("%s: %s\n", what, strerror(errno));
  std::fflush(stdout);
  _exit(1);
}

sockaddr_in address_of(const char* text, uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  if (inet_pton(AF_INET, text, &out.sin_addr) != 1) fail("address");
  return out;
}

/// The next event, which is said; its identifier.
rdma_cm_id* next(rdma_event_channel* channel, rdma_cm_event_type wanted) {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel, &event) != 0) fail("rdma_get_cm_event");
  std::printf("%s %d\n", rdma_event_str(event->event), event->status);
  std::fflush(stdout);
  const bool good = event->event == wanted;
  rdma_cm_id* id = event->id;
  rdma_ack_cm_event(event);
  if (!good) std::exit(1);
  return id;
}

void make_qp(rdma_cm_id* id) {
  ibv_qp_init_attr init{};
  init.cap = {4, 4, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  init.send_cq = init.recv_cq = ibv_create_cq(id->verbs, 8, nullptr, nullptr, 0);
  if (rdma_create_qp(id, nullptr, &init) != 0) fail("rdma_create_qp");
}

void server(rdma_event_channel* channel, rdma_cm_id* id, const char* address) {
  sockaddr_in at = address_of(address, mistake == "other port" ? kPort + 1 : kPort);
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&at)) != 0) fail("rdma_bind_addr");
  if (rdma_listen(id, 4) != 0) fail("rdma_listen");
  std::puts("listens");
  std::fflush(stdout);
  rdma_cm_id* asked = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  if (mistake == "rejected") {
    if (rdma_reject(asked, nullptr, 0) != 0) fail("rdma_reject");
    sleep(1);
    return;
  }
  make_qp(asked);
  rdma_conn_param param{};
  if (rdma_accept(asked, &param) != 0) fail("rdma_accept");
  next(channel, RDMA_CM_EVENT_ESTABLISHED);
}

void client(rdma_event_channel* channel, rdma_cm_id* id, const char* address) {
  sockaddr_in to = address_of(address, kPort);
  if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 500) != 0) fail("rdma_resolve_addr");
  next(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (rdma_resolve_route(id, 500) != 0) fail("rdma_resolve_route");
  next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_qp(id);
  std::array<char, 200> data{};
  rdma_conn_param param{};
  param.private_data = data.data();
  param.private_data_len = mistake == "private data too long" ? 100 : 8;
  if (rdma_connect(id, &param) != 0) fail("rdma_connect");
  next(channel, RDMA_CM_EVENT_ESTABLISHED);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  mistake = argv[3];
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  if (channel == nullptr || rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id");
  if (std::string_view(argv[1]) == "server") {
    server(channel, id, argv[2]);
  } else {
    client(channel, id, argv[2]);
  }
  return 0;
}
