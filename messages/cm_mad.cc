// How it works: one function describes the layout of each kind; it is run by a Writer or by a Reader, so the
// two directions cannot differ. What the description does not name is zero: the decoder encodes what it has
// read and compares.
#include "messages/cm_mad.h"

#include <algorithm>
#include <type_traits>

#include "base/endian.h"

namespace weft {
namespace {

constexpr uint8_t kBaseVersion = 1;
constexpr uint8_t kClassCm = 0x07;
constexpr uint8_t kClassCmVersion = 2;
constexpr uint8_t kClassOurs = 0x0B;  // of those a vendor may define
constexpr uint8_t kClassOursVersion = 1;
constexpr uint8_t kMethodSend = 0x03;

/// Bits of a 32-bit word in network byte order: `shift` counts from its low end.
struct Bits {
  uint8_t shift;
  uint8_t width;
  [[nodiscard]] constexpr uint32_t mask() const noexcept {
    return width == 32 ? ~uint32_t{0} : (uint32_t{1} << width) - 1;
  }
};

class Writer {
 public:
  explicit Writer(MadBytes& to) noexcept : to_(to) {}
  template <class T>
  void number(size_t at, const T& value) noexcept {
    store_be(&to_[kMadHeaderBytes + at], value);
  }
  template <class T>
  void bits(size_t at, Bits where, const T& value) noexcept {
    std::byte* word = &to_[kMadHeaderBytes + at];
    store_be(word, load_be<uint32_t>(word) | ((value & where.mask()) << where.shift));
  }
  void bytes(size_t at, std::span<const std::byte> from) noexcept {
    std::copy(from.begin(), from.end(), &to_[kMadHeaderBytes + at]);
  }

 private:
  MadBytes& to_;
};

class Reader {
 public:
  explicit Reader(const MadBytes& from) noexcept : from_(from) {}
  template <class T>
  void number(size_t at, T& value) noexcept {
    value = load_be<T>(&from_[kMadHeaderBytes + at]);
  }
  template <class T>
  void bits(size_t at, Bits where, T& value) noexcept {
    value = static_cast<T>((load_be<uint32_t>(&from_[kMadHeaderBytes + at]) >> where.shift) & where.mask());
  }
  void bytes(size_t at, std::span<std::byte> to) noexcept {
    std::copy_n(&from_[kMadHeaderBytes + at], to.size(), to.begin());
  }

