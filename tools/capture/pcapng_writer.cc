#include "tools/capture/pcapng_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/command_line.h"

namespace weft::tools {
namespace {

constexpr uint32_t kSectionHeader = 0x0A0D0D0A;
constexpr uint32_t kInterfaceDescription = 1;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint32_t kByteOrderMagic = 0x1A2B3C4D;
constexpr uint16_t kLinkTypeEthernet = 1;
constexpr uint16_t kLinkTypeUser0 = 147;
constexpr uint16_t kOptionEnd = 0;
constexpr uint16_t kOptionComment = 1;
constexpr uint16_t kOptionName = 2;
constexpr uint16_t kOptionUserApplication = 4;
constexpr uint16_t kOptionTimeResolution = 9;
constexpr uint16_t kOptionFlags = 2;

template <class T>
void add(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void pad(std::string& to) {
  to.append((4 - to.size() % 4) % 4, '\0');
}

void add_option(std::string& to, uint16_t code, const std::string& value) {
  add(to, code);
  add(to, static_cast<uint16_t>(value.size()));
  to += value;
  pad(to);
}

void end_options(std::string& to) {
  add(to, kOptionEnd);
  add(to, uint16_t{0});
}

}  // namespace

PcapngWriter::PcapngWriter(UniqueFd fd, const std::vector<std::string>& interfaces, CaptureContent content,
                           uint32_t keep_max)
    : fd_(std::move(fd)), keep_max_(keep_max == 0 ? UINT32_MAX : keep_max) {
  section();
  for (const std::string& name : interfaces) interface(name, content);
}

void PcapngWriter::section() {
  std::string body;
  add(body, kByteOrderMagic);
  add(body, uint16_t{1});
  add(body, uint16_t{0});
  add(body, ~uint64_t{0});  // section length is unknown
  add_option(body, kOptionUserApplication, std::string("weft ") + kProgramVersion);
  end_options(body);
  block(kSectionHeader, body);
}

void PcapngWriter::interface(const std::string& name, CaptureContent content) {
  std::string body;
  add(body, content == CaptureContent::kCells ? kLinkTypeUser0 : kLinkTypeEthernet);
  add(body, uint16_t{0});
  add(body, uint32_t{0});  // no limit on the bytes kept per frame
  add_option(body, kOptionName, name);
  add_option(body, kOptionTimeResolution, std::string(1, '\x09'));  // 10^-9 s
  end_options(body);
  block(kInterfaceDescription, body);
}

void PcapngWriter::block(uint32_t type, const std::string& body) {
  const auto total = static_cast<uint32_t>(body.size() + 12);
  add(buffer_, type);
  add(buffer_, total);
  buffer_ += body;
  add(buffer_, total);
}

bool PcapngWriter::frame(const CapturedFrame& frame) {
  std::string body;
  add(body, frame.port);
  add(body, static_cast<uint32_t>(frame.time_ns >> 32));
  add(body, static_cast<uint32_t>(frame.time_ns));
  const size_t kept = std::min<size_t>(frame.data.size(), keep_max_);
  add(body, static_cast<uint32_t>(kept));
  add(body, frame.frame_bytes);
  body.append(reinterpret_cast<const char*>(frame.data.data()), kept);
  pad(body);
  std::string flags;
  add(flags, frame.direction == FrameDirection::kIn ? uint32_t{1} : uint32_t{2});
  add_option(body, kOptionFlags, flags);
  if (!frame.note.empty()) add_option(body, kOptionComment, frame.note);
  end_options(body);
  block(kEnhancedPacket, body);
  return buffer_.size() < kBufferBytes ? failure_ == 0 : flush();
}

bool PcapngWriter::flush() {
  for (size_t at = 0; at < buffer_.size() && failure_ == 0;) {
    const ssize_t written = write(fd_.get(), buffer_.data() + at, buffer_.size() - at);
    if (written > 0)
      at += static_cast<size_t>(written);
    else if (errno != EINTR)
      failure_ = errno;
  }
  buffer_.clear();
  return failure_ == 0;
}

}  // namespace weft::tools
