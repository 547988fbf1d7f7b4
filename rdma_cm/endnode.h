// rdma_cm/endnode.h -- connection management of one endnode: the functions of the kernel's modules ib_cm,
// rdma_cm and rdma_ucm. Its only I/O is with the descriptors of channels. The carrier of datagrams and the
// endnode's identity come from outside.
#pragma once

#include <cstddef>
#include <list>
#include <span>

#include "management/dispatcher.h"
#include "rdma_cm/address_resolver.h"
#include "rdma_cm/cm_texts.h"
#include "rdma_cm/connection_manager.h"
#include "rdma_cm/id_table.h"
#include "rdma_cm/peer_watch.h"

namespace weft::rdma_cm {

/// Identity of this endnode.
struct NodeIdentity {
  Guid guid{};
  uint32_t device_index = 0;  // value of ibv_get_device_index()
  uint8_t port = 1;
  Lid lid{};
  Gid gid{};
  uint8_t mtu = 5;    // enum ibv_mtu
  uint64_t host = 0;  // equal for all endnodes of one network namespace
  MadProcess process{};
};

class NodeView {
 public:
  virtual ~NodeView() = default;
  [[nodiscard]] virtual NodeIdentity identity() noexcept = 0;
  /// True for an address of this endnode or of an interface of its host. Ports are ignored.
  [[nodiscard]] virtual bool owns(const IpAddress& address) noexcept = 0;
  /// This endnode's own address of that family.
  [[nodiscard]] virtual IpAddress own(uint8_t family) noexcept = 0;
  /// Takes the port among the endnodes of this host. 0 or an errno.
  [[nodiscard]] virtual int hold_port(uint16_t port_space, const IpAddress& address,
                                      bool shared) noexcept = 0;
  virtual void release_port(uint16_t port_space, const IpAddress& address) noexcept = 0;
  /// True when another endnode of this host holds the port.
  [[nodiscard]] virtual bool port_taken(uint16_t port_space, const IpAddress& address) noexcept = 0;
  [[nodiscard]] virtual Presence presence(const MadProcess& process) noexcept = 0;
  /// Reports to people that a program gets a failure event, or that a peer is refused.
  virtual void explain(const CmFailure& /*failure*/) noexcept {}
  /// Puts the QP with this number into the error state, if this process has one.
  virtual void fail_qp(uint32_t qpn) noexcept = 0;
};

/// One owner thread, or a lock around it.
class Endnode final : public CmUser, public AddressUser, public PeerUser {
 public:
  Endnode(RandomSource& random, MadPort& port, NodeView& node, const CmTimes& times = {});

  // ---- programs --------------------
  /// Opens a channel. Null when the process has no descriptor left. May throw std::bad_alloc.
  [[nodiscard]] CmFile* open();
  /// Destroys the file and its identifiers.
  void close(Instant now, CmFile& file) noexcept;
  /// Destroys the identifiers of all files; the files stay.
  void destroy_all(Instant now) noexcept;
  /// Null when the descriptor is not one of ours.
  [[nodiscard]] CmFile* file_of(int descriptor) noexcept;
  [[nodiscard]] std::list<CmFile>& files() noexcept { return files_; }
  /// Binds an identifier to an address that no other identifier has, in this process or on this host. For
  /// port 0 a free port is chosen, which is held on the host from listen() on. 0 or an errno.
  [[nodiscard]] int bind(CmId& id, const IpAddress& address) noexcept;
  [[nodiscard]] int listen(CmId& id, uint32_t backlog) noexcept;
  /// Destroys an identifier. @return number of its reported events
  uint32_t destroy(Instant now, CmId& id) noexcept;

  // ---- the fabric --------------------
  void receive(Instant now, Lid from, std::span<const std::byte> mad) noexcept;
  void poll(Instant now) noexcept;
  [[nodiscard]] Instant deadline() const noexcept;
  /// The device has another LID or has failed: queues the event for all identifiers bound to the device.
  void on_device(CmEvent event) noexcept;