 private:
  const MadBytes& from_;
};

// ---- layouts: offsets are within the 232 bytes behind the header --------------------

template <class Io, class Mad>
void private_part(Io& io, Mad& mad) noexcept {
  const size_t bytes = private_bytes(mad.kind);
  io.bytes(kMadBytes - kMadHeaderBytes - bytes, std::span(mad.private_data).first(bytes));
}

template <class Io, class Path>
void path_layout(Io& io, Path& path) noexcept {
  io.number(52, path.local_lid);
  io.number(54, path.remote_lid);
  io.bytes(56, path.local_gid);
  io.bytes(72, path.remote_gid);
  io.bits(88, {12, 20}, path.flow_label);
  io.bits(88, {0, 6}, path.rate);
  io.number(92, path.traffic_class);
  io.number(93, path.hop_limit);
  io.bits(92, {12, 4}, path.sl);
  io.bits(92, {11, 1}, path.subnet_local);
  io.bits(92, {3, 5}, path.ack_timeout);
}

template <class Io, class Mad>
void req_layout(Io& io, Mad& mad) noexcept {
  io.number(0, mad.local_id);
  io.number(8, mad.service_id);
  io.number(16, mad.ca_guid);
  io.number(28, mad.qkey);
  io.bits(32, {8, 24}, mad.qpn);
  io.bits(32, {0, 8}, mad.responder_resources);
  io.bits(36, {0, 8}, mad.initiator_depth);
  io.bits(40, {3, 5}, mad.remote_response_timeout);
  io.bits(40, {1, 2}, mad.service);
  io.bits(40, {0, 1}, mad.flow_control);
  io.bits(44, {8, 24}, mad.psn);
  io.bits(44, {3, 5}, mad.local_response_timeout);
  io.bits(44, {0, 3}, mad.retry_count);
  io.number(48, mad.pkey);
  io.bits(48, {12, 4}, mad.path_mtu);
  io.bits(48, {8, 3}, mad.rnr_retry);
  io.bits(48, {4, 4}, mad.max_retries);
  io.bits(48, {3, 1}, mad.srq);
  path_layout(io, mad.path);
}

template <class Io, class Mad>
void rep_layout(Io& io, Mad& mad) noexcept {
  io.number(8, mad.qkey);
  io.bits(12, {8, 24}, mad.qpn);
  io.bits(20, {8, 24}, mad.psn);
  io.number(24, mad.responder_resources);
  io.number(25, mad.initiator_depth);
  io.bits(24, {11, 5}, mad.ack_delay);
  io.bits(24, {8, 1}, mad.flow_control);
  io.bits(24, {5, 3}, mad.rnr_retry);
  io.bits(24, {4, 1}, mad.srq);
  io.number(28, mad.ca_guid);
}

template <class Io, class Mad>
void sidr_layout(Io& io, Mad& mad) noexcept {
  io.number(0, mad.local_id);
  if (mad.kind == MadKind::kSidrReq) {
    io.number(4, mad.pkey);
    io.number(8, mad.service_id);
  } else {
    io.number(4, mad.status);
    io.bits(8, {8, 24}, mad.qpn);
    io.number(12, mad.service_id);
    io.number(20, mad.qkey);
  }
}

template <class Io, class Address>
void address_layout(Io& io, Address& address) noexcept {
  io.number(0, address.host);
  io.number(8, address.family);
  io.number(9, address.owns);
  io.number(10, address.port_space);
  io.number(12, address.port);
  io.bytes(16, address.ip);
  io.number(32, address.guid);
}

template <class Io, class Process>
void process_layout(Io& io, Process& process) noexcept {
  io.number(0, process.incarnation);
  io.number(8, process.space);
  io.number(16, process.started);
  io.number(24, process.pid);
}

template <class Io, class Mad>
void layout(Io& io, Mad& mad) noexcept {
  switch (mad.kind) {
    case MadKind::kReq:
      req_layout(io, mad);
      break;
    case MadKind::kSidrReq:
    case MadKind::kSidrRep:
      sidr_layout(io, mad);
      break;
    case MadKind::kWhoHas:
    case MadKind::kHas:
      address_layout(io, mad.address);
      return;
    case MadKind::kWhoIsThere:
      return;
    case MadKind::kIsThere:
      process_layout(io, mad.process);
      return;
    case MadKind::kMra:
    case MadKind::kRej:
    case MadKind::kRep:
    case MadKind::kRtu:
    case MadKind::kDreq:
    case MadKind::kDrep:
      io.number(0, mad.local_id);
      io.number(4, mad.remote_id);
      break;
  }
  if (mad.kind == MadKind::kRep) rep_layout(io, mad);
  if (mad.kind == MadKind::kDreq) io.bits(8, {8, 24}, mad.qpn);
  if (mad.kind == MadKind::kMra || mad.kind == MadKind::kRej) io.bits(8, {30, 2}, mad.about);
  if (mad.kind == MadKind::kMra) io.bits(8, {19, 5}, mad.service_timeout);
  if (mad.kind == MadKind::kRej) io.bits(8, {0, 16}, mad.reason);
  private_part(io, mad);
}

constexpr bool is_ours(MadKind kind) noexcept {
  return kind >= MadKind::kWhoHas;
}

}  // namespace

size_t private_bytes(MadKind kind) noexcept {
  switch (kind) {
    case MadKind::kReq:
      return 92;
    case MadKind::kMra:
      return 222;
    case MadKind::kRej:
      return 148;
    case MadKind::kRep:
      return 196;
    case MadKind::kRtu:
    case MadKind::kDrep:
      return 224;
    case MadKind::kDreq:
      return 220;
    case MadKind::kSidrReq:
      return 216;
    case MadKind::kSidrRep:
      return 136;
    case MadKind::kWhoHas:
    case MadKind::kHas:
    case MadKind::kWhoIsThere:
    case MadKind::kIsThere:
      break;
  }
  return 0;
}

MadBytes encode_mad(const CmMad& mad) noexcept {
  MadBytes out{};
  out[0] = std::byte{kBaseVersion};
  out[1] = std::byte{is_ours(mad.kind) ? kClassOurs : kClassCm};
  out[2] = std::byte{is_ours(mad.kind) ? kClassOursVersion : kClassCmVersion};
  out[3] = std::byte{kMethodSend};
  store_be(&out[8], mad.transaction);
  store_be(&out[16], static_cast<uint16_t>(mad.kind));
  Writer writer(out);
  layout(writer, mad);
  return out;
}

MadError decode_mad(std::span<const std::byte> in, CmMad& out) noexcept {
  if (in.size() != kMadBytes) return MadError::kLength;
  MadBytes bytes;
  std::copy(in.begin(), in.end(), bytes.begin());
  CmMad mad;
  mad.kind = static_cast<MadKind>(load_be<uint16_t>(&bytes[16]));
  mad.transaction = load_be<uint64_t>(&bytes[8]);
  if (to_string(mad.kind) == "?") return MadError::kKind;
  Reader reader(bytes);
  layout(reader, mad);
  const MadBytes again = encode_mad(mad);
  if (!std::equal(bytes.begin(), bytes.begin() + 4, again.begin())) return MadError::kHeader;
  if (again != bytes) return MadError::kReserved;
  out = mad;
  return MadError::kNone;
}

std::string_view to_string(MadKind kind) noexcept {
  switch (kind) {
    case MadKind::kReq:
      return "REQ";
    case MadKind::kMra:
      return "MRA";
    case MadKind::kRej:
      return "REJ";
    case MadKind::kRep:
      return "REP";
    case MadKind::kRtu:
      return "RTU";
    case MadKind::kDreq:
      return "DREQ";
    case MadKind::kDrep:
      return "DREP";
    case MadKind::kSidrReq:
      return "SIDR_REQ";
    case MadKind::kSidrRep:
      return "SIDR_REP";
    case MadKind::kWhoHas:
      return "who has";
    case MadKind::kHas:
      return "has";
    case MadKind::kWhoIsThere:
      return "who is there";
    case MadKind::kIsThere:
      return "is there";
  }
  return "?";
}

std::string_view to_string(MadError error) noexcept {
  constexpr std::array<std::string_view, static_cast<size_t>(MadError::kCount)> kNames{
      "none", "length", "header", "kind", "reserved"};
  return error < MadError::kCount ? kNames[static_cast<size_t>(error)] : "?";
}

}  // namespace weft
