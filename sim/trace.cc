#include "sim/trace.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <ostream>

namespace weft::sim {
namespace {

double seconds(Instant now) {
  return std::chrono::duration<double>(now.time_since_epoch()).count();
}

}  // namespace

std::string_view to_string(TraceKind kind) noexcept {
  static constexpr std::array<std::string_view, static_cast<size_t>(TraceKind::kCount)> kNames{
      "flit",       "frame-sent",  "frame-arrived", "frame-refused", "work-posted",
      "completion", "crash",       "node-start",    "freeze",        "thaw",
      "link-cut",   "link-mended", "faults",        "session",       "VIOLATION"};
  return kind < TraceKind::kCount ? kNames[static_cast<size_t>(kind)] : "unknown";
}

void Trace::mix(uint64_t value) noexcept {
  hash_ = (std::rotl(hash_, 29) ^ value) * 0x9e3779b97f4a7c15ULL;
  hash_ ^= hash_ >> 32;
}

void Trace::event(Instant now, TraceKind kind, uint64_t a, uint64_t b, uint64_t c) {
  ++events_;
  mix(static_cast<uint64_t>(now.time_since_epoch().count()) << 5 ^ static_cast<uint64_t>(kind));
  mix(a);
  mix(b);
  mix(c);
  if (out_ == nullptr || (kind == TraceKind::kFlit && !flits_)) return;
  if (kind == TraceKind::kFlit) {
    *out_ << fmt::format("{:12.6f} {:<14} link {}.{} {:016x} crc {:08x}\n", seconds(now), to_string(kind),
                         a >> 1, a & 1, b, c);
  } else {
    *out_ << fmt::format("{:12.6f} {:<14} {} {} {}\n", seconds(now), to_string(kind), a, b, c);
  }
}

void Trace::note(Instant now, std::string_view text) {
  if (out_ != nullptr) *out_ << fmt::format("{:12.6f}   {}\n", seconds(now), text);
}

void Trace::text(Instant now, TraceKind kind, std::string_view text) {
  ++events_;
  if (out_ != nullptr) *out_ << fmt::format("{:12.6f} {:<14} {}\n", seconds(now), to_string(kind), text);
}

}  // namespace weft::sim
