/* Checks what an RDMA device moves between two processes. Every byte that is written, sent, read or changed by an atomic
 * is compared with what must be there, and the bytes around it with what must have stayed. Uses the distribution's
 * headers and library alone.
 *   verbs_check rc|uc|ud|xrc PORT         waits for its peer on a TCP port
 *   verbs_check rc|uc|ud|xrc PORT HOST    the other side; prints one line when all is right
 * Both sides go through the same list of steps in lock-step over TCP: one is active and posts requests, the other looks
 * at what has come. In a second round they change places (but with XRC, where one side sends only). */
#include <arpa/inet.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
  kGuard = 64,     /* bytes before and behind each message, which nothing may touch */
  kMost = 8 << 20, /* bytes of a message */
  kAtOnce = 16,    /* messages that are posted together, when they are small */
  kSmall = 65536,
  kHalf = kMost + 4 * kAtOnce * kGuard,
  kInline = 64,
  kGrh = 40, /* what a datagram has before its data */
  kQkey = 0x11111111
};

enum operation { kWrite, kWriteImm, kSend, kSendImm, kRead, kFetchAdd, kCompareSwap };
static const char* const operation_names[] = {
    "write",         "write with immediate data", "send", "send with immediate data", "read",
    "fetch and add", "compare and swap"};

/* What each side tells the other. */
struct about {
  uint64_t addr;
  union ibv_gid gid;
  uint32_t rkey, qpn, psn, srqn, inline_bytes;
  uint16_t lid;
};

static const char* transport;
static int peer_socket;
static struct ibv_context* context;
static struct ibv_pd* pd;
static struct ibv_cq* cq;
static struct ibv_mr* mr;
static struct ibv_qp* qp;
static struct ibv_srq* srq;
static struct ibv_ah* ah;
static struct about mine, theirs;
static unsigned char *out, *in; /* two halves of one region: what is given, and what is got */
static enum ibv_mtu mtu;
static int active;
static uint32_t step;
static unsigned long operations, bytes_compared;

static int is(const char* name) {
  return strcmp(transport, name) == 0;
}

static void expect(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "%s, step %u: %s\n", transport, step, what);
  exit(1);
}

/* ---- the way to each other ---- */

static void all_of(void* data, size_t bytes, int writes) {
  for (char* at = data; bytes > 0;) {
    const ssize_t done = writes ? write(peer_socket, at, bytes) : read(peer_socket, at, bytes);
    expect(done > 0, "the peer has ended");
    at += done;
    bytes -= (size_t)done;
  }
}

/* Both sides have come to the same step. */
static void meet(void) {
  uint32_t other = step;
  all_of(&other, sizeof other, 1);
  all_of(&other, sizeof other, 0);
  expect(other == step, "the sides are at different steps");
}

