// tests/support/adapter_paths.h -- two channel adapters with several paths between them, each a switch of
// its own with real links. Each side sends its cells over the paths it was given, one after the other in
// turn; a path may be held up, and cells may be lost on any.
#pragma once

#include <algorithm>

#include "fabric/link/faulty_cell_port.h"
#include "tests/support/adapter_sides.h"
#include "tests/support/test_fabric.h"

namespace weft::test {

/// A cell port over others: cells leave by those of `out` in turn and come in by those of `in`.
class PathsPort final : public fabric::CellPort {
 public:
  PathsPort(std::vector<fabric::CellPort*> out, std::vector<fabric::CellPort*> in)
      : out_(std::move(out)), all_(std::move(in)) {
    for (fabric::CellPort* port : out_) {
      if (std::find(all_.begin(), all_.end(), port) == all_.end()) all_.push_back(port);
    }
    held_.resize(all_.size());
  }
  /// While it is on, nothing comes in by the `index`-th of the ways in.
  void hold(size_t index, bool on) { held_[index] = on; }

  [[nodiscard]] bool up() const noexcept override {
    return std::all_of(all_.begin(), all_.end(), [](const fabric::CellPort* port) { return port->up(); });
  }
  [[nodiscard]] const fabric::CellPortInfo& info() const noexcept override { return out_[0]->info(); }
  [[nodiscard]] uint64_t incarnation() const noexcept override { return 1; }
  int poll(Instant now) noexcept override {
    int work = 0;
    for (fabric::CellPort* port : all_) work += port->poll(now);
    return work;
  }
  [[nodiscard]] std::byte* claim(VirtualLane vl, uint32_t cell_bytes) noexcept override {
    return out_[next_]->claim(vl, cell_bytes);
  }
  void commit(VirtualLane vl, uint32_t cell_bytes, uint32_t cell_crc) noexcept override {
    out_[next_]->commit(vl, cell_bytes, cell_crc);
    next_ = (next_ + 1) % out_.size();
  }
  [[nodiscard]] std::span<const fabric::RxCell> receive() noexcept override {
    view_.clear();
    // All of them: links that are only sent on bring acknowledgements and credit.
    for (size_t i = 0; i < all_.size(); ++i) {
      if (held_[i]) continue;
      const std::span<const fabric::RxCell> cells = all_[i]->receive();
      view_.insert(view_.end(), cells.begin(), cells.end());
      if (!cells.empty()) taken_.push_back(all_[i]);
    }
    return view_;
  }
  void release() noexcept override {
    for (fabric::CellPort* port : taken_) port->release();
    taken_.clear();
  }
  void flush(Instant now) noexcept override {
    for (fabric::CellPort* port : all_) port->flush(now);
  }
  void wait_fds(std::vector<pollfd>&) const override {}
  [[nodiscard]] bool prepare_sleep() noexcept override { return false; }
  void finish_sleep() noexcept override {}
  [[nodiscard]] Instant deadline() const noexcept override { return Instant::min(); }

 private:
  std::vector<fabric::CellPort*> out_;
  std::vector<fabric::CellPort*> all_;  // the ways in first
  std::vector<bool> held_;
  std::vector<fabric::CellPort*> taken_;
  std::vector<fabric::RxCell> view_;
  size_t next_ = 0;
};

/// Which paths a side sends over.
struct PathsConfig {
  std::array<std::vector<size_t>, 2> out;
  uint32_t paths = 2;
  uint32_t cell_payload_bytes = 256;
};

class AdapterPaths final : public AdapterSides {
 public:
  explicit AdapterPaths(const PathsConfig& config) {
    for (uint32_t i = 0; i < config.paths; ++i) {
      TestFabricConfig path;
      path.switching = small_switch();
      path.switching.link.cell_payload_bytes = config.cell_payload_bytes;
      path.seed = i + 1;
      fabrics.push_back(std::make_unique<TestFabric>(path));
      for (uint32_t end = 0; end < 2; ++end) {
        ends_[end].push_back(
            std::make_unique<fabric::FaultyCellPort>(fabrics[i]->lend(end), fabrics[i]->random));
      }
    }
    for (size_t side = 0; side < 2; ++side) {
      const auto pick = [&](const std::vector<size_t>& which) {
        std::vector<fabric::CellPort*> ports;
        for (const size_t path : which) ports.push_back(ends_[side][path].get());
        return ports;
      };
      ports_[side] = std::make_unique<PathsPort>(pick(config.out[side]), pick(config.out[1 - side]));
      add_side(*ports_[side]);
    }
    run(2);
  }
  ~AdapterPaths() override { remove_sides(); }

  [[nodiscard]] PathsPort& port(size_t side) { return *ports_[side]; }
  /// Faults of everything that arrives, on every path.
  void set_cell_faults(const fabric::CellFaults& faults) {
    for (auto& end : ends_) {
      for (auto& port : end) port->set_faults(faults);
    }
  }
  /// Cells that side `from` has sent over a path.
  [[nodiscard]] uint64_t cells(size_t path, uint32_t from) const {
    return fabrics[path]->count(from + 1, fabric::SwitchPortCounter::kCellsIn);
  }

  std::vector<std::unique_ptr<TestFabric>> fabrics;

 private:
  [[nodiscard]] Instant now() const override { return fabrics[0]->clock.now(); }
  void pass(Duration step) override {
    for (auto& path : fabrics) path->step(step);
  }

  std::array<std::vector<std::unique_ptr<fabric::FaultyCellPort>>, 2> ends_;
  std::array<std::unique_ptr<PathsPort>, 2> ports_;
};

}  // namespace weft::test
