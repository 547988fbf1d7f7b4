#include "fabric/switch/zap_handler.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace weft::fabric {
namespace {

constexpr size_t kRequestParts = 7;  // version, request id, domain, address, identity, mechanism, credentials
constexpr size_t kCurveKeyBytes = 32;
constexpr size_t kCurveKeyText = 41;  // Z85 with its terminating zero
constexpr size_t kAddressBytesShown = 64;
constexpr int kRequestsPerPump = 16;

std::span<const std::byte> text_bytes(std::string_view text) noexcept {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace

Result<std::unique_ptr<ZapHandler>> ZapHandler::create(const std::shared_ptr<ZmqContext>& context,
                                                       std::vector<CurveAllowed> allowed,
                                                       CounterSet<AdmissionCounter>& counters) {
  Result<std::unique_ptr<ZmqSocket>> socket = ZmqSocket::create(context, ZMQ_REP);
  if (!socket) return socket.error();
  if (Status done = (*socket)->bind("inproc://zeromq.zap.01"); !done) return done.error();
  return std::unique_ptr<ZapHandler>(
      new ZapHandler(std::move(*socket), std::move(allowed), counters));  // tidy: private constructor
}

ZapHandler::ZapHandler(std::unique_ptr<ZmqSocket> socket, std::vector<CurveAllowed> allowed,
                       CounterSet<AdmissionCounter>& counters)
    : socket_(std::move(socket)), allowed_(std::move(allowed)), counters_(counters) {
  for (size_t i = 0; i < allowed_.size(); ++i) {
    std::string raw(kCurveKeyBytes, '\0');
    if (zmq_z85_decode(reinterpret_cast<uint8_t*>(raw.data()), allowed_[i].public_key.c_str()) != nullptr)
      by_key_.emplace(std::move(raw), i);
  }
}

const CurveAllowed* ZapHandler::find(std::span<const std::byte> key) const {
  const auto at = by_key_.find(std::string(reinterpret_cast<const char*>(key.data()), key.size()));
  return at == by_key_.end() ? nullptr : &allowed_[at->second];
}

void ZapHandler::answer(std::span<const std::byte> request_id, const CurveAllowed* node) noexcept {
  const std::array<std::span<const std::byte>, 6> parts{
      text_bytes("1.0"),
      request_id,
      text_bytes(node != nullptr ? "200" : "400"),
      text_bytes(node != nullptr ? "OK" : "unknown key"),
      text_bytes(node != nullptr ? std::string_view(node->name) : ""),
      {}};
  for (size_t i = 0; i < parts.size(); ++i) {
    ZmqMessage part;
    if (!part.assign(parts[i]) || !socket_->send(part, i + 1 < parts.size())) return;
  }
}

/// Address and key come from outside. Both are shown as bytes; neither is trusted as text.
void ZapHandler::refuse(std::span<const std::byte> address, std::span<const std::byte> key,
                        Instant now) noexcept {
  counters_.add(AdmissionCounter::kUnknownKey);
  if (!limiter_.allow(now)) return;
  std::array<char, kAddressBytesShown + 1> from{};
  for (size_t i = 0; i < std::min(address.size(), kAddressBytesShown); ++i) {
    const auto c = std::to_integer<unsigned char>(address[i]);
    from[i] = c > 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
  }
  std::array<uint8_t, kCurveKeyBytes> raw{};
  std::array<char, kCurveKeyText> text{};
  if (key.size() == raw.size()) {
    std::memcpy(raw.data(), key.data(), raw.size());
    zmq_z85_encode(text.data(), raw.data(), raw.size());
  }
  const std::string more = limiter_.suppressed() == 0
                               ? std::string()
                               : fmt::format("; {} more since the last such line", limiter_.suppressed());
  log(LogLevel::kWarn, "refused a connection from {}: no node has its public key '{}'{}",
      from[0] != 0 ? from.data() : "an unknown address", text.data(), more);
}

void ZapHandler::pump(Instant now) noexcept {
  for (int request = 0; request < kRequestsPerPump; ++request) {
    std::array<ZmqMessage, kRequestParts> parts;
    size_t count = 0;
    for (bool more = true; more;) {
      ZmqMessage part;
      if (!socket_->receive(part)) return;
      more = part.more();
      if (count < parts.size()) parts[count] = std::move(part);
      ++count;
    }
    const std::span<const std::byte> mechanism = parts[5].bytes();
    const std::string_view curve = "CURVE";
    const bool is_curve = count == kRequestParts && mechanism.size() == curve.size() &&
                          std::memcmp(mechanism.data(), curve.data(), curve.size()) == 0;
    const CurveAllowed* node = is_curve ? find(parts[6].bytes()) : nullptr;
    if (node == nullptr) refuse(parts[3].bytes(), parts[6].bytes(), now);
    answer(parts[1].bytes(), node);
  }
}

}  // namespace weft::fabric
