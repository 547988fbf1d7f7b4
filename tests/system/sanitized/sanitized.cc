// What test_sanitizers.py compiles with a sanitizer and runs: messages between two queue pairs of one device,
// taken by a second thread. With the word "overflow" it reads behind its memory, with "race" two threads
// write one variable, with "unread" they leave the messages' memory alone.
#include <infiniband/verbs.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

namespace {

constexpr int kMessages = 200;
constexpr uint32_t kBytes = 512;

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s failed\n", what);
  std::exit(2);
}

void bring_up(ibv_qp* qp, uint32_t peer, uint16_t lid) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
        "INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = peer;
  attr.min_rnr_timer = 1;
  attr.ah_attr.dlid = lid;
  attr.ah_attr.port_num = 1;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
        "RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 18;
  attr.retry_cnt = attr.rnr_retry = 7;
  check(ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_MAX_QP_RD_ATOMIC) == 0,
        "RTS");
}

void wait_for_one(ibv_cq* cq) {
  ibv_wc wc{};
  while (ibv_poll_cq(cq, 1, &wc) == 0) std::this_thread::yield();
  check(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
}

void take(ibv_qp* qp, ibv_cq* cq, ibv_mr* mr, char* memory, bool looks) {
  for (int i = 0; i < kMessages; ++i) {
    ibv_sge to{reinterpret_cast<uint64_t>(memory), kBytes, mr->lkey};
    ibv_recv_wr request{};
    request.sg_list = &to;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    check(ibv_post_recv(qp, &request, &bad) == 0, "post_recv");
    wait_for_one(cq);
    if (!looks) continue;
    check(memory[0] == memory[kBytes - 1] && memory[0] == static_cast<char>(i + 1), "the message");
    std::memset(memory, 0, kBytes);
  }
}

void send(ibv_qp* qp, ibv_cq* cq, ibv_mr* mr, char* memory, bool writes) {
  for (int i = 0; i < kMessages; ++i) {
    if (writes) std::memset(memory, i + 1, kBytes);
    ibv_sge from{reinterpret_cast<uint64_t>(memory), kBytes, mr->lkey};
    ibv_send_wr request{};
    request.sg_list = &from;
    request.num_sge = 1;
    request.opcode = IBV_WR_SEND;
    request.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    check(ibv_post_send(qp, &request, &bad) == 0, "post_send");
    wait_for_one(cq);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string wrong = argc > 1 ? argv[1] : "";
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  check(count == 1, "looking for the device");
  ibv_context* context = ibv_open_device(devices[0]);
  ibv_free_device_list(devices);
  ibv_pd* pd = ibv_alloc_pd(context);
  char* memory = static_cast<char*>(std::calloc(2, kBytes));
  ibv_mr* mr = ibv_reg_mr(pd, memory, 2 * kBytes, IBV_ACCESS_LOCAL_WRITE);
  check(mr != nullptr, "reg_mr");
  ibv_cq* cqs[2];
  ibv_qp* qps[2];
  for (int i = 0; i < 2; ++i) {
    cqs[i] = ibv_create_cq(context, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cqs[i];
    init.cap = {4, 4, 1, 1, 0};
    init.qp_type = IBV_QPT_RC;
    qps[i] = ibv_create_qp(pd, &init);
    check(qps[i] != nullptr, "create_qp");
  }
  ibv_port_attr port{};
  check(ibv_query_port(context, 1, &port) == 0, "query_port");
  for (int i = 0; i < 2; ++i) bring_up(qps[i], qps[1 - i]->qp_num, port.lid);
  std::thread taker(take, qps[1], cqs[1], mr, memory + kBytes, wrong != "unread");
  int written = 0;
  if (wrong == "race") {
    std::thread other([&written] { written = 1; });
    written = 2;
    other.join();
  }
  send(qps[0], cqs[0], mr, memory, wrong != "unread");
  taker.join();
  const int behind = wrong == "overflow" ? memory[2 * kBytes] : 0;
  for (int i = 0; i < 2; ++i) check(ibv_destroy_qp(qps[i]) == 0 && ibv_destroy_cq(cqs[i]) == 0, "destroying");
  check(ibv_dereg_mr(mr) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0, "closing");
  std::free(memory);
  std::puts("all messages came");
  return behind == 1 && written == 1 ? 3 : 0;
}
