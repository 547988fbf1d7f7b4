// rdma_cm/id_table.h -- the identifiers of a process, the ports they hold, and the events that wait.
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
  /// Null when there are too many, or no memory for one more.
  [[nodiscard]] CmId* create(CmFile& file, uint16_t port_space, uint8_t qp_type) noexcept;
  /// Of this file only: null when it has none of that number.
  [[nodiscard]] CmId* find(const CmFile& file, uint32_t handle) noexcept;
  [[nodiscard]] CmId* with_question(uint64_t question) noexcept;
  [[nodiscard]] size_t size() const noexcept { return ids_.size(); }
  /// Frees it and its events. @return the identifiers of the requests that waited there, linked by
  /// `next_orphan`, which are to be destroyed, too
  [[nodiscard]] CmId* destroy(CmId& id) noexcept;
  /// Null when there is no memory.
  [[nodiscard]] Membership* join(CmId& id, uint64_t uid) noexcept;
  /// Null when no identifier of the file has that group.
  [[nodiscard]] CmId* member(const CmFile& file, uint32_t handle, Membership*& out) noexcept;
  void leave(CmId& id, Membership& group) noexcept;

  // ---- ports --------------------
  /// Takes the address for the identifier; port 0 becomes a free one. 0 or an errno.
  [[nodiscard]] int bind(CmId& id, const IpAddress& address) noexcept;
  /// It has no port any more.
  void release_port(CmId& id) noexcept;
  /// The listener there: at that address, or at every one.
  [[nodiscard]] CmId* listener(uint16_t port_space, const IpAddress& address) noexcept;

  /// An identifier holds that port, at that address or at every one.
  [[nodiscard]] bool is_bound(uint16_t port_space, const IpAddress& address) const noexcept;

  // ---- events --------------------
  /// False when there is no memory; the event is lost.
  [[nodiscard]] bool push(CmFile& file, const QueuedEvent& event) noexcept;
  /// Takes the oldest event; false when there is none. A unit of the descriptor was taken before.
  [[nodiscard]] bool pop(CmFile& file, QueuedEvent& out) noexcept;
  void drop_all_events(CmFile& file) noexcept;
  /// Moves an identifier, its events and the requests among them to another file. 0 or an errno.
  [[nodiscard]] int migrate(CmId& id, CmFile& to) noexcept;

 private:
  static void enter(CmId& id, CmFile& file) noexcept;
  static void leave_file(CmId& id) noexcept;
  [[nodiscard]] bool taken(const CmId& id, const IpAddress& address) const noexcept;
  [[nodiscard]] uint16_t free_port(const CmId& id, IpAddress address) noexcept;
  template <class Predicate>
  void drop_events(CmFile& file, Predicate drop);

  RandomSource& random_;
  uint32_t next_handle_ = 0;
  uint32_t next_group_ = 0;
  std::unordered_map<uint32_t, std::unique_ptr<CmId>> ids_;
  std::multimap<uint32_t, CmId*> ports_;  // by port space and port
};

}  // namespace weft::rdma_cm
