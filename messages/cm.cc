#include "messages/cm.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/check.h"
#include "base/endian.h"

namespace weft {

namespace {

struct CmHeaderWire {
  Be16 kind;
  Be16 version;
  Be32 zero;
  Be64 nonce;
};
static_assert(sizeof(CmHeaderWire) == 16 && offsetof(CmHeaderWire, nonce) == 8);

struct CmOfferWire {
  Be16 version_min;
  Be16 version_max;
  uint8_t encoding;
  uint8_t mode;
  uint8_t idata_format;
  uint8_t channels;
  Be32 control_qpn;
  Be32 control_psn;
  Be32 data_qpn;
  Be32 data_psn;
  Be32 frame_bytes_max;
  Be32 features;
  uint8_t mac[6];
  Be16 zero;
  Be32 packet_bytes;
  Be32 message_bytes;
  std::byte reserved[16];
};
static_assert(sizeof(CmOfferWire) == 64 && alignof(CmOfferWire) == 1);
static_assert(offsetof(CmOfferWire, control_qpn) == 8 && offsetof(CmOfferWire, frame_bytes_max) == 24 &&
              offsetof(CmOfferWire, mac) == 32 && offsetof(CmOfferWire, packet_bytes) == 40 &&
              offsetof(CmOfferWire, reserved) == 48);

struct CmRejWire {
  Be16 reason;
  Be16 version_min;
  Be16 version_max;
  Be16 zero;
};
static_assert(sizeof(CmRejWire) == 8);
static_assert(sizeof(CmHeaderWire) + sizeof(CmOfferWire) <= kCmBytesMax);

template <class T>
T get(std::span<const std::byte> from) noexcept {
  T wire;
  std::memcpy(static_cast<void*>(&wire), from.data(), sizeof wire);
  return wire;
}
template <class T>
size_t put(std::byte* to, const T& wire) noexcept {
  std::memcpy(to, &wire, sizeof wire);
  return sizeof wire;
}

size_t encode_offer(const CmOffer& offer, std::byte* to) noexcept {
  CmOfferWire wire{};
  wire.version_min.set(offer.version_min);
  wire.version_max.set(offer.version_max);
  wire.encoding = offer.encoding;
  wire.mode = offer.mode;
  wire.idata_format = offer.idata_format;
  wire.channels = offer.channels;
  wire.control_qpn.set(offer.control.qpn.value());
  wire.control_psn.set(offer.control.psn.value());
  wire.data_qpn.set(offer.data.qpn.value());
  wire.data_psn.set(offer.data.psn.value());
  wire.frame_bytes_max.set(offer.frame_bytes_max);
  wire.features.set(offer.features);
  std::copy(offer.mac.begin(), offer.mac.end(), wire.mac);
  wire.packet_bytes.set(offer.packet_bytes);
  wire.message_bytes.set(offer.message_bytes);
  return put(to, wire);
}

/// A QP number is 24 bits; 0 and 1 are no channel's.
bool good_channel(uint32_t qpn, uint32_t psn) noexcept {
  return qpn > kQpnGsi.value() && qpn <= kQpnMask && psn <= Psn::kMask;
}

CmError decode_offer(const CmOfferWire& wire, CmOffer& out) noexcept {
  const auto* reserved = std::begin(wire.reserved);
  const bool zero =
      std::all_of(reserved, std::end(wire.reserved), [](std::byte b) { return b == std::byte{}; });
  if (!zero || wire.zero.get() != 0) return CmError::kReserved;
  const uint32_t data_qpn = wire.data_qpn.get();
  const uint32_t data_psn = wire.data_psn.get();
  if (!good_channel(wire.control_qpn.get(), wire.control_psn.get())) return CmError::kBadValue;
  const bool data_good = wire.channels == 2
                             ? good_channel(data_qpn, data_psn) && data_qpn != wire.control_qpn.get()
                         : wire.channels == 1 ? data_qpn == 0 && data_psn == 0
                                              : false;
  if (!data_good || wire.version_min.get() > wire.version_max.get()) return CmError::kBadValue;
  out.version_min = wire.version_min.get();
  out.version_max = wire.version_max.get();
  out.encoding = wire.encoding;
  out.mode = wire.mode;
  out.idata_format = wire.idata_format;
  out.channels = wire.channels;
  out.control = {.qpn = Qpn(wire.control_qpn.get()), .psn = Psn(wire.control_psn.get())};
  out.data = {.qpn = Qpn(data_qpn), .psn = Psn(data_psn)};
  out.frame_bytes_max = wire.frame_bytes_max.get();
  out.features = wire.features.get();
  std::copy(std::begin(wire.mac), std::end(wire.mac), out.mac.begin());
  out.packet_bytes = wire.packet_bytes.get();
  out.message_bytes = wire.message_bytes.get();
  return CmError::kNone;
}

CmError decode_rej(const CmRejWire& wire, CmMessage& out) noexcept {
  if (wire.zero.get() != 0) return CmError::kReserved;
  out.reason = wire.reason.get();
  out.version_min = wire.version_min.get();
  out.version_max = wire.version_max.get();
  return CmError::kNone;
}

}  // namespace

size_t encode_cm(const CmMessage& message, std::span<std::byte> out) noexcept {
  WEFT_CHECK(out.size() >= kCmBytesMax, "room for a CM message");
  size_t bytes = put(out.data(), CmHeaderWire{Be16(static_cast<uint16_t>(message.kind)), Be16(kCmVersion),
                                              Be32(0), Be64(message.nonce)});
  if (message.kind == CmKind::kReq || message.kind == CmKind::kRep) {
    bytes += encode_offer(message.offer, out.data() + bytes);
  } else if (message.kind == CmKind::kRej) {
    bytes += put(out.data() + bytes, CmRejWire{Be16(message.reason), Be16(message.version_min),
                                               Be16(message.version_max), Be16(0)});
  }
  return bytes;
}

CmError decode_cm(std::span<const std::byte> in, CmMessage& out) noexcept {
  if (in.size() < sizeof(CmHeaderWire)) return CmError::kTooShort;
  const auto header = get<CmHeaderWire>(in);
  if (header.version.get() != kCmVersion) return CmError::kVersion;
  if (header.zero.get() != 0) return CmError::kReserved;
  CmMessage message{.kind = static_cast<CmKind>(header.kind.get()), .nonce = header.nonce.get(), .offer = {}};
  const std::span<const std::byte> rest = in.subspan(sizeof header);
  CmError error = CmError::kKind;
  switch (message.kind) {
    case CmKind::kReq:
    case CmKind::kRep:
      if (rest.size() != sizeof(CmOfferWire)) return CmError::kLength;
      error = decode_offer(get<CmOfferWire>(rest), message.offer);
      break;
    case CmKind::kRej:
      if (rest.size() != sizeof(CmRejWire)) return CmError::kLength;
      error = decode_rej(get<CmRejWire>(rest), message);
      break;
    case CmKind::kRtu:
    case CmKind::kDreq:
    case CmKind::kDrep:
      error = rest.empty() ? CmError::kNone : CmError::kLength;
      break;
  }
  if (error == CmError::kNone) out = message;
  return error;
}

std::string_view to_string(CmKind kind) noexcept {
  switch (kind) {
    case CmKind::kReq:
      return "req";
    case CmKind::kRej:
      return "rej";
    case CmKind::kRep:
      return "rep";
    case CmKind::kRtu:
      return "rtu";
    case CmKind::kDreq:
      return "dreq";
    case CmKind::kDrep:
      return "drep";
  }
  return "?";
}

std::string_view to_string(CmError error) noexcept {
  switch (error) {
    case CmError::kNone:
      return "none";
    case CmError::kTooShort:
      return "too-short";
    case CmError::kVersion:
      return "version";
    case CmError::kKind:
      return "kind";
    case CmError::kLength:
      return "length";
    case CmError::kReserved:
      return "reserved";
    case CmError::kBadValue:
      return "bad-value";
    case CmError::kCount:
      break;
  }
  return "?";
}

}  // namespace weft
