#include "adapter/verbs.h"

#include <array>
#include <cstring>

namespace weft::adapter {
namespace {

struct StatusName {
  WcStatus status;
  std::string_view name;
};
constexpr std::array kStatusNames{
    StatusName{WcStatus::kSuccess, "success"},
    StatusName{WcStatus::kLocalLength, "local length error"},
    StatusName{WcStatus::kLocalQpOperation, "local QP operation error"},
    StatusName{WcStatus::kLocalEecOperation, "local EE context operation error"},
    StatusName{WcStatus::kLocalProtection, "local protection error"},
    StatusName{WcStatus::kFlushed, "work request flushed"},
    StatusName{WcStatus::kMwBind, "memory window bind error"},
    StatusName{WcStatus::kBadResponse, "bad response"},
    StatusName{WcStatus::kLocalAccess, "local access error"},
    StatusName{WcStatus::kRemoteInvalidRequest, "remote invalid request"},
    StatusName{WcStatus::kRemoteAccess, "remote access error"},
    StatusName{WcStatus::kRemoteOperation, "remote operation error"},
    StatusName{WcStatus::kRetryExceeded, "transport retry counter exceeded"},
    StatusName{WcStatus::kRnrRetryExceeded, "RNR retry counter exceeded"},
    StatusName{WcStatus::kRemoteAborted, "remote aborted"},
    StatusName{WcStatus::kFatal, "fatal error"},
    StatusName{WcStatus::kResponseTimeout, "response timeout"},
    StatusName{WcStatus::kGeneral, "general error"},
};
constexpr std::array<std::string_view, 7> kStateNames{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};
constexpr std::array<std::string_view, static_cast<size_t>(PostResult::kCount)> kPostNames{
    "ok",
    "the queue is full: poll its CQ, or create it with more WRs",
    "the state does not allow it: sends need RTS, receives INIT or later",
    "the service does not have this operation, or not with these send_flags",
    "no destination: ah is missing, of another protection domain, or remote_srqn is 0",
    "no remote_addr or rkey",
    "no data segment, or one for a request that moves no data",
    "num_sge is above the QP's max_send_sge or max_recv_sge",
    "the segments of an atomic have 8 bytes in all",
    "longer than max_msg_sz, or for datagrams than active_mtu",
    "inline data is above the QP's max_inline_data"};
constexpr std::array<std::string_view, static_cast<size_t>(ModifyResult::kCount)> kModifyNames{
    "ok", "transition not allowed", "attribute missing", "attribute not allowed here",
    "attribute value out of range"};

}  // namespace

AhAttr ah_attr_from(const WorkCompletion& completion, uint8_t port,
                    std::span<const std::byte> receive) noexcept {
  AhAttr attr{.dlid = completion.src_lid, .sl = completion.sl, .port = port};
  if ((completion.flags & kWcGrh) == 0 || receive.size() < kGrhBytes) return attr;
  GlobalHeaderWire header;
  std::memcpy(&header, receive.data(), sizeof header);
  const uint32_t first = header.version_class_flow.get();
  attr.is_global = true;
  attr.route = {.dgid = header.source,
                .flow_label = first & 0xF'FFFF,
                .traffic_class = static_cast<uint8_t>(first >> 20)};
  return attr;
}

std::string_view to_string(QpState state) noexcept {
  const auto index = static_cast<size_t>(state);
  return index < kStateNames.size() ? kStateNames[index] : "?";
}

std::string_view to_string(PostResult result) noexcept {
  return kPostNames[static_cast<size_t>(result)];
}

std::string_view to_string(WcStatus status) noexcept {
  for (const StatusName& entry : kStatusNames) {
    if (entry.status == status) return entry.name;
  }
  return "?";
}

std::string_view to_string(ModifyResult result) noexcept {
  return kModifyNames[static_cast<size_t>(result)];
}

}  // namespace weft::adapter
