#include "messages/netdev_model.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

namespace {

bool same_bytes(std::span<const std::byte> a, std::span<const std::byte> b) noexcept {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

struct SameBody {
  template <class A, class B>
  bool operator()(const A&, const B&) const noexcept {
    return false;
  }
  template <class A>
  bool operator()(const A& a, const A& b) const noexcept {
    return a == b;
  }
  bool operator()(const SendData& a, const SendData& b) const noexcept { return same_bytes(a.data, b.data); }
  bool operator()(const CfgUtilRequest& a, const CfgUtilRequest& b) const noexcept {
    return a.request_class == b.request_class && a.code == b.code && same_bytes(a.data, b.data);
  }
  bool operator()(const CfgUtilReply& a, const CfgUtilReply& b) const noexcept {
    return a.request_class == b.request_class && a.code == b.code && a.status == b.status &&
           same_bytes(a.data, b.data);
  }
};

/// True for a possible pool. The pool of receive WQEs has neither handle nor address.
bool good_advert(const PoolAdvert& advert) noexcept {
  if (advert.elements == 0 || advert.elements > kPoolElementsMax) return false;
  if (advert.element_bytes == 0 || advert.element_bytes > kPoolElementBytesMax) return false;
  if (advert.pool == kPoolOfReceiveWqes) return advert.handle == Rkey() && advert.address == 0;
  const uint64_t bytes = uint64_t{advert.elements} * advert.element_bytes;
  return advert.handle != Rkey() && advert.address <= UINT64_MAX - bytes;
}

bool good_run(const PoolRun& run) noexcept {
  return run.first < kPoolElementsMax && run.count <= kPoolElementsMax && (run.count != 0 || run.first == 0);
}

bool good_indication(const Indication& used) noexcept {
  return used.element < kPoolElementsMax && used.element_bytes != 0 &&
         used.element_bytes <= kPoolElementBytesMax && used.data_bytes <= kPoolElementBytesMax;
}

struct CheckValues {
  bool operator()(const BufferRecvPool& body) const noexcept {
    return !body.pools.empty() && std::all_of(body.pools.begin(), body.pools.end(), good_advert);
  }
  bool operator()(const BufferRecvPoolGet& body) const noexcept {
    return body.packet_bytes != 0 && body.packet_bytes <= kPoolElementBytesMax && body.packets != 0 &&
           body.packets <= kPoolElementsMax;
  }
  bool operator()(const BufferRecvPoolUpdate& body) const noexcept {
    return !body.runs.empty() && std::all_of(body.runs.begin(), body.runs.end(), good_run);
  }
  bool operator()(const BufferPoolFlushRequest& body) const noexcept { return !body.pools.empty(); }
  bool operator()(const BufferPoolFlushReply&) const noexcept { return true; }
  bool operator()(const SendData& body) const noexcept { return !body.data.empty(); }
  bool operator()(const BufferRdmaIndicate& body) const noexcept {
    return !body.used.empty() && std::all_of(body.used.begin(), body.used.end(), good_indication);
  }
  bool operator()(const CfgUtilRequest&) const noexcept { return true; }
  bool operator()(const CfgUtilReply&) const noexcept { return true; }
};

}  // namespace

std::string own_pool_fault(uint32_t element_bytes, uint32_t elements, uint64_t together) {
  const bool fits = element_bytes >= kOwnElementBytesMin && element_bytes <= kPoolElementBytesMax;
  if (fits && elements != 0 && together <= kOwnElementsTogetherMax) return {};
  return fmt::format("elements of {} to {} bytes, 1 to {} of them in all pools", kOwnElementBytesMin,
                     kPoolElementBytesMax, kOwnElementsTogetherMax);
}

bool operator==(const NetdevMessage& a, const NetdevMessage& b) noexcept {
  return a.context == b.context && std::visit(SameBody{}, a.body, b.body);
}

NetdevError check_netdev_values(const NetdevMessage& message) noexcept {
  return std::visit(CheckValues{}, message.body) ? NetdevError::kNone : NetdevError::kBadValue;
}

std::string_view to_string(NetdevError error) noexcept {
  switch (error) {
    case NetdevError::kNone:
      return "none";
    case NetdevError::kTooShort:
      return "too-short";
    case NetdevError::kUnknownFunction:
      return "unknown-function";
    case NetdevError::kWrongVersion:
      return "wrong-version";
    case NetdevError::kLengthMismatch:
      return "length-mismatch";
    case NetdevError::kCountLimit:
      return "count-limit";
    case NetdevError::kBadValue:
      return "bad-value";
    case NetdevError::kNotParsed:
      return "not-parsed";
    case NetdevError::kCount:
      break;
  }
  return "?";
}

std::string_view to_string(NetdevFunction function) noexcept {
  switch (function) {
    case NetdevFunction::kBufferRecvPool:
      return "BufferRecvPool";
    case NetdevFunction::kBufferRecvPoolGet:
      return "BufferRecvPoolGet";
    case NetdevFunction::kBufferRecvPoolUpdate:
      return "BufferRecvPoolUpdate";
    case NetdevFunction::kBufferPoolFlushRequest:
      return "BufferPoolFlushRequest";
    case NetdevFunction::kBufferPoolFlushReply:
      return "BufferPoolFlushReply";
    case NetdevFunction::kSendData:
      return "SendData";
    case NetdevFunction::kBufferRdmaIndicate:
      return "BufferRDMAIndicate";
    case NetdevFunction::kCfgUtilRequest:
      return "CfgUtilRequest";
    case NetdevFunction::kCfgUtilReply:
      return "CfgUtilReply";
  }
  return "?";
}

std::string_view to_string(TransferMode mode) noexcept {
  switch (mode) {
    case TransferMode::kRdma:
      return "rdma";
    case TransferMode::kSendReceive:
      return "sendrecv";
    case TransferMode::kSendDataOnly:
      return "senddata";
  }
  return "?";
}

std::string_view to_string(MessageEncoding encoding) noexcept {
  switch (encoding) {
    case MessageEncoding::kCapnp:
      return "capnp";
    case MessageEncoding::kBytes:
      return "bytes";
  }
  return "?";
}

std::string_view to_string(CfgStatus status) noexcept {
  switch (status) {
    case CfgStatus::kGood:
      return "good";
    case CfgStatus::kUnknownRequest:
      return "unknown-request";
    case CfgStatus::kBadData:
      return "bad-data";
    case CfgStatus::kNotPermitted:
      return "not-permitted";
    case CfgStatus::kFailed:
      return "failed";
    case CfgStatus::kLimited:
      return "limited";
    case CfgStatus::kTimedOut:
      return "timed-out";
    case CfgStatus::kSessionLost:
      return "session-lost";
  }
  return "?";
}

}  // namespace weft
