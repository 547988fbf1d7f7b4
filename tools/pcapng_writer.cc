#include "tools/pcapng_writer.h"

#include <cstring>

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

PcapngWriter::PcapngWriter(const std::string& path, const std::vector<std::string>& interfaces,
                           CaptureContent content)
    : out_(path, std::ios::binary | std::ios::trunc) {
  section();
  for (const std::string& name : interfaces) interface(name, content);
}

void PcapngWriter::section() {
  std::string body;
  add(body, kByteOrderMagic);
  add(body, uint16_t{1});
  add(body, uint16_t{0});
  add(body, ~uint64_t{0});  // length not known
  add_option(body, kOptionUserApplication, std::string("weft ") + kProgramVersion);
  end_options(body);
  block(kSectionHeader, body);
}

void PcapngWriter::interface(const std::string& name, CaptureContent content) {
  std::string body;
  add(body, content == CaptureContent::kFrames ? kLinkTypeEthernet : kLinkTypeUser0);
  add(body, uint16_t{0});
  add(body, uint32_t{0});  // no limit
  add_option(body, kOptionName, name);
  add_option(body, kOptionTimeResolution, std::string(1, '\x09'));  // 10^-9 s
  end_options(body);
  block(kInterfaceDescription, body);
}

void PcapngWriter::block(uint32_t type, const std::string& body) {
  std::string whole;
  const auto total = static_cast<uint32_t>(body.size() + 12);
  add(whole, type);
  add(whole, total);
  whole += body;
  add(whole, total);
  out_.write(whole.data(), static_cast<std::streamsize>(whole.size()));
}

bool PcapngWriter::frame(const CapturedFrame& frame) {
  std::string body;
  add(body, frame.port);
  add(body, static_cast<uint32_t>(frame.time_ns >> 32));
  add(body, static_cast<uint32_t>(frame.time_ns));
  add(body, static_cast<uint32_t>(frame.data.size()));
  add(body, frame.frame_bytes);
  body.append(reinterpret_cast<const char*>(frame.data.data()), frame.data.size());
  pad(body);
  std::string flags;
  add(flags, frame.direction == FrameDirection::kIn ? uint32_t{1} : uint32_t{2});
  add_option(body, kOptionFlags, flags);
  end_options(body);
  block(kEnhancedPacket, body);
  return out_.good();
}

}  // namespace weft::tools
