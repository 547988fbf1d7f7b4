// adapter/transport/direct/direct_service.h -- RC between processes of one machine, over memory windows, and
// the windows themselves, which carry UD datagrams, too (docs/window.md). An RC QP takes this service when it
// goes to RTR and its peer is on this machine. When it no longer receives, it leaves the service.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "adapter/transport/direct/direct_datagrams.h"
#include "adapter/transport/direct/direct_keys.h"
#include "adapter/transport/direct/direct_outlet.h"
#include "adapter/transport/direct/direct_requester.h"
#include "adapter/transport/direct/direct_responder.h"
#include "adapter/transport/direct/direct_watch.h"
#include "adapter/transport/service.h"

namespace weft::adapter {

extern const ServiceRow kRcDirectRow;

class DirectService final : public Service, public DirectPeers {
 public:
  DirectService(Engine& engine, CellWriter& writer);
  ~DirectService() override;

  /// RC over cells, for QPs that leave this service. Set once.
  void fall_back_to(Service& reliable) noexcept { reliable_ = &reliable; }
  /// A QP of RC has gone to RTR: takes it over if its peer is on this machine.
  void offer(QueuePair& qp) noexcept;

  /// A cell of a peer that has not been heard of: it uses the switch, and so does the QP from now on.
  void take(QueuePair& qp, const CellView& cell) noexcept override;
  uint32_t run(QueuePair& qp, uint32_t budget, bool& blocked) noexcept override;
  [[nodiscard]] bool has_work(const QueuePair& qp) const noexcept override;
  void on_timer(QueuePair& qp) noexcept override { requester_.on_timer(qp); }
  void drain(QueuePair& qp) noexcept override { completer_.retire(qp); }
  void stop_moving(QueuePair& qp) noexcept override;
  /// The QP's next turn tells its peer.
  void entered_error(QueuePair& qp) noexcept override { engine_.schedule.want_send(qp); }
  void forget(QueuePair& qp) noexcept override;
  void modified(QueuePair& qp) noexcept override;
  uint32_t acknowledge(QueuePair& qp, bool& done) noexcept override;
  [[nodiscard]] bool owes_now(const QueuePair& qp) const noexcept override { return qp.rx.debt.due_now(); }
  void say_last_words(QueuePair& qp) noexcept override;
  [[nodiscard]] bool has_turns() const noexcept override { return engine_.config.direct != nullptr; }
  uint32_t run_turn() noexcept override;
  /// Takes records of windows that wait for nothing else, without the rest of a turn. @return their number
  uint32_t take_arrivals() noexcept;
  [[nodiscard]] bool has_peers() const noexcept { return !peers_.empty(); }
  /// False when run_turn() would find nothing: no window has anything new, or is due.
  [[nodiscard]] bool has_news(Instant now) const noexcept { return more_ || watch_.has_news(now); }
  [[nodiscard]] Instant next_turn() const noexcept override;

  [[nodiscard]] const DirectDatagrams& datagrams() const noexcept { return datagrams_; }

  // See DirectPeers.
  [[nodiscard]] DirectPeer* peer_of(Lid lid) override;
  void flush(DirectPeer& peer) noexcept override;
  void left(const DirectPeer& peer) noexcept override { touch(peer); }

 private:
  [[nodiscard]] bool suits(const QueuePair& qp) const noexcept;
  void admit(DirectPath& path, Lid lid) noexcept;
  void enter(QueuePair& qp, DirectPeer& peer);
  void leave(QueuePair& qp) noexcept;
  void review_rights(DirectPeer& peer) noexcept;
  void add(std::unique_ptr<DirectPeer> peer);
  void drop(DirectPeer& peer) noexcept;
  /// The window of this peer gets a turn in the next turn of the adapter.
  void touch(const DirectPeer& peer) noexcept { watch_.touch(peer.place); }
  /// The same, unless the window waits for nothing but its peer.
  void used(const DirectPeer& peer) noexcept;
  [[nodiscard]] static WatchedWord next_of(const DirectPeer& peer) noexcept;
  [[nodiscard]] static bool rests(const DirectPeer& peer) noexcept;
  [[nodiscard]] uint32_t turn_at(size_t place) noexcept;
  [[nodiscard]] Instant due_of(const DirectPeer& peer) const noexcept;
  [[nodiscard]] uint32_t turn(DirectPeer& peer) noexcept;
  [[nodiscard]] uint32_t take_records(DirectPeer& peer) noexcept;
  void take_record(DirectPeer& peer, const fabric::FifoRecord& slot) noexcept;
  void take_record(QueuePair& qp, const WindowRecord& record, std::span<const std::byte> data) noexcept;
  uint32_t collect(DirectPeer& peer) noexcept;
  void wake(DirectPeer& peer) noexcept;
  [[gnu::cold]] void share_room(DirectPeer& peer, bool wakes) noexcept;
  void say_farewells(DirectPeer& peer) noexcept;
  void record_lost(DirectPeer& peer, uint64_t cookie) noexcept;
  void end(DirectPeer& peer) noexcept;
  void answer_for_switch(DirectPeer& peer, QueuePair& qp, uint32_t life) noexcept;
  void to_switch(QueuePair& qp) noexcept;
  void use_port(QueuePair& qp) noexcept;
  [[nodiscard]] QueuePair* find(uint64_t cookie) noexcept;

  Engine& engine_;
  Service* reliable_ = nullptr;
  std::vector<std::unique_ptr<DirectPeer>> peers_;
  DirectWatch watch_;                               // of peers_, in their order
  std::unordered_map<uint32_t, QueuePair*> lives_;  // by DirectQp::id
  uint32_t last_id_ = 0;
  uint32_t found_id_ = 0;  // of found_, which find() gave last; 0: none
  QueuePair* found_ = nullptr;
  bool more_ = false;  // a FIFO has records that the last turn has not taken
  DirectKeys keys_;
  DirectOutlet outlet_;
  Completer completer_;
  DirectRequester requester_;
  DirectResponder responder_;
  DirectDatagrams datagrams_;
};

}  // namespace weft::adapter
