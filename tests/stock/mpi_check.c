/* Checks what an MPI library moves: point to point, collectives and one-sided, each value compared with what must
 * arrive. Compiled by mpicc of the distribution. Prints one line when all is right, aborts at the first difference.
 * `mpi_check lat` and `mpi_check bw` measure between two ranks instead. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWords = 100000 };

static int rank, ranks;

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "rank %d: %s: wrong\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* What rank `from` has at index `at` in round `round`. */
static long value(int from, int at, int round) {
  return from * 1000003L + at * 7L + round;
}

static void fill(long *words, int count, int round) {
  for (int i = 0; i < count; ++i) words[i] = value(rank, i, round);
}

static void ring(long *out, long *in) {
  const int sizes[] = {1, 100, 3000, kWords};
  for (int round = 0; round < 4; ++round) {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, count = sizes[round];
    fill(out, count, round);
    MPI_Sendrecv(out, count, MPI_LONG, next, round, in, count, MPI_LONG, before, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < count; ++i) check(in[i] == value(before, i, round), "sendrecv");
  }
}

static void collectives(long *out, long *in) {
  fill(out, kWords, 9);
  MPI_Allreduce(out, in, kWords, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  for (int i = 0; i < kWords; ++i) {
    long sum = 0;
    for (int from = 0; from < ranks; ++from) sum += value(from, i, 9);
    check(in[i] == sum, "allreduce");
  }
  if (rank == 1) memcpy(in, out, kWords * sizeof *in);
  MPI_Bcast(in, kWords, MPI_LONG, 1, MPI_COMM_WORLD);
  for (int i = 0; i < kWords; ++i) check(in[i] == value(1, i, 9), "bcast");
  const int each = kWords / ranks;
  MPI_Alltoall(out, each, MPI_LONG, in, each, MPI_LONG, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from)
    for (int i = 0; i < each; ++i) check(in[from * each + i] == value(from, rank * each + i, 9), "alltoall");
  MPI_Allgather(out, each, MPI_LONG, in, each, MPI_LONG, MPI_COMM_WORLD);
  for (int from = 0; from < ranks; ++from)
    for (int i = 0; i < each; ++i) check(in[from * each + i] == value(from, i, 9), "allgather");
}

static void one_sided(long *out, long *in) {
  MPI_Win window;
  MPI_Win_create(in, kWords * (MPI_Aint)sizeof *in, sizeof *in, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks, half = kWords / 2;
  memset(in, 0, kWords * sizeof *in);
  fill(out, kWords, 5);
  MPI_Win_fence(0, window);
  MPI_Put(out, half, MPI_LONG, next, 0, half, MPI_LONG, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < half; ++i) check(in[i] == value(before, i, 5), "put");
  MPI_Get(out + half, half, MPI_LONG, next, 0, half, MPI_LONG, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < half; ++i) check(out[half + i] == value(rank, i, 5), "get: what was put there");
  for (int i = 0; i < 100; ++i) {
    const long one = 1;
    MPI_Accumulate(&one, 1, MPI_LONG, 0, kWords - 1, 1, MPI_LONG, MPI_SUM, window);
  }
  MPI_Win_fence(0, window);
  if (rank == 0) check(in[kWords - 1] == 100L * ranks, "accumulate");
  MPI_Win_free(&window);
}

/* Half a round trip of 8 bytes in microseconds, or MB/s of messages of 64 KiB in windows of 64. */
static void measure(int bandwidth) {
  enum { kRounds = 2000, kWarm = 200, kBytes = 65536, kWindow = 64, kWindows = 20 };
  static char data[kBytes];
  MPI_Request requests[kWindow];
  double start = 0;
  const int peer = 1 - rank;
  for (int i = 0; i < (bandwidth ? kWindows + 2 : kRounds + kWarm); ++i) {
    if (i == (bandwidth ? 2 : kWarm)) start = MPI_Wtime();
    if (bandwidth) {
      for (int k = 0; k < kWindow; ++k) {
        if (rank == 0) MPI_Isend(data, kBytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD, &requests[k]);
        if (rank == 1) MPI_Irecv(data, kBytes, MPI_CHAR, peer, 0, MPI_COMM_WORLD, &requests[k]);
      }
      MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
    }
    const int bytes = bandwidth ? 1 : 8;
    if (rank == 0) MPI_Send(data, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
    MPI_Recv(data, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(data, bytes, MPI_CHAR, peer, 1, MPI_COMM_WORLD);
  }
  const double seconds = MPI_Wtime() - start;
  if (rank == 0)
    printf("%.3f\n", bandwidth ? (double)kWindows * kWindow * kBytes / seconds / 1e6 : seconds / kRounds / 2 * 1e6);
}

int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc > 1) {
    check(ranks == 2, "two ranks measure");
    measure(strcmp(argv[1], "bw") == 0);
  } else {
    long *out = malloc(kWords * sizeof *out), *in = malloc(kWords * sizeof *in);
    check(out != NULL && in != NULL, "memory");
    ring(out, in);
    collectives(out, in);
    one_sided(out, in);
    if (rank == 0) printf("%d ranks: all right\n", ranks);
    free(out);
    free(in);
  }
  MPI_Finalize();
  return 0;
}
