#include "fabric/switch/lease_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <span>
#include <type_traits>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/unique_fd.h"

namespace weft::fabric {
namespace {

constexpr uint64_t kMagic = 0x3153455341454c57;  // "WLEASES1"
/// As long as the names of our keys (node/limits.h), with room for an address. An endnode with a longer key
/// name cannot get its LID back after a restart.
constexpr size_t kKeyBytesMax = 48;

struct Header {
  uint64_t magic = kMagic;
  uint32_t first_lid = 0;
  uint32_t lids = 0;
};

struct Record {
  uint32_t crc = 0;  // of the fields behind it
  uint32_t lid = 0;
  uint64_t guid = 0;
  uint64_t nonce = 0;
  uint64_t nonce_before = 0;
  uint64_t brought = 0;
  int64_t free_at = 0;
  std::array<char, kKeyBytesMax> key{};
};
static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) == 96);
constexpr size_t kRecordsAtOnce = 512;

uint32_t crc_of(const Record& record) noexcept {
  return crc32c(std::as_bytes(std::span(&record, 1)).subspan(sizeof record.crc));
}

class LeaseFile final : public LeaseStore {
 public:
  LeaseFile(UniqueFd file, uint32_t lids) noexcept : file_(std::move(file)), lids_(lids) {}

  std::vector<Lease> load() override {
    std::vector<Lease> out;
    std::vector<Record> records(kRecordsAtOnce);
    for (uint32_t first = 0; first < lids_; first += kRecordsAtOnce) {
      const ssize_t got =
          pread(file_.get(), records.data(), records.size() * sizeof(Record), place_of(first));
      if (got <= 0) break;
      for (size_t i = 0; i < static_cast<size_t>(got) / sizeof(Record); ++i)
        take(records[i], first + static_cast<uint32_t>(i), out);
    }
    return out;
  }

  void keep(const Lease& lease) noexcept override {
    Record record;
    record.lid = lease.lid;
    record.guid = lease.guid.value();
    record.nonce = lease.nonce;
    record.nonce_before = lease.nonce_before;
    record.brought = lease.brought;
    record.free_at = lease.free_at.time_since_epoch().count();
    lease.key.copy(record.key.data(), record.key.size());
    record.crc = crc_of(record);
    if (pwrite(file_.get(), &record, sizeof record, place_of(lease.lid)) == sizeof record) return;
    if (limiter_.allow(MonotonicClock().now()))
      log(LogLevel::kWarn,
          "cannot write the leases: after a restart of this switch its guests get other LIDs");
  }

 private:
  static off_t place_of(uint32_t lid) noexcept {
    return static_cast<off_t>(sizeof(Header) + size_t{lid} * sizeof(Record));
  }
  static void take(const Record& record, uint32_t place, std::vector<Lease>& out) {
    if (record.guid == 0 || record.lid != place || record.crc != crc_of(record)) return;
    Lease& lease = out.emplace_back();
    lease.lid = record.lid;
    lease.guid = Guid(record.guid);
    lease.nonce = record.nonce;
    lease.nonce_before = record.nonce_before;
    lease.brought = record.brought;
    lease.free_at = Instant(Duration(record.free_at));
    lease.key = std::string(record.key.data(), strnlen(record.key.data(), record.key.size()));
  }

  UniqueFd file_;
  uint32_t lids_;
  LogLimiter limiter_{std::chrono::seconds(5)};
};

}  // namespace

Result<std::unique_ptr<LeaseStore>> open_lease_file(const std::string& path, const SpareConfig& spare) {
  UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600));
  if (!file.valid()) return errno_error("cannot open " + path, errno);
  struct stat info {};
  if (fstat(file.get(), &info) != 0) return errno_error("cannot open " + path, errno);
  if (!S_ISREG(info.st_mode) || info.st_uid != geteuid() || (info.st_mode & 077) != 0)
    return Error{fmt::format("{} must be a regular file of this user with mode 0600: remove it", path)};
  const Header wanted{.first_lid = spare.first_lid.value(), .lids = spare.lid_count()};
  Header found;
  const bool whole = pread(file.get(), &found, sizeof found, 0) == sizeof found;
  if (!whole || std::memcmp(&found, &wanted, sizeof wanted) != 0) {
    if (ftruncate(file.get(), 0) != 0 || pwrite(file.get(), &wanted, sizeof wanted, 0) != sizeof wanted)
      return errno_error("cannot write " + path, errno);
  }
  return std::unique_ptr<LeaseStore>(std::make_unique<LeaseFile>(std::move(file), wanted.lids));
}

}  // namespace weft::fabric
