// A program with the habits of programs: it loads libibverbs by name, moves a message, and on the way closes
// descriptors, forks, unloads the library or looks at /sys. Exit code 0: it went as on a machine with an
// adapter; 3: an error that it was told of; 1: something was wrong. It knows nothing of Weft.
#include <dirent.h>
#include <dlfcn.h>
#include <endian.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr int kWrong = 1;
constexpr int kTold = 3;

int wrong(const char* what) {
  std::printf("WRONG %s: %s\n", what, strerror(errno));
  return kWrong;
}
int told(const char* what) {
  std::printf("refused: %s: %s\n", what, strerror(errno));
  return kTold;
}

/// The functions that ibverbs.h does not inline.
struct Verbs {
  void* library = nullptr;
  decltype(&ibv_get_device_list) list = nullptr;
  decltype(&ibv_free_device_list) free_list = nullptr;
  decltype(&ibv_get_device_guid) guid = nullptr;
  decltype(&ibv_open_device) open = nullptr;
  decltype(&ibv_close_device) close = nullptr;
  ibv_pd* (*alloc_pd)(ibv_context*) = nullptr;
  int (*dealloc_pd)(ibv_pd*) = nullptr;
  ibv_cq* (*create_cq)(ibv_context*, int, void*, ibv_comp_channel*, int) = nullptr;
  int (*destroy_cq)(ibv_cq*) = nullptr;
  ibv_qp* (*create_qp)(ibv_pd*, ibv_qp_init_attr*) = nullptr;
  int (*modify_qp)(ibv_qp*, ibv_qp_attr*, int) = nullptr;
  int (*destroy_qp)(ibv_qp*) = nullptr;
  ibv_mr* (*reg_mr)(ibv_pd*, void*, size_t, int) = nullptr;
  int (*dereg_mr)(ibv_mr*) = nullptr;
  ibv_ah* (*create_ah)(ibv_pd*, ibv_ah_attr*) = nullptr;
  int (*destroy_ah)(ibv_ah*) = nullptr;
  int (*query_port)(ibv_context*, uint8_t, _compat_ibv_port_attr*) = nullptr;
  ibv_comp_channel* (*create_channel)(ibv_context*) = nullptr;
  int (*destroy_channel)(ibv_comp_channel*) = nullptr;
  int (*get_cq_event)(ibv_comp_channel*, ibv_cq**, void**) = nullptr;
  int (*get_async_event)(ibv_context*, ibv_async_event*) = nullptr;

  template <class Function>
  bool find(const char* name, Function& out) {
    out = reinterpret_cast<Function>(dlsym(library, name));
    return out != nullptr;
  }
  bool load() {
    library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    return library != nullptr && find("ibv_get_device_list", list) &&
           find("ibv_free_device_list", free_list) && find("ibv_get_device_guid", guid) &&
           find("ibv_open_device", open) && find("ibv_close_device", close) &&
           find("ibv_alloc_pd", alloc_pd) && find("ibv_dealloc_pd", dealloc_pd) &&
           find("ibv_create_cq", create_cq) && find("ibv_destroy_cq", destroy_cq) &&
           find("ibv_create_qp", create_qp) && find("ibv_modify_qp", modify_qp) &&
           find("ibv_destroy_qp", destroy_qp) && find("ibv_reg_mr", reg_mr) &&
           find("ibv_dereg_mr", dereg_mr) && find("ibv_create_ah", create_ah) &&
           find("ibv_destroy_ah", destroy_ah) && find("ibv_query_port", query_port) &&
           find("ibv_create_comp_channel", create_channel) &&
           find("ibv_destroy_comp_channel", destroy_channel) && find("ibv_get_cq_event", get_cq_event) &&
           find("ibv_get_async_event", get_async_event);
  }
};

/// A UD queue pair that sends to itself.
struct Endpoint {
  Verbs& verbs;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_mr* mr = nullptr;
  ibv_ah* ah = nullptr;
  uint16_t lid = 0;
  std::array<char, 256> memory{};

