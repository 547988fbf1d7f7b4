// tests/system/mistakes/side.h -- what the beginner programs of this directory have in common: the verbs'
// objects of one side, and the numbers that the two sides tell each other over a Unix socket.
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

namespace mistakes {

inline constexpr size_t kBytes = 4096;
inline constexpr unsigned kAll =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

[[noreturn]] inline void fail(const char* what) {
  std::perror(what);
  _exit(2);
}

/// How long a program waits that would wait for ever: the explanation comes after 2 s.
inline constexpr auto kPatience = std::chrono::milliseconds(3500);

/// A call was refused: the program says so as any program does, and ends.
[[noreturn]] inline void refused(const char* call, int error) {
  std::printf("%s: %s\n", call, strerror(error));
  std::fflush(stdout);
  _exit(1);
}

/// Ends the program in the call that waits for ever.
inline void end_after_patience() {
  std::fflush(stdout);
  std::signal(SIGALRM, [](int) {
    constexpr std::string_view kSaid = "waits for ever\n";
    [[maybe_unused]] const ssize_t said = write(STDOUT_FILENO, kSaid.data(), kSaid.size());
    _exit(1);
  });
  alarm(std::chrono::ceil<std::chrono::seconds>(kPatience).count());
}

/// What a side tells the other.
struct Numbers {
  uint64_t address = 0;
  uint32_t rkey = 0;
  uint32_t qpn = 0;
  uint32_t psn = 0;
  uint16_t lid = 0;
};

/// How a side is made.
struct Making {
  unsigned rights = kAll;     // of its region
  unsigned qp_access = kAll;  // of its QP
  int cqe = 64;
  bool foreign_pd = false;  // the region is of another PD than the QP
  bool stays_init = false;  // the QP never comes to RTR
  bool skips_rtr = false;
  bool receives_early = false;  // posts a receive before INIT
  uint8_t max_rd_atomic = 4;
  uint8_t max_dest_rd_atomic = 4;
  uint8_t port = 1;
  uint8_t rnr_retry = 6;
  int mtu = IBV_MTU_1024;
  int dropped = 0;         // a bit that is missing in attr_mask to RTR
  void* memory = nullptr;  // what is registered in place of the side's own
};

class Side {
 public:
  /// argv: "server" or "client", the path of the socket, the mistake.
  Side(int argc, char** argv) {
    if (argc != 4) _exit(2);
    server_ = std::string_view(argv[1]) == "server";
    mistake_ = argv[3];
    std::signal(SIGPIPE, SIG_IGN);
    link_ = server_ ? serve(argv[2]) : join(argv[2]);
  }
  [[nodiscard]] bool server() const { return server_; }
  /// This side is the one that is to make this mistake.
  [[nodiscard]] bool makes(std::string_view mistake) const { return mistake_ == mistake; }

  void make(const Making& making) {
    making_ = making;
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (count != 1) fail("no device");
    context = ibv_open_device(list[0]);
    pd = ibv_alloc_pd(context);
    ibv_pd* other = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    cq = ibv_create_cq(context, making.cqe, nullptr, channel, 0);
    region = ibv_reg_mr(making.foreign_pd ? other : pd, making.memory != nullptr ? making.memory : memory,
                        kBytes, making.rights);
    if (region == nullptr) refused("ibv_reg_mr", errno);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {64, 64, 1, 1, 64};
    init.qp_type = IBV_QPT_RC;
    qp = ibv_create_qp(pd, &init);
    ibv_port_attr port{};
    if (qp == nullptr || ibv_query_port(context, 1, &port) != 0) fail("set-up");
    own = {.address = reinterpret_cast<uint64_t>(memory),
           .rkey = region->rkey,
           .qpn = qp->qp_num,
           .psn = server_ ? 0x1000U : 0x2000U,
           .lid = port.lid};
  }

