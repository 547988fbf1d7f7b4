// PUSH-DRV-01..05 and 09: the driver's parts, and the services of the messaging layer. Statements about the
// parts are checked in the sources, by the headers that one header reaches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "tests/support/requirement.h"
#include "tests/support/session_pair.h"

namespace weft::session {
namespace {

using namespace std::chrono_literals;
using namespace test;  // NOLINT(google-build-using-namespace): the test's own words
using C = SessionCounter;
namespace fs = std::filesystem;

fs::path source_root() {
  if (const char* given = std::getenv("WEFT_SOURCE")) return given;
  fs::path at = fs::current_path();
  while (!fs::exists(at / "session" / "netdev_session.h") && at.has_relative_path()) at = at.parent_path();
  return at;
}

/// The project's headers that `file` includes directly.
std::set<std::string> direct_includes(const std::string& file) {
  std::set<std::string> out;
  std::ifstream in(source_root() / file);
  EXPECT_TRUE(in.good()) << file;
  for (std::string line; std::getline(in, line);) {
    const size_t begin = line.find('"');
    if (line.rfind("#include", 0) != 0 || begin == std::string::npos) continue;
    out.insert(line.substr(begin + 1, line.find('"', begin + 1) - begin - 1));
  }
  return out;
}

/// The project's headers that `file` reaches.
std::set<std::string> reached_from(const std::string& file) {
  std::set<std::string> seen;
  std::vector<std::string> todo{file};
  while (!todo.empty()) {
    const std::string next = todo.back();
    todo.pop_back();
    for (const std::string& header : direct_includes(next)) {
      if (header.rfind("generated/", 0) == 0) continue;
      if (seen.insert(header).second) todo.push_back(header);
    }
  }
  return seen;
}

std::vector<std::string> sources_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(source_root() / folder)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() == ".cc" || entry.path().extension() == ".h")
      out.push_back(folder + "/" + name);
  }
  return out;
}

const std::set<std::string> kAdapterHeaders{"adapter/adapter.h", "adapter/verbs.h",
                                            "adapter/memory/memory_table.h", "adapter/queues/queue_pair.h",
                                            "session/session_channels.h"};

bool reaches_adapter(const std::string& file) {
  const auto reached = reached_from(file);
  return std::any_of(kAdapterHeaders.begin(), kAdapterHeaders.end(),
                     [&](const std::string& header) { return reached.count(header) != 0; });
}

bool is_main(const std::string& file) {
  return file.find("_main.") != std::string::npos;
}

TEST(PushDriver, PUSH_DRV_01_cutting_the_fabric_ends_all_contact) {
  covers("PUSH-DRV-01");
  SessionPair pair;
  EXPECT_EQ(pair.stream(0, 0, 10, 500), numbers(0, 10));
  pair.pipe.set_filter([](int, std::vector<std::byte>&) { return Verdict::kDrop; });
  pair.pipe.clear_trace();
  EXPECT_TRUE(pair.send(0, 10, 500));
  EXPECT_TRUE(pair.send(1, 10, 500));
  EXPECT_NE(pair.host().request_config({.request_class = CfgClass::kUtility, .code = 1}), 0U);
  pair.run_for(3s);
  EXPECT_TRUE(pair.receive(0).empty());
  EXPECT_EQ(pair.acceptor().sessions()[0]->front_frame(), nullptr);
  EXPECT_TRUE(pair.unit_events.requests.empty());
  EXPECT_NE(pair.host().state(), SessionState::kOpen);
  EXPECT_NE(pair.acceptor().sessions()[0]->state(), SessionState::kOpen);
  EXPECT_TRUE(pair.pipe.trace().empty());
}

TEST(PushDriver, PUSH_DRV_02_host_module_has_three_parts) {
  covers("PUSH-DRV-02");
  // The host half is made of the OS and protocol interface and the messaging layer,
  const auto half = reached_from("host_driver/host_netdev.h");
  EXPECT_EQ(half.count("base/net/frame_port.h"), 1U);
  EXPECT_EQ(half.count("session/netdev_session.h"), 1U);
  // and the channel interface to the adapter belongs to the messaging layer.
  EXPECT_TRUE(reaches_adapter("session/session_channels.cc"));
  for (const std::string& file : sources_in("host_driver")) {
    if (is_main(file)) continue;
    EXPECT_FALSE(reaches_adapter(file)) << file;
    EXPECT_EQ(reached_from(file).count("iou_driver/iou_netdev.h"), 0U) << file;
  }
}

