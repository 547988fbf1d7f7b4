#include "bench/support/fabric_rig.h"

#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdlib>

#include "base/check.h"
#include "base/log.h"
#include "base/loop_runner.h"
#include "fabric/carrier/link_connect.h"

namespace weft::bench {
namespace {

constexpr double kStartSeconds = 5;

/// Path of weft-switch: build/TYPE/bench/PROGRAM -> build/TYPE/bin/weft-switch.
std::string switch_program() {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path() / "bin" / "weft-switch")
      .string();
}

std::filesystem::path make_directory() {
  std::string name = (std::filesystem::temp_directory_path() / "weft-bench-XXXXXX").string();
  WEFT_CHECK(mkdtemp(name.data()) != nullptr, "cannot make a temporary directory");
  return name;
}

Guid guid_of(Lid lid) {
  return Guid(lid.value() + 1U);
}

}  // namespace

void add_rig_options(boost::program_options::options_description& known, RigConfig& config) {
  namespace po = boost::program_options;
  known.add_options()("payload",
                      po::value(&config.cell_payload_bytes)->default_value(config.cell_payload_bytes),
                      "payload bytes of a cell");
  known.add_options()("credits", po::value(&config.credits)->default_value(config.credits), "per lane");
  known.add_options()("link", po::value(&config.link)->default_value(config.link), "shm or zmq (over ipc)");
  known.add_options()("host-core", po::value(&config.host_core)->default_value(config.host_core),
                      "core; -1 = any");
  known.add_options()("switch-core", po::value(&config.switch_core)->default_value(config.switch_core),
                      "core; -1 = any");
  known.add_options()("unit-core", po::value(&config.unit_core)->default_value(config.unit_core),
                      "core; -1 = any");
  known.add_options()("zmq-core", po::value(&config.zmq_core)->default_value(config.zmq_core),
                      "core of ZeroMQ's threads; -1 = any");
}

Fabric::Fabric(const RigConfig& config) : config_(config), directory_(make_directory()) {
  log_setup("bench", LogLevel::kWarn);
  WEFT_CHECK(config.link == "shm" || config.link == "zmq", "--link is shm or zmq");
  std::vector<std::string> arguments{switch_program()};
  const auto option = [&arguments](const char* name, const std::string& value) {
    arguments.insert(arguments.end(), {name, value});
  };
  option("--name", "sw");
  option("--dir", directory_.string());
  option("--log-level", "warn");
  option("--guid", "1");
  option("--node", "host=2:1");
  option("--node", "unit=3:2");
  option("--cell-payload", std::to_string(config.cell_payload_bytes));
  option("--credits", std::to_string(config.credits));
  if (config.link == "zmq") option("--listen", endpoint());
  if (config.switch_core >= 0) option("--core", std::to_string(config.switch_core));
  switch_.exec(arguments, config.zmq_core);
  const std::filesystem::path socket = directory_ / (config.link == "zmq" ? "fabric.ipc" : "sw.sock");
  const double deadline = seconds_now() + kStartSeconds;
  while (!std::filesystem::exists(socket)) {
    WEFT_CHECK(seconds_now() < deadline, "weft-switch does not listen");
    usleep(10'000);
  }
}

Fabric::~Fabric() {
  switch_.stop();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

std::string Fabric::endpoint() const {
  return config_.link == "zmq" ? "ipc://" + (directory_ / "fabric.ipc").string()
                               : "shm:" + (directory_ / "sw.sock").string();
}

class Endnode::Core {
 public:
  Core(const Fabric& fabric, Lid lid) : connection(connect(fabric, lid, random)), port(connection->link()) {}

  void sleep(Instant due) noexcept {
    if (port.prepare_sleep()) {
      fds.clear();
      port.wait_fds(fds);
      const Instant at = std::min({due, port.deadline(), now() + std::chrono::milliseconds(1)});
      const timespec wait{0, std::max<int64_t>((at - now()).count(), 0)};
      (void)ppoll(fds.data(), fds.size(), &wait, nullptr);
    }
    port.finish_sleep();
  }

  static std::unique_ptr<fabric::LinkConnection> connect(const Fabric& fabric, Lid lid,
                                                         RandomSource& random) {
    fabric::LinkEndpointConfig config;
    config.link.guid = guid_of(lid);
    config.link.lid = lid;
    config.link.cell_payload_bytes = fabric.config().cell_payload_bytes;
    config.link.credits_per_lane = fabric.config().credits;
    config.endpoint = fabric.endpoint();
    return fabric::connect_link(config, random).value();
  }

  Instant idle_from = kNever;
  std::vector<pollfd> fds;
  SystemRandom random;
  std::unique_ptr<fabric::LinkConnection> connection;
  fabric::LinkCellPort port;
};

Endnode::Endnode(const Fabric& fabric, Lid lid) {
  const RigConfig& config = fabric.config();
  pin_to_core(config.zmq_core);  // ZeroMQ's threads start with the link and inherit this core
  core_ = std::make_unique<Core>(fabric, lid);
  pin_to_core(lid == kHostLid ? config.host_core : config.unit_core);
}
Endnode::~Endnode() = default;

void Endnode::wait_up() {
  const double deadline = seconds_now() + kStartSeconds;
  while (!core_->port.up()) {
    WEFT_CHECK(seconds_now() < deadline, "the link does not come up");
    core_->port.poll(now());
    usleep(1'000);
  }
}

void Endnode::end_turn(uint32_t work, Instant due) noexcept {
  if (work != 0) {
    core_->idle_from = kNever;
    return;
  }
  const Instant at = now();
  if (core_->idle_from == kNever) core_->idle_from = at;
  if (at - core_->idle_from >= LoopConfig{}.spin.spin) {
    core_->sleep(due);
  } else {
    yield_core();
  }
}

double Endnode::flits_per_burst() const noexcept {
  const auto& counters = core_->connection->link().counters();
  return static_cast<double>(counters.get(fabric::LinkCounter::kFlitsSent)) /
         static_cast<double>(std::max<uint64_t>(counters.get(fabric::LinkCounter::kBurstsSent), 1));
}

fabric::CellPort& Endnode::port() noexcept {
  return core_->port;
}

}  // namespace weft::bench
