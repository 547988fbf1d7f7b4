#include "iou_driver/pcap_nic.h"

#include <pcap/pcap.h>

#include <algorithm>
#include <cstring>

#include "base/net/ethernet.h"
#include "base/text_file.h"

namespace weft::iou {
namespace {

constexpr Duration kFlushInterval = std::chrono::milliseconds(200);

}  // namespace

PcapNic::PcapNic(const std::string& in, const MacAddress& mac)
    : ModelPort("pcap", mac, {}, kPcapFrameBytesMax) {
  info_.name = in;
}

Result<std::unique_ptr<PcapNic>> PcapNic::open(const std::string& in, const std::string& out,
                                               const MacAddress& mac) {
  std::unique_ptr<PcapNic> nic(new PcapNic(in, mac));  // tidy: private constructor
  if (Status different = check_different_files(in, out); !different) return different.error();
  if (!in.empty()) {
    if (Status file = check_is_file(in); !file) return Error{"pcap: " + file.error().text};
    char error[PCAP_ERRBUF_SIZE]{};
    nic->in_ = ::pcap_open_offline_with_tstamp_precision(in.c_str(), PCAP_TSTAMP_PRECISION_NANO, error);
    if (nic->in_ == nullptr) return Error{"pcap: " + std::string(error)};
    if (::pcap_datalink(nic->in_) != DLT_EN10MB) return Error{"pcap: " + in + " holds no Ethernet frames"};
    nic->read_next();
  }
  if (!out.empty()) {
    Result<std::unique_ptr<PcapFile>> file = PcapFile::open(out);
    if (!file) return file.error();
    nic->out_ = std::move(*file);
  }
  return nic;
}

PcapNic::~PcapNic() {
  if (in_ != nullptr) ::pcap_close(in_);
}

void PcapNic::flush() noexcept {
  if (out_ != nullptr) count(out_->flush());
}

/// Counts frames as written once the file has them.
void PcapNic::count(const PcapWritten& written) noexcept {
  counters_.add(PortCounter::kFramesWritten, written.frames);
  counters_.add(PortCounter::kBytesWritten, written.bytes);
  counters_.add(PortCounter::kWriteErrors, written.lost);
  if (written.lost == 0 || !complaints_.allow(now_)) return;
  log(LogLevel::kWarn, "pcap: frames are lost, their file does not take them: {}", strerror(written.error));
}

void PcapNic::read_next() noexcept {
  next_.reset();
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  const int got = ::pcap_next_ex(in_, &header, &data);
  if (got != 1) {
    if (got == PCAP_ERROR) counters_.add(PortCounter::kReadErrors);
    return;
  }
  const auto ns =
      static_cast<uint64_t>(header->ts.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(header->ts.tv_usec);
  if (!any_read_) first_ns_ = ns;
  any_read_ = true;
  next_ = Recorded{.frame = std::span(reinterpret_cast<const std::byte*>(data), header->caplen),
                   .original_bytes = header->len,
                   .at_ns = ns > first_ns_ ? ns - first_ns_ : 0};
}

Instant PcapNic::deadline() const noexcept {
  Instant next = flush_at_;
  if (next_) {
    next =
        std::min(next, started_ ? *started_ + Duration(static_cast<int64_t>(next_->at_ns)) : Instant::min());
  }
  return next;
}

int PcapNic::poll(Instant now) noexcept {
  now_ = now;
  if (now < flush_at_) return 0;
  flush();
  flush_at_ = kNever;
  return 0;
}

FrameReadResult PcapNic::read_frame(std::span<std::byte> into) noexcept {
  if (!next_) return {FrameIo::kEmpty, 0};
  if (!started_) started_ = now_;  // the first read shows that a host is connected
  if (now_ < *started_ + Duration(static_cast<int64_t>(next_->at_ns))) return {FrameIo::kEmpty, 0};
  const Recorded frame = *next_;
  FrameReadResult result{FrameIo::kDropped, 0};
  if (frame.frame.size() < kEthernetHeaderBytes || frame.frame.size() != frame.original_bytes) {
    counters_.add(PortCounter::kReadMalformed);  // recorded incompletely
  } else if (kVnetBytes + frame.frame.size() > into.size()) {
    counters_.add(PortCounter::kReadTooLong);
  } else {
    std::memset(into.data(), 0, kVnetBytes);
    std::memcpy(into.data() + kVnetBytes, frame.frame.data(), frame.frame.size());
    counters_.add(PortCounter::kFramesRead);
    counters_.add(PortCounter::kBytesRead, frame.frame.size());
    result = {FrameIo::kOk, static_cast<uint32_t>(kVnetBytes + frame.frame.size())};
  }
  read_next();
  return result;
}

FrameIo PcapNic::write_frame(std::span<const std::byte> head, std::span<const std::byte> rest) noexcept {
  if (head.size() < kVnetBytes + kEthernetHeaderBytes) {
    counters_.add(PortCounter::kWriteMalformed);
    return FrameIo::kDropped;
  }
  const size_t bytes = head.size() - kVnetBytes + rest.size();
  if (bytes > kPcapFrameBytesMax) {
    counters_.add(PortCounter::kWriteTooLong);
    return FrameIo::kDropped;
  }
  if (out_ == nullptr) {
    counters_.add(PortCounter::kFramesWritten);
    counters_.add(PortCounter::kBytesWritten, bytes);
    counters_.add(PortCounter::kNoReceiver);
    return FrameIo::kOk;
  }
  count(out_->add(now_, head.subspan(kVnetBytes), rest));
  if (flush_at_ == kNever) flush_at_ = now_ + kFlushInterval;
  return FrameIo::kOk;
}

}  // namespace weft::iou