  bool make() {
    int count = 0;
    ibv_device** devices = verbs.list(&count);
    if (devices == nullptr) return false;
    context = count == 1 ? verbs.open(devices[0]) : nullptr;
    verbs.free_list(devices);
    if (count != 1) errno = ENODEV;
    if (context == nullptr || (pd = verbs.alloc_pd(context)) == nullptr) return false;
    if ((cq = verbs.create_cq(context, 16, nullptr, nullptr, 0)) == nullptr) return false;
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    init.cap = {8, 8, 1, 1, 0};
    init.qp_type = IBV_QPT_UD;
    if ((qp = verbs.create_qp(pd, &init)) == nullptr) return false;
    if ((mr = verbs.reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE)) == nullptr)
      return false;
    return connect();
  }
  bool move(ibv_qp_state state, int mask) const {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    attr.port_num = 1;
    attr.qkey = 0x11;
    return verbs.modify_qp(qp, &attr, IBV_QP_STATE | mask) == 0;
  }
  bool connect() {
    ibv_port_attr port{};
    if (verbs.query_port(context, 1, reinterpret_cast<_compat_ibv_port_attr*>(&port)) != 0) return false;
    lid = port.lid;
    ibv_ah_attr to{};
    to.dlid = lid;
    to.port_num = 1;
    return move(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY) && move(IBV_QPS_RTR, 0) &&
           move(IBV_QPS_RTS, IBV_QP_SQ_PSN) && (ah = verbs.create_ah(pd, &to)) != nullptr;
  }
  /// Posts one message from the end of the memory to its beginning.
  bool post() {
    std::strcpy(memory.data() + 128, "hello");
    ibv_sge into{reinterpret_cast<uintptr_t>(memory.data()), 128, mr->lkey};
    ibv_sge from{reinterpret_cast<uintptr_t>(memory.data() + 128), 6, mr->lkey};
    ibv_recv_wr receive{};
    receive.sg_list = &into;
    receive.num_sge = 1;
    ibv_send_wr send{};
    send.sg_list = &from;
    send.num_sge = 1;
    send.opcode = IBV_WR_SEND;
    send.send_flags = IBV_SEND_SIGNALED;
    send.wr.ud = {ah, qp->qp_num, 0x11};
    ibv_recv_wr* bad_receive = nullptr;
    ibv_send_wr* bad_send = nullptr;
    return ibv_post_recv(qp, &receive, &bad_receive) == 0 && ibv_post_send(qp, &send, &bad_send) == 0;
  }
  bool send_to_self() {
    if (!post()) return false;
    int done = 0;
    const auto end = std::chrono::steady_clock::now() + 20s;
    for (ibv_wc entry{}; done < 2 && std::chrono::steady_clock::now() < end;) {
      if (ibv_poll_cq(cq, 1, &entry) != 1) continue;
      if (entry.status != IBV_WC_SUCCESS) return false;
      ++done;
    }
    return done == 2 && std::strcmp(memory.data() + 40, "hello") == 0;
  }
  bool end() const {
    return verbs.destroy_ah(ah) == 0 && verbs.destroy_qp(qp) == 0 && verbs.dereg_mr(mr) == 0 &&
           verbs.destroy_cq(cq) == 0 && verbs.dealloc_pd(pd) == 0 && verbs.close(context) == 0;
  }
};

/// Everything once; what a program is told of by an error is no wrong.
int plain(Verbs& verbs) {
  Endpoint endpoint{verbs};
  if (!endpoint.make()) return told("no endpoint");
  if (!endpoint.send_to_self()) return wrong("a message to itself");
  if (!endpoint.end()) return wrong("the end of its objects");
  std::printf("moved\n");
  return 0;
}

int unload(Verbs& verbs) {
  const int done = plain(verbs);
  if (done != 0) return done;
  if (dlclose(verbs.library) != 0) return wrong("dlclose()");
  std::this_thread::sleep_for(1500ms);  // threads of the library, if any are left, wake in this time
  std::printf("alive\n");
  return 0;
}

/// After `close_all` the numbers are the program's: nobody else may read, write or close them.
template <class CloseAll>
int with_descriptors_closed(Verbs& verbs, CloseAll close_all) {
  Endpoint endpoint{verbs};
  if (!endpoint.make()) return told("no endpoint");
  std::this_thread::sleep_for(100ms);
  close_all();
  constexpr size_t kPairs = 40;
  std::array<std::array<int, 2>, kPairs> ends{};
  for (auto& pair : ends)
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) return wrong("socketpair()");
  std::array<char, 64> sent{};
  for (int round = 0; round < 12; ++round) {
    for (const auto& pair : ends) {
      std::array<char, 256> got{};
      if (send(pair[0], sent.data(), sent.size(), MSG_NOSIGNAL) != 64) return wrong("own socket was closed");
      std::this_thread::sleep_for(200us);
      if (recv(pair[1], got.data(), got.size(), MSG_DONTWAIT) != 64) return wrong("bytes of an own socket");
      char one = 0;
      if (recv(pair[0], &one, 1, MSG_DONTWAIT) >= 0) return wrong("bytes that nobody has sent");
    }
    std::this_thread::sleep_for(60ms);
  }
  for (const auto& pair : ends)
    if (fcntl(pair[0], F_GETFD) < 0 || fcntl(pair[1], F_GETFD) < 0) return wrong("own socket was closed");
  std::printf("untouched\n");
  std::fflush(stdout);
  _exit(0);
}

void close_one_by_one() {
  for (int number = 3; number < 1024; ++number) close(number);
}

