#include "base/privileges.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace weft {
namespace {

constexpr int kCapabilityMax = 63;

}  // namespace

Status drop_privileges() {
  // The bounding set comes first, because shrinking it takes CAP_SETPCAP. A process without CAP_SETPCAP gains
  // nothing from the set and leaves it.
  for (int capability = 0; capability <= kCapabilityMax; ++capability) {
    if (::prctl(PR_CAPBSET_READ, capability, 0, 0, 0) != 1) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0 && errno != EPERM) {
      return errno_error("privileges: bounding set", errno);
    }
  }
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0 && errno != EINVAL) {
    return errno_error("privileges: ambient set", errno);
  }
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  const __user_cap_data_struct none[2]{};
  if (::syscall(SYS_capset, &header, none) != 0) return errno_error("privileges: capabilities", errno);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return errno_error("privileges: no_new_privs", errno);
  return {};
}

bool has_no_privileges() noexcept {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  __user_cap_data_struct sets[2]{};
  if (::syscall(SYS_capget, &header, sets) != 0) return false;
  for (const __user_cap_data_struct& set : sets) {
    if ((set.effective | set.permitted | set.inheritable) != 0) return false;
  }
  return true;
}

}  // namespace weft
