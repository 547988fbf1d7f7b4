// fabric/switch/shm_acceptor.h -- the switch's side of shared-memory links (decisions 2.9). An endnode
// connects to a Unix socket and sends HELLO. The answer is WELCOME with a new memfd, or REFUSE.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/pollable.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "fabric/switch/admission.h"

namespace weft::fabric {

/// Owner: the switch's thread.
class ShmAcceptor final : public Pollable {
 public:
  /// Listens at `path`, whose directory must belong to this user and be closed to others. `admission` must
  /// outlive the acceptor.
  static Result<std::unique_ptr<ShmAcceptor>> create(const std::string& path, Admission& admission);
  /// Removes the socket file.
  ~ShmAcceptor() override;

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return true; }
  void finish_sleep() noexcept override { check_at_ = listen_at_ = Instant::min(); }
  [[nodiscard]] Instant deadline() const noexcept override;

 private:
  struct Guest {
    UniqueFd socket;
    Instant until{};
  };
  ShmAcceptor(std::string path, UniqueFd listener, UniqueFd links, Admission& admission);
  void let_in(Instant now) noexcept;
  int listen_for_links(Instant now) noexcept;
  /// True when the guest's entry can be removed: it was answered, or its connection has ended.
  bool serve(Guest& guest, Instant now) noexcept;
  void welcome(Guest& guest, const AdmittedLink& link, Instant now) noexcept;
  void refuse(Guest& guest, const LinkHello& hello, LinkRefusal reason, Instant now) noexcept;

  std::string path_;
  UniqueFd listener_;
  UniqueFd links_;  // epoll set with the sockets of all links
  Admission& admission_;
  std::vector<Guest> guests_;
  Instant check_at_ = Instant::min();
  Instant listen_at_ = Instant::min();
  bool accepts_ = true;  // a connecting process is accepted at once
  LogLimiter limiter_{std::chrono::seconds(1)};
};

}  // namespace weft::fabric
