// The switch's answers to ZeroMQ's access requests (ZAP, RFC 27), byte by byte. Only the code in the answer
// decides, whatever the layers above would do with the node's name.
#include <gtest/gtest.h>

#include <string>

#include "fabric/switch/zap_handler.h"
#include "tests/support/requirement.h"

namespace weft::test {
using namespace fabric;
namespace {

std::string raw_key(const std::string& z85) {
  std::string raw(32, '\0');
  EXPECT_NE(zmq_z85_decode(reinterpret_cast<uint8_t*>(raw.data()), z85.c_str()), nullptr);
  return raw;
}

class Zap : public ::testing::Test {
 protected:
  Zap() {
    handler = std::move(ZapHandler::create(context, {{"a", Guid(0xA), a.public_key}}, counters).value());
    asker = std::move(ZmqSocket::create(context, ZMQ_REQ).value());
    EXPECT_TRUE(asker->connect("inproc://zeromq.zap.01").ok());
  }
  /// @return the parts of the answer; it is there at once, because both ends are in this thread
  std::vector<std::string> ask(const std::vector<std::string>& parts) {
    for (size_t i = 0; i < parts.size(); ++i) {
      ZmqMessage part;
      EXPECT_TRUE(part.assign(std::as_bytes(std::span(parts[i]))));
      EXPECT_TRUE(asker->send(part, i + 1 < parts.size()));
    }
    handler->pump(Instant{});
    std::vector<std::string> answer;
    for (bool more = true; more;) {
      ZmqMessage part;
      if (!asker->receive(part)) break;
      answer.emplace_back(reinterpret_cast<const char*>(part.bytes().data()), part.bytes().size());
      more = part.more();
    }
    return answer;
  }
  static std::vector<std::string> request(const std::string& mechanism, const std::string& key) {
    return {"1.0", "42", "", "10.0.0.1", "", mechanism, key};
  }

  const CurveKeyPair a = generate_curve_keys().value();
  CounterSet<AdmissionCounter> counters;
  std::shared_ptr<ZmqContext> context = ZmqContext::create().value();
  std::unique_ptr<ZapHandler> handler;
  std::unique_ptr<ZmqSocket> asker;
};

TEST_F(Zap, a_key_in_the_table_is_its_node) {
  covers("DECISIONS-4");
  const std::vector<std::string> expected{"1.0", "42", "200", "OK", "a", ""};
  EXPECT_EQ(ask(request("CURVE", raw_key(a.public_key))), expected);
  EXPECT_EQ(counters.get(AdmissionCounter::kUnknownKey), 0U);
}

TEST_F(Zap, everything_else_is_refused_and_counted) {
  covers("DECISIONS-4");
  const std::string key = raw_key(a.public_key);
  std::string near = key;
  near.back() = static_cast<char>(near.back() ^ 1);
  std::vector<std::string> more = request("CURVE", key);
  more.push_back("x");
  const std::vector<std::vector<std::string>> strangers{
      request("CURVE", raw_key(generate_curve_keys()->public_key)),
      request("CURVE", near),
      request("CURVE", key.substr(0, 31)),
      request("CURVE", ""),
      request("NULL", ""),
      request("NULL", key),
      request("PLAIN", key),
      {"1.0", "42", "", "10.0.0.1", "", "NULL"},
      more};
  const std::vector<std::string> refused{"1.0", "42", "400", "unknown key", "", ""};
  for (size_t i = 0; i < strangers.size(); ++i) {
    EXPECT_EQ(ask(strangers[i]), refused) << i;
    EXPECT_EQ(counters.get(AdmissionCounter::kUnknownKey), i + 1);
  }
}

}  // namespace
}  // namespace weft::test
