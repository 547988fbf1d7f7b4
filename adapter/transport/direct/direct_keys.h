// adapter/transport/direct/direct_keys.h -- shows regions to peers on the same machine: a key that a peer has
// used through the owner gets an entry in the peer's table, so that from then on the device moves its data.
// Ends these entries before their regions end (NTB-MPT-02).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "adapter/adapter_engine.h"
#include "adapter/transport/direct/direct_state.h"

namespace weft::adapter {

class DirectKeys final : public KeyWatcher {
 public:
  using Peers = std::vector<std::unique_ptr<DirectPeer>>;
  /// `peers` outlives this.
  DirectKeys(Engine& engine, const Peers& peers) noexcept : engine_(engine), peers_(peers) {}

  /// The owner has executed an access of `qp`'s peer by this key.
  void used(QueuePair& qp, Rkey key) noexcept;
  /// Withdraws all entries of a peer: its QPs belong to several domains, or a QP takes back a right.
  void withdraw_all(DirectPeer& peer) noexcept;
  /// Withdraws all entries of a peer without QPs. False while it may still be moving data of one of them.
  [[nodiscard]] static bool let_go(DirectPeer& peer) noexcept;
  /// False while a peer may still be moving data of a region that ends.
  [[nodiscard]] bool may_end(Rkey key) noexcept override;

 private:
  [[nodiscard]] static bool settled(DirectPeer& peer, uint32_t key) noexcept;

  Engine& engine_;
  const Peers& peers_;
};

}  // namespace weft::adapter
