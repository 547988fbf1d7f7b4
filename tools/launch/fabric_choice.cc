#include "tools/launch/fabric_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/words.h"

namespace weft::tools {

Result<SeenFabrics> SeenFabrics::look() {
  Result<std::vector<std::string>> names = StateDir::fabrics();
  if (!names.ok()) return names.error();
  SeenFabrics out;
  for (const std::string& name : *names) {
    Result<StateDir> dir = StateDir::open(name);
    if (dir.ok()) {
      const RunRecord record = dir->load();
      const bool runs = dir->locked();
      const uint64_t started_us = dir->started_us();
      out.all_.push_back({std::move(*dir), runs, !record.processes.empty(), record.ends_unused, started_us});
    } else if (out.refusal_.empty()) {
      out.refusal_ = dir.error().text;
    }
  }
  return out;
}

template <class Wanted>
std::vector<std::string> SeenFabrics::names(Wanted wanted) const {
  std::vector<std::string> out;
  for (const Seen& one : all_)
    if (wanted(one)) out.push_back(one.dir.fabric());
  return out;
}

Result<std::vector<std::string>> SeenFabrics::found(Among among) const {
  std::vector<std::string> out = names([](const Seen& one) { return one.runs; });
  if (out.empty() && among != Among::kRunning) out = names([](const Seen& one) { return one.left; });
  if (out.empty() && among == Among::kSeen) out = names([](const Seen& /*one*/) { return true; });
  if (out.empty() && !refusal_.empty()) return Error{refusal_};
  return out;
}

bool SeenFabrics::any_runs() const {
  return std::any_of(all_.begin(), all_.end(), [](const Seen& one) { return one.runs; });
}

std::string SeenFabrics::meant() const {
  const std::vector<std::string> running = names([](const Seen& one) { return one.runs; });
  if (running.size() == 1) return running.front();
  const std::vector<std::string> stay = staying();
  return stay.size() == 1 ? stay.front() : std::string();
}

std::vector<std::string> SeenFabrics::staying() const {
  return names([](const Seen& one) { return one.runs && !one.ends_unused; });
}

std::string SeenFabrics::latest() const {
  const auto at = std::max_element(all_.begin(), all_.end(), [](const Seen& a, const Seen& b) {
    return std::pair(a.started_us, a.dir.fabric()) < std::pair(b.started_us, b.dir.fabric());
  });
  return at == all_.end() ? std::string() : at->dir.fabric();
}

Result<StateDir> SeenFabrics::choose(Among among) {
  Result<std::vector<std::string>> candidates = found(among);
  if (!candidates.ok()) return candidates.error();
  std::string wanted = meant();
  if (wanted.empty() && candidates->size() == 1) wanted = candidates->front();
  if (wanted.empty() && !any_runs() && among == Among::kSeen) wanted = latest();
  if (wanted.empty() && candidates->empty())
    return Error{among == Among::kSeen ? "no fabric has run here; start one with weft up FILE"
                                       : "no fabric is running; start one with weft up FILE"};
  if (wanted.empty())
    return Error{fmt::format("there are several fabrics; choose with --fabric: {}", joined(*candidates))};
  const auto at =
      std::find_if(all_.begin(), all_.end(), [&](const Seen& one) { return one.dir.fabric() == wanted; });
  return std::move(at->dir);
}

}  // namespace weft::tools