/// The program puts a socket of its own, by dup2(), in the place of every descriptor that is not its own, and
/// then sends to another port, for which the library has to wake the switch. Nothing may arrive at the other
/// end of the socket.
int replaced(Verbs& verbs) {
  Endpoint endpoint{verbs};
  if (!endpoint.make()) return told("no endpoint");
  if (!endpoint.send_to_self()) return wrong("a message to itself");
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return wrong("socketpair()");
  int count = 0;
  for (int number = 3; number < 100; ++number) {
    if (number == ends[0] || number == ends[1] || fcntl(number, F_GETFD) < 0) continue;
    if (dup2(ends[0], number) != number) return wrong("dup2()");
    ++count;
  }
  if (count == 0) return wrong("no number of the library");
  ibv_ah_attr away{};
  away.dlid = static_cast<uint16_t>(endpoint.lid + 1);
  away.port_num = 1;
  if ((endpoint.ah = verbs.create_ah(endpoint.pd, &away)) == nullptr) return wrong("ibv_create_ah()");
  std::this_thread::sleep_for(500ms);  // the switch sleeps
  for (int round = 0; round < 8; ++round) {
    if (!endpoint.post()) return wrong("a post");
    std::this_thread::sleep_for(60ms);
    char byte = 0;
    if (recv(ends[1], &byte, 1, MSG_DONTWAIT) >= 0) return wrong("bytes that the program has not sent");
    if (errno != EAGAIN) return wrong("own socket was closed");
  }
  for (int number = 3; number < 100; ++number)
    if (number != ends[1] && fcntl(number, F_GETFD) >= 0) close(number);
  // A thread of the library that sleeps on a number keeps the socket for as long as it sleeps.
  char byte = 0;
  for (int tries = 0; recv(ends[1], &byte, 1, MSG_DONTWAIT) != 0; ++tries) {
    if (tries == 100) return wrong("a number that the program could not close");
    std::this_thread::sleep_for(100ms);
  }
  std::printf("untouched\n");
  std::fflush(stdout);
  _exit(0);
}

/// The GUID of this process is what its own /sys says.
int own_files(Verbs& verbs) {
  int count = 0;
  ibv_device** devices = verbs.list(&count);
  if (devices == nullptr || count != 1) return told("no device");
  const uint64_t guid = be64toh(verbs.guid(devices[0]));
  std::array<char, 32> own{};
  std::array<char, 32> seen{};
  std::snprintf(own.data(), own.size(), "%04x:%04x:%04x:%04x\n", static_cast<unsigned>(guid >> 48),
                static_cast<unsigned>(guid >> 32 & 0xffff), static_cast<unsigned>(guid >> 16 & 0xffff),
                static_cast<unsigned>(guid & 0xffff));
  for (int look = 0; look < 40; ++look) {
    FILE* file = std::fopen("/sys/class/infiniband/weft0/node_guid", "r");
    if (file == nullptr) return wrong("node_guid");
    const bool read = std::fgets(seen.data(), seen.size(), file) != nullptr;
    std::fclose(file);
    if (!read || std::strcmp(own.data(), seen.data()) != 0) return wrong("the GUID of another process");
    std::this_thread::sleep_for(20ms);
  }
  return 0;
}

/// Children that are made while other threads open the device open one of their own.
int fork_at_any_moment(Verbs& verbs) {
  std::atomic<bool> done{false};
  std::thread opener([&] {
    int count = 0;
    while (!done) verbs.free_list(verbs.list(&count));
  });
  int bad = 0;
  for (int i = 0; i < 12; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      int count = 0;
      _exit(verbs.list(&count) != nullptr && count == 1 ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    bad += status != 0 ? 1 : 0;
  }
  done = true;
  opener.join();
  return bad == 0 ? 0 : wrong("children without a device");
}

/// The parent has only children that it has made itself, and a daemon has a device of its own.
int children(Verbs& verbs) {
  Endpoint endpoint{verbs};
  if (!endpoint.make()) return told("no endpoint");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (daemon(0, 1) != 0) _exit(kWrong);
    _exit(0);  // waited for by nobody
  }
  int ended = 0;
  while (waitpid(-1, nullptr, 0) > 0) ++ended;
  if (errno != ECHILD || ended != 1) return wrong("children of others");
  const pid_t other = fork();
  if (other == 0) _exit(plain(verbs));
  int status = 0;
  waitpid(other, &status, 0);
  if (status != 0) return wrong("the child's own device");
  return endpoint.send_to_self() ? 0 : wrong("the parent's device");
}

