// rdma_cm/command_parts.h -- helpers that read commands and write answers. Internal to rdma_cm/.
#pragma once

#include <rdma/rdma_user_cm.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "rdma_cm/ip_address.h"

namespace weft::rdma_cm {

constexpr uint16_t kAfIb = 27;  // the family of struct sockaddr_ib

template <class T>
[[nodiscard]] T read_body(std::span<const std::byte> body) noexcept {
  T out;
  std::memcpy(&out, body.data(), sizeof out);
  return out;
}

/// Writes an answer to the address in a command: the program's own memory. Writes at most `room` bytes.
template <class T>
void answer(uint64_t where, const T& content, size_t room = sizeof(T)) noexcept {
  std::memcpy(reinterpret_cast<void*>(where), &content,  // NOLINT(performance-no-int-to-ptr): the ABI's
              std::min(room, sizeof content));
}

/// The IP address in the storage type of rdma_user_cm.h.
[[nodiscard]] inline IpAddress from_storage(const __kernel_sockaddr_storage& storage) noexcept {
  sockaddr_in6 address{};
  std::memcpy(&address, &storage, sizeof address);
  return from_sockaddr(address);
}

}  // namespace weft::rdma_cm
