// session/session_memory.h -- the protection domain of one incarnation and what is registered in it: no key
// of another domain opens any of it.
#pragma once

#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "base/rng.h"

namespace weft::session {

/// Owner: the session's thread. Ends all registrations and the domain; the queue pairs in it go first.
class SessionMemory {
 public:
  SessionMemory(adapter::ChannelAdapter& adapter, RandomSource& random) noexcept
      : adapter_(adapter), random_(random) {}
  ~SessionMemory();
  SessionMemory(const SessionMemory&) = delete;
  SessionMemory& operator=(const SessionMemory&) = delete;

  /// Makes the domain; once, before anything else.
  Status open();
  [[nodiscard]] adapter::PdId domain() const noexcept { return pd_; }
  /// Registers receive memory: `remote` for RDMA writes, under a random base address that says nothing about
  /// this process (SAN-LMP-13).
  Refusable<adapter::MemoryRegion> add(std::span<std::byte> memory, bool remote);
  void remove(Lkey lkey) noexcept;

 private:
  adapter::ChannelAdapter& adapter_;
  RandomSource& random_;
  adapter::PdId pd_;
  bool has_pd_ = false;
  std::vector<Lkey> regions_;
};

}  // namespace weft::session
