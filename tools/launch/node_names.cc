#include "tools/launch/node_names.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <sstream>

#include "base/names.h"
#include "base/private_files.h"
#include "base/rng.h"
#include "base/unique_fd.h"
#include "fabric/link/limits.h"
#include "node/limits.h"
#include "tools/topology/topology.h"

namespace weft::tools {
namespace {

using Names = std::map<std::string, NodeIdentity>;
/// Bits of an EUI-64. Set local and cleared group bit: an identifier that no hardware has.
constexpr uint64_t kLocalBit = uint64_t{1} << 57;
constexpr uint64_t kGroupBit = uint64_t{1} << 56;

/// The lowest LID that no other name has; kLidNone when there is none.
Lid free_lid(const Names& names, const SpareRecord& spare) {
  std::set<uint32_t> used;
  for (const auto& [name, identity] : names) used.insert(identity.lid.value());
  const uint32_t first = spare.first_lid + fabric::anonymous_lids(spare.lids);
  const uint32_t end = spare.first_lid + spare.lids;
  for (uint32_t lid = first; lid < end; ++lid)
    if (!used.contains(lid)) return Lid(static_cast<uint16_t>(lid));
  return kLidNone;
}

bool in_range(Lid lid, const SpareRecord& spare) {
  return lid.value() >= spare.first_lid && lid.value() < spare.first_lid + spare.lids;
}

}  // namespace

Names known_names(const StateDir& dir) {
  Names out;
  std::istringstream in(dir.text("names"));
  uint64_t guid = 0;
  uint64_t secret = 0;
  uint32_t lid = 0;
  std::string name;
  while (in >> std::hex >> guid >> secret >> std::dec >> lid >> name)
    out[name] = {Guid(guid), secret, Lid(static_cast<uint16_t>(lid))};
  return out;
}

std::optional<SpareRecord> home_of(const StateDir& dir, const RunRecord& record, const std::string& name) {
  const Names names = known_names(dir);
  const auto known = names.find(name);
  if (known == names.end()) return {};
  const auto home =
      std::find_if(record.spare.begin(), record.spare.end(),
                   [&known](const SpareRecord& spare) { return in_range(known->second.lid, spare); });
  return home == record.spare.end() ? std::nullopt : std::optional(*home);
}

Result<NodeIdentity> node_identity(const StateDir& dir, const RunRecord& record, const SpareRecord& spare,
                                   const std::string& name) {
  if (const std::string fault = name_fault(name, node::kProgramNameBytesMax, "a node"); !fault.empty())
    return Error{fault};
  const bool listed = std::any_of(record.processes.begin(), record.processes.end(),
                                  [&](const RecordedProcess& process) { return process.name == name; });
  if (listed) return Error{fmt::format("'{}' is a node of the topology file: choose another name", name)};
  const std::string path = dir.file("names");
  const UniqueFd file = open_own_file(AT_FDCWD, path, O_RDWR | O_CREAT | O_APPEND);
  if (!file.valid() || flock(file.get(), LOCK_EX) != 0) return errno_error("cannot open " + path, errno);
  const Names names = known_names(dir);
  const auto known = names.find(name);
  if (known != names.end() && in_range(known->second.lid, spare)) return known->second;
  NodeIdentity fresh{Guid{}, 0, free_lid(names, spare)};
  if (fresh.lid == kLidNone)
    return Error{fmt::format("all LIDs for names of fabric '{}' are in use; remove {} to release them",
                             dir.fabric(), path)};
  SystemRandom random;
  // The GUID must not be predictable: another program could claim it before the name is first used.
  fresh.guid = Guid((random.next() & ~kGroupBit) | kLocalBit);
  while (fresh.secret == 0) fresh.secret = random.next();
  const std::string line =
      fmt::format("{:016x} {:016x} {} {}\n", fresh.guid.value(), fresh.secret, fresh.lid.value(), name);
  if (write(file.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return errno_error("cannot write " + path, errno);
  return fresh;
}

}  // namespace weft::tools
