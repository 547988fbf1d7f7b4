// The tables of OS interfaces and NICs.
#include "node/port_kind.h"

#include <gtest/gtest.h>

namespace weft::node {
namespace {

TEST(PortKind, every_kind_has_its_word_and_no_word_is_guessed) {
  for (const auto& row : kOsKinds) {
    const std::string text = std::string(row.name) + (row.argument == PortArgument::kNone ? "" : ":x");
    const Result<OsName> os = parse_os(text);
    ASSERT_TRUE(os.ok()) << os.error().text;
    EXPECT_EQ(os.value().kind, row.kind);
    EXPECT_EQ(to_string(os.value()), text);
  }
  for (const auto& row : kNicKinds) {
    const std::string text = std::string(row.name) + (row.argument == PortArgument::kNone ? "" : ":x");
    const Result<NicName> nic = parse_nic(text);
    ASSERT_TRUE(nic.ok()) << nic.error().text;
    EXPECT_EQ(nic.value().kind, row.kind);
    EXPECT_EQ(to_string(nic.value()), text);
  }
  for (const char* text : {"", ":", "Tap:x", "tap ", "gen gen", "echo:x", "slirp:x", "unix", "packet"}) {
    EXPECT_FALSE(parse_os(text).ok()) << text;
    EXPECT_FALSE(parse_nic(text).ok()) << text;
  }
}

TEST(PortKind, rights_go_with_descriptors) {
  for (const auto& row : kOsKinds) EXPECT_EQ(row.right.empty(), row.descriptor == PortDescriptor::kNone);
  for (const auto& row : kNicKinds) EXPECT_EQ(row.right.empty(), row.descriptor == PortDescriptor::kNone);
}

TEST(PortKind, labels_are_what_people_call_a_port) {
  EXPECT_EQ(label_of(parse_os("tap:eth0").value()), "eth0");
  EXPECT_EQ(label_of(parse_os("unix:/run/q").value()), "/run/q");
  EXPECT_EQ(label_of(parse_os("gen").value()), "gen");
  EXPECT_EQ(label_of(parse_nic("packet:lan0").value()), "lan0");
  EXPECT_EQ(label_of(parse_nic("pcap:a,b").value()), "pcap");
}

TEST(PortKind, files_of_a_replay) {
  const NicName one = parse_nic("pcap:/a b").value();
  EXPECT_EQ(one.argument, "/a b");
  EXPECT_EQ(one.output, "");
  const NicName two = parse_nic("pcap:in,out,too").value();
  EXPECT_EQ(two.argument, "in");
  EXPECT_EQ(two.output, "out,too");
}

}  // namespace
}  // namespace weft::node
