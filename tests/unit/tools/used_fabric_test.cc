// What weft run rests on: the door of a fabric that ends with its last user, names that stay, which programs
// our libraries reach, and the environment they come by.
#include "tools/launch/used_fabric.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "control/control_server.h"
#include "fabric/link/limits.h"
#include "tests/support/state_dir_fixture.h"
#include "tools/launch/fabric_users.h"
#include "tools/launch/node_names.h"
#include "tools/launch/program_check.h"
#include "tools/launch/run_environment.h"

namespace weft::tools {
namespace {

class UsedFabricTest : public test::StateDirFixture {
 protected:
  void SetUp() override {
    StateDirFixture::SetUp();
    record_.ends_unused = true;
  }
  RunRecord record_;
  SpareRecord spare_{"s1", 4, 1000, 64};
};

TEST_F(UsedFabricTest, a_fabric_ends_with_its_last_user_and_then_lets_nobody_in) {
  const StateDir dir = StateDir::create("f").value();
  UniqueFd use;
  EXPECT_EQ(enter_fabric(dir, record_, use), UserEntry::kEnding) << "there is no door yet";
  FabricUsers users = FabricUsers::create(dir).value();
  ASSERT_EQ(enter_fabric(dir, record_, use), UserEntry::kJoined);
  UniqueFd other;
  ASSERT_EQ(enter_fabric(dir, record_, other), UserEntry::kJoined);
  EXPECT_FALSE(users.end_if_unused());
  use.reset();
  EXPECT_FALSE(users.end_if_unused());
  ASSERT_EQ(enter_fabric(dir, record_, use), UserEntry::kJoined) << "the door is open again";
  use.reset();
  other.reset();
  EXPECT_TRUE(users.end_if_unused());
  EXPECT_EQ(enter_fabric(dir, record_, use), UserEntry::kEnding);
  record_.ends_unused = false;
  EXPECT_EQ(enter_fabric(dir, record_, use), UserEntry::kNoDoor);
}

TEST_F(UsedFabricTest, a_name_has_the_same_identity_every_time) {
  const StateDir dir = StateDir::create("f").value();
  const NodeIdentity alice = node_identity(dir, record_, spare_, "alice").value();
  const NodeIdentity bob = node_identity(dir, record_, spare_, "bob").value();
  EXPECT_NE(alice.guid, bob.guid);
  EXPECT_NE(alice.lid, bob.lid);
  EXPECT_NE(alice.secret, bob.secret);
  EXPECT_GE(alice.lid.value(), 1000 + fabric::anonymous_lids(spare_.lids))
      << "one that no other endnode gets";
  EXPECT_LT(alice.lid.value(), 1000 + spare_.lids);
  const NodeIdentity again = node_identity(dir, record_, spare_, "alice").value();
  EXPECT_EQ(again.guid, alice.guid);
  EXPECT_EQ(again.lid, alice.lid);
  EXPECT_EQ(again.secret, alice.secret);
  struct stat info {};
  ASSERT_EQ(stat(dir.file("names").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 077, 0U) << "it holds secrets";
  record_.processes.push_back({"h1", "weft-host", 1, 1, 0});
  EXPECT_FALSE(node_identity(dir, record_, spare_, "h1").ok());
  EXPECT_FALSE(node_identity(dir, record_, spare_, "a/b").ok());
}

TEST_F(UsedFabricTest, names_end_with_their_lids) {
  const StateDir dir = StateDir::create("f").value();
  const uint32_t names = spare_.lids - fabric::anonymous_lids(spare_.lids);
  for (uint32_t i = 0; i < names; ++i)
    ASSERT_TRUE(node_identity(dir, record_, spare_, "n" + std::to_string(i)).ok()) << i;
  EXPECT_FALSE(node_identity(dir, record_, spare_, "late").ok());
  EXPECT_TRUE(node_identity(dir, record_, spare_, "n0").ok());
}

/// A program of its own making: header, and one segment of a type.
std::string image(unsigned char bits, uint16_t machine, uint32_t segment) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = bits;
  header.e_type = ET_DYN;
  header.e_machine = machine;
  header.e_phoff = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 1;
  Elf64_Phdr part{};
  part.p_type = segment;
  std::string out(sizeof header + sizeof part, '\0');
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, &part, sizeof part);
  return out;
}

TEST_F(UsedFabricTest, programs_that_no_library_reaches_are_told_apart) {
  const auto reason_of = [&](const std::string& content, mode_t mode = 0755) {
    const std::string path = base_ + "/program";
    std::ofstream(path, std::ios::trunc) << content;
    chmod(path.c_str(), mode);
    return unserved_reason(path);
  };
  Elf64_Ehdr own{};
  std::ifstream("/proc/self/exe").read(reinterpret_cast<char*>(&own), sizeof own);
  EXPECT_EQ(reason_of(image(ELFCLASS64, own.e_machine, PT_INTERP)), "");
  EXPECT_EQ(reason_of(image(ELFCLASS64, own.e_machine, PT_LOAD)), "is statically linked");
  EXPECT_EQ(reason_of(image(ELFCLASS32, own.e_machine, PT_INTERP)), "is a 32-bit program");
  EXPECT_EQ(reason_of(image(ELFCLASS64, EM_68K, PT_INTERP)), "is a program of another architecture");
  EXPECT_EQ(unserved_reason("/proc/self/exe"), "");
  EXPECT_EQ(reason_of("#!/bin/sh\n"), "");
  EXPECT_EQ(reason_of("a text"), "");
  EXPECT_EQ(reason_of(""), "");
  EXPECT_EQ(unserved_reason(base_ + "/none"), "");
  const std::string inner = base_ + "/inner";
  std::ofstream(inner) << image(ELFCLASS64, own.e_machine, PT_LOAD);
  EXPECT_EQ(reason_of("#! " + inner + " -x\n"), "is statically linked (its interpreter " + inner + ")");
}

TEST_F(UsedFabricTest, the_environment_names_this_fabric_and_no_other) {
  const StateDir dir = StateDir::create("f").value();
  record_.cell_payload = 1024;
  const ProgramLibraries libraries{"/l/verbs", "/l/preload.so"};
  std::map<std::string, std::string> present{{"LD_LIBRARY_PATH", "/x:/l/verbs:/y"},
                                             {"LD_PRELOAD", "/z.so /l/preload.so"}};
  const auto look = [&present](const char* name) { return present[name]; };
  Environment set = run_environment({dir, record_, spare_}, {}, libraries, look);
  EXPECT_EQ(set["WEFT_FABRIC"], "shm:" + dir.path() + "/s1.sock");
  EXPECT_EQ(set["WEFT_CELL_PAYLOAD"], "1024");
  EXPECT_EQ(set["LD_LIBRARY_PATH"], "/l/verbs:/x:/y");
  EXPECT_EQ(set["LD_PRELOAD"], "/l/preload.so:/z.so");
  for (const char* name : {"WEFT_NODE", "WEFT_GUID", "WEFT_LID", "WEFT_IDENTITY", "WEFT_CURVE_SECRET"}) {
    ASSERT_TRUE(set.contains(name));
    EXPECT_FALSE(set[name].has_value()) << "of a program around this one";
  }
  present.clear();
  set = run_environment({dir, record_, spare_}, {"alice", NodeIdentity{Guid(0xAB), 0xCD, Lid(7)}}, libraries,
                        look);
  EXPECT_EQ(set["WEFT_NODE"], "alice");
  EXPECT_EQ(set["WEFT_GUID"], "00000000000000ab");
  EXPECT_EQ(set["WEFT_IDENTITY"], "00000000000000cd");
  EXPECT_EQ(set["WEFT_LID"], "7");
  EXPECT_EQ(set["LD_LIBRARY_PATH"], "/l/verbs");
}

TEST_F(UsedFabricTest, options_of_sanitizers_stay_and_get_ours_behind_them) {
  const ProgramLibraries libraries{"/l/verbs", "", "/s"};
  std::map<std::string, std::string> present;
  const auto look = [&present](const char* name) { return present[name]; };
  Environment set = sanitizer_environment(libraries, look);
  EXPECT_EQ(set["ASAN_OPTIONS"], "verify_asan_link_order=0");
  EXPECT_EQ(set["TSAN_OPTIONS"], "suppressions=/s/tsan.supp");
  EXPECT_EQ(set["VALGRIND_OPTS"], "--suppressions=/s/valgrind.supp");
  present = {{"ASAN_OPTIONS", "halt_on_error=0"},
             {"TSAN_OPTIONS", "suppressions=/mine"},
             {"VALGRIND_OPTS", "-q --suppressions=/mine"}};
  set = sanitizer_environment(libraries, look);
  EXPECT_EQ(set["ASAN_OPTIONS"], "halt_on_error=0:verify_asan_link_order=0");
  EXPECT_EQ(set["TSAN_OPTIONS"], "suppressions=/mine") << "there is one file only";
  EXPECT_EQ(set["VALGRIND_OPTS"], "-q --suppressions=/mine --suppressions=/s/valgrind.supp");
  for (const auto& [name, value] : set) present[name] = *value;
  EXPECT_EQ(sanitizer_environment(libraries, look), set) << "a program around this one";
  EXPECT_EQ(sanitizer_environment({"/l/verbs", "", ""}, look).count("TSAN_OPTIONS"), 0);
}

TEST_F(UsedFabricTest, a_shell_says_in_its_prompt_where_it_is) {
  std::map<std::string, std::string> present;
  const auto look = [&present](const char* name) { return present[name]; };
  Environment set = prompt_environment("default", look);
  EXPECT_EQ(set["WEFT_SHELL"], "default");
  EXPECT_EQ(set["PS1"], "(default) $ ");
  for (const auto& [name, value] : set) present[name] = *value;
  EXPECT_EQ(prompt_environment("default", look), set) << "a shell around this one";
  present = {{"PS1", "# "}, {"PROMPT_COMMAND", "date"}};
  set = prompt_environment("alice@mine", look);
  EXPECT_EQ(set["PS1"], "(alice@mine) # ");
  EXPECT_EQ(set["PROMPT_COMMAND"].value().substr(0, 6), "date; ");
}

/// The control endpoints of switches with free spare ports. A port that is up counts for none.
class Switches {
 public:
  Switches(const StateDir& dir, const std::vector<std::pair<std::string, uint32_t>>& free) {
    for (const auto& [name, ports] : free) {
      handlers_.push_back(std::make_unique<Handler>(ports));
      servers_.push_back(
          std::move(control::ControlServer::open(dir.file(name + ".ctl"), *handlers_.back()).value()));
    }
    thread_ = std::thread([this] {
      while (!stop_) {
        for (const auto& server : servers_) server->poll(MonotonicClock().now());
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    });
  }
  ~Switches() {
    stop_ = true;
    thread_.join();
  }
  Switches(const Switches&) = delete;
  Switches& operator=(const Switches&) = delete;

 private:
  struct Handler final : control::ControlHandler {
    explicit Handler(uint32_t ports) : free(ports) {}
    [[nodiscard]] control::NodeInfo info() override {
      control::NodeInfo out;
      out.ready = true;
      out.ports.resize(8);
      for (uint32_t i = 0; i < out.ports.size(); ++i) out.ports[i].peer = i < free ? "spare" : "guest 1";
      return out;
    }
    uint32_t free;
  };
  std::vector<std::unique_ptr<Handler>> handlers_;
  std::vector<std::unique_ptr<control::ControlServer>> servers_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

TEST_F(UsedFabricTest, a_program_that_names_no_switch_joins_the_one_with_most_free_ports) {
  const StateDir dir = StateDir::create("f").value();
  for (const char* name : {"s1", "s2", "s3"}) record_.spare.push_back({name, 8, 1000, 64});
  const auto joined = [&] { return spare_switch(dir, record_, {}).value().node; };
  {
    const Switches switches(dir, {{"s1", 2}, {"s2", 5}, {"s3", 3}});
    EXPECT_EQ(joined(), "s2");
  }
  {
    const Switches switches(dir, {{"s1", 4}, {"s2", 4}, {"s3", 1}});
    EXPECT_EQ(joined(), "s1") << "the first of equals";
  }
  const Switches switches(dir, {{"s2", 5}, {"s3", 3}});
  EXPECT_EQ(joined(), "s1") << "one does not answer: the first";
}

TEST_F(UsedFabricTest, several_adapters_join_switches_in_turn) {
  const StateDir dir = StateDir::create("f").value();
  record_.spare = {spare_, {"s2", 4, 2000, 64}, {"s3", 4, 3000, 64}};
  const auto value = [&](const std::string& wish, uint32_t adapters) {
    auto switches = spare_switches(dir, record_, {wish, ""}, adapters);
    return switches.ok() ? switches->front().node + " " + adapters_value(dir, *switches, adapters)
                         : std::string();
  };
  const auto at = [&](const std::string& node) { return "shm:" + dir.file(node + ".sock"); };
  EXPECT_EQ(value("s2", 3), "s2 3") << "all at the one that is named";
  EXPECT_EQ(value("s3,s1", 2), "s3 " + at("s1"));
  EXPECT_EQ(value("s3,s1", 4), "s3 " + at("s1") + "," + at("s3") + "," + at("s1"));
  EXPECT_EQ(value("s3,s1", 1), "") << "one adapter joins one switch";
  EXPECT_EQ(value("s3,s4", 2), "");
  record_.spare.pop_back();
  EXPECT_EQ(value("", 1), "s1 1");
  EXPECT_EQ(value("", 3), "s1 " + at("s2") + "," + at("s1"));
}

}  // namespace
}  // namespace weft::tools
