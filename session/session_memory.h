// session/session_memory.h -- the protection domain of one incarnation and its registrations. Keys of other
// domains give no access to them.
#pragma once

#include <span>
#include <vector>

#include "adapter/adapter.h"
#include "base/rng.h"

namespace weft::session {

/// Owner: the session's thread. The destructor ends all registrations and the domain; the queue pairs in it
/// must be destroyed earlier.
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
  /// Registers receive memory: `remote` for RDMA writes, under a random base address, which reveals nothing
  /// about this process's address space (SAN-LMP-13).
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
