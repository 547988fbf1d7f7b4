// SAN-LAYER-01 in the sources: the includes of a layer are what it knows of other layers. scripts/tidy
// refuses a
// wrong include in every folder; this test records the rule for the network and the link layer.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/support/requirement.h"

namespace weft::test {
namespace {

/// The project's headers that a folder's sources include, as "fabric/link/x.cc: base/y.h".
std::vector<std::string> includes_of(const std::string& folder) {
  const std::filesystem::path root = WEFT_SOURCE_DIR;
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(root / folder)) {
    const std::string extension = entry.path().extension();
    if (extension != ".h" && extension != ".cc") continue;
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("#include \"")) continue;
      const size_t begin = line.find('"') + 1;
      out.push_back(folder + "/" + entry.path().filename().string() + ": " +
                    line.substr(begin, line.rfind('"') - begin));
    }
  }
  return out;
}

std::vector<std::string> outside(const std::string& folder, const std::vector<std::string>& allowed) {
  std::vector<std::string> strays;
  for (const std::string& include : includes_of(folder)) {
    const std::string header = include.substr(include.find(": ") + 2);
    const auto fits = [&header](const std::string& prefix) { return header.starts_with(prefix); };
    if (std::none_of(allowed.begin(), allowed.end(), fits)) strays.push_back(include);
  }
  return strays;
}

using Strays = std::vector<std::string>;

TEST(SanLayer, SAN_LAYER_01_links_and_switches_know_no_transport) {
  covers("SAN-LAYER-01");
  ASSERT_GT(includes_of("fabric/link").size(), 20U) << "the sources are there to be looked at";
  EXPECT_EQ(outside("fabric/link", {"base/", "messages/", "fabric/link/", "fabric/carrier/"}), Strays{});
  EXPECT_EQ(outside("fabric/carrier", {"base/", "messages/", "fabric/link/", "fabric/carrier/"}), Strays{});
  EXPECT_EQ(outside("fabric/switch", {"base/", "messages/", "fabric/link/", "fabric/carrier/",
                                      "fabric/switch/", "control/", "node/"}),
            Strays{});
}

/// Only the code that opens a connection by name (shm:, ipc://, tcp://) knows the kinds of carriers.
TEST(SanLayer, SAN_LAYER_01_the_link_layer_does_not_know_how_bits_are_transmitted) {
  covers("SAN-LAYER-01");
  Strays knowing;
  for (const std::string& stray : outside("fabric/link", {"base/", "messages/", "fabric/link/"})) {
    if (!stray.starts_with("fabric/carrier/link_connect.cc: ")) knowing.push_back(stray);
  }
  EXPECT_EQ(knowing, Strays{});
}

}  // namespace
}  // namespace weft::test