static void meet_peer(const char* port, const char* host) {
  struct addrinfo hint = {
      .ai_flags = host == NULL ? AI_PASSIVE : 0, .ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
  struct addrinfo* at = NULL;
  expect(getaddrinfo(host, port, &hint, &at) == 0, "getaddrinfo");
  peer_socket = socket(at->ai_family, at->ai_socktype, 0);
  const int one = 1;
  setsockopt(peer_socket, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (host != NULL) {
    expect(connect(peer_socket, at->ai_addr, at->ai_addrlen) == 0, "connect");
  } else {
    expect(bind(peer_socket, at->ai_addr, at->ai_addrlen) == 0 && listen(peer_socket, 1) == 0, "listen");
    const int accepted = accept(peer_socket, NULL, NULL);
    expect(accepted >= 0, "accept");
    close(peer_socket);
    peer_socket = accepted;
  }
  freeaddrinfo(at);
}

/* ---- objects ---- */

static void make_memory(void) {
  unsigned char* memory = aligned_alloc(4096, 2 * (size_t)kHalf);
  expect(memory != NULL, "memory");
  out = memory;
  in = memory + kHalf;
  mr = ibv_reg_mr(
      pd, memory, 2 * (size_t)kHalf,
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  expect(mr != NULL, "ibv_reg_mr");
}

static void make_xrc(int sends) {
  struct ibv_xrcd_init_attr domain = {
      .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
  struct ibv_xrcd* xrcd = ibv_open_xrcd(context, &domain);
  expect(xrcd != NULL, "ibv_open_xrcd");
  struct ibv_srq_init_attr_ex shared = {.attr = {.max_wr = 2 * kAtOnce, .max_sge = 3},
                                        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
                                                     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
                                        .srq_type = IBV_SRQT_XRC,
                                        .pd = pd,
                                        .xrcd = xrcd,
                                        .cq = cq};
  srq = ibv_create_srq_ex(context, &shared);
  expect(srq != NULL, "ibv_create_srq_ex");
  struct ibv_qp_init_attr_ex init = {.qp_type = sends ? IBV_QPT_XRC_SEND : IBV_QPT_XRC_RECV};
  if (sends) {
    init.comp_mask = IBV_QP_INIT_ATTR_PD;
    init.pd = pd;
    init.send_cq = cq;
    init.cap.max_send_wr = 2 * kAtOnce;
    init.cap.max_send_sge = 3;
    init.cap.max_inline_data = kInline;
  } else {
    init.comp_mask = IBV_QP_INIT_ATTR_XRCD;
    init.xrcd = xrcd;
  }
  qp = ibv_create_qp_ex(context, &init);
  mine.inline_bytes = init.cap.max_inline_data;
}

static void make_objects(int sends) {
  struct ibv_device** devices = ibv_get_device_list(NULL);
  expect(devices != NULL && devices[0] != NULL, "no device");
  context = ibv_open_device(devices[0]);
  expect(context != NULL, "ibv_open_device");
  ibv_free_device_list(devices);
  pd = ibv_alloc_pd(context);
  cq = ibv_create_cq(context, 4 * kAtOnce, NULL, NULL, 0);
  expect(pd != NULL && cq != NULL, "ibv_alloc_pd, ibv_create_cq");
  make_memory();
  if (is("xrc")) {
    make_xrc(sends);
  } else {
    struct ibv_qp_init_attr init = {.send_cq = cq,
                                    .recv_cq = cq,
                                    .qp_type = is("rc")   ? IBV_QPT_RC
                                               : is("uc") ? IBV_QPT_UC
                                                          : IBV_QPT_UD,
                                    .cap = {.max_send_wr = 2 * kAtOnce,
                                            .max_recv_wr = 2 * kAtOnce,
                                            .max_send_sge = 3,
                                            .max_recv_sge = 3,
                                            .max_inline_data = kInline}};
    qp = ibv_create_qp(pd, &init);
    mine.inline_bytes = init.cap.max_inline_data;
  }
  expect(qp != NULL, "ibv_create_qp");
}

static void describe(void) {
  struct ibv_port_attr port;
  expect(ibv_query_port(context, 1, &port) == 0, "ibv_query_port");
  expect(ibv_query_gid(context, 1, 0, &mine.gid) == 0, "ibv_query_gid");
  mtu = port.active_mtu;
  mine.addr = (uintptr_t)out;
  mine.rkey = mr->rkey;
  mine.qpn = qp->qp_num;
  mine.psn = (uint32_t)lrand48() & 0xffffff;
  mine.lid = port.lid;
  if (srq != NULL) expect(ibv_get_srq_num(srq, &mine.srqn) == 0, "ibv_get_srq_num");
  struct about copy = mine;
  all_of(&copy, sizeof copy, 1);
  all_of(&theirs, sizeof theirs, 0);
}

static void bring_up(int sends) {
  const int datagrams = is("ud"), answers = is("rc") || (is("xrc") && !sends),
            asks = is("rc") || (is("xrc") && sends);
  struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                             .port_num = 1,
                             .qkey = kQkey,
                             .qp_access_flags = is("uc") ? IBV_ACCESS_REMOTE_WRITE
                                                         : IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                                               IBV_ACCESS_REMOTE_ATOMIC};
  const int first = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
  expect(ibv_modify_qp(qp, &attr, first | (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) == 0, "to INIT");
  struct ibv_ah_attr way = {.dlid = theirs.lid, .port_num = 1};
  if (theirs.lid == 0) {
    way.is_global = 1;
    way.grh.dgid = theirs.gid;
    way.grh.hop_limit = 1;
  }
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                              .path_mtu = mtu,
                              .dest_qp_num = theirs.qpn,
                              .rq_psn = theirs.psn,
                              .max_dest_rd_atomic = 4,
                              .min_rnr_timer = 12,
                              .ah_attr = way};
  const int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | (datagrams ? 0 : connected) |
                           (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)) == 0,
         "to RTR");
  attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                              .sq_psn = mine.psn,
                              .timeout = 14,
                              .retry_cnt = 7,
                              .rnr_retry = 7,
                              .max_rd_atomic = 4};
  const int repeats = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  expect(ibv_modify_qp(qp, &attr,
                       IBV_QP_STATE | IBV_QP_SQ_PSN |
                           (asks      ? repeats
                            : answers ? IBV_QP_TIMEOUT
                                      : 0)) == 0,
         "to RTS");
  if (datagrams) ah = ibv_create_ah(pd, &way);
  expect(!datagrams || ah != NULL, "ibv_create_ah");
}

