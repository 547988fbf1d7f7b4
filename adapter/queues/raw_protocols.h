// adapter/queues/raw_protocols.h -- the table of the upper-level protocols whose IPv6 datagrams raw QPs take.
// Next header and destination address select the QP (SAN-XPORT-16).
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "base/reason.h"
#include "messages/global_header.h"

namespace weft::adapter {

class QueuePair;

/// Owner: the adapter's thread. All memory is allocated at construction.
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

  /// `most`: registrations of all QPs together.
  explicit RawProtocols(uint32_t most) : most_(most) { entries_.reserve(most); }

  /// kTaken: another QP has the protocol. kTableFull. kOk also when `qp` has it already.
  [[nodiscard]] Reason add(const Key& key, QueuePair& qp) noexcept;
  /// False when `qp` does not have the protocol.
  [[nodiscard]] bool remove(const Key& key, const QueuePair& qp) noexcept;
  /// Ends all registrations of a QP.
  void leave(const QueuePair& qp) noexcept;
  [[nodiscard]] QueuePair* find(const Key& key) const noexcept;
  [[nodiscard]] bool has(const QueuePair& qp) const noexcept;

 private:
  struct Entry {
    Key key{};
    QueuePair* qp = nullptr;
  };
  /// Number of entries with smaller keys.
  [[nodiscard]] ptrdiff_t place_of(const Key& key) const noexcept;
  /// The entry at this place has this key.
  [[nodiscard]] bool has_at(ptrdiff_t place, const Key& key) const noexcept;

  std::vector<Entry> entries_;  // in the order of their keys
  uint32_t most_;
};

}  // namespace weft::adapter