/// Runs `body` in a thread that is cancelled at once, or, if `waits`, probably while it waits. Has the
/// cancellation ended it?
template <class Body>
bool is_cancelled(Body body, bool waits) {
  struct Thread {
    Body& body;
    bool waits;
    std::atomic<bool> cancelled{false};
  } thread{body, waits};
  const auto run = [](void* argument) -> void* {
    auto& self = *static_cast<Thread*>(argument);
    if (!self.waits) self.cancelled.wait(false);
    self.body();
    pthread_testcancel();
    return nullptr;
  };
  pthread_t id{};
  if (pthread_create(&id, nullptr, run, &thread) != 0) return false;
  if (waits) std::this_thread::sleep_for(50ms);
  pthread_cancel(id);
  thread.cancelled = true;
  thread.cancelled.notify_one();
  void* result = nullptr;
  pthread_join(id, &result);
  return result == PTHREAD_CANCELED;
}

/// Threads that are cancelled end in the calls that wait for events, and no other call minds.
int cancelled(Verbs& verbs) {
  int done = kWrong;
  if (!is_cancelled([&] { done = plain(verbs); }, false)) return wrong("a thread that goes on");
  if (done != 0) return wrong("a thread that ended within a call");
  Endpoint endpoint{verbs};
  if (!endpoint.make()) return told("no endpoint");
  ibv_comp_channel* channel = verbs.create_channel(endpoint.context);
  if (channel == nullptr) return told("no channel");
  ibv_cq* cq = nullptr;
  void* user = nullptr;
  ibv_async_event event{};
  if (!is_cancelled([&] { verbs.get_cq_event(channel, &cq, &user); }, true)) return wrong("a channel's wait");
  if (!is_cancelled([&] { verbs.get_async_event(endpoint.context, &event); }, true)) return wrong("a wait");
  if (!endpoint.send_to_self()) return wrong("a message after that");
  return verbs.destroy_channel(channel) == 0 && endpoint.end() ? 0 : wrong("the end of its objects");
}

/// What a handler does to a device while other calls of its thread are interrupted.
struct Handled {
  Endpoint* endpoint = nullptr;  // its own, of the same process
  std::atomic<int> posted{0};
  std::atomic<int> refused{0};
  std::atomic<int> wrong{0};
} handled;

void handle(int /*signal*/) {
  const int before = errno;
  ibv_wc entry{};
  ibv_recv_wr receive{};
  ibv_recv_wr* bad = nullptr;
  if (ibv_poll_cq(handled.endpoint->cq, 1, &entry) != 0) ++handled.wrong;
  const int armed = ibv_req_notify_cq(handled.endpoint->cq, 0);
  if (armed != 0 && armed != EDEADLK) ++handled.wrong;
  const int error = handled.posted < 8 ? ibv_post_recv(handled.endpoint->qp, &receive, &bad) : armed;
  if (error == EDEADLK) {
    ++handled.refused;
  } else if (error == 0) {
    ++handled.posted;
  } else {
    ++handled.wrong;
  }
  errno = before;
}

/// Signal handlers poll, arm and post at any moment. A call that meets another of its thread on the device is
/// refused, and never waits for itself.
int handlers(Verbs& verbs) {
  Endpoint endpoint{verbs};
  Endpoint other{verbs};
  if (!endpoint.make() || !other.make()) return told("no endpoint");
  handled.endpoint = &other;
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 300}, {0, 300}};
  setitimer(ITIMER_REAL, &often, nullptr);
  const auto end = std::chrono::steady_clock::now() + 60s;
  int good = 0;
  while ((good < 200 || handled.refused < 5 || handled.posted < 5) && std::chrono::steady_clock::now() < end)
    good += endpoint.send_to_self() ? 1 : 0;
  setitimer(ITIMER_REAL, nullptr, nullptr);
  if (handled.wrong != 0) return wrong("a call of a handler");
  if (good < 200) return wrong("a message beside handlers");
  if (handled.refused < 5 || handled.posted < 5)
    return wrong("handlers that met calls, and handlers that met none");
  return endpoint.end() && other.end() ? 0 : wrong("the end of its objects");
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view habit = argc > 1 ? argv[1] : "plain";
  Verbs verbs;
  if (!verbs.load()) {
    std::printf("refused: %s\n", dlerror());
    return kTold;
  }
  if (habit == "plain") return plain(verbs);
  if (habit == "unload") return unload(verbs);
  if (habit == "files") return own_files(verbs);
  if (habit == "fork") return fork_at_any_moment(verbs);
  if (habit == "children") return children(verbs);
  if (habit == "cancelled") return cancelled(verbs);
  if (habit == "handlers") return handlers(verbs);
  if (habit == "closefrom") return with_descriptors_closed(verbs, [] { closefrom(3); });
  if (habit == "close_range") return with_descriptors_closed(verbs, [] { close_range(3, ~0U, 0); });
  if (habit == "close") return with_descriptors_closed(verbs, close_one_by_one);
  if (habit == "dup2") return replaced(verbs);
  if (habit == "unseen") return with_descriptors_closed(verbs, [] { syscall(SYS_close_range, 3, ~0U, 0); });
  std::printf("unknown habit\n");
  return kWrong;
}
