// base/process_guard.h -- the orderly end of a program: SIGTERM, SIGINT, or the end of its parent (a pipe the
// parent holds open, decisions 2.24) stops its loop.
#pragma once

#include <memory>

#include "base/loop_runner.h"
#include "base/pollable.h"
#include "base/result.h"
#include "base/unique_fd.h"

namespace weft {

/// Owner: the loop's thread. Make it before any thread starts: it blocks the two signals and ignores SIGPIPE.
class ProcessGuard final : public Pollable {
 public:
  /// @param parent_fd  read end of a pipe, owned by the caller; -1: no parent to watch
  /// `loop` must outlive the guard, and is told to stop().
  static Result<std::unique_ptr<ProcessGuard>> create(LoopRunner& loop, int parent_fd);

  int poll(Instant now) noexcept override;
  void wait_fds(std::vector<pollfd>& out) const override;
  [[nodiscard]] bool prepare_sleep() noexcept override { return true; }
  void finish_sleep() noexcept override { check_at_ = Instant::min(); }
  [[nodiscard]] Instant deadline() const noexcept override { return kNever; }

 private:
  ProcessGuard(LoopRunner& loop, UniqueFd signals, int parent_fd) noexcept
      : loop_(loop), signals_(std::move(signals)), parent_fd_(parent_fd) {}

  LoopRunner& loop_;
  UniqueFd signals_;
  int parent_fd_;
  Instant check_at_ = Instant::min();
};

}  // namespace weft
