/* The first RDMA program: the client writes a line into the server's memory, and the server sends a word back.
 *
 *   cc first.c -o first -lrdmacm -libverbs
 *   weft run -- ./first &                  the server
 *   weft run -- ./first 127.0.0.1          the client
 *
 * docs/tutorial.md walks through it. */
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT "7471"
#define LINE_BYTES 64

/* What the server tells the client when they connect: where the client may write, and the key that opens it. */
struct place {
  uint64_t address;
  uint32_t rkey;
};

static char memory[LINE_BYTES]; /* the server's: the client writes here. The client's: what it writes from */
static char word[8];            /* the answer */

static void fail(const char* call) {
  perror(call);
  exit(1);
}

/* Waits for a completion and looks at its status: a request that fails says so here, and nowhere else. */
static void expect(struct ibv_wc* wc, int got, const char* what) {
  if (got < 0) fail(what);
  if (wc->status != IBV_WC_SUCCESS) {
    fprintf(stderr, "%s: %s\n", what, ibv_wc_status_str(wc->status));
    exit(1);
  }
}

/* A connection needs a queue pair: room for requests and for completions. */
static struct ibv_qp_init_attr queues(void) {
  struct ibv_qp_init_attr attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.cap.max_send_wr = attributes.cap.max_recv_wr = 4;
  attributes.cap.max_send_sge = attributes.cap.max_recv_sge = 1;
  attributes.sq_sig_all = 1;
  return attributes;
}

static struct rdma_addrinfo* find(const char* host) {
  struct rdma_addrinfo hints;
  struct rdma_addrinfo* out;
  memset(&hints, 0, sizeof hints);
  hints.ai_port_space = RDMA_PS_TCP;
  if (host == NULL) hints.ai_flags = RAI_PASSIVE;
  if (rdma_getaddrinfo(host, PORT, &hints, &out) != 0) fail("rdma_getaddrinfo");
  return out;
}

static void serve(void) {
  struct ibv_qp_init_attr attributes = queues();
  struct rdma_cm_id* listener;
  struct rdma_cm_id* id;
  struct rdma_conn_param parameters;
  struct ibv_wc wc;
  struct place place;
  if (rdma_create_ep(&listener, find(NULL), NULL, &attributes) != 0) fail("rdma_create_ep");
  if (rdma_listen(listener, 1) != 0) fail("rdma_listen");
  if (rdma_get_request(listener, &id) != 0) fail("rdma_get_request");

  /* Registered memory has keys. IBV_ACCESS_REMOTE_WRITE is what lets the client write. */
  struct ibv_mr* mr = ibv_reg_mr(id->pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_mr* word_mr = rdma_reg_msgs(id, word, sizeof word);
  if (mr == NULL || word_mr == NULL) fail("register memory");
  /* The client's write carries immediate data, which takes one receive request and makes one completion. */
  if (rdma_post_recv(id, NULL, word, sizeof word, word_mr) != 0) fail("rdma_post_recv");

  place.address = (uint64_t)(uintptr_t)memory;
  place.rkey = mr->rkey;
  memset(&parameters, 0, sizeof parameters);
  parameters.private_data = &place;
  parameters.private_data_len = sizeof place;
  if (rdma_accept(id, &parameters) != 0) fail("rdma_accept");

  expect(&wc, rdma_get_recv_comp(id, &wc), "receive");
  printf("server: the client wrote '%s'\n", memory);
  strcpy(word, "thanks");
  if (rdma_post_send(id, NULL, word, sizeof word, word_mr, 0) != 0) fail("rdma_post_send");
  expect(&wc, rdma_get_send_comp(id, &wc), "send");
  rdma_disconnect(id);
}

static void request(const char* host) {
  struct ibv_qp_init_attr attributes = queues();
  struct rdma_cm_id* id;
  struct ibv_wc wc;
  struct place place;
  struct ibv_sge piece;
  struct ibv_send_wr write;
  struct ibv_send_wr* bad;
  if (rdma_create_ep(&id, find(host), NULL, &attributes) != 0) fail("rdma_create_ep");
  struct ibv_mr* mr = rdma_reg_msgs(id, memory, sizeof memory);
  struct ibv_mr* word_mr = rdma_reg_msgs(id, word, sizeof word);
  if (mr == NULL || word_mr == NULL) fail("register memory");
  /* The receive request comes before the connection: an answer may arrive as soon as the server has our write. */
  if (rdma_post_recv(id, NULL, word, sizeof word, word_mr) != 0) fail("rdma_post_recv");
  if (rdma_connect(id, NULL) != 0) fail("rdma_connect");
  memcpy(&place, id->event->param.conn.private_data, sizeof place);

  strcpy(memory, "hello over RDMA");
  memset(&piece, 0, sizeof piece);
  piece.addr = (uint64_t)(uintptr_t)memory;
  piece.length = sizeof memory;
  piece.lkey = mr->lkey;
  memset(&write, 0, sizeof write);
  write.sg_list = &piece;
  write.num_sge = 1;
  write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
  write.wr.rdma.remote_addr = place.address;
  write.wr.rdma.rkey = place.rkey;
  if (ibv_post_send(id->qp, &write, &bad) != 0) fail("ibv_post_send");
  expect(&wc, rdma_get_send_comp(id, &wc), "write");
  expect(&wc, rdma_get_recv_comp(id, &wc), "receive");
  printf("client: the server says '%s'\n", word);
  rdma_disconnect(id);
}

int main(int count, char** words) {
  if (count > 1)
    request(words[1]);
  else
    serve();
  return 0;
}
