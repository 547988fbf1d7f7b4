// rdma_cm/endnode.h -- connection management of one endnode: what the kernel's modules ib_cm, rdma_cm and
// rdma_ucm are together. Without I/O but for the descriptors of channels; what carries the datagrams and what
// this endnode is come from outside.
#pragma once

#include <cstddef>
#include <list>
#include <span>

#include "rdma_cm/address_resolver.h"
#include "rdma_cm/connection_manager.h"
#include "rdma_cm/id_table.h"
#include "rdma_cm/peer_watch.h"

namespace weft::rdma_cm {

/// What this endnode is.
struct NodeIdentity {
  Guid guid{};
  uint32_t device_index = 0;  // as ibv_get_device_index() says
  uint8_t port = 1;
  Lid lid{};
  Gid gid{};
  uint8_t mtu = 5;    // enum ibv_mtu
  uint64_t host = 0;  // the same for all endnodes of one network namespace
  MadProcess process{};
};

class NodeView {
 public:
  virtual ~NodeView() = default;
  [[nodiscard]] virtual NodeIdentity identity() noexcept = 0;
  /// An address of this endnode, or of an interface of its host. Ports do not matter.
  [[nodiscard]] virtual bool owns(const IpAddress& address) noexcept = 0;
  /// This endnode's own address of that family.
  [[nodiscard]] virtual IpAddress own(uint8_t family) noexcept = 0;
  /// Takes the port among the endnodes of this host. 0 or an errno.
  [[nodiscard]] virtual int hold_port(uint16_t port_space, const IpAddress& address,
                                      bool shared) noexcept = 0;
  virtual void release_port(uint16_t port_space, const IpAddress& address) noexcept = 0;
  /// Another endnode of this host has taken it.
  [[nodiscard]] virtual bool port_taken(uint16_t port_space, const IpAddress& address) noexcept = 0;
  [[nodiscard]] virtual Presence presence(const MadProcess& process) noexcept = 0;
  /// Ends a QP of this process, if it has one of that number.
  virtual void fail_qp(uint32_t qpn) noexcept = 0;
};

/// One owner thread, or a lock around it.
class Endnode final : public CmUser, public AddressUser, public PeerUser {
 public:
  Endnode(RandomSource& random, MadPort& port, NodeView& node, const CmTimes& times = {});

  // ---- programs --------------------
  /// Null when the process has no descriptor left.
  [[nodiscard]] CmFile* open();
  /// Destroys what the file still has.
  void close(Instant now, CmFile& file) noexcept;
  /// Destroys what all files have, and leaves the files.
  void destroy_all(Instant now) noexcept;
  /// Null when the descriptor is none of ours.
  [[nodiscard]] CmFile* file_of(int descriptor) noexcept;
  /// Binds an identifier to an address that nobody else has, here or on this host; port 0 becomes a free one,
  /// which is held on the host from listen() on. 0 or an errno.
  [[nodiscard]] int bind(CmId& id, const IpAddress& address) noexcept;
  [[nodiscard]] int listen(CmId& id, uint32_t backlog) noexcept;
  /// Destroys an identifier. @return how many of its events were reported
  uint32_t destroy(Instant now, CmId& id) noexcept;

  // ---- the fabric --------------------
  void receive(Instant now, Lid from, std::span<const std::byte> mad) noexcept;
  void poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  /// The device has another LID by now, or does nothing any more: identifiers that are on it are told.
  void on_device(CmEvent event) noexcept;

  // ---- for the commands --------------------
  [[nodiscard]] IdTable& ids() noexcept { return ids_; }
  [[nodiscard]] ConnectionManager& manager() noexcept { return manager_; }
  [[nodiscard]] AddressResolver& resolver() noexcept { return resolver_; }
  [[nodiscard]] PeerWatch& watch() noexcept { return watch_; }
  [[nodiscard]] NodeView& node() noexcept { return node_; }
  /// Queues an event without content.
  void tell(CmId& id, CmEvent event, int32_t status = 0) noexcept;
  void tell_joined(CmId& id, Membership& group) noexcept;

  // ---- CmUser, AddressUser, PeerUser --------------------
  [[nodiscard]] bool on_request(Connection& connection, const CmMad& mad) noexcept override;
  void on_event(Connection& connection, CmEventKind kind, const CmMad& mad) noexcept override;
  void on_watch(Lid peer, bool wanted) noexcept override;
  void on_dead_qp(uint32_t qpn) noexcept override { node_.fail_qp(qpn); }
  [[nodiscard]] Owns owns(const MadAddress& question) noexcept override;
  [[nodiscard]] bool held_elsewhere(const MadAddress& question) noexcept override;
  void on_resolved(uint64_t question, Lid lid, Guid guid) noexcept override;
  [[nodiscard]] Presence presence(const MadProcess& process) noexcept override;
  void on_peer(Instant now, Lid peer, uint64_t incarnation) noexcept override;
  void on_peer_gone(Instant now, Lid peer) noexcept override;

 private:
  void destroy_of(Instant now, CmFile& file) noexcept;
  [[nodiscard]] int hold_port(CmId& id) noexcept;
  void release_port(CmId& id) noexcept;
  void on_sidr_reply(CmId& id, const CmMad& mad) noexcept;
  void adopt(CmId& id, Connection& connection, const CmMad& mad, const IpAddress& from,
             const IpAddress& to) noexcept;

  NodeView& node_;
  IdTable ids_;
  ConnectionManager manager_;
  AddressResolver resolver_;
  PeerWatch watch_;
  std::list<CmFile> files_;
};

}  // namespace weft::rdma_cm
