#include "hca/file_window.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <utility>

#include "base/log.h"

namespace weft::hca {
namespace {

constexpr uint32_t kSlotsLeast = 8;
constexpr Duration kMakeAgain = 1s;
/// How often a side looks whether its peer has come: while a queue pair waits for it, and otherwise.
constexpr Duration kLookInHurry = 1ms;
constexpr Duration kLookAtLeisure = 20ms;

/// What register kScratchpadEndnode says of an endnode; never 0, because no LID is 0.
uint64_t word_of(const fabric::CellPortInfo& port) noexcept {
  return uint64_t{port.subnet.value()} << 16 | port.lid.value();
}

bool has_bytes(const std::string& path) noexcept {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && info.st_size > 0;
}

}  // namespace

Status FileWindow::make() {
  fabric::FileDeviceConfig wish{
      .path = config_.path,
      .side = config_.side,
      .file_bytes = has_bytes(config_.path) ? 0 : kWindowFileBytes,
      .locks = config_.locks,
  };
  Result<std::unique_ptr<fabric::DmaDevice>> device = fabric::make_file_device(wish, random_);
  if (!device) return device.error();
  const size_t bytes = (*device)->own_memory().size();
  fabric::OwnWindowConfig own = config_.own;
  while (own.slots > kSlotsLeast && fabric::OwnWindow::bytes_for(own) > bytes) own.slots /= 2;
  if (fabric::OwnWindow::bytes_for(own) > bytes) {
    return Error{fmt::format("{} has room for {} bytes per side; a window for programs takes at least {}",
                             config_.path, bytes, fabric::OwnWindow::bytes_for(own))};
  }
  window_ = std::make_unique<fabric::WindowEnd>(std::move(*device), own);
  return {};
}

void FileWindow::work(Instant now, const fabric::CellPortInfo* port) {
  worked_at_ = now;
  if (taken_) return;
  if (window_ == nullptr && port != nullptr && now >= make_again_) {
    if (const Status made = make(); !made) {
      make_again_ = now + kMakeAgain;
      if (std::exchange(said_, made.error().text) != made.error().text)
        log(LogLevel::kInfo, "no memory window in a file: {}", made.error().text);
    }
  }
  if (window_ == nullptr) return;
  window_->poll(now);
  switch (window_->state()) {
    case fabric::WindowState::kFaulty:
      make_again_ = now + kMakeAgain;
      [[fallthrough]];
    case fabric::WindowState::kGone:
      window_.reset();
      peer_.reset();
      return;
    case fabric::WindowState::kJoining:
    case fabric::WindowState::kUp:
      break;
  }
  if (port != nullptr) window_->device().set_scratchpad(fabric::kScratchpadEndnode, word_of(*port));
  if (port == nullptr || window_->state() != fabric::WindowState::kUp) return;
  const uint64_t word = window_->device().peer_scratchpad(fabric::kScratchpadEndnode);
  const bool same_subnet = word >> 16 == port->subnet.value();
  const Lid lid(static_cast<uint16_t>(word));
  if (lid.value() != 0 && same_subnet && lid != port->lid) peer_ = lid;
}

std::unique_ptr<fabric::WindowEnd> FileWindow::take() noexcept {
  taken_ = true;
  peer_.reset();
  return std::move(window_);
}

Instant FileWindow::deadline(bool hurry) const noexcept {
  if (taken_) return kNever;
  if (window_ == nullptr) return make_again_;
  return worked_at_ + (hurry ? kLookInHurry : kLookAtLeisure);
}

}  // namespace weft::hca
