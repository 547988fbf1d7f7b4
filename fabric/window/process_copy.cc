// How it works: requests of one kind that follow each other go into one call. A write has two parts, the
// second of which holds the last bytes: the kernel copies part by part. Local parts are cheaper, because the
// kernel looks up and holds the pages of each remote part anew (0.27 us). They keep the order only where the
// processor makes stores visible in the order of the program; elsewhere the remote side has the two parts.
// The call says how many bytes it moved, which tells the request that failed; the call is then repeated
// behind that request.
#include "fabric/window/process_copy.h"

#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "fabric/window/window_words.h"

namespace weft::fabric {
namespace {

constexpr size_t kListMax = 64;  // requests in one call; below IOV_MAX with two parts each
/// Above this a request has calls of its own, in pieces: one call moves less than 2 GiB.
constexpr uint64_t kAloneBytes = uint64_t{1} << 20;
constexpr uint64_t kPieceBytes = uint64_t{1} << 28;
#if defined(__x86_64__)
constexpr bool kStoresInOrder = true;  // also those of two string instructions, one after the other
#else
constexpr bool kStoresInOrder = false;
#endif

void* address(uint64_t at) noexcept {
  return reinterpret_cast<void*>(static_cast<uintptr_t>(at));  // NOLINT(performance-no-int-to-ptr)
}

struct Call {
  std::array<iovec, 2 * kListMax> local;
  std::array<iovec, 2 * kListMax> remote;
  size_t locals = 0;
  size_t remotes = 0;

  void add(const DmaRequest& request) noexcept {
    const uint64_t last = request.kind == DmaKind::kWrite ? last_bytes(request) : 0;
    const uint64_t last_here = kStoresInOrder ? last : 0;
    const uint64_t last_there = kStoresInOrder ? 0 : last;
    local[locals++] = {request.local, request.bytes - last_here};
    if (last_here != 0) local[locals++] = {request.local + request.bytes - last_here, last_here};
    remote[remotes++] = {address(request.remote), request.bytes - last_there};
    if (last_there != 0)
      remote[remotes++] = {address(request.remote + request.bytes - last_there), last_there};
  }
  /// Bytes moved, or -1 with errno.
  ssize_t run(pid_t process, DmaKind kind) const noexcept {
    return kind == DmaKind::kWrite
               ? process_vm_writev(process, local.data(), locals, remote.data(), remotes, 0)
               : process_vm_readv(process, local.data(), locals, remote.data(), remotes, 0);
  }
};

/// What an errno of a call says: its first request failed, or none can succeed.
CopyWay way_of(int error) noexcept {
  if (error == EFAULT || error == ENOMEM || error == EINVAL) return CopyWay::kDone;
  return error == ESRCH ? CopyWay::kGone : CopyWay::kRefused;
}

/// A large request, in pieces.
CopyWay copy_alone(pid_t process, const DmaRequest& request, DmaStatus& status) noexcept {
  for (uint64_t at = 0; at < request.bytes; at += kPieceBytes) {
    DmaRequest piece = request;
    piece.remote += at;
    piece.local += at;
    piece.bytes = std::min(kPieceBytes, request.bytes - at);
    Call call;
    call.add(piece);
    const ssize_t moved = call.run(process, request.kind);
    if (moved < 0 && way_of(errno) != CopyWay::kDone) return way_of(errno);
    if (moved != static_cast<ssize_t>(piece.bytes)) {
      status = DmaStatus::kNoMemory;
      return CopyWay::kDone;
    }
  }
  status = DmaStatus::kGood;
  return CopyWay::kDone;
}

/// The length of the list at the front of `requests` that one call takes; at least 1.
size_t list_length(std::span<const DmaRequest> requests) noexcept {
  size_t count = 1;
  while (count < requests.size() && count < kListMax && requests[count].kind == requests[0].kind &&
         requests[count].bytes <= kAloneBytes) {
    ++count;
  }
  return count;
}

/// A list in one call. `done` grows by the requests whose status is known.
CopyWay copy_list(pid_t process, std::span<const DmaRequest> list, std::span<DmaStatus> statuses,
                  size_t& done) noexcept {
  Call call;
  for (const DmaRequest& request : list) call.add(request);
  const ssize_t moved = call.run(process, list[0].kind);
  if (moved < 0 && way_of(errno) != CopyWay::kDone) return way_of(errno);
  auto left = static_cast<uint64_t>(std::max<ssize_t>(moved, 0));
  size_t at = 0;
  for (; at < list.size() && left >= list[at].bytes; ++at) {
    left -= list[at].bytes;
    statuses[done++] = DmaStatus::kGood;
  }
  if (at < list.size()) statuses[done++] = DmaStatus::kNoMemory;
  return CopyWay::kDone;
}

}  // namespace

CopyWay copy_between(pid_t process, std::span<const DmaRequest> requests, std::span<DmaStatus> statuses,
                     size_t& done) noexcept {
  for (done = 0; done < requests.size();) {
    const std::span<const DmaRequest> rest = requests.subspan(done);
    CopyWay way = CopyWay::kDone;
    if (rest[0].bytes == 0) {
      statuses[done++] = DmaStatus::kGood;
    } else if (rest[0].bytes > kAloneBytes) {
      way = copy_alone(process, rest[0], statuses[done]);
      if (way == CopyWay::kDone) ++done;
    } else {
      way = copy_list(process, rest.first(list_length(rest)), statuses, done);
    }
    if (way != CopyWay::kDone) return way;
  }
  return CopyWay::kDone;
}

bool read_process_word(pid_t process, uint64_t at, uint64_t& out) noexcept {
  const iovec local{&out, sizeof out};
  const iovec remote{address(at), sizeof out};
  return process_vm_readv(process, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof out);
}

bool write_process_word(pid_t process, uint64_t at, uint64_t value) noexcept {
  const iovec local{&value, sizeof value};
  const iovec remote{address(at), sizeof value};
  return process_vm_writev(process, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof value);
}

std::string refusal_text(int errno_value) {
  const char* const advice =
      errno_value == EPERM
          ? "let processes of one user reach each other: sysctl kernel.yama.ptrace_scope=0, and the same "
            "capabilities on both sides"
          : "allow process_vm_readv and process_vm_writev in the filter of system calls";
  return fmt::format("the kernel refuses copies between the processes ({}): {}", std::strerror(errno_value),
                     advice);
}

}  // namespace weft::fabric