  void tell() {
    if (write(link_, &own, sizeof own) != sizeof own || read(link_, &peer, sizeof peer) != sizeof peer)
      peer_has_ended();
  }
  void connect() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = making_.port;
    attr.qp_access_flags = making_.qp_access;
    if (making_.receives_early) post_receive(whole(64));
    modify(attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    if (making_.stays_init) return;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = static_cast<ibv_mtu>(making_.mtu);
    attr.dest_qp_num = peer.qpn;
    attr.rq_psn = peer.psn;
    attr.max_dest_rd_atomic = making_.max_dest_rd_atomic;
    attr.min_rnr_timer = 12;
    attr.ah_attr.dlid = peer.lid;
    attr.ah_attr.port_num = 1;
    const int to_rtr = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (!making_.skips_rtr) modify(attr, to_rtr & ~making_.dropped);
    attr.qp_state = IBV_QPS_RTS;
    attr.sq_psn = own.psn;
    attr.timeout = 17;  // 0.5 s: on a busy machine a peer may be silent for 100 ms
    attr.retry_cnt = 3;
    attr.rnr_retry = making_.rnr_retry;
    attr.max_rd_atomic = making_.max_rd_atomic;
    modify(attr,
           IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
  }
  /// Both sides have come as far as this.
  void meet() {
    char byte = 0;
    if (write(link_, &byte, 1) != 1 || read(link_, &byte, 1) != 1) peer_has_ended();
  }
  /// The other side has seen its own mistake. std::exit() lets the library end what it is just explaining.
  [[noreturn]] static void peer_has_ended() { std::exit(0); }

  [[nodiscard]] ibv_sge whole(uint32_t bytes) const {
    return {.addr = reinterpret_cast<uint64_t>(memory), .length = bytes, .lkey = region->lkey};
  }
  void post_receive(ibv_sge sge) {
    ibv_recv_wr wr{};
    wr.wr_id = 0xB;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(qp, &wr, &bad); error != 0)
      std::printf("ibv_post_recv: %s\n", strerror(error));
  }
  /// @return 0 or the error
  int post_send(ibv_send_wr wr, bool signalled = true) {
    wr.wr_id = 0xA;
    if (signalled) wr.send_flags |= IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp, &wr, &bad);
    if (error != 0) std::printf("ibv_post_send: %s\n", strerror(error));
    posted_ += error == 0 ? 1 : 0;
    return error;
  }
  /// Waits for what was posted to be sent, and says how the first completion ended.
  void finish() {
    if (posted_ != 0) await();
  }
  /// Waits for a completion as programs do that poll, but not for ever.
  void await() {
    ibv_wc wc{};
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (ibv_poll_cq(cq, 1, &wc) == 0) {
      if (std::chrono::steady_clock::now() > until) {
        std::printf("waits for ever\n");
        return;
      }
      std::this_thread::yield();
    }
    std::printf("%s, vendor_err %#x\n", ibv_wc_status_str(wc.status), wc.vendor_err);
  }
  /// Those that have come meanwhile.
  void show_receives() {
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) > 0)
      std::printf("%s, vendor_err %#x\n", ibv_wc_status_str(wc.status), wc.vendor_err);
  }

  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* region = nullptr;
  Numbers own;
  Numbers peer;
  alignas(8) char memory[2 * kBytes] = {};  // of which the first half is registered

 private:
  void modify(ibv_qp_attr& attr, int mask) const {
    if (const int error = ibv_modify_qp(qp, &attr, mask | IBV_QP_STATE); error != 0)
      refused("ibv_modify_qp", error);
  }
  static sockaddr_un address_of(const char* path) {
    sockaddr_un out{};
    out.sun_family = AF_UNIX;
    std::snprintf(out.sun_path, sizeof out.sun_path, "%s", path);
    return out;
  }
  static int serve(const char* path) {
    const sockaddr_un at = address_of(path);
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 || listen(listener, 1) != 0)
      fail("listen");
    return accept(listener, nullptr, nullptr);
  }
  static int join(const char* path) {
    const sockaddr_un at = address_of(path);
    const int link = socket(AF_UNIX, SOCK_STREAM, 0);
    while (::connect(link, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) usleep(2000);
    return link;
  }

  bool server_ = false;
  std::string mistake_;
  Making making_;
  int link_ = -1;
  int posted_ = 0;
};

}  // namespace mistakes
