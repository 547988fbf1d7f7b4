// Calls that have nothing to do here, and calls for what the device does not offer. They answer as the
// manuals say.
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <string>

#include "base/unique_fd.h"
#include "verbs/c_call.h"
#include "verbs/explain/explain.h"
#include "verbs/process/identity.h"

using namespace weft::verbs;  // NOLINT(google-build-using-namespace): C functions stand outside

namespace {

int unoffered(const char* call) noexcept {
  guarded(0, [&] {
    explain("{}: not supported", call);
    return 0;
  });
  return fail(EOPNOTSUPP);
}

}  // namespace

// ---- fork(): no memory is pinned, and hca/ detects a child ----

WEFT_VERBS_API int ibv_fork_init() {
  return 0;
}
WEFT_VERBS_API ibv_fork_status ibv_is_fork_initialized() {
  return IBV_FORK_UNNEEDED;
}
WEFT_VERBS_API int ibv_dontfork_range(void* /*base*/, size_t /*bytes*/) {
  return 0;
}
WEFT_VERBS_API int ibv_dofork_range(void* /*base*/, size_t /*bytes*/) {
  return 0;
}

// ---- sysfs --------------------

WEFT_VERBS_API const char* ibv_get_sysfs_path() {
  return "/sys";
}

/// Reads the file without its last line end. Returns the number of bytes; -1 when the file cannot be read.
WEFT_VERBS_API int ibv_read_sysfs_file(const char* dir, const char* file, char* out, size_t bytes) {
  return guarded(-1, [&] {
    const std::string path = std::string(dir) + "/" + file;
    const weft::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return -1;
    ssize_t got = read(fd.get(), out, bytes);
    if (got < 0) return -1;
    if (got > 0 && out[got - 1] == '\n') --got;
    if (static_cast<size_t>(got) < bytes) out[got] = 0;
    return static_cast<int>(got);
  });
}

// ---- enhanced connection establishment: the device has no options ----

WEFT_VERBS_API int ibv_set_ece(ibv_qp* /*qp*/, ibv_ece* ece) {
  if ((ece->vendor_id == 0 || ece->vendor_id == kVendorId) && ece->options == 0) return 0;
  return unoffered("ibv_set_ece");
}
WEFT_VERBS_API int ibv_query_ece(ibv_qp* /*qp*/, ibv_ece* ece) {
  *ece = {.vendor_id = kVendorId, .options = 0, .comp_mask = 0};
  return 0;
}

// ---- not offered --------------------

WEFT_VERBS_API ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* /*pd*/, uint64_t /*offset*/, size_t /*length*/,
                                         uint64_t /*iova*/, int /*fd*/, int /*access*/) {
  unoffered("ibv_reg_dmabuf_mr");
  return nullptr;
}
WEFT_VERBS_API int ibv_resolve_eth_l2_from_gid(ibv_context* /*context*/, ibv_ah_attr* /*attr*/,
                                               uint8_t* /*mac*/, uint16_t* /*vlan*/) {
  return unoffered("ibv_resolve_eth_l2_from_gid");
}

/// One byte of data. Vendors' libraries, which other libraries load, refer to it.
WEFT_VERBS_API const bool verbs_allow_disassociate_destroy;
const bool verbs_allow_disassociate_destroy = false;

// ---- stubs --------------------

/// The generated stubs call it once for each name.
extern "C" void weft_verbs_stub_called(const char* name) noexcept {
  unoffered(name);
}