TEST(PushDriver, PUSH_DRV_03_unit_module_has_four_parts) {
  covers("PUSH-DRV-03");
  const auto half = reached_from("iou_driver/iou_netdev.h");
  EXPECT_EQ(half.count("base/net/frame_port.h"), 1U) << "LAN interface";
  EXPECT_EQ(half.count("session/netdev_session.h"), 1U) << "messaging layer";
  EXPECT_EQ(half.count("iou_driver/nic_config_service.h"), 1U) << "what the unit's system does for the host";
  for (const std::string& file : sources_in("iou_driver")) {
    if (is_main(file)) continue;
    EXPECT_FALSE(reaches_adapter(file)) << "the adapter is the channel interface's alone: " << file;
    const bool nic = file.find("_nic.") != std::string::npos;
    for (const std::string& header : reached_from(file)) {
      const bool knows_nic =
          header.rfind("iou_driver/", 0) == 0 && header.find("_nic.h") != std::string::npos;
      EXPECT_FALSE(knows_nic && !nic) << "a NIC is the LAN interface's alone: " << file << " -> " << header;
    }
  }
}

TEST(PushDriver, PUSH_DRV_04_services_of_the_messaging_layer) {
  covers("PUSH-DRV-04");
  SessionPairOptions options;
  options.open = false;
  options.unit.session.pools = {{2048, 4}};
  options.unit.session.limits.pools_per_class = 1;
  SessionPair pair(options);
  EXPECT_EQ(pair.host().state(), SessionState::kIdle);
  pair.run_until_open();  // sets up channels and connections
  EXPECT_NE(pair.host().request_config({.request_class = CfgClass::kUtility, .code = 1}),
            0U);  // messages by Send
  pair.run(20);
  EXPECT_EQ(pair.host_events.replies.size(), 1U);
  for (uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(pair.send(0, i, 800));  // RDMA operations
  pair.run(20);
  EXPECT_TRUE(pair.host().claim_frame(1000).empty()) << "flow control: no free element, the sender is held";
  EXPECT_EQ(pair.receive(1), numbers(0, 4));
  pair.run(50);
  EXPECT_FALSE(pair.host().claim_frame(1000).empty());
  pair.host().abandon_frame();
  pair.restart_host();  // management of connections
  pair.run_until_open();
  pair.host().close();
  pair.run_for(100ms);
  EXPECT_EQ(pair.host().state(), SessionState::kIdle);
}

TEST(PushDriver, PUSH_DRV_05_the_layer_hides_queues_and_descriptors) {
  covers("PUSH-DRV-05");
  EXPECT_FALSE(reaches_adapter("session/netdev_session.h"));
  EXPECT_FALSE(reaches_adapter("host_driver/host_netdev.cc"));
  EXPECT_FALSE(reaches_adapter("iou_driver/iou_netdev.cc"));
  EXPECT_TRUE(reaches_adapter("session/endpoint.h")) << "the check itself sees adapter headers";
}

TEST(PushDriver, PUSH_DRV_09_the_transfer_model_is_exchanged_behind_one_interface) {
  covers("PUSH-DRV-09");
  for (const TransferMode mode :
       {TransferMode::kRdma, TransferMode::kSendReceive, TransferMode::kSendDataOnly}) {
    SessionPairOptions options;
    SessionPair pair(options.mode(mode));
    EXPECT_EQ(pair.host().peer().mode, mode);
    EXPECT_EQ(pair.unit().peer().mode, mode);
    EXPECT_EQ(pair.stream(0, 0, 50, 1500), numbers(0, 50));
    EXPECT_EQ(pair.stream(1, 0, 50, 1500), numbers(0, 50));
  }
}

}  // namespace
}  // namespace weft::session
