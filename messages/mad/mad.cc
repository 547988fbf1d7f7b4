#include "messages/mad/mad.h"

#include "base/endian.h"

namespace weft {

void encode_mad_header(const MadHeader& header, MadBytes& out) noexcept {
  out[0] = std::byte{kMadBaseVersion};
  out[1] = static_cast<std::byte>(header.mad_class);
  out[2] = std::byte{header.class_version};
  out[3] = static_cast<std::byte>(header.method);
  store_be(&out[4], header.status);
  store_be(&out[6], header.of_class);
  store_be(&out[8], header.transaction);
  store_be(&out[16], header.attribute);
  store_be(&out[18], uint16_t{0});
  store_be(&out[20], header.modifier);
}

MadError decode_mad_header(std::span<const std::byte> in, MadHeader& out) noexcept {
  if (in.size() != kMadBytes) return MadError::kLength;
  if (in[0] != std::byte{kMadBaseVersion}) return MadError::kHeader;
  if (load_be<uint16_t>(&in[18]) != 0) return MadError::kReserved;
  out = {.mad_class = static_cast<MadClass>(in[1]),
         .class_version = std::to_integer<uint8_t>(in[2]),
         .method = static_cast<MadMethod>(in[3]),
         .status = load_be<uint16_t>(&in[4]),
         .of_class = load_be<uint16_t>(&in[6]),
         .transaction = load_be<uint64_t>(&in[8]),
         .attribute = load_be<uint16_t>(&in[16]),
         .modifier = load_be<uint32_t>(&in[20])};
  return MadError::kNone;
}

std::string_view to_string(MadError error) noexcept {
  constexpr std::array<std::string_view, static_cast<size_t>(MadError::kCount)> kNames{
      "none", "length", "header", "kind", "reserved", "value"};
  return error < MadError::kCount ? kNames[static_cast<size_t>(error)] : "?";
}

}  // namespace weft
