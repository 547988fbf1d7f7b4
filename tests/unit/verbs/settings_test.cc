// What a program's variables make of its endnode. Each child after fork() joins the fabric by itself.
#include <errno.h>
#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/verbs/verbs_fixture.h"

namespace weft::test {
namespace {

using Variables = std::map<std::string, std::string>;

/// A child of fork() with these variables.
struct Child {
  pid_t pid = -1;
  bool has_device = false;
  std::string said;
};

Child run_child(const Variables& variables, char* program) {
  std::array<int, 2> two{};
  EXPECT_EQ(pipe(two.data()), 0);
  const UniqueFd in(two[0]);
  UniqueFd out(two[1]);
  Child child{.pid = fork()};
  if (child.pid == 0) {
    dup2(out.get(), STDERR_FILENO);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    program_invocation_short_name = program;
    int count = 0;
    static_cast<void>(ibv_get_device_list(&count));
    _exit(count);
  }
  out.reset();
  std::array<char, 256> chunk{};
  for (ssize_t got = 0; (got = read(in.get(), chunk.data(), chunk.size())) > 0;)
    child.said.append(chunk.data(), static_cast<size_t>(got));
  int status = 0;
  EXPECT_EQ(waitpid(child.pid, &status, 0), child.pid);
  EXPECT_TRUE(WIFEXITED(status));
  child.has_device = WEXITSTATUS(status) == 1;
  return child;
}

TEST(ProcessSettings, a_variable_with_a_wrong_value_is_named_and_there_is_no_device) {
  struct Mistake {
    Variables variables;
    std::string said;
  };
  const std::vector<Mistake> mistakes{
      {{{"WEFT_FABRIC", "/nowhere"}}, "WEFT_FABRIC=/nowhere: no switch has a socket in /nowhere"},
      {{{"WEFT_NODE", "a/b"}}, "WEFT_NODE: "},
      {{{"WEFT_FLAVOUR", "ib"}}, "WEFT_FLAVOUR=ib: must be infiniband or roce"},
      {{{"WEFT_STRICT_MEMORY", "2"}}, "WEFT_STRICT_MEMORY=2: must be 0 or 1"},
      {{{"WEFT_DIRECT", "yes"}}, "WEFT_DIRECT=yes: must be 0 or 1"},
      {{{"WEFT_DIRECT_FILE", "/f:2"}}, "WEFT_DIRECT_FILE=/f:2: must be PATH:SIDE"},
      {{{"WEFT_DIRECT_FILE", ":1"}}, "WEFT_DIRECT_FILE=:1: must be PATH:SIDE"},
      {{{"WEFT_IP", "10.0.0.300"}}, "WEFT_IP=10.0.0.300: "},
      {{{"WEFT_CURVE_SECRET", "/key"}}, "WEFT_CURVE_SECRET and WEFT_CURVE_SERVER must be set together"},
      {{{"WEFT_LID", "0"}}, "WEFT_LID=0: not a number from 1 to 65534"},
      {{{"WEFT_LID", "65535"}}, "WEFT_LID=65535: not a number from 1 to 65534"},
      {{{"WEFT_LID", ""}}, "WEFT_LID and WEFT_GUID must be set together"},
      {{{"WEFT_GUID", ""}}, "WEFT_LID and WEFT_GUID must be set together"},
      {{{"WEFT_GUID", ""}, {"WEFT_LID", ""}, {"WEFT_IDENTITY", "7"}},
       "WEFT_IDENTITY needs WEFT_GUID and WEFT_LID"},
      {{{"WEFT_CELL_PAYLOAD", "1"}}, "WEFT_CELL_PAYLOAD=1: not a number from "},
      {{{"WEFT_ADAPTERS", "0"}}, "WEFT_ADAPTERS=0: not a number from 1 to "},
      {{{"WEFT_ADAPTERS", "shm:/a,shm:/b,shm:/c,shm:/d"}},
       "WEFT_ADAPTERS=shm:/a,shm:/b,shm:/c,shm:/d: at most 4 adapters"},
      {{{"WEFT_SILENCE", "soon"}}, "WEFT_SILENCE: "},
  };
  std::string name = "test";
  for (const Mistake& mistake : mistakes) {
    const Child child = run_child(mistake.variables, name.data());
    EXPECT_FALSE(child.has_device) << mistake.said;
    EXPECT_NE(child.said.find("no device: " + mistake.said), std::string::npos) << child.said;
  }
}

/// The process id at its end tells processes of one program apart.
TEST(ProcessSettings, a_program_of_a_long_name_is_called_by_the_end_of_its_name) {
  const TempDir dir;
  std::string program(100, 'x');
  const Child child =
      run_child({{"WEFT_GUID", "1002"}, {"WEFT_LID", "2"}, {"WEFT_NODE_DIR", dir.path()}}, program.data());
  EXPECT_TRUE(child.has_device) << child.said;
  const std::string id = "-" + std::to_string(child.pid);
  EXPECT_TRUE(std::filesystem::exists(dir.path() + "/" + std::string(64 - id.size(), 'x') + id + ".stats"));
}

}  // namespace
}  // namespace weft::test
