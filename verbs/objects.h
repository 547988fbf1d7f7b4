// verbs/objects.h -- the structs of libibverbs, each with the object of hca/ that it stands for. The C struct
// is the first member of ours, so a pointer to one is a pointer to the other.
#pragma once

#include <infiniband/verbs.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "base/guarded_fd.h"
#include "hca/context.h"
#include "hca/device.h"
#include "verbs/call_lock.h"
#include "verbs/explain/long_wait.h"
#include "verbs/newer_abi.h"
#include "verbs/process/open_device.h"
#include "verbs/use_count.h"

namespace weft::verbs {

/// Result of one ibv_open_device(). The C struct is the last member: libibverbs' headers expect the extended
/// part in front of the ibv_context.
struct OpenContext {
  ProcessNode* node = nullptr;
  hca::Context* context = nullptr;
  std::shared_ptr<OpenDevice> device;
  const adapter::AdapterLimits* limits = nullptr;
  verbs_context wide{};
};

/// An object of libibverbs that needs little but its C struct and its object of hca/.
template <class C, class Object>
struct Wrapper {
  C c{};
  Object* object = nullptr;
  Use domain;  // of use_parent(), if the program makes such objects through a PD
};
using Mw = Wrapper<ibv_mw, hca::Window>;
using Ah = Wrapper<ibv_ah, hca::AddressHandle>;
using Channel = Wrapper<ibv_comp_channel, hca::CompletionChannel>;
using Srq = Wrapper<ibv_srq, hca::Srq>;

/// One open of an XRC domain. It holds the file that names the domain: the inode number of a file that has
/// ended could otherwise be that of another file, which would open the same domain.
struct Xrcd {
  ibv_xrcd c{};
  hca::XrcDomain* object = nullptr;
  GuardedFd file;
};

/// A thread domain: the program promises to use the objects in it from one thread. Only extended QPs profit:
/// they need no lock (CallLock).
struct Td {
  ibv_td c{};
  std::atomic<uint32_t> users{0};
};

/// A protection domain. A parent domain and an imported domain are also a Pd and share the object of another
/// Pd.
struct Pd {
  ibv_pd c{};
  hca::ProtectionDomain* object = nullptr;
  // Parent domains made from it, and buffers. For a parent domain also the objects made through it: the
  // adapter counts them only at the domain that the parent domain was made from.
  UseCount users;
  Use base;  // for a parent domain: of the domain that it was made from
  Td* thread = nullptr;
};

/// For an object made through `pd`, which may be null: holds `pd` if it is a parent domain.
[[nodiscard]] inline Use use_parent(ibv_pd* pd) noexcept;

struct Mr {
  ibv_mr c{};
  hca::MemoryRegion* object = nullptr;
  std::shared_ptr<RegionUses> uses;  // null: none
};

struct Cq {
  ibv_cq_ex c{};
  hca::Cq* object = nullptr;
  adapter::WorkCompletion shown{};    // the entry that start_poll() or next_poll() took last
  uint64_t taken_ns = 0;              // when it was taken (CLOCK_MONOTONIC), if `stamps`
  uint64_t taken_of_day_ns = 0;       // the same (CLOCK_REALTIME)
  bool stamps = false;                // the program asked for time stamps
  std::unique_ptr<CallLock> lock;     // of an extended CQ that several threads may poll
  std::unique_ptr<EmptyPolls> empty;  // with WEFT_DEBUG=verbs
  Use domain;                         // of use_parent()
};

/// Attributes of a QP as the program gave them: the adapter keeps times and LIDs. All handles of an XRC
/// target share them.
struct KeptAttr {
  std::mutex mutex;  // of all below; never held with another lock
  ibv_mtu path_mtu = IBV_MTU_4096;
  ibv_ah_attr address{};
  ibv_ah_attr alternate{};
  bool has_alternate = false;
  uint8_t timeout = 0;
  uint8_t alt_timeout = 0;
  uint8_t min_rnr_timer = 0;
  // As creation told them; they do not change.
  ibv_qp_cap cap{};
  int sq_sig_all = 0;
};

/// Work requests between ibv_wr_start() and ibv_wr_complete().
struct WorkBatch;

struct Qp {
  ibv_qp_ex c{};
  hca::Qp* object = nullptr;
  ibv_qp_cap cap{};
  std::shared_ptr<KeptAttr> kept;
  WorkBatch* batch = nullptr;  // null unless the QP is extended
  Use domain;                  // of use_parent()
};

/// Our object of a C object: both begin at the same byte.
template <class Ours, class C>
Ours& ours(C* object) noexcept {
  static_assert(offsetof(Ours, c) == 0);
  return *reinterpret_cast<Ours*>(object);
}

inline Use use_parent(ibv_pd* pd) noexcept {
  return pd != nullptr && ours<Pd>(pd).base.holds() ? Use(ours<Pd>(pd).users) : Use();
}

inline OpenContext& ours(ibv_context* context) noexcept {
  std::byte* at = reinterpret_cast<std::byte*>(context);
  return *reinterpret_cast<OpenContext*>(at - offsetof(verbs_context, context) - offsetof(OpenContext, wide));
}

/// Adds to an object's count of acknowledged events. Programs read the count in the C struct, under its
/// mutex.
template <class C>
void count_acknowledged(C& object, uint32_t& field, uint32_t events) noexcept {
  if (in_child(object.context)) return;
  pthread_mutex_lock(&object.mutex);
  field += events;
  pthread_cond_signal(&object.cond);
  pthread_mutex_unlock(&object.mutex);
}

inline ibv_cq* plain(Cq& cq) noexcept {
  return ibv_cq_ex_to_cq(&cq.c);
}
inline Cq& ours(ibv_cq* cq) noexcept {
  return *reinterpret_cast<Cq*>(cq);
}
inline Qp& ours(ibv_qp* qp) noexcept {
  return *reinterpret_cast<Qp*>(qp);
}

/// Fills `out` from a bind work request. False if the window is not of type 2: windows of type 1 have their
/// own call.
[[nodiscard]] bool bind_request(ibv_mw* window, uint32_t rkey, const ibv_mw_bind_info& info,
                                adapter::BindRequest& out) noexcept;

}  // namespace weft::verbs
