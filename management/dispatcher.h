// management/dispatcher.h -- the agents behind one management queue pair: each claims methods of a class and
// version, and gets their datagrams. No I/O. docs/management.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

#include "base/clock.h"
#include "management/mad_port.h"

namespace weft::management {

/// A datagram whose header is good.
struct MadArrival {
  Instant now{};
  Lid from{};
  MadHeader header{};
  std::span<const std::byte> bytes{};  // kMadBytes, until on_mad() returns
};

class MadHandler {
 public:
  virtual ~MadHandler() = default;
  virtual void on_mad(const MadArrival& mad) noexcept = 0;
};

/// The outcome for a datagram.
enum class MadFate : uint8_t { kTaken, kMalformed, kUnclaimed };

/// Owner: one thread, or a lock.
class Dispatcher {
 public:
  static constexpr size_t kClaimsMax = 32;

  explicit Dispatcher(MadPort& port) noexcept : port_(port) {}

  /// `handler`, which outlives the dispatcher, gets these methods of the class. False, and nothing is
  /// claimed, when another handler has one of them or the table is full.
  [[nodiscard]] bool claim(MadClass mad_class, uint8_t class_version,
                           std::initializer_list<MadMethod> methods, MadHandler& handler) noexcept;
  /// Hands the datagram to its handler. One that no handler has claimed is answered "not supported" if its
  /// sender expects a response (Get, Set), and dropped otherwise.
  [[nodiscard]] MadFate dispatch(Instant now, Lid from, std::span<const std::byte> bytes) noexcept;

 private:
  struct Claim {
    MadClass mad_class{};
    uint8_t class_version = 0;
    MadMethod method{};
    MadHandler* handler = nullptr;
  };
  [[nodiscard]] const Claim* find(MadClass mad_class, uint8_t class_version, MadMethod method) const noexcept;
  void refuse(Lid to, MadHeader header, std::span<const std::byte> bytes) noexcept;

  MadPort& port_;
  std::array<Claim, kClaimsMax> claims_{};
  size_t count_ = 0;
};

}  // namespace weft::management
