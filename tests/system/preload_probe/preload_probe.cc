// A program that handles descriptors and paths as programs do, and says for each thing whether it went well.
// It knows nothing of Weft: under the preloaded object it sees a connection manager and a device.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fts.h>
#include <ftw.h>
#include <glob.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_user_cm.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" int __open_2(const char* path, int flags);  // NOLINT: what _FORTIFY_SOURCE makes of open()

namespace {

constexpr const char* kManager = "/dev/infiniband/rdma_cm";
int failures = 0;

void check(bool good, const char* what) {
  std::printf("%s %s%s%s\n", good ? "ok" : "FAILED", what, good ? "" : ": ", good ? "" : strerror(errno));
  if (!good) ++failures;
}

/// Creates an identifier by a command, as librdmacm does. -1: none.
int create_id(int channel) {
  rdma_ucm_create_id_resp made{};
  struct {
    rdma_ucm_cmd_hdr header;
    rdma_ucm_create_id body;
  } command{};
  command.header = {.cmd = RDMA_USER_CM_CMD_CREATE_ID, .in = sizeof command.body, .out = sizeof made};
  command.body.uid = 1;
  command.body.response = reinterpret_cast<uintptr_t>(&made);
  command.body.ps = RDMA_PS_TCP;
  if (write(channel, &command, sizeof command) != static_cast<ssize_t>(sizeof command)) return -1;
  return static_cast<int>(made.id);
}

int resolve(int channel, int id) {
  struct {
    rdma_ucm_cmd_hdr header;
    rdma_ucm_resolve_ip body;
  } command{};
  command.header = {.cmd = RDMA_USER_CM_CMD_RESOLVE_IP, .in = sizeof command.body, .out = 0};
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(7471);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::memcpy(&command.body.dst_addr, &to, sizeof to);
  command.body.id = static_cast<uint32_t>(id);
  command.body.timeout_ms = 2000;
  return write(channel, &command, sizeof command) > 0 ? 0 : -1;
}

bool is_device(const struct stat& seen) {
  return S_ISCHR(seen.st_mode) && seen.st_rdev == makedev(10, 58);
}

int open_manager() {
  const int channel = open(kManager, O_RDWR | O_CLOEXEC);
  if (channel < 0) check(false, "open()");
  return channel;
}

// ---- what a descriptor is --------------------

void ways_to_open() {
  const std::vector<int> opened{open(kManager, O_RDWR), open64(kManager, O_RDWR),
                                openat(AT_FDCWD, kManager, O_RDWR), openat64(AT_FDCWD, kManager, O_RDWR),
                                __open_2(kManager, O_RDWR)};
  for (const int channel : opened) {
    check(channel >= 0 && create_id(channel) >= 0, "every way to open gives a channel");
    check((fcntl(channel, F_GETFD) & FD_CLOEXEC) == 0,
          "which a program after exec() has, unless O_CLOEXEC says no");
    close(channel);
  }
  const int held = open(kManager, O_RDWR | O_CLOEXEC | O_NONBLOCK);
  check((fcntl(held, F_GETFD) & FD_CLOEXEC) != 0 && (fcntl(held, F_GETFL) & O_NONBLOCK) != 0,
        "flags of open()");
  close(held);
}

void what_it_is() {
  const int channel = open_manager();
  struct stat seen {};
  check(fstat(channel, &seen) == 0 && is_device(seen), "fstat()");
  check(fstatat(channel, "", &seen, AT_EMPTY_PATH) == 0 && is_device(seen), "fstatat() of a descriptor");
  struct statx more {};
  check(statx(channel, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more) == 0 && S_ISCHR(more.stx_mode) &&
            more.stx_rdev_major == 10 && more.stx_rdev_minor == 58,
        "statx() of a descriptor");
  close(channel);
  const int file = open("/dev/zero", O_RDWR);
  check(fstat(file, &seen) == 0 && !is_device(seen), "a number that is used again is what it is now");
  check(write(file, "x", 1) == 1, "and can be written to");
  close(file);
}

// ---- copies --------------------

void copies() {
  const int channel = open_manager();
  const int copy = dup(channel);
  const int high = fcntl(channel, F_DUPFD_CLOEXEC, 200);
  const int other = dup2(channel, 300);
  const int third = dup3(channel, 301, O_CLOEXEC);
  for (const int each : {copy, high, other, third})
    check(each >= 0 && create_id(each) >= 0, "a copy is the same channel");
  check(high >= 200, "F_DUPFD_CLOEXEC");
  close(channel);
  const int zero = open("/dev/zero", O_RDWR);
  check(zero == channel, "the first number is free");
  check(create_id(copy) >= 0 && create_id(high) >= 0, "a channel lives as long as a copy of it");
  check(write(channel, "x", 1) == 1, "the number that was its first is something else");
  close(copy);
  check(create_id(high) >= 0, "as long as any copy");
  check(dup2(zero, high) == high && write(high, "x", 1) == 1, "dup2() onto a channel replaces it");
  check(dup2(-1, other) < 0 && errno == EBADF && create_id(other) >= 0,
        "dup2() that fails leaves the channel");
  check(dup3(zero, other, O_TRUNC) < 0 && errno == EINVAL && create_id(other) >= 0, "so does dup3()");
  check(dup2(other, other) == other && create_id(other) >= 0, "dup2() onto itself changes nothing");
  check(dup3(zero, third, O_CLOEXEC) == third && write(third, "x", 1) == 1,
        "dup3() onto a channel replaces it");
  for (const int each : {other, third}) close(each);
  check(create_id(third) < 0 && errno == EBADF, "with the last copy it ends");
  close(zero);
  close(high);
}

void ranges() {
  const int channel = open_manager();
  const int copy = dup2(channel, 400);
  check(close_range(400, 500, 0) == 0 && create_id(copy) < 0, "close_range() closes copies");
  check(create_id(channel) >= 0, "and leaves others");
  check(
      close_range(static_cast<unsigned>(channel), static_cast<unsigned>(channel), CLOSE_RANGE_CLOEXEC) == 0 &&
          create_id(channel) >= 0,
      "CLOSE_RANGE_CLOEXEC closes nothing");
  check(dup2(channel, 450) == 450, "dup2()");
  close(channel);
  closefrom(450);
  check(create_id(450) < 0 && errno == EBADF, "closefrom()");
  // The library keeps a descriptor in the middle of a range.
  const auto keep = reinterpret_cast<void (*)(int, int)>(dlsym(RTLD_DEFAULT, "weft_keep_descriptor"));
  for (int descriptor = 600; descriptor <= 602; ++descriptor) dup2(STDIN_FILENO, descriptor);
  keep(601, 1);
  check(close_range(600, 602, 0) == 0 && fcntl(600, F_GETFD) < 0 && fcntl(602, F_GETFD) < 0,
        "close_range() closes both sides of a descriptor of the library");
  check(fcntl(601, F_GETFD) >= 0, "and leaves it");
  check(dup2(-1, 601) < 0 && close(601) < 0, "so does a dup2() that fails");
  check(dup2(STDIN_FILENO, 601) == 601 && close(601) == 0, "a dup2() makes its number the program's");
}

// ---- waiting --------------------

void waiting() {
  const int channel = open_manager();
  const int poller = epoll_create1(EPOLL_CLOEXEC);
  epoll_event wanted{.events = EPOLLIN, .data = {}};
  check(epoll_ctl(poller, EPOLL_CTL_ADD, channel, &wanted) == 0, "epoll_ctl()");
  pollfd one{channel, POLLIN, 0};
  check(poll(&one, 1, 0) == 0, "nothing waits yet");
  check(resolve(channel, create_id(channel)) == 0, "a question");
  check(poll(&one, 1, 10'000) == 1 && (one.revents & POLLIN) != 0, "poll()");
  fd_set set;
  FD_ZERO(&set);
  FD_SET(channel, &set);
  timeval none{};
  check(select(channel + 1, &set, nullptr, nullptr, &none) == 1, "select()");
  check(epoll_wait(poller, &wanted, 1, 0) == 1, "epoll_wait()");
  close(poller);
  close(channel);
}

/// Waits for the next event of a channel and takes it. 0, or an errno.
int take_event(int channel) {
  rdma_ucm_event_resp event{};
  struct {
    rdma_ucm_cmd_hdr header;
    rdma_ucm_get_event body;
  } command{};
  command.header = {.cmd = RDMA_USER_CM_CMD_GET_EVENT, .in = sizeof command.body, .out = sizeof event};
  command.body.response = reinterpret_cast<uintptr_t>(&event);
  return write(channel, &command, sizeof command) > 0 ? 0 : errno;
}

/// Channels of several threads at once, each with a question of its own.
void threads() {
  constexpr int kThreads = 8;
  constexpr int kRounds = 4;
  std::atomic<int> answered{0};
  std::vector<std::thread> all;
  for (int i = 0; i < kThreads; ++i) {
    all.emplace_back([&answered] {
      for (int round = 0; round < kRounds; ++round) {
        const int channel = open(kManager, O_RDWR | O_CLOEXEC);
        const int copy = dup(channel);
        if (resolve(channel, create_id(copy)) == 0 && take_event(copy) == 0) ++answered;
        close(channel);
        close(copy);
      }
    });
  }
  for (std::thread& thread : all) thread.join();
  check(answered == kThreads * kRounds, "eight threads with channels of their own");
}

/// What rping does: one thread closes the channel while another is on its way to the next event. The other
/// then waits until the process ends.
void close_beside_reader() {
  static std::atomic<bool> has_event{false};
  static std::atomic<int> ended_with{0};
  const int channel = open_manager();
  check(resolve(channel, create_id(channel)) == 0, "a question");
  std::thread([channel] {
    if (take_event(channel) != 0) ended_with = errno;
    has_event = true;
    usleep(5'000);
    const int next = take_event(channel);
    ended_with = next != 0 ? next : -1;
  }).detach();
  while (!has_event) usleep(100);
  check(close(channel) == 0, "a channel closes while a thread is on its way to the next event");
  usleep(50'000);
  check(ended_with == 0, "and that thread waits on");
}

/// A signal ends the wait for an event, unless its handler asks for the wait to go on.
void signals() {
  const int channel = open_manager();
  static std::atomic<int> came{0};
  struct sigaction action {};
  action.sa_handler = [](int) { ++came; };
  sigaction(SIGALRM, &action, nullptr);
  const itimerval often{{0, 50'000}, {0, 50'000}};
  const itimerval never{};
  setitimer(ITIMER_REAL, &often, nullptr);
  check(take_event(channel) == EINTR && came > 0, "a signal ends the wait for an event");
  action.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  std::thread later([channel] {
    const int before = came;
    while (came < before + 2) usleep(1000);
    static_cast<void>(resolve(channel, create_id(channel)));
  });
  check(take_event(channel) == 0, "with SA_RESTART it goes on");
  later.join();
  setitimer(ITIMER_REAL, &never, nullptr);
  close(channel);
}

// ---- other processes --------------------

/// Exit status of what a child does.
template <class Child>
int in_child(Child child) {
  const pid_t pid = fork();
  if (pid == 0) _exit(child());
  int status = -1;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void children() {
  const int channel = open_manager();
  check(in_child([&] { return create_id(channel) < 0 && errno == EIO ? 0 : 1; }) == 0,
        "in a child of fork() a channel is dead");
  check(in_child([&] {
          closefrom(3);
          const int own = open(kManager, O_RDWR);
          return own >= 0 && create_id(own) >= 0 ? 0 : 1;
        }) == 0,
        "and it may open its own");
  check(create_id(channel) >= 0, "which changes nothing for the parent");
  const pid_t pid = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork): what launchers do
  if (pid == 0) {
    closefrom(3);
    execl("/bin/true", "true", nullptr);
    _exit(1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  check(status == 0 && create_id(channel) >= 0, "nor does a child of vfork() that closes everything");
  char name[] = "true";
  char* words[] = {name, nullptr};
  pid_t spawned = 0;
  check(posix_spawn(&spawned, "/bin/true", nullptr, nullptr, words, nullptr) == 0 &&
            waitpid(spawned, &status, 0) == spawned && create_id(channel) >= 0,
        "posix_spawn()");
  check(in_child([] {
          if (daemon(1, 1) != 0) return 1;
          const int own = open(kManager, O_RDWR);
          return own >= 0 && create_id(own) >= 0 ? 0 : 1;
        }) == 0,
        "daemon()");
  close(channel);
}

void passed_on() {
  int ends[2];
  check(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair()");
  const int channel = open_manager();
  char byte = 'x';
  iovec data{&byte, 1};
  alignas(cmsghdr) char room[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(head), &channel, sizeof channel);
  check(sendmsg(ends[0], &message, 0) == 1 && recvmsg(ends[1], &message, 0) == 1,
        "a descriptor is passed on");
  close(ends[0]);
  close(ends[1]);
  check(create_id(channel) >= 0, "and stays a channel where it came from");
  close(channel);
}

// ---- paths --------------------

std::vector<std::string> names_in(const char* path) {
  std::vector<std::string> out;
  DIR* dir = opendir(path);
  if (dir == nullptr) return out;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] != '.') out.emplace_back(entry->d_name);
  }
  closedir(dir);
  return out;
}

void paths() {
  struct stat seen {};
  check(stat(kManager, &seen) == 0 && S_ISCHR(seen.st_mode), "stat() of the manager");
  check(stat("/dev/infiniband/uverbs0", &seen) == 0 && S_ISCHR(seen.st_mode), "stat() of the device");
  check(access(kManager, R_OK | W_OK) == 0, "access()");
  check(faccessat(AT_FDCWD, "/dev/infiniband/uverbs0", R_OK, 0) == 0, "faccessat()");
  check(names_in("/sys/class/infiniband") == std::vector<std::string>{"weft0"}, "the list of devices");
  check(names_in("/dev/infiniband").size() == 2, "the list of device nodes");
  check(lstat("/sys/class/infiniband/weft0/node_guid", &seen) == 0 && S_ISREG(seen.st_mode), "lstat()");
  char line[64] = {};
  const int at = open("/sys/class/infiniband/weft0/ports/1", O_RDONLY | O_DIRECTORY);
  const int state = openat(at, "state", O_RDONLY);
  check(state >= 0 && read(state, line, sizeof line - 1) > 0 && std::strncmp(line, "4: ACTIVE", 9) == 0,
        "openat() below a directory");
  close(state);
  close(at);
  check(chdir("/sys/class/infiniband/weft0") == 0 && access("node_type", R_OK) == 0, "chdir()");
  check(chdir("/") == 0, "and back");
  char whole[4096];
  check(realpath("/sys/class/infiniband/weft0", whole) != nullptr, "realpath()");
  for (const char* link : {"/sys/class/infiniband/weft0", "/sys/class/infiniband/weft0/device"})
    check(readlink(link, whole, sizeof whole) == -1 && errno == EINVAL, "readlink()");
  const std::string beside = std::string(whole).substr(0, std::string(whole).rfind('/')) + "_other";
  check(mkdir(beside.c_str(), 0700) == 0 && access("/sys/class/infiniband_other", F_OK) != 0,
        "a name that only begins like ours is the system's");
}

// ---- looking for paths --------------------

constexpr const char* kDevices = "/sys/class/infiniband";
constexpr const char* kPort = "/sys/class/infiniband/weft0/ports/1";

std::string line_of(const std::string& path) {
  char line[128] = {};
  FILE* file = fopen(path.c_str(), "r");
  if (file == nullptr) return {};
  if (fgets(line, sizeof line, file) == nullptr) line[0] = '\0';
  fclose(file);
  line[std::strcspn(line, "\n")] = '\0';
  return line;
}

/// What glob() or glob64() finds.
template <class Found, class Glob>
std::vector<std::string> found_by(Glob find, const char* pattern) {
  Found found{};
  std::vector<std::string> out;
  if (find(pattern, 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(reinterpret_cast<glob_t*>(&found));
  return out;
}

void patterns() {
  using Paths = std::vector<std::string>;
  check(found_by<glob_t>(glob, "/sys/class/infiniband/*") == Paths{"/sys/class/infiniband/weft0"}, "glob()");
  check(found_by<glob64_t>(glob64, "/sys/class/infiniband/*/ports/[0-9]/state") ==
            Paths{std::string(kPort) + "/state"},
        "glob64() with several wildcards");
  check(found_by<glob_t>(glob, "/dev/infiniband/*") ==
            Paths{"/dev/infiniband/rdma_cm", "/dev/infiniband/uverbs0"},
        "glob() of device nodes");
  check(found_by<glob_t>(glob, "/sys/class/infiniband/mlx*").empty(), "glob() that finds nothing");
  check(found_by<glob_t>(glob, "/proc/sel[f]") == Paths{"/proc/self"}, "glob() elsewhere");
  glob_t one{};
  check(glob("/sys/class/infiniband/*", 0, nullptr, &one) == 0 && (one.gl_flags & GLOB_ALTDIRFUNC) == 0,
        "glob() leaves the program its flags");
  globfree(&one);
  glob_t two{};
  check(glob("/sys/class/infiniband/*/node_typ?", GLOB_MARK, nullptr, &two) == 0 &&
            glob("/proc/sel[f]", GLOB_APPEND, nullptr, &two) == 0 && two.gl_pathc == 2 &&
            (two.gl_flags & GLOB_ALTDIRFUNC) == 0,
        "glob() that goes on");
  globfree(&two);
}

std::vector<std::string> walked;

int note_file(const char* path, const struct stat* /*what*/, int kind) {
  if (kind == FTW_F) walked.emplace_back(path);
  return 0;
}
int note_placed(const char* path, const struct stat* what, int kind, FTW* where) {
  if (std::strcmp(path + where->base, "ports") == 0) {  // a walk within the walk
    nftw(
        "/sys/class/infiniband_verbs/",
        [](const char* at, const struct stat*, int, FTW*) {
          walked.emplace_back(at);
          return 0;
        },
        4, FTW_PHYS);
  }
  return std::strcmp(path + where->base, "node_guid") == 0 && where->level == 2 ? note_file(path, what, kind)
                                                                                : 0;
}

bool has(const std::vector<std::string>& list, const std::string& one) {
  return std::find(list.begin(), list.end(), one) != list.end();
}

void walks() {
  walked.clear();
  check(ftw(kPort, note_file, 8) == 0 && has(walked, std::string(kPort) + "/state") &&
            has(walked, std::string(kPort) + "/gids/0"),
        "ftw()");
  walked.clear();
  check(nftw("/sys/class/infiniband//", note_placed, 8, FTW_PHYS) == 0 &&
            has(walked, "/sys/class/infiniband/weft0/node_guid") &&
            has(walked, "/sys/class/infiniband_verbs/uverbs0/ibdev") &&
            has(walked, "/sys/class/infiniband_verbs"),
        "nftw(), and one within");
  walked.clear();
  check(nftw("/proc/self/net/", note_placed, 8, FTW_PHYS) == 0 && walked.empty(), "nftw() elsewhere");
  char root[] = "/sys/class/infiniband";
  char other[] = "/proc/self/net/unix";
  char* roots[] = {root, other, nullptr};
  FTS* tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, nullptr);
  std::string guid;
  bool both = false;
  while (FTSENT* entry = tree != nullptr ? fts_read(tree) : nullptr) {
    if (std::strcmp(entry->fts_name, "node_guid") == 0) guid = line_of(entry->fts_accpath);
    both = both || std::strcmp(entry->fts_path, other) == 0;
  }
  if (tree != nullptr) fts_close(tree);
  check(guid.size() == 19 && guid == line_of("/sys/class/infiniband/weft0/node_guid") && both, "fts_open()");
}

void lists() {
  dirent** list = nullptr;
  int count = scandir(
      kDevices, &list, [](const dirent* one) { return one->d_name[0] == '.' ? 0 : 1; }, alphasort);
  check(count == 1 && std::strcmp(list[0]->d_name, "weft0") == 0, "scandir()");
  count = scandirat(
      AT_FDCWD, kPort, &list, [](const dirent* one) { return one->d_name[0] == '.' ? 0 : 1; }, alphasort);
  check(count > 8 && std::strcmp(list[0]->d_name, "cap_mask") == 0, "scandirat()");
  char* whole = canonicalize_file_name("/sys/class/infiniband/weft0/../weft0");
  check(whole != nullptr && std::string(whole).ends_with("/class/infiniband/weft0"),
        "canonicalize_file_name()");
  std::free(whole);
  FILE* file = std::fopen("/dev/null", "r");
  file = std::freopen("/sys/class/infiniband/weft0/node_type", "r", file);
  char line[16] = {};
  check(
      file != nullptr && std::fgets(line, sizeof line, file) != nullptr && std::strcmp(line, "1: CA\n") == 0,
      "freopen()");
  if (file != nullptr) std::fclose(file);
}

// ---- what passes the port --------------------

/// Of the moment: the files are made anew when they are older than 20 ms.
uint64_t counter(const char* name, const char* port = kPort) {
  usleep(30'000);
  const std::string line = line_of(std::string(port) + "/counters/" + name);
  return line.empty() ? ~uint64_t{0} : std::strtoull(line.c_str(), nullptr, 10);
}

/// A question for an address goes out as datagrams of 256 bytes, each one cell, again and again until
/// somebody answers, which is ourselves.
void port_counters() {
  const uint64_t packets = counter("port_xmit_packets");
  const uint64_t words = counter("port_xmit_data");
  const uint64_t read = counter("port_rcv_data");
  const int channel = open_manager();
  check(resolve(channel, create_id(channel)) == 0, "a question");
  pollfd one{channel, POLLIN, 0};
  check(poll(&one, 1, 10'000) == 1, "and its answer");
  const uint64_t more = counter("port_xmit_packets") - packets;
  const uint64_t bytes = 4 * (counter("port_xmit_data") - words);
  check(more > 0 && bytes >= more * 264 && bytes <= more * 400, "packets and bytes that were sent");
  check(counter("port_rcv_data") >= read && counter("port_rcv_errors") == 0, "and what came");
  close(channel);
}

/// Of a process with two ports, which asks by the first one.
void idle_port() {
  constexpr const char* kIdle = "/sys/class/infiniband/weft0/ports/2";
  check(line_of(std::string(kIdle) + "/state") == "4: ACTIVE", "a second port");
  check(counter("port_xmit_packets") > 0, "the first one has sent");
  check(counter("port_xmit_packets", kIdle) == 0 && counter("port_xmit_data", kIdle) == 0,
        "and the second one nothing");
  check(line_of(std::string(kIdle) + "/hw_counters/cells_sent") == "0", "by its own name, too");
}

/// Libraries that are loaded late find the same functions.
void symbols() {
  const auto by_name = reinterpret_cast<int (*)(const char*, int, ...)>(dlsym(RTLD_DEFAULT, "open"));
  const int channel = by_name(kManager, O_RDWR);
  check(channel >= 0 && create_id(channel) >= 0, "open() by dlsym()");
  close(channel);
  void* verbs = dlopen("libibverbs.so.1", RTLD_NOW);
  check(verbs != nullptr && dlvsym(verbs, "ibv_open_device", "IBVERBS_1.1") != nullptr,
        "dlvsym() in libibverbs");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "two-ports") == 0) {
    port_counters();
    idle_port();
    return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  ways_to_open();
  what_it_is();
  copies();
  ranges();
  waiting();
  threads();
  close_beside_reader();
  signals();
  children();
  passed_on();
  paths();
  patterns();
  walks();
  lists();
  port_counters();
  symbols();
  return failures == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