/* ---- memory ---- */

static unsigned char pattern(uint32_t seed, size_t index) {
  return (unsigned char)((((uint32_t)index + seed * 977u) * 2654435761u) >> 23);
}

enum { kUntouched = 0xa5 };

/* Where message `k` of so many bytes has its place in either half. */
static size_t place(int k, size_t bytes) {
  return kGuard + (size_t)k * (bytes + kGuard);
}

static size_t extent(int count, size_t bytes) {
  return place(count, bytes);
}

static void fill(unsigned char* half, int count, size_t bytes, uint32_t seed) {
  memset(half, kUntouched, extent(count, bytes));
  for (int k = 0; k < count; ++k)
    for (size_t i = 0; i < bytes; ++i) half[place(k, bytes) + i] = pattern(seed + (uint32_t)k, i);
}

/* @param header bytes before each message that the device may have written */
static void compare(const unsigned char* half, int count, size_t bytes, uint32_t seed, size_t header) {
  for (int k = 0; k < count; ++k) {
    const unsigned char* at = half + place(k, bytes);
    for (size_t i = 0; i < bytes; ++i) expect(at[i] == pattern(seed + (uint32_t)k, i), "a byte differs");
  }
  for (int k = 0; k <= count; ++k) {
    const unsigned char* guard = half + place(k, bytes) - kGuard;
    for (size_t i = 0; i < kGuard - (k < count ? header : 0); ++i)
      expect(guard[i] == kUntouched, "a byte beside the message was touched");
  }
  bytes_compared += (unsigned long)count * bytes;
}

/* ---- requests ---- */

/* The message in up to three parts of odd lengths. */
static int parts(struct ibv_sge* list, const unsigned char* at, size_t bytes) {
  const size_t first = bytes / 3, second = bytes / 5, lengths[] = {first, second, bytes - first - second};
  int count = 0;
  for (int i = 0; i < 3; ++i) {
    if (lengths[i] == 0) continue;
    list[count++] = (struct ibv_sge){.addr = (uintptr_t)at, .length = (uint32_t)lengths[i], .lkey = mr->lkey};
    at += lengths[i];
  }
  return count;
}

static void post_recv(uint64_t id, size_t offset, size_t bytes) {
  struct ibv_sge list = {.addr = (uintptr_t)in + offset, .length = (uint32_t)bytes, .lkey = mr->lkey};
  struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &list, .num_sge = bytes != 0}, *bad;
  expect((srq != NULL ? ibv_post_srq_recv(srq, &wr, &bad) : ibv_post_recv(qp, &wr, &bad)) == 0,
         "ibv_post_recv");
}

static struct ibv_wc next_entry(uint64_t id) {
  struct ibv_wc wc;
  int got = 0;
  while (got == 0) got = ibv_poll_cq(cq, 1, &wc);
  expect(got == 1, "ibv_poll_cq");
  if (wc.status != IBV_WC_SUCCESS) fprintf(stderr, "%s\n", ibv_wc_status_str(wc.status));
  expect(wc.status == IBV_WC_SUCCESS && wc.wr_id == id, "a completion is not the one that is due");
  return wc;
}

