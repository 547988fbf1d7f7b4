// Who is let in, and under which name everybody else is refused and counted. What needs a socket -- malformed
// and silent guests, foreign keys, floods -- is in the tests of the links.
#include "fabric/switch/admission.h"

#include <gtest/gtest.h>

#include "tests/support/reason_table.h"
#include "tests/support/script_carrier.h"

namespace weft::test {
using namespace fabric;
namespace {

struct Gate {
  Gate() : fabric(config()), admission(fabric, {{"a", Guid(0xA), Lid(1)}}) {}
  static SwitchConfig config() {
    SwitchConfig out;
    out.ports = 2;
    out.link.guid = Guid(5);
    out.link.cell_payload_bytes = 256;
    out.link.flit_payload_bytes = kFlitPayloadBytesConformance;
    return out;
  }
  static LinkHello hello() {
    LinkConfig node = config().link;
    node.guid = Guid(0xA);
    return make_hello(node, 1);
  }
  LinkRefusal admit(const LinkHello& from) {
    AdmittedLink link;
    return admission.admit(from, {}, Takeover::kRefuse, Instant{}, link);
  }
  Switch fabric;
  Admission admission;
};

struct Refusal {
  AdmissionCounter reason;
  LinkRefusal answer;
  void (*spoil)(Gate& gate, LinkHello& hello);
};

constexpr std::array kRefusals{
    Refusal{AdmissionCounter::kRefusedVersion, LinkRefusal::kVersion,
            [](Gate&, LinkHello& hello) { hello.version_min = hello.version_max = kLinkVersionMax + 1; }},
    Refusal{AdmissionCounter::kRefusedVersion, LinkRefusal::kVersion,
            [](Gate&, LinkHello& hello) { hello.kind = LinkMessageKind::kWelcome; }},
    Refusal{AdmissionCounter::kRefusedFlitPayload, LinkRefusal::kFlitPayload,
            [](Gate&, LinkHello& hello) { hello.flit_payload_bytes = 128; }},
    Refusal{AdmissionCounter::kRefusedCellPayload, LinkRefusal::kCellPayload,
            [](Gate&, LinkHello& hello) { hello.cell_payload_bytes = 512; }},
    Refusal{AdmissionCounter::kRefusedCredits, LinkRefusal::kCredits,
            [](Gate&, LinkHello& hello) { hello.credits_per_lane = 3; }},
    Refusal{AdmissionCounter::kRefusedLidTaken, LinkRefusal::kLidTaken,
            [](Gate& gate, LinkHello&) {
              gate.admission.engine(0).bring_up(std::make_unique<ScriptCarrier>(),
                                                ScriptCarrier::params(false), Instant{});
            }},
    Refusal{AdmissionCounter::kRefusedLidInvalid, LinkRefusal::kLidInvalid,
            [](Gate&, LinkHello& hello) { hello.lid = Lid(9); }},
    Refusal{AdmissionCounter::kRefusedNotAllowed, LinkRefusal::kNotAllowed,
            [](Gate&, LinkHello& hello) { hello.guid = Guid(0xB); }},
    Refusal{AdmissionCounter::kRefusedNoPort, LinkRefusal::kNoPort,
            [](Gate&, LinkHello& hello) { hello.flags = kLinkAnyPort; }},
};
// Who may have what of the spare ports: tests/protocol/fabric/spare_ports_test.cc.
static_assert(names_every_reason(kRefusals, AdmissionCounter::kRefusedVersion,
                                 AdmissionCounter::kRefusedRate));

TEST(AdmissionRefusals, each_has_its_own_counter_and_answer) {
  for (const Refusal& one : kRefusals) {
    Gate gate;
    LinkHello hello = Gate::hello();
    one.spoil(gate, hello);
    EXPECT_EQ(gate.admit(hello), one.answer);
    const auto& counters = gate.admission.counters();
    EXPECT_EQ(counters.get(one.reason), 1U) << CounterSet<AdmissionCounter>::label(one.reason);
    EXPECT_EQ(counters.get(AdmissionCounter::kHellos), 1U);
    EXPECT_EQ(counters.get(AdmissionCounter::kWelcomed), 0U);
    const LinkHello answer = gate.admission.refusal(hello, one.answer);
    EXPECT_EQ(answer.kind, LinkMessageKind::kRefuse);
    EXPECT_EQ(answer.refusal, one.answer);
  }
}

TEST(AdmissionRefusals, a_good_hello_is_welcome) {
  Gate gate;
  EXPECT_EQ(gate.admit(Gate::hello()), LinkRefusal::kNone);
  EXPECT_EQ(gate.admission.counters().get(AdmissionCounter::kWelcomed), 1U);
}

TEST(AdmissionCheck, spare_ports_may_have_the_last_lids) {
  SpareConfig spare;
  spare.ports = 4;
  const uint32_t lids = spare.lid_count();
  spare.first_lid = Lid(static_cast<uint16_t>(kLidMax - lids + 1));
  EXPECT_TRUE(Admission::check({}, 4, spare).ok());
  spare.first_lid = Lid(static_cast<uint16_t>(kLidMax - lids + 2));
  EXPECT_FALSE(Admission::check({}, 4, spare).ok());
}

}  // namespace
}  // namespace weft::test
