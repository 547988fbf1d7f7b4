// adapter/queues/raw_protocols.h -- the table of the upper-level protocols whose IPv6 datagrams raw QPs take.
// Next header and destination address select the QP (SAN-XPORT-16).
#pragma once

#include <cstdint>
#include <map>
#include <tuple>

#include "messages/global_header.h"

namespace weft::adapter {

class QueuePair;

/// Owner: the adapter's thread. find() does not allocate.
class RawProtocols {
 public:
  struct Key {
    uint8_t port = 1;
    uint8_t next_header = 0;
    Gid address{};
    [[nodiscard]] bool operator<(const Key& other) const noexcept {
      return std::tie(port, next_header, address) < std::tie(other.port, other.next_header, other.address);
    }
  };

  explicit RawProtocols(uint32_t most) noexcept : most_(most) {}

  /// False when another QP has the protocol, or the table is full. True when `qp` has it already.
  [[nodiscard]] bool add(const Key& key, QueuePair& qp);
  /// False when `qp` does not have the protocol.
  [[nodiscard]] bool remove(const Key& key, const QueuePair& qp);
  [[nodiscard]] QueuePair* find(const Key& key) const noexcept;
  [[nodiscard]] bool has(const QueuePair& qp) const noexcept;

 private:
  std::map<Key, QueuePair*> protocols_;
  uint32_t most_;
};

}  // namespace weft::adapter