  // ---- for the commands --------------------
  [[nodiscard]] IdTable& ids() noexcept { return ids_; }
  [[nodiscard]] ConnectionManager& manager() noexcept { return manager_; }
  [[nodiscard]] AddressResolver& resolver() noexcept { return resolver_; }
  [[nodiscard]] PeerWatch& watch() noexcept { return watch_; }
  [[nodiscard]] NodeView& node() noexcept { return node_; }
  // The following calls return false without memory; the event is then lost, as in the kernel.
  [[nodiscard]] bool push(const QueuedEvent& event) noexcept;
  /// Queues an event without content. Does nothing for an identifier that the program has not accepted yet.
  [[nodiscard]] bool tell(CmId& id, CmEvent event, int32_t status = 0) noexcept;
  [[nodiscard]] bool tell_joined(CmId& id, Membership& group) noexcept;

  // ---- CmUser, AddressUser, PeerUser --------------------
  [[nodiscard]] uint64_t transaction_of(CmAttribute request, uint32_t local_id) noexcept override;
  [[nodiscard]] RequestAnswer on_request(Connection& connection, const CmReq& req) noexcept override;
  [[nodiscard]] RequestAnswer on_sidr_request(Connection& connection, const CmSidrReq& req) noexcept override;
  void on_event(Connection& connection, CmEventKind kind, const CmBody& message) noexcept override;
  [[nodiscard]] bool on_watch(Lid peer, bool wanted) noexcept override;
  void on_dead_qp(uint32_t qpn) noexcept override { node_.fail_qp(qpn); }
  [[nodiscard]] Owns owns(const MadAddress& question) noexcept override;
  [[nodiscard]] bool held_elsewhere(const MadAddress& question) noexcept override;
  void on_resolved(uint64_t question, uint32_t handle, Lid lid, Guid guid) noexcept override;
  [[nodiscard]] Presence presence(const MadProcess& process) noexcept override;
  void on_peer(Instant now, Lid peer, uint64_t incarnation) noexcept override;
  void on_peer_gone(Instant now, Lid peer) noexcept override;

 private:
  void destroy_of(Instant now, CmFile& file) noexcept;
  [[nodiscard]] int hold_port(CmId& id) noexcept;
  void release_port(CmId& id) noexcept;
  /// The agent of one class.
  struct Agent final : management::MadHandler {
    using Receive = void (Endnode::*)(const management::MadArrival& mad) noexcept;
    Agent(Endnode& of, Receive receive) noexcept : endnode(of), take(receive) {}
    void on_mad(const management::MadArrival& mad) noexcept override { (endnode.*take)(mad); }
    Endnode& endnode;
    Receive take;
  };
  void receive_cm(const management::MadArrival& mad) noexcept;
  void receive_endnode(const management::MadArrival& mad) noexcept;
  void on_reply(CmId& id, const CmRep& rep) noexcept;
  void on_sidr_reply(CmId& id, const CmSidrRep& rep) noexcept;
  /// A request for an IP service, from a REQ or a SIDR_REQ.
  struct IpRequest {
    uint16_t port_space = 0;
    IpAddress from;
    IpAddress to;
    uint8_t service = kCmServiceRc;  // of a REQ
  };
  /// True when the peer may have the address from which its request claims to come.
  [[nodiscard]] bool may_come_from(const IpAddress& address, const Connection& connection) noexcept;
  [[nodiscard]] bool is_of_this_host(const Connection& connection) noexcept;
  [[nodiscard]] static bool serves(const CmId& listener, const Connection& connection,
                                   const IpRequest& request) noexcept;
  [[nodiscard]] static bool read_request(uint64_t service_id, std::span<const std::byte> private_data,
                                         IpRequest& out) noexcept;
  /// The listener for a request. Null when it is not taken: `why_not` says why, and it is logged.
  [[nodiscard]] CmId* listener_of(const Connection& connection, const IpRequest& request,
                                  RequestAnswer& why_not) noexcept;
  [[nodiscard]] CmFailure why_no_listener(const IpRequest& request, const CmId* listener,
                                          bool served) const noexcept;
  [[nodiscard]] CmId* adopt(CmId& listener, Connection& connection, const IpRequest& request) noexcept;
  [[nodiscard]] RequestAnswer announce(CmId& listener, CmId& id, QueuedEvent& event) noexcept;

  NodeView& node_;
  RandomSource& random_;
  IdTable ids_;
  ConnectionManager manager_;
  AddressResolver resolver_;
  PeerWatch watch_;
  Agent cm_agent_;
  Agent endnode_agent_;
  management::Dispatcher dispatcher_;
  std::list<CmFile> files_;
};

}  // namespace weft::rdma_cm