static void post(struct ibv_send_wr* wr) {
  struct ibv_send_wr* bad;
  if (is("xrc")) wr->qp_type.xrc.remote_srqn = theirs.srqn;
  if (is("ud")) {
    wr->wr.ud.ah = ah;
    wr->wr.ud.remote_qpn = theirs.qpn;
    wr->wr.ud.remote_qkey = kQkey;
  }
  expect(ibv_post_send(qp, wr, &bad) == 0, "ibv_post_send");
}

/* The other side has got all requests before this one: a send without data that follows them on the same QP. */
static void announce(void) {
  struct ibv_send_wr wr = {.wr_id = step, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  post(&wr);
  next_entry(step);
}

static enum ibv_wr_opcode opcode_of(enum operation operation) {
  static const enum ibv_wr_opcode codes[] = {
      IBV_WR_RDMA_WRITE,        IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
      IBV_WR_SEND_WITH_IMM,     IBV_WR_RDMA_READ,           IBV_WR_ATOMIC_FETCH_AND_ADD,
      IBV_WR_ATOMIC_CMP_AND_SWP};
  return codes[operation];
}

static int uses_receive(enum operation operation) {
  return operation == kWriteImm || operation == kSend || operation == kSendImm;
}
static int has_imm(enum operation operation) {
  return operation == kWriteImm || operation == kSendImm;
}

/* ---- steps ---- */

static void check_received(enum operation operation, int k, size_t bytes) {
  const struct ibv_wc wc = next_entry((uint64_t)k);
  expect(wc.opcode == (operation == kWriteImm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV),
         "opcode of a receive");
  expect(wc.byte_len == bytes + (is("ud") ? kGrh : 0), "length of a receive");
  expect(((wc.wc_flags & IBV_WC_WITH_IMM) != 0) == has_imm(operation), "immediate data of a receive");
  expect(!has_imm(operation) || ntohl(wc.imm_data) == step * 100 + (uint32_t)k,
         "value of the immediate data");
}

static void passive_step(enum operation operation, int count, size_t bytes) {
  const uint32_t seed = step * 31;
  const size_t header = is("ud") ? kGrh : 0;
  fill(out, count, bytes, seed);
  memset(in, kUntouched, extent(count, bytes));
  for (int k = 0; uses_receive(operation) && k < count; ++k) {
    const size_t room = operation == kWriteImm ? 0 : bytes + header;
    post_recv((uint64_t)k, place(k, bytes) - header, room);
  }
  if (operation == kWrite) post_recv(0, 0, 0);
  meet();
  if (operation == kWrite) next_entry(0);
  for (int k = 0; uses_receive(operation) && k < count; ++k) check_received(operation, k, bytes);
  if (operation != kRead) compare(in, count, bytes, seed + 7, header);
  meet();
}

static void active_step(enum operation operation, int count, size_t bytes, int in_line) {
  const uint32_t seed = step * 31;
  const uint64_t remote_out = theirs.addr, remote_in = theirs.addr + kHalf;
  fill(out, count, bytes, seed + 7);
  memset(in, kUntouched, extent(count, bytes));
  meet();
  for (int k = 0; k < count; ++k) {
    struct ibv_sge list[3];
    struct ibv_send_wr wr = {.wr_id = (uint64_t)k,
                             .sg_list = list,
                             .num_sge = parts(list, (operation == kRead ? in : out) + place(k, bytes), bytes),
                             .opcode = opcode_of(operation),
                             .send_flags = IBV_SEND_SIGNALED | (in_line ? IBV_SEND_INLINE : 0)};
    if (has_imm(operation)) wr.imm_data = htonl(step * 100 + (uint32_t)k);
    if (operation == kWrite || operation == kWriteImm || operation == kRead) {
      wr.wr.rdma.remote_addr = (operation == kRead ? remote_out : remote_in) + place(k, bytes);
      wr.wr.rdma.rkey = theirs.rkey;
    }
    post(&wr);
    /* What was posted inline is the program's again. */
    if (in_line) memset(out + place(k, bytes), 0, bytes);
  }
  for (int k = 0; k < count; ++k) next_entry((uint64_t)k);
  if (operation == kWrite) announce();
  if (operation == kRead) compare(in, count, bytes, seed, 0);
  meet();
}

static void take_step(enum operation operation, size_t bytes, int in_line) {
  const int count = bytes <= kSmall ? kAtOnce : 1;
  ++step;
  operations += (unsigned long)count;
  if (active) {
    active_step(operation, count, bytes, in_line);
  } else {
    passive_step(operation, count, bytes);
  }
}

/* Words of the other side are changed, every second comparison finds another value; what was there comes back. */
static void take_atomic_step(enum operation operation) {
  ++step;
  operations += kAtOnce;
  uint64_t* const words = (uint64_t*)(active ? in : out);
  for (uint64_t k = 0; k < kAtOnce; ++k) words[k] = active ? 0 : step * 1000 + k;
  meet();
  for (uint64_t k = 0; active && k < kAtOnce; ++k) {
    struct ibv_sge list = {.addr = (uintptr_t)&words[k], .length = 8, .lkey = mr->lkey};
    struct ibv_send_wr wr = {.wr_id = k,
                             .sg_list = &list,
                             .num_sge = 1,
                             .opcode = opcode_of(operation),
                             .send_flags = IBV_SEND_SIGNALED};
    wr.wr.atomic.remote_addr = theirs.addr + k * 8;
    wr.wr.atomic.rkey = theirs.rkey;
    wr.wr.atomic.compare_add = operation == kFetchAdd ? (k << 40) + 1 : step * 1000 + k + k % 2;
    wr.wr.atomic.swap = ~k;
    post(&wr);
  }
  for (uint64_t k = 0; active && k < kAtOnce; ++k) next_entry(k);
  meet();
  for (uint64_t k = 0; k < kAtOnce; ++k) {
    const uint64_t before = step * 1000 + k;
    const uint64_t after = operation == kFetchAdd ? before + (k << 40) + 1 : k % 2 != 0 ? before : ~k;
    expect(words[k] == (active ? before : after), operation_names[operation]);
  }
  bytes_compared += kAtOnce * 8;
  meet();
}

static void all_sizes(enum operation operation) {
  static const size_t sizes[] = {1,     2,     3,       8,       63,        64,   255,  256,
                                 257,   1000,  1024,    4095,    4096,      4097, 8192, 65535,
                                 65536, 65537, 1000003, 1 << 20, kMost - 1, kMost};
  const size_t most = is("ud") ? (size_t)128 << mtu : kMost;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i)
    if (sizes[i] <= most) take_step(operation, sizes[i], 0);
  const uint32_t in_line = active ? mine.inline_bytes : theirs.inline_bytes;
  for (size_t bytes = 1; operation != kRead && bytes <= in_line; bytes = bytes * 2 + 1)
    take_step(operation, bytes, 1);
}

static void every_operation(void) {
  all_sizes(kSend);
  all_sizes(kSendImm);
  if (is("ud")) return;
  all_sizes(kWrite);
  all_sizes(kWriteImm);
  if (is("uc")) return;
  all_sizes(kRead);
  take_atomic_step(kFetchAdd);
  take_atomic_step(kCompareSwap);
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: verbs_check rc|uc|ud|xrc PORT [HOST]\n");
    return 2;
  }
  transport = argv[1];
  const char* host = argc > 3 ? argv[3] : NULL;
  srand48(getpid());
  meet_peer(argv[2], host);
  make_objects(host != NULL);
  describe();
  bring_up(host != NULL);
  meet();
  for (int round = 0; round < (is("xrc") ? 1 : 2); ++round) {
    active = (host != NULL) == (round == 0);
    every_operation();
  }
  printf("%s: %lu operations, %lu bytes compared, all right\n", transport, operations, bytes_compared);
  return 0;
}
