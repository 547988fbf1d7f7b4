// sim/verbs/patch.h -- checks memory that peers write, read and count in: each byte must have the value of
// some allowed order of the operations. Works on plain lists; no operation is forgotten while another on the
// same memory is under way.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace weft::sim::verbs {

/// Number of a step; orders everything that the program does and sees.
using Tick = uint64_t;
inline constexpr Tick kOpen = ~Tick{0};

/// A flow and an index in it: operations of one flow happen in the order of posting.
struct FlowPlace {
  uint64_t flow = 0;
  uint64_t index = 0;
};

/// A range of memory in which remote operations meet. `memory` must outlive it.
class Patch {
 public:
  explicit Patch(std::span<std::byte> memory) : memory_(memory), base_(memory.begin(), memory.end()) {}

  [[nodiscard]] uint64_t length() const noexcept { return memory_.size(); }

  /// A write that may happen from now on. `fenced`: not before earlier reads of its flow. @return its name
  uint64_t open_write(FlowPlace place, Tick now, uint64_t at, std::span<const std::byte> data, bool fenced);
  /// The write can no longer happen. `certain`: it has happened completely.
  void close_write(uint64_t name, Tick now, bool certain);
  /// A read is under way: no write is forgotten until it is closed.
  void open_read() noexcept { ++open_; }
  /// Checks the data of a read; `brought` is empty if the read failed. @return a violation; empty when there
  /// is none
  [[nodiscard]] std::string close_read(FlowPlace place, Tick begin, Tick now, uint64_t at,
                                       std::span<const std::byte> brought);
  /// Checks the present memory; exact when nothing is under way.
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
  /// A reader and the step at which its reading began.
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
  std::vector<std::byte> base_;  // memory before all of writes_
  std::vector<Write> writes_;
  uint32_t open_ = 0;
  uint64_t names_ = 0;
};

/// An aligned word in which atomic operations meet. `memory` must outlive it.
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
    bool certain = false;  // it happened and found `found`
    uint64_t found = 0;
  };

  explicit Word(const uint64_t* memory) : memory_(memory), base_(*memory) {}

  uint64_t open(const Operation& operation);
  /// The operation can no longer happen. Null `found`: it is unknown whether it happened.
  void close(uint64_t name, Tick now, const uint64_t* found);
  /// With nothing under way, checks that some order gives all answers and the word's present value.
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
