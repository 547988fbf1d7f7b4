// A process that keeps the contract between the launcher and its children and does nothing else: it answers
// on its control endpoint, ends on SIGTERM and when its parent goes. Tests of the launcher run it under the
// names of the programs, so that they do not depend on the fabric. Behaviour by environment:
//   STAND_IN_FAIL=NAME        that node exits 1 at once, with a complaint
//   STAND_IN_NEVER_READY=NAME that node never says that it is ready
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/clock.h"
#include "control/control_server.h"

namespace {

volatile sig_atomic_t stopped = 0;

class Handler final : public weft::control::ControlHandler {
 public:
  explicit Handler(std::string name) : name_(std::move(name)) {}
  [[nodiscard]] weft::control::NodeInfo info() override {
    weft::control::NodeInfo info;
    info.name = name_;
    info.pid = static_cast<uint32_t>(getpid());
    info.ready = !named_by("STAND_IN_NEVER_READY");
    info.state = info.ready ? "open" : "connecting";
    info.fault = info.ready ? "" : "switch refused: version";
    return info;
  }
  [[nodiscard]] bool named_by(const char* variable) const {
    const char* value = std::getenv(variable);
    return value != nullptr && name_ == value;
  }

 private:
  std::string name_;
};

std::string option(int argc, char** argv, const char* name) {
  for (int i = 1; i + 1 < argc; ++i)
    if (std::strcmp(argv[i], name) == 0) return argv[i + 1];
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = option(argc, argv, "--name");
  const int parent = std::atoi(option(argc, argv, "--parent-fd").c_str());
  Handler handler(name);
  if (handler.named_by("STAND_IN_FAIL")) {
    std::fputs("stand-in: told to fail\n", stderr);
    return 1;
  }
  signal(SIGTERM, [](int) { stopped = 1; });
  auto server =
      weft::control::ControlServer::open(option(argc, argv, "--dir") + "/" + name + ".ctl", handler);
  if (!server.ok()) {
    std::fprintf(stderr, "stand-in: %s\n", server.error().text.c_str());
    return 1;
  }
  while (stopped == 0) {
    pollfd end{parent, POLLIN, 0};
    if (poll(&end, 1, 2) > 0) break;
    server.value()->poll(weft::MonotonicClock().now());
  }
  return 0;
}
