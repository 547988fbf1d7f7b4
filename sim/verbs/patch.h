// sim/verbs/patch.h -- what verbs promise of memory that peers write, read and count in: each byte is what
// some lawful order of the operations gives. Plain lists that are searched; nothing is forgotten while an
// operation on the same memory is under way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::sim::verbs {

/// Order of everything that the program does and sees.
using Tick = uint64_t;
inline constexpr Tick kOpen = ~Tick{0};

/// A flow and a place in its queue: operations of one flow happen in the order of posting.
struct FlowPlace {
  uint64_t flow = 0;
  uint64_t index = 0;
};

/// A range of memory that remote operations meet in. `memory` must outlive it.
class Patch {
 public:
  explicit Patch(std::span<std::byte> memory) : memory_(memory), base_(memory.begin(), memory.end()) {}

  [[nodiscard]] uint64_t length() const noexcept { return memory_.size(); }

  /// A write that may happen from now on. `fenced`: not before the reads of its flow before it. Returns its
  /// name.
  uint64_t open_write(FlowPlace place, Tick now, uint64_t at, std::span<const std::byte> data, bool fenced);
  /// It cannot happen any more; `certain`: it has happened, whole.
  void close_write(uint64_t name, Tick now, bool certain);
  /// A read under way: nothing is forgotten until it is closed.
  void open_read() noexcept { ++open_; }
  /// What it brought; empty when it failed. An empty answer means that all is lawful.
  [[nodiscard]] std::string close_read(FlowPlace place, Tick begin, Tick now, uint64_t at,
                                       std::span<const std::byte> brought);
  /// The memory as it is; exact when nothing is under way.
  [[nodiscard]] std::string check(Tick now);
  [[nodiscard]] bool quiet() const noexcept { return open_ == 0; }

 private:
  struct Write {
    uint64_t name = 0;
    FlowPlace place;
    Tick begin = 0;
    Tick end = kOpen;
    uint64_t at = 0;
    std::vector<std::byte> data;
    bool certain = false;
    bool fenced = false;
    [[nodiscard]] bool covers(uint64_t byte) const noexcept { return byte >= at && byte - at < data.size(); }
  };
  /// A reader, and since when it reads.
  struct View {
    FlowPlace place;
    Tick begin = 0;
    bool is_read = false;
  };

  [[nodiscard]] static bool settled(const Write& write, const View& view) noexcept;
  [[nodiscard]] std::vector<const Write*> lawful_at(uint64_t byte, const View& view, bool& base) const;
  [[nodiscard]] std::string compare(const View& view, uint64_t at, std::span<const std::byte> seen) const;
  void forget();

  std::span<std::byte> memory_;
  std::vector<std::byte> base_;  // before all of writes_
  std::vector<Write> writes_;
  uint32_t open_ = 0;
  uint64_t names_ = 0;
};

/// An aligned word that atomic operations meet in. `memory` must outlive it.
class Word {
 public:
  struct Operation {
    uint64_t name = 0;
    FlowPlace place;
    Tick begin = 0;
    Tick end = kOpen;
    bool is_swap = false;
    uint64_t compare = 0;
    uint64_t operand = 0;
    bool certain = false;  // happened, and found `found`
    uint64_t found = 0;
  };

  explicit Word(const uint64_t* memory) : memory_(memory), base_(*memory) {}

  uint64_t open(const Operation& operation);
  /// It cannot happen any more. Null `found`: whether it happened is unknown.
  void close(uint64_t name, Tick now, const uint64_t* found);
  /// When nothing is under way: is there an order that gives each answer and what the word is now?
  [[nodiscard]] std::string check();
  [[nodiscard]] bool quiet() const noexcept { return open_ == 0; }

 private:
  [[nodiscard]] bool order_exists(uint64_t value, std::vector<const Operation*>& left, uint32_t& steps) const;

  const uint64_t* memory_;
  uint64_t base_;
  std::vector<Operation> operations_;
  uint32_t open_ = 0;
  uint64_t names_ = 0;
};

}  // namespace weft::sim::verbs
