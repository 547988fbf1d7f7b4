#include "messages/window_order.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft {
namespace {

constexpr uint32_t kOrderMagic = 0x57464C54;  // "WFLT"
constexpr uint32_t kReplyMagic = 0x57464C52;  // "WFLR"
constexpr uint16_t kOrderVersion = 1;
constexpr uint64_t kTimeMax = uint64_t{1} << 62;

struct ReplyPacket {
  Be32 magic;
  Be16 version;
  Be16 rules;
  Be16 text_bytes;
  Be16 reserved;
  Be32 reserved_too;
};
static_assert(sizeof(ReplyPacket) == 16 && alignof(ReplyPacket) == 1);
/// Behind the text, once a rule.
struct RulePacket {
  WindowOrderPacket rule;
  Be64 matched;
  Be64 struck;
  Be64 left;
};
static_assert(sizeof(RulePacket) == kWindowOrderBytes + 24 && alignof(RulePacket) == 1);

[[nodiscard]] uint64_t nanoseconds(Duration time) noexcept {
  return static_cast<uint64_t>(std::max<int64_t>(time.count(), 0));
}
[[nodiscard]] Duration duration_of(const Be64& wire) noexcept {
  return Duration(static_cast<int64_t>(wire.get()));
}

[[nodiscard]] WindowOrderPacket packet_of(const WindowOrder& order) noexcept {
  const FaultRule& rule = order.rule;
  return {.magic = Be32(kOrderMagic),
          .version = Be16(kOrderVersion),
          .action = static_cast<uint8_t>(order.action),
          .kind = static_cast<uint8_t>(rule.kind),
          .id = Be32(order.id),
          .direction = static_cast<uint8_t>(rule.direction),
          .opcode = rule.opcode,
          .reserved = Be16(0),
          .chance_ppm = Be32(rule.chance_ppm),
          .every = Be32(rule.every),
          .limit = Be64(rule.limit),
          .lasts = Be64(nanoseconds(rule.lasts)),
          .delay_min = Be64(nanoseconds(rule.delay_min)),
          .delay_max = Be64(nanoseconds(rule.delay_max)),
          .up = Be64(nanoseconds(rule.up)),
          .down = Be64(nanoseconds(rule.down)),
          .seed = Be64(rule.seed),
          .lanes = Be32(rule.lanes),
          .reserved_too = Be32(0)};
}

[[nodiscard]] std::optional<WindowOrder> order_of(const WindowOrderPacket& packet) noexcept {
  const uint8_t action = packet.action;
  const bool known = action >= static_cast<uint8_t>(WindowOrderAction::kAdd) &&
                     action <= static_cast<uint8_t>(WindowOrderAction::kList) &&
                     packet.kind < kFaultKinds.size() &&
                     packet.direction <= static_cast<uint8_t>(FaultDirection::kTo);
  const bool ours = packet.magic.get() == kOrderMagic && packet.version.get() == kOrderVersion &&
                    packet.reserved.get() == 0 && packet.reserved_too.get() == 0;
  if (!known || !ours) return {};
  for (const Be64* time : {&packet.lasts, &packet.delay_min, &packet.delay_max, &packet.up, &packet.down}) {
    if (time->get() > kTimeMax) return {};
  }
  return WindowOrder{.action = static_cast<WindowOrderAction>(action),
                     .id = packet.id.get(),
                     .rule = {.kind = static_cast<FaultKind>(packet.kind),
                              .direction = static_cast<FaultDirection>(packet.direction),
                              .lanes = packet.lanes.get(),
                              .opcode = packet.opcode,
                              .chance_ppm = packet.chance_ppm.get(),
                              .every = packet.every.get(),
                              .limit = packet.limit.get(),
                              .lasts = duration_of(packet.lasts),
                              .delay_min = duration_of(packet.delay_min),
                              .delay_max = duration_of(packet.delay_max),
                              .up = duration_of(packet.up),
                              .down = duration_of(packet.down),
                              .seed = packet.seed.get()}};
}

template <typename T>
void append(std::vector<std::byte>& out, const T& packet) {
  const auto bytes = std::as_bytes(std::span(&packet, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

std::array<std::byte, kWindowOrderBytes> encode_window_order(const WindowOrder& order) noexcept {
  return std::bit_cast<std::array<std::byte, kWindowOrderBytes>>(packet_of(order));
}

std::optional<WindowOrder> decode_window_order(std::span<const std::byte> in) noexcept {
  if (in.size() != kWindowOrderBytes) return {};
  WindowOrderPacket packet;
  std::memcpy(&packet, in.data(), sizeof packet);
  return order_of(packet);
}

std::vector<std::byte> encode_window_order_reply(const WindowOrderReply& reply) {
  const size_t text = std::min(reply.error.size(), kWindowOrderTextMax);
  const size_t rules = std::min(reply.rules.size(), kWindowOrderRulesMax);
  const ReplyPacket head{.magic = Be32(kReplyMagic),
                         .version = Be16(kOrderVersion),
                         .rules = Be16(static_cast<uint16_t>(rules)),
                         .text_bytes = Be16(static_cast<uint16_t>(text)),
                         .reserved = Be16(0),
                         .reserved_too = Be32(0)};
  std::vector<std::byte> out;
  append(out, head);
  const auto words = std::as_bytes(std::span(reply.error).first(text));
  out.insert(out.end(), words.begin(), words.end());
  for (size_t i = 0; i < rules; ++i) {
    const WindowFaultState& one = reply.rules[i];
    append(out, RulePacket{.rule = packet_of({WindowOrderAction::kAdd, one.id, one.rule}),
                           .matched = Be64(one.matched),
                           .struck = Be64(one.struck),
                           .left = Be64(nanoseconds(one.left))});
  }
  return out;
}

std::optional<WindowOrderReply> decode_window_order_reply(std::span<const std::byte> in) {
  ReplyPacket head;
  if (in.size() < sizeof head) return {};
  std::memcpy(&head, in.data(), sizeof head);
  const size_t text = head.text_bytes.get();
  const size_t rules = head.rules.get();
  const bool good = head.magic.get() == kReplyMagic && head.version.get() == kOrderVersion &&
                    head.reserved.get() == 0 && head.reserved_too.get() == 0 && text <= kWindowOrderTextMax &&
                    rules <= kWindowOrderRulesMax &&
                    in.size() == sizeof head + text + rules * sizeof(RulePacket);
  if (!good) return {};
  WindowOrderReply out;
  in = in.subspan(sizeof head);
  out.error.assign(reinterpret_cast<const char*>(in.data()), text);
  for (in = in.subspan(text); !in.empty(); in = in.subspan(sizeof(RulePacket))) {
    RulePacket packet;
    std::memcpy(&packet, in.data(), sizeof packet);
    const std::optional<WindowOrder> order = order_of(packet.rule);
    if (!order || packet.left.get() > kTimeMax) return {};
    out.rules.push_back(
        {order->id, order->rule, packet.matched.get(), packet.struck.get(), duration_of(packet.left)});
  }
  return out;
}

}  // namespace weft
