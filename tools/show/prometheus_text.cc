#include "tools/show/prometheus_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "tools/show/counter_words.h"

namespace weft::tools {
namespace {

/// Letters, digits and underscores, as a metric's name may have.
std::string metric_word(std::string_view word) {
  std::string out(word);
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  std::replace_if(
      out.begin(), out.end(), [&](char c) { return !allowed(c); }, '_');
  return out;
}

std::string label_value(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

/// The longest of `nodes` that stands in front of `name`, else the name up to its first dot.
std::string_view node_of(std::string_view name, const std::vector<std::string>& nodes) {
  size_t longest = 0;
  for (const std::string& node : nodes)
    if (node.size() > longest && name.starts_with(node) && name.substr(node.size()).starts_with('.'))
      longest = node.size();
  return name.substr(0, longest != 0 ? longest : std::min(name.find('.'), name.size()));
}

}  // namespace

std::string prometheus_text(const CounterValues& values, const std::vector<std::string>& nodes) {
  std::map<std::string, std::string> metrics;  // name with its type, and its lines
  for (const auto& [name, value] : values) {
    const CounterKind kind = counter_kind(name);
    if (kind == CounterKind::kNumber) continue;
    const std::string_view node = node_of(name, nodes);
    const std::string_view rest = std::string_view(name).substr(std::min(node.size() + 1, name.size()));
    const size_t dot = rest.rfind('.');
    const std::string_view place = rest.substr(0, dot == std::string_view::npos ? 0 : dot);
    const bool counter = kind == CounterKind::kCounter;
    const std::string metric =
        fmt::format("weft_{}{}", metric_word(rest.substr(dot + 1)), counter ? "_total" : "");
    std::string& lines = metrics[fmt::format("{} {}", metric, counter ? "counter" : "gauge")];
    lines += fmt::format("{}{{node=\"{}\",place=\"{}\"}} {}\n", metric, label_value(node), label_value(place),
                         value);
  }
  std::string out;
  for (const auto& [metric, lines] : metrics) out += fmt::format("# TYPE {}\n{}", metric, lines);
  return out;
}

}  // namespace weft::tools
