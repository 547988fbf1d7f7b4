#include "management/dispatcher.h"

#include <algorithm>

namespace weft::management {

const Dispatcher::Claim* Dispatcher::find(MadClass mad_class, uint8_t class_version,
                                          MadMethod method) const noexcept {
  const auto* const end = claims_.begin() + count_;
  const auto* const found = std::find_if(claims_.begin(), end, [&](const Claim& claim) {
    return claim.mad_class == mad_class && claim.class_version == class_version && claim.method == method;
  });
  return found == end ? nullptr : found;
}

bool Dispatcher::claim(MadClass mad_class, uint8_t class_version, std::initializer_list<MadMethod> methods,
                       MadHandler& handler) noexcept {
  if (methods.size() > kClaimsMax - count_) return false;
  const bool taken = std::any_of(methods.begin(), methods.end(), [&](MadMethod method) {
    return find(mad_class, class_version, method) != nullptr;
  });
  if (taken) return false;
  for (const MadMethod method : methods) claims_[count_++] = {mad_class, class_version, method, &handler};
  return true;
}

MadFate Dispatcher::dispatch(Instant now, Lid from, std::span<const std::byte> bytes) noexcept {
  MadHeader header;
  if (decode_mad_header(bytes, header) != MadError::kNone) return MadFate::kMalformed;
  const Claim* claim = find(header.mad_class, header.class_version, header.method);
  if (claim != nullptr) {
    claim->handler->on_mad({.now = now, .from = from, .header = header, .bytes = bytes});
    return MadFate::kTaken;
  }
  const bool waits = header.method == MadMethod::kGet || header.method == MadMethod::kSet;
  if (waits) refuse(from, header, bytes);
  return MadFate::kUnclaimed;
}

/// Answers with the request, in which method and status are changed. Responses are never answered.
void Dispatcher::refuse(Lid to, MadHeader header, std::span<const std::byte> bytes) noexcept {
  MadBytes answer;
  std::copy(bytes.begin(), bytes.end(), answer.begin());
  header.method = MadMethod::kGetResponse;
  header.status = kMadStatusUnsupported;
  encode_mad_header(header, answer);
  static_cast<void>(port_.send(to, answer));
}

}  // namespace weft::management
