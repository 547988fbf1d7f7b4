// messages/mad/mad_fields.h -- for the sources of the class codecs. One function describes the layout of a
// message. A MadWriter or a MadReader runs it, so the two directions cannot differ. Bytes that the
// description does not name must be zero: decode_mad_body() encodes what it has read and compares.
#pragma once

#include <algorithm>
#include <concepts>
#include <utility>
#include <variant>

#include "base/endian.h"
#include "messages/mad/mad.h"

namespace weft {

/// Bits of a 32-bit word in network byte order. `shift` counts from the least significant bit.
struct MadBits {
  uint8_t shift;
  uint8_t width;
  [[nodiscard]] constexpr uint32_t mask() const noexcept {
    return width == 32 ? ~uint32_t{0} : (uint32_t{1} << width) - 1;
  }
};

/// Offsets are within the 232 bytes behind the header.
class MadWriter {
 public:
  template <class T>
  using Field = const T;

  explicit MadWriter(MadBytes& to) noexcept : to_(to) {}
  template <class T>
  void number(size_t at, const T& value) noexcept {
    store_be(&to_[kMadHeaderBytes + at], value);
  }
  template <class T>
  void bits(size_t at, MadBits where, const T& value) noexcept {
    std::byte* word = &to_[kMadHeaderBytes + at];
    store_be(word, load_be<uint32_t>(word) | ((value & where.mask()) << where.shift));
  }
  void bytes(size_t at, std::span<const std::byte> from) noexcept {
    std::copy(from.begin(), from.end(), to_.begin() + static_cast<ptrdiff_t>(kMadHeaderBytes + at));
  }

 private:
  MadBytes& to_;
};

class MadReader {
 public:
  template <class T>
  using Field = T;

  explicit MadReader(const MadBytes& from) noexcept : from_(from) {}
  template <class T>
  void number(size_t at, T& value) noexcept {
    value = load_be<T>(&from_[kMadHeaderBytes + at]);
  }
  template <class T>
  void bits(size_t at, MadBits where, T& value) noexcept {
    value = static_cast<T>((load_be<uint32_t>(&from_[kMadHeaderBytes + at]) >> where.shift) & where.mask());
  }
  void bytes(size_t at, std::span<std::byte> to) noexcept {
    std::copy_n(from_.begin() + static_cast<ptrdiff_t>(kMadHeaderBytes + at), to.size(), to.begin());
  }

 private:
  const MadBytes& from_;
};

/// Makes `body` the alternative whose kAttribute is `attribute`; false when there is none.
template <class Body, size_t kIndex = 0>
[[nodiscard]] bool emplace_attribute(Body& body, uint16_t attribute) noexcept {
  if constexpr (kIndex == std::variant_size_v<Body>) {
    return false;
  } else {
    using Message = std::variant_alternative_t<kIndex, Body>;
    if constexpr (!std::same_as<Message, std::monostate>) {
      if (static_cast<uint16_t>(Message::kAttribute) == attribute) {
        body.template emplace<kIndex>();
        return true;
      }
    }
    return emplace_attribute<Body, kIndex + 1>(body, attribute);
  }
}

/// Reads a message of the class in `frame`. `layout` describes a message, `encode` writes one.
template <class Mad, class Layout, class Encode>
[[nodiscard]] MadError decode_mad_body(std::span<const std::byte> in, const MadHeader& frame, Mad& out,
                                       Layout layout, Encode encode) noexcept {
  MadHeader header;
  if (const MadError error = decode_mad_header(in, header); error != MadError::kNone) return error;
  if (header.mad_class != frame.mad_class || header.class_version != frame.class_version ||
      header.method != frame.method)
    return MadError::kHeader;
  Mad mad{.transaction = header.transaction, .body = {}};
  if (!emplace_attribute(mad.body, header.attribute)) return MadError::kKind;
  MadBytes bytes;
  std::copy(in.begin(), in.end(), bytes.begin());
  MadReader reader(bytes);
  std::visit([&](auto& message) { layout(reader, message); }, mad.body);
  if (encode(mad) != bytes) return MadError::kReserved;
  out = mad;
  return MadError::kNone;
}

}  // namespace weft
