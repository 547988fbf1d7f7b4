// A program of the drop-in libibverbs whose registered memory goes while transfers are under way, run under
// the launcher: gone_memory HANDLER ROUNDS. HANDLER says when the program sets its own handler for SIGSEGV
// and SIGBUS: before it opens the device, after, or never. With "interrupts" it says what siginterrupt() does
// to its handlers. It says how the transfers ended, one line each kind, and exits with 9 when its handler is
// called for one of them.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace {

constexpr size_t kBytes = 16384;
constexpr unsigned kRights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
volatile sig_atomic_t called = 0;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  _exit(2);
}

void on_signal(int /*signal*/, siginfo_t* info, void* /*context*/) {
  if (info->si_code > 0) _exit(9);
  called = called + 1;
}

void set_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_signal;
  action.sa_flags = SA_SIGINFO;
  for (const int signal : {SIGSEGV, SIGBUS}) {
    if (sigaction(signal, &action, nullptr) != 0) fail("sigaction");
  }
}

/// A signal that is sent comes to the program's handler, and the program sees that handler as its own.
void check_handler(bool set) {
  if (!set) return;
  kill(getpid(), SIGSEGV);
  struct sigaction now {};
  sigaction(SIGSEGV, nullptr, &now);
  const bool own = now.sa_sigaction == on_signal && (now.sa_flags & SA_SIGINFO) != 0;
  std::printf("handler called %d times, own %d\n", static_cast<int>(called), own ? 1 : 0);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"  // siginterrupt(): old programs call it
/// Whether a call that the signal meets goes on.
void show_restart(const char* handler) {
  struct sigaction now {};
  sigaction(SIGBUS, nullptr, &now);
  std::printf("%s handler: restarts %d\n", handler, (now.sa_flags & SA_RESTART) != 0 ? 1 : 0);
}

/// At first and after each siginterrupt(), which changes the present handler
/// and those that signal() sets later.
void show_restarts() {
  for (const int interrupt : {-1, 1, 0}) {
    if (interrupt >= 0) {
      siginterrupt(SIGBUS, interrupt);
      show_restart("present");
    }
    signal(SIGBUS, [](int /*signal*/) {});
    show_restart("new");
  }
}
#pragma GCC diagnostic pop

struct Verbs {
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;

  void open() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    if (count != 1) fail("no device");
    context = ibv_open_device(list[0]);
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    if (context == nullptr || pd == nullptr || cq == nullptr) fail("set-up");
  }
  [[nodiscard]] ibv_qp* make_qp() const {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {8, 8, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    return ibv_create_qp(pd, &init);
  }
  void connect(ibv_qp* qp, const ibv_qp* peer) const {
    ibv_port_attr port;
    if (ibv_query_port(context, 1, &port) != 0) fail("ibv_query_port");
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = kRights;
    int bad = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = peer->qp_num;
    attr.max_dest_rd_atomic = 4;
    attr.min_rnr_timer = 12;
    attr.ah_attr.dlid = port.lid;
    attr.ah_attr.port_num = 1;
    bad |= ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                             IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 12;
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 4;
    bad |= ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
    if (bad != 0) fail("ibv_modify_qp");
  }
};

/// One transfer to or from memory that is unmapped as soon as the request is posted.
ibv_wc_status transfer(const Verbs& verbs, ibv_qp* qp, ibv_mr& own, ibv_wr_opcode opcode) {
  void* gone = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ibv_mr* region = ibv_reg_mr(verbs.pd, gone, kBytes, kRights);
  if (region == nullptr) fail("ibv_reg_mr");
  ibv_sge sge{.addr = reinterpret_cast<uint64_t>(own.addr), .length = kBytes, .lkey = own.lkey};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma.remote_addr = reinterpret_cast<uint64_t>(gone);
  wr.wr.rdma.rkey = region->rkey;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(qp, &wr, &bad) != 0) fail("ibv_post_send");
  if (munmap(gone, kBytes) != 0) fail("munmap");
  ibv_wc wc{};
  while (ibv_poll_cq(verbs.cq, 1, &wc) == 0) {
  }
  if (ibv_dereg_mr(region) != 0) fail("ibv_dereg_mr");
  return wc.status;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string_view when = argv[1];
  if (when == "before") set_handler();
  Verbs verbs;
  verbs.open();
  if (when == "after") set_handler();
  if (when == "interrupts") show_restarts();
  check_handler(when == "before" || when == "after");
  std::vector<char> memory(kBytes);
  ibv_mr* own = ibv_reg_mr(verbs.pd, memory.data(), memory.size(), kRights);
  if (own == nullptr) fail("ibv_reg_mr");
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    std::array<ibv_qp*, 2> qps{verbs.make_qp(), verbs.make_qp()};
    verbs.connect(qps[0], qps[1]);
    verbs.connect(qps[1], qps[0]);
    ibv_wc_status status = IBV_WC_SUCCESS;
    for (int round = 0; round < std::atoi(argv[2]) && status == IBV_WC_SUCCESS; ++round)
      status = transfer(verbs, qps[0], *own, opcode);
    std::printf("%s: %s\n", opcode == IBV_WR_RDMA_READ ? "read" : "write", ibv_wc_status_str(status));
  }
  return 0;
}
