#include "rdma_cm/process_mark.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <fstream>
#include <string>

#include "base/fnv.h"
#include "base/parse_number.h"
#include "base/process_stat.h"
#include "base/sip_hash.h"

namespace weft::rdma_cm {
namespace {

/// The kernel's boot id: 128 random bits, which no other machine knows. All zero if /proc does not show it.
SipKey machine_secret() {
  std::string text;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> text;
  std::erase(text, '-');
  if (text.size() != 32) return {};
  const auto word = [&](size_t at) { return parse_number<uint64_t>(text.substr(at, 16), 16).value_or(0); };
  return {word(0), word(16)};
}

}  // namespace

uint64_t namespace_number(const char* link) {
  std::array<char, 64> space{};
  const ssize_t bytes = readlink(link, space.data(), space.size());
  const SipKey secret = machine_secret();
  if (bytes <= 0 || secret == SipKey{}) return 0;
  return sip_hash(secret, std::array{fnv1a({space.data(), static_cast<size_t>(bytes)})});
}

MadProcess this_process(uint64_t incarnation) {
  MadProcess out{.incarnation = incarnation, .pid = static_cast<uint32_t>(getpid())};
  const ProcessStat self = process_stat(getpid());
  if (self.error != 0) return out;
  out.started = self.started;
  out.space = namespace_number("/proc/self/ns/pid");
  return out;
}

Presence presence_of(const MadProcess& process, const MadProcess& self) noexcept {
  if (process.space == 0 || process.space != self.space) return Presence::kUnknown;
  const ProcessStat seen = process_stat(static_cast<pid_t>(process.pid));
  if (seen.error == ENOENT || seen.error == ESRCH) return Presence::kEnded;
  if (seen.error != 0) return Presence::kUnknown;
  return seen.dead() || seen.started != process.started ? Presence::kEnded : Presence::kRuns;
}

}  // namespace weft::rdma_cm
