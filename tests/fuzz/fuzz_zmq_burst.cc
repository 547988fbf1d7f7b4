// Bursts from a peer that knows the link's nonce: whatever stands behind it, the carrier must cut it into
// slots inside the message, and the link engine must refuse what is wrong without harm.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/endian.h"
#include "fabric/carrier/zmq_carrier.h"
#include "fabric/link/link_engine.h"
#include "tests/support/script_carrier.h"

namespace {

constexpr uint64_t kNonce = weft::fabric::kZmqNonceBit | 0x0123456789ABCDEFU;
constexpr size_t kNonceBytes = 8;

class NoWayOut final : public weft::fabric::BurstChannel {
 public:
  bool send_burst(weft::fabric::ZmqMessage& /*message*/) noexcept override { return true; }
  void pump() noexcept override {}
  void wait_fds(std::vector<pollfd>& /*out*/) const override {}
  bool quiet() noexcept override { return true; }
  bool gone() const noexcept override { return false; }
  void detach() noexcept override {}
};

/// The next message: a length byte (times four), then that many bytes; the nonce is wrong when the length is
/// odd.
weft::fabric::ZmqMessage next_message(std::span<const std::byte>& input) {
  const auto length = static_cast<uint8_t>(input.front());
  const size_t bytes = std::min<size_t>(input.size() - 1, size_t{length} * 4);
  std::vector<std::byte> burst(kNonceBytes);
  weft::store_be(burst.data(), length % 2 == 0 ? kNonce : kNonce + length);
  burst.insert(burst.end(), input.begin() + 1, input.begin() + 1 + static_cast<ptrdiff_t>(bytes));
  input = input.subspan(1 + bytes);
  weft::fabric::ZmqMessage message;
  if (!message.assign(burst)) std::abort();
  return message;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t bytes) {
  std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), bytes);
  weft::Instant now{};
  auto owned = std::make_unique<weft::fabric::ZmqCarrier>(std::make_shared<NoWayOut>(), kNonce,
                                                          weft::test::ScriptCarrier::kFlitPayloadBytes,
                                                          weft::fabric::kZmqSilenceIpc, now);
  weft::fabric::ZmqCarrier& carrier = *owned;
  weft::fabric::LinkEngine engine;
  engine.bring_up(std::move(owned), weft::test::ScriptCarrier::params(bytes % 2 == 0), now);
  while (!input.empty() && engine.state() == weft::fabric::LinkState::kUp) {
    weft::fabric::ZmqMessage message = next_message(input);
    static_cast<void>(carrier.deliver(message));
    now += std::chrono::microseconds(100);
    engine.poll(now);
    if (engine.state() != weft::fabric::LinkState::kUp) break;
    for (const weft::fabric::RxFlit& flit : engine.receive()) engine.grant(flit.vl, 1);
    engine.release();
    engine.flush(now);
  }
  return 0;
}
