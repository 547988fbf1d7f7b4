#include "iou_driver/pcap_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace weft::iou {
namespace {

constexpr size_t kBufferBytes = 256 * 1024;
constexpr size_t kLookBytes = 1024 * 1024;
static_assert(kBufferBytes > 2 * kPcapFrameBytesMax);

// The file format, in the byte order of the machine that writes it.
struct FileHeader {
  uint32_t magic = 0xA1B23C4D;  // time stamps in nanoseconds
  uint16_t major = 2;
  uint16_t minor = 4;
  int32_t zone = 0;
  uint32_t accuracy = 0;
  uint32_t frame_bytes_max = kPcapFrameBytesMax;
  uint32_t link_type = 1;  // Ethernet
};
static_assert(sizeof(FileHeader) == 24);
struct RecordHeader {
  uint32_t seconds = 0;
  uint32_t nanoseconds = 0;
  uint32_t kept_bytes = 0;
  uint32_t frame_bytes = 0;
};
static_assert(sizeof(RecordHeader) == 16);

Error not_ours(const std::string& path) {
  return Error{
      "pcap: " + path +
      " exists and is no recording of this program, it is left as it is: choose another output or move it "
      "away"};
}

/// Length of the whole records at the start of a file, its header included.
uint64_t whole_bytes(int fd, uint64_t file_bytes) {
  std::vector<std::byte> look(kLookBytes);
  uint64_t at = sizeof(FileHeader);
  uint64_t from = 0;  // file offset of look[0]
  uint64_t held = 0;
  while (at + sizeof(RecordHeader) <= file_bytes) {
    if (at < from || at + sizeof(RecordHeader) > from + held) {
      const ssize_t got = ::pread(fd, look.data(), look.size(), static_cast<off_t>(at));
      if (got < static_cast<ssize_t>(sizeof(RecordHeader))) break;
      from = at;
      held = static_cast<uint64_t>(got);
    }
    RecordHeader record;
    std::memcpy(&record, look.data() + (at - from), sizeof record);
    if (record.kept_bytes > kPcapFrameBytesMax || at + sizeof record + record.kept_bytes > file_bytes) break;
    at += sizeof record + record.kept_bytes;
  }
  return at;
}

}  // namespace

PcapFile::PcapFile(UniqueFd fd) : fd_(std::move(fd)), buffer_(kBufferBytes) {}

PcapFile::~PcapFile() {
  (void)flush();
}

Result<std::unique_ptr<PcapFile>> PcapFile::open(const std::string& path) {
  // Not blocking: a pipe of that name may have no reader.
  UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0644));
  struct stat about {};
  if (!fd.valid() || ::fstat(fd.get(), &about) != 0) return errno_error("pcap: " + path, errno);
  if (!S_ISREG(about.st_mode) && !S_ISCHR(about.st_mode)) return Error{"pcap: " + path + " is no file"};
  std::unique_ptr<PcapFile> file(new PcapFile(std::move(fd)));  // tidy: private constructor
  file->regular_ = S_ISREG(about.st_mode);
  if (file->regular_) {
    if (::flock(file->fd_.get(), LOCK_EX | LOCK_NB) != 0)
      return Error{"pcap: another process records in " + path + ": choose another output"};
    file->written_ = static_cast<uint64_t>(about.st_size);
    if (Status ours = file->check_existing(path, file->written_); !ours) return ours.error();
  }
  if (file->written_ == 0) file->put_file_header();
  return file;
}

Status PcapFile::check_existing(const std::string& path, uint64_t file_bytes) const {
  if (file_bytes == 0) return {};
  const FileHeader expected;
  FileHeader found;
  if (::pread(fd_.get(), &found, sizeof found, 0) != sizeof found) return not_ours(path);
  if (std::memcmp(&found, &expected, sizeof found) != 0) return not_ours(path);
  if (whole_bytes(fd_.get(), file_bytes) == file_bytes) return {};
  return Error{"pcap: " + path +
               " ends in the middle of a frame, it is left as it is: choose another output, or "
               "keep what is whole with tcpdump -r " +
               path + " -w NEW and move it away"};
}

void PcapFile::put(const void* bytes, size_t count) noexcept {
  if (count == 0) return;
  std::memcpy(buffer_.data() + used_, bytes, count);
  used_ += count;
}

void PcapFile::put_file_header() noexcept {
  const FileHeader header;
  put(&header, sizeof header);
}

PcapWritten PcapFile::add(Instant at, std::span<const std::byte> head,
                          std::span<const std::byte> rest) noexcept {
  const size_t bytes = head.size() + rest.size();
  const bool full = used_ + sizeof(RecordHeader) + bytes > buffer_.size();
  const PcapWritten written = full ? flush() : PcapWritten();
  const int64_t ns = at.time_since_epoch().count();
  const RecordHeader record{.seconds = static_cast<uint32_t>(ns / 1'000'000'000),
                            .nanoseconds = static_cast<uint32_t>(ns % 1'000'000'000),
                            .kept_bytes = static_cast<uint32_t>(bytes),
                            .frame_bytes = static_cast<uint32_t>(bytes)};
  put(&record, sizeof record);
  put(head.data(), head.size());
  put(rest.data(), rest.size());
  ++frames_;
  bytes_ += bytes;
  return written;
}

PcapWritten PcapFile::flush() noexcept {
  if (used_ == 0) return {};
  const ssize_t put = ::write(fd_.get(), buffer_.data(), used_);
  const int error = put < 0 ? errno : ENOSPC;  // a short write means that the disk is full
  const bool whole = put == static_cast<ssize_t>(used_);
  PcapWritten out{.lost = frames_, .error = error};
  if (whole) {
    out = {.frames = frames_, .bytes = bytes_};
    written_ += used_;
  } else if (regular_ && put > 0) {
    // Removes the part that a full disk took, so that the file ends with a whole frame.
    (void)!::ftruncate(fd_.get(), static_cast<off_t>(written_));
  }
  used_ = 0;
  frames_ = 0;
  bytes_ = 0;
  if (written_ == 0) put_file_header();
  return out;
}

Status check_different_files(const std::string& in, const std::string& out) {
  struct stat first {};
  struct stat second {};
  if (::stat(in.c_str(), &first) != 0 || ::stat(out.c_str(), &second) != 0) return {};
  if (first.st_dev != second.st_dev || first.st_ino != second.st_ino) return {};
  return Error{"pcap: input " + in + " and output " + out + " are one file: choose another output"};
}

}  // namespace weft::iou
