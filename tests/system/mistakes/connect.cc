// The third program of most beginners: rdma_cm, with one mistake: connect server|client ADDRESS MISTAKE. It
// says which events came.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace {

constexpr uint16_t kPort = 7470;
constexpr unsigned kPatienceSeconds = 4;  // the explanation of a wait comes after 2 s
std::string_view mistake;
std::array<char, 4096> memory;

[[noreturn]] void fail(const char* what) {
  std::printf("%s: %s\n", what, strerror(errno));
  std::fflush(stdout);
  _exit(1);
}

bool makes(std::string_view what) {
  return mistake == what;
}

/// Ends the program in the call that waits for ever.
void end_after_patience() {
  std::signal(SIGALRM, [](int) {
    constexpr std::string_view kSaid = "waits for ever\n";
    [[maybe_unused]] const ssize_t said = write(STDOUT_FILENO, kSaid.data(), kSaid.size());
    _exit(1);
  });
  alarm(kPatienceSeconds);
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
  if (!makes("event not acknowledged")) rdma_ack_cm_event(event);
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

void post(rdma_cm_id* id, ibv_wr_opcode opcode) {
  ibv_mr* region = ibv_reg_mr(id->pd, memory.data(), memory.size(), int{IBV_ACCESS_LOCAL_WRITE});
  ibv_sge sge{.addr = reinterpret_cast<uint64_t>(memory.data()), .length = 64, .lkey = region->lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = 0x1000;
  wr.wr.rdma.rkey = 0x1000;
  ibv_send_wr* bad = nullptr;
  errno = ibv_post_send(id->qp, &wr, &bad);
  if (errno != 0) fail("ibv_post_send");
  ibv_wc wc{};
  while (ibv_poll_cq(id->send_cq != nullptr ? id->send_cq : id->qp->send_cq, 1, &wc) == 0)
    std::this_thread::yield();
  std::printf("%s, vendor_err %#x\n", ibv_wc_status_str(wc.status), wc.vendor_err);
  std::fflush(stdout);
}

void server(rdma_event_channel* channel, rdma_cm_id* id, const char* address) {
  sockaddr_in at =
      address_of(makes("listens elsewhere") ? "127.0.0.1" : address, makes("other port") ? kPort + 1 : kPort);
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&at)) != 0) fail("rdma_bind_addr");
  if (!makes("listen forgotten") && rdma_listen(id, makes("backlog full") ? 1 : 4) != 0) fail("rdma_listen");
  std::puts("listens");
  std::fflush(stdout);
  if (makes("backlog full")) pause();
  rdma_cm_id* asked = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
  if (makes("rejected")) {
    if (rdma_reject(asked, nullptr, 0) != 0) fail("rdma_reject");
    sleep(1);
    return;
  }
  if (!makes("accept without QP")) make_qp(asked);
  rdma_conn_param param{};
  param.responder_resources = 1;
  if (makes("accepts the listener") && rdma_accept(id, &param) != 0) fail("rdma_accept");
  if (!makes("accept forgotten") && rdma_accept(asked, &param) != 0) fail("rdma_accept");
  next(channel, RDMA_CM_EVENT_ESTABLISHED);
  next(channel, RDMA_CM_EVENT_DISCONNECTED);
}

/// An identifier on its way to the server, as far as the route.
void find_server(rdma_event_channel* channel, rdma_cm_id* id, const char* address) {
  sockaddr_in to = address_of(address, kPort);
  if (makes("htons forgotten")) to.sin_port = kPort;
  if (rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 500) != 0) fail("rdma_resolve_addr");
  next(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
  if (makes("resolves twice") && rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&to), 500) != 0)
    fail("rdma_resolve_addr");
  if (makes("event not acknowledged")) {
    end_after_patience();
    rdma_destroy_id(id);
  }
  if (makes("connects too early")) {
    rdma_conn_param param{};
    make_qp(id);
    if (rdma_connect(id, &param) != 0) fail("rdma_connect");
  }
  if (makes("route forgotten")) next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
  if (rdma_resolve_route(id, 500) != 0) fail("rdma_resolve_route");
  next(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void ask(rdma_cm_id* id) {
  std::array<char, 200> data{};
  rdma_conn_param param{};  // no reads and no waits for receives, as in many first programs
  param.retry_count = 7;
  param.private_data = data.data();
  param.private_data_len = makes("private data too long") ? 100 : 8;
  if (rdma_connect(id, &param) != 0) fail("rdma_connect");
}

void bind_twice(rdma_event_channel* channel, rdma_cm_id* id, const char* address) {
  sockaddr_in at = address_of(makes("foreign address") ? address : "127.0.0.1", kPort);
  if (rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&at)) != 0) fail("rdma_bind_addr");
  rdma_cm_id* second = nullptr;
  if (rdma_create_id(channel, &second, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id");
  if (rdma_bind_addr(second, reinterpret_cast<sockaddr*>(&at)) != 0) fail("rdma_bind_addr");
}

void client(rdma_event_channel* channel, rdma_cm_id* id, const char* address) {
  end_after_patience();
  if (makes("foreign address") || makes("port in use")) bind_twice(channel, id, address);
  find_server(channel, id, address);
  make_qp(id);
  if (makes("disconnects too early") && rdma_disconnect(id) != 0) fail("rdma_disconnect");
  if (makes("sends too early")) post(id, IBV_WR_SEND);
  if (!makes("connect forgotten")) ask(id);
  if (makes("backlog full")) {
    rdma_cm_id* second = nullptr;
    if (rdma_create_id(channel, &second, nullptr, RDMA_PS_TCP) != 0) fail("rdma_create_id");
    find_server(channel, second, address);
    make_qp(second);
    ask(second);
  }
  next(makes("other channel") ? rdma_create_event_channel() : channel, RDMA_CM_EVENT_ESTABLISHED);
  if (makes("no receive before accept")) post(id, IBV_WR_SEND);
  if (makes("no reads agreed")) post(id, IBV_WR_RDMA_READ);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  mistake = argv[3];
  const bool serves = std::string_view(argv[1]) == "server";
  rdma_event_channel* channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  const rdma_port_space space = serves && makes("other port space") ? RDMA_PS_UDP : RDMA_PS_TCP;
  if (channel == nullptr || rdma_create_id(channel, &id, nullptr, space) != 0) fail("rdma_create_id");
  if (serves) {
    server(channel, id, argv[2]);
  } else {
    client(channel, id, argv[2]);
  }
  return 0;
}
