// verbs/objects.h -- the structs of libibverbs with what each stands for. A C object is the first member of
// ours, so that a pointer to one is a pointer to the other.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "hca/context.h"
#include "hca/device.h"
#include "verbs/call_lock.h"
#include "verbs/newer_abi.h"
#include "verbs/open_device.h"

namespace weft::verbs {

/// What one ibv_open_device() gives. The C part is the last member: libibverbs' headers look for what is
/// extended in front of an ibv_context.
struct OpenContext {
  ProcessNode* node = nullptr;
  hca::Context* context = nullptr;
  std::shared_ptr<OpenDevice> device;
  const adapter::AdapterLimits* limits = nullptr;
  verbs_context wide{};
};

/// An object of libibverbs that has nothing of its own beside the one of hca/ that it stands for.
template <class C, class Object>
struct Wrapper {
  C c{};
  Object* object = nullptr;
};
using Mw = Wrapper<ibv_mw, hca::Window>;
using Ah = Wrapper<ibv_ah, hca::AddressHandle>;
using Channel = Wrapper<ibv_comp_channel, hca::CompletionChannel>;
using Xrcd = Wrapper<ibv_xrcd, hca::XrcDomain>;
using Srq = Wrapper<ibv_srq, hca::Srq>;

/// A promise of the program that it uses what it makes here from one thread. Nothing is gained by it.
struct Td {
  ibv_td c{};
  std::atomic<uint32_t> users{0};
};

/// Also a parent domain, and one that was imported: both stand for the protection domain of another Pd.
struct Pd {
  ibv_pd c{};
  hca::ProtectionDomain* object = nullptr;
  Pd* parent = nullptr;  // of a parent domain, the domain that it was made of
  Td* thread = nullptr;
  std::atomic<uint32_t> users{0};  // parent domains made of it, and buffers
  bool imported = false;
};

struct Mr {
  ibv_mr c{};
  hca::MemoryRegion* object = nullptr;
  std::shared_ptr<DeviceMemory> memory;  // of device memory, that
  DmaHandle* dma = nullptr;
  bool imported = false;
};

struct Cq {
  ibv_cq_ex c{};
  hca::Cq* object = nullptr;
  adapter::WorkCompletion shown{};  // what start_poll() or next_poll() has taken last
  std::unique_ptr<CallLock> lock;   // of an extended CQ that several threads may poll
};

/// Work requests between ibv_wr_start() and ibv_wr_complete().
struct WorkBatch;

struct Qp {
  ibv_qp_ex c{};
  hca::Qp* object = nullptr;
  ibv_qp_cap cap{};
  int sq_sig_all = 0;
  ibv_mtu path_mtu = IBV_MTU_4096;
  ibv_ah_attr address{};  // as the program gave it
  ibv_ah_attr alternate{};
  uint8_t timeout = 0;  // codes of the program, where the adapter has times
  uint8_t alt_timeout = 0;
  uint8_t min_rnr_timer = 0;
  WorkBatch* batch = nullptr;  // extended QPs alone
};

/// Our object behind a C one; both begin at the same byte.
template <class Ours, class C>
Ours& ours(C* object) noexcept {
  static_assert(offsetof(Ours, c) == 0);
  return *reinterpret_cast<Ours*>(object);
}

inline OpenContext& ours(ibv_context* context) noexcept {
  std::byte* at = reinterpret_cast<std::byte*>(context);
  return *reinterpret_cast<OpenContext*>(at - offsetof(verbs_context, context) - offsetof(OpenContext, wide));
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

/// What a bind work request asks for. False for a window that is none of type 2, the ones that are bound so.
[[nodiscard]] bool bind_request(ibv_mw* window, uint32_t rkey, const ibv_mw_bind_info& info,
                                adapter::BindRequest& out) noexcept;

}  // namespace weft::verbs
