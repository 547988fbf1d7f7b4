// rdma_cm/id_table.h -- the identifiers of a process, the ports they hold, and their waiting events.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "base/rng.h"
#include "rdma_cm/cm_id.h"

namespace weft::rdma_cm {

class IdTable {
 public:
  static constexpr size_t kIdsMax = 65536;

  explicit IdTable(RandomSource& random) noexcept : random_(random) {}

  // ---- identifiers --------------------
  /// Null when there are kIdsMax identifiers or no memory.
  [[nodiscard]] CmId* create(CmFile& file, uint16_t port_space, uint8_t qp_type) noexcept;
  /// Searches only this file. Null when it has no identifier with this number. Also null for the identifier
  /// of a request that still waits among the events: the program cannot know its number, and the event needs
  /// it.
  [[nodiscard]] CmId* find(const CmFile& file, uint32_t handle) noexcept;
  /// The identifier with this number in whatever file, if it waits for the answer to the question; else null.
  [[nodiscard]] CmId* with_question(uint32_t handle, uint64_t question) noexcept;
  [[nodiscard]] size_t size() const noexcept { return ids_.size(); }
  /// Frees the identifier and its events. @return the identifiers of the requests that waited there, linked
  /// by `next_orphan`; the caller must destroy them
  [[nodiscard]] CmId* destroy(CmId& id) noexcept;
  /// Null without memory.
  [[nodiscard]] Membership* join(CmId& id, uint64_t uid) noexcept;
  /// Null when no identifier of the file has that group.
  [[nodiscard]] CmId* member(const CmFile& file, uint32_t handle, Membership*& out) noexcept;
  void leave(CmId& id, Membership& group) noexcept;

  // ---- ports --------------------
  /// Assigns the address to the identifier; for port 0 a free port is chosen. 0 or an errno.
  [[nodiscard]] int bind(CmId& id, const IpAddress& address) noexcept;
  /// Releases the identifier's port, if it has one.
  void release_port(CmId& id) noexcept;
  /// The listener at this address, or at the wildcard address; null when there is none.
  [[nodiscard]] CmId* listener(uint16_t port_space, const IpAddress& address) noexcept;

  /// The identifier at this port that an asker may have meant, whatever its state and address; one that
  /// listens is preferred. Null when there is none.
  [[nodiscard]] const CmId* at_port(uint16_t port_space, uint16_t port) const noexcept;
  /// True when an identifier holds the port at this address or at the wildcard address.
  [[nodiscard]] bool is_bound(uint16_t port_space, const IpAddress& address) const noexcept;

  // ---- events --------------------
  /// False without memory; the event is lost.
  [[nodiscard]] bool push(CmFile& file, const QueuedEvent& event) noexcept;
  /// Takes the oldest event; false when there is none. The caller has already taken a unit of the descriptor.
  [[nodiscard]] bool pop(CmFile& file, QueuedEvent& out) noexcept;
  void drop_all_events(CmFile& file) noexcept;
  /// Moves an identifier, its events and the requests among them to another file. 0 or an errno.
  [[nodiscard]] int migrate(CmId& id, CmFile& to) noexcept;

 private:
  static void enter(CmId& id, CmFile& file) noexcept;
  static void leave_file(CmId& id) noexcept;
  [[nodiscard]] static bool has_own_family_only(const CmId& id, const IpAddress& address) noexcept;
  [[nodiscard]] int conflict(const CmId& id, const IpAddress& address) const noexcept;
  [[nodiscard]] uint16_t free_port(const CmId& id, IpAddress address) noexcept;
  /// Drops the identifier's events that `drop` selects. Without a waiting event the cost is constant.
  template <class Predicate>
  static void drop_events(CmId& id, Predicate drop);

  RandomSource& random_;
  uint32_t next_handle_ = 0;
  uint32_t next_group_ = 0;
  std::unordered_map<uint32_t, std::unique_ptr<CmId>> ids_;
  std::multimap<uint32_t, CmId*> ports_;  // by port space and port
};

}  // namespace weft::rdma_cm
