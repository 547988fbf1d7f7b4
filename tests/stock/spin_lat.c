/* Two processes write 8 bytes to each other by RDMA and spin on their own memory until the answer is there. Between its writes
 * neither calls the library, but to take one completion after each 64 of them; who places what arrives is
 * the library's business. Prints typical, 99 % and 99.9 % of half a round trip in microseconds.
 * usage: spin_lat SECONDS */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kQueue = 256, kSignalEach = 64, kRoundsMost = 1000000, kWarm = 100 };

struct address {
  uint16_t lid;
  uint32_t qpn, rkey;
  uint64_t place;
};

struct end {
  struct ibv_cq *cq;
  struct ibv_qp *qp;
  struct ibv_mr *mr;
  struct address peer;
  unsigned signaled;               /* writes whose completion has not been taken */
  volatile uint64_t *in, out;
};

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "spin_lat: %s failed\n", what);
  exit(1);
}

static void connect_to(struct end *end) {
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  check(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = end->peer.qpn,
                              .max_dest_rd_atomic = 1, .min_rnr_timer = 12,
                              .ah_attr = {.dlid = end->peer.lid, .port_num = 1}};
  check(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), "RTR");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
  check(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), "RTS");
}

static void open_end(struct end *end, int peer) {
  struct ibv_device **list = ibv_get_device_list(NULL);
  check(list != NULL && list[0] != NULL, "finding a device");
  struct ibv_context *context = ibv_open_device(list[0]);
  check(context != NULL, "opening the device");
  struct ibv_pd *pd = ibv_alloc_pd(context);
  void *page = NULL;
  check(pd != NULL && posix_memalign(&page, 4096, 4096) == 0, "memory");
  memset(page, 0, 4096);
  end->in = page;
  end->mr = ibv_reg_mr(pd, page, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  end->cq = ibv_create_cq(context, kQueue, NULL, NULL, 0);
  struct ibv_qp_init_attr init = {.send_cq = end->cq, .recv_cq = end->cq, .qp_type = IBV_QPT_RC,
                                  .cap = {.max_send_wr = kQueue, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1,
                                          .max_inline_data = 8}};
  end->qp = ibv_create_qp(pd, &init);
  struct ibv_port_attr port;
  check(end->mr != NULL && end->cq != NULL && end->qp != NULL && !ibv_query_port(context, 1, &port), "a queue pair");
  const struct address own = {port.lid, end->qp->qp_num, end->mr->rkey, (uintptr_t)page};
  check(write(peer, &own, sizeof own) == sizeof own && read(peer, &end->peer, sizeof own) == sizeof own, "exchange");
  connect_to(end);
  char ready = 1;
  check(write(peer, &ready, 1) == 1 && read(peer, &ready, 1) == 1, "exchange");
}

static void write_word(struct end *end, uint64_t word, uint64_t number) {
  if (end->signaled == kQueue / kSignalEach - 1) {
    struct ibv_wc wc;
    int got;
    while ((got = ibv_poll_cq(end->cq, 1, &wc)) == 0) {
    }
    check(got == 1 && wc.status == IBV_WC_SUCCESS, "a write");
    --end->signaled;
  }
  end->out = word;
  struct ibv_sge sge = {.addr = (uintptr_t)&end->out, .length = sizeof end->out};
  struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE,
                           .wr.rdma = {.remote_addr = end->peer.place, .rkey = end->peer.rkey}};
  struct ibv_send_wr *bad;
  if (number % kSignalEach == kSignalEach - 1) {
    wr.send_flags |= IBV_SEND_SIGNALED;
    ++end->signaled;
  }
  check(!ibv_post_send(end->qp, &wr, &bad), "posting");
}

static double now_us(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec * 1e6 + (double)at.tv_nsec / 1e3;
}

static int by_size(const void *left, const void *right) {
  const double a = *(const double *)left, b = *(const double *)right;
  return (a > b) - (a < b);
}

/* The other side ends with it. */
static const uint64_t kLast = ~(uint64_t)0;

static void answer(struct end *end) {
  for (uint64_t i = 0, word = 0; word != kLast; ++i) {
    const uint64_t before = word;
    while ((word = *end->in) == before) {
    }
    write_word(end, word, i);
  }
}

static void ask(struct end *end, double seconds) {
  double *halves = malloc(kRoundsMost * sizeof *halves);
  check(halves != NULL, "memory");
  double start = 0;
  size_t count = 0;
  for (uint64_t i = 0, last = 0; !last; ++i) {
    const double begin = now_us();
    if (i == kWarm) start = begin;
    last = count + 1 == kRoundsMost || (i > kWarm && begin - start > seconds * 1e6);
    const uint64_t word = last ? kLast : i + 1;
    write_word(end, word, i);
    while (*end->in != word) {
    }
    if (i >= kWarm) halves[count++] = (now_us() - begin) / 2;
  }
  check(count != 0, "a round");
  qsort(halves, count, sizeof *halves, by_size);
  printf("%zu %.2f %.2f %.2f\n", count, halves[count / 2], halves[count * 99 / 100], halves[count * 999 / 1000]);
}

int main(int argc, char **argv) {
  int ends[2];
  check(argc == 2 && socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "usage: spin_lat SECONDS");
  const pid_t child = fork();
  check(child >= 0, "fork");
  if (child == 0) check(!prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl"); /* it would wait for memory that nobody writes */
  static struct end end;
  open_end(&end, ends[child == 0]);
  if (child == 0) {
    answer(&end);
    char told;
    return read(ends[1], &told, 1) == 1 ? 0 : 1; /* what is written last has to leave */
  }
  ask(&end, atof(argv[1]));
  int status = 1;
  check(write(ends[0], "", 1) == 1 && waitpid(child, &status, 0) == child && status == 0, "the other process");
  return 0;
}
