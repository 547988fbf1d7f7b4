#include "tools/topology_section.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

/// Edit distance, for short words.
size_t distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row[b.size()];
}

}  // namespace

void topology_fault(const std::string& file, const toml::node& where, const std::string& text) {
  const toml::source_position at = where.source().begin;
  throw TopologyFault{fmt::format("{}:{}:{}: {}", file, at.line, at.column, text)};
}

std::string suggestion(std::string_view word, const std::vector<std::string>& known) {
  const std::string* best = nullptr;
  size_t best_distance = 3;
  if (word.size() > 64) return {};
  for (const std::string& candidate : known) {
    const size_t d = distance(word, candidate);
    if (d >= best_distance || d >= candidate.size()) continue;
    best_distance = d;
    best = &candidate;
  }
  return best == nullptr ? std::string{} : fmt::format("; did you mean '{}'?", *best);
}

std::string joined(const std::vector<std::string>& words) {
  return words.empty() ? std::string("none") : fmt::format("{}", fmt::join(words, ", "));
}

const toml::node* TopologySection::find(const char* key) {
  asked_.emplace_back(key);
  return table_.get(key);
}

void TopologySection::fault(const char* key, const std::string& text) const {
  const toml::node* node = table_.get(key);
  topology_fault(file_, node == nullptr ? static_cast<const toml::node&>(table_) : *node, text);
}

std::string TopologySection::text(const char* key, std::string fallback) {
  const toml::node* node = find(key);
  if (node == nullptr) return fallback;
  const auto* value = node->as_string();
  if (value == nullptr) fault(key, fmt::format("'{}' must be a text in quotes", key));
  return value->get();
}

std::string TopologySection::required_text(const char* key, const char* example) {
  if (!table_.contains(key))
    topology_fault(file_, table_,
                   fmt::format("{} needs '{}'; for example: {} = \"{}\"", what_, key, key, example));
  return text(key, {});
}

uint32_t TopologySection::number(const char* key, uint32_t lowest, uint32_t highest, uint32_t fallback) {
  const toml::node* node = find(key);
  if (node == nullptr) return fallback;
  const auto* value = node->as_integer();
  if (value == nullptr || value->get() < int64_t{lowest} || value->get() > int64_t{highest})
    fault(key, fmt::format("'{}' must be a whole number from {} to {}", key, lowest, highest));
  return static_cast<uint32_t>(value->get());
}

bool TopologySection::flag(const char* key, bool fallback) {
  const toml::node* node = find(key);
  if (node == nullptr) return fallback;
  const auto* value = node->as_boolean();
  if (value == nullptr) fault(key, fmt::format("'{}' must be true or false, without quotes", key));
  return value->get();
}

std::vector<std::string> TopologySection::texts(const char* key) {
  std::vector<std::string> out;
  const toml::node* node = find(key);
  if (node == nullptr) return out;
  if (const auto* single = node->as_string()) return {single->get()};
  const toml::array* list = node->as_array();
  if (list == nullptr) fault(key, fmt::format("'{}' must be a list of texts, like [\"one\", \"two\"]", key));
  for (const toml::node& element : *list) {
    const auto* value = element.as_string();
    if (value == nullptr) topology_fault(file_, element, fmt::format("'{}' holds texts in quotes only", key));
    out.push_back(value->get());
  }
  return out;
}

size_t TopologySection::choice(const char* key, std::initializer_list<std::string_view> words,
                               size_t fallback) {
  if (!table_.contains(key)) {
    asked_.emplace_back(key);
    return fallback;
  }
  const std::string value = text(key, {});
  const auto at = std::find(words.begin(), words.end(), value);
  if (at != words.end()) return static_cast<size_t>(at - words.begin());
  const std::vector<std::string> known(words.begin(), words.end());
  fault(key,
        fmt::format("'{}' cannot be '{}'{}; known: {}", key, value, suggestion(value, known), joined(known)));
}

std::vector<const toml::table*> TopologySection::tables(const char* key) {
  std::vector<const toml::table*> out;
  const toml::node* node = find(key);
  if (node == nullptr) return out;
  const toml::array* list = node->as_array();
  if (list == nullptr)
    fault(key, fmt::format("write [[{}]] with double brackets, once for each {}", key, key));
  for (const toml::node& element : *list) {
    const toml::table* table = element.as_table();
    if (table == nullptr)
      topology_fault(file_, element, fmt::format("'{}' holds tables only: [[{}]]", key, key));
    out.push_back(table);
  }
  return out;
}

const toml::table* TopologySection::subtable(const char* key) {
  const toml::node* node = find(key);
  if (node == nullptr) return nullptr;
  if (node->as_table() == nullptr) fault(key, fmt::format("write [{}] as a table", key));
  return node->as_table();
}

void TopologySection::finish() const {
  const toml::key* first = nullptr;
  for (const auto& [key, node] : table_) {
    if (std::find(asked_.begin(), asked_.end(), key.str()) != asked_.end()) continue;
    if (first == nullptr || key.source().begin < first->source().begin) first = &key;
  }
  if (first == nullptr) return;
  std::vector<std::string> known(asked_.begin(), asked_.end());
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  const toml::source_position at = first->source().begin;
  throw TopologyFault{fmt::format("{}:{}:{}: {} has no key '{}'{}; known: {}", file_, at.line, at.column,
                                  what_, std::string(first->str()), suggestion(first->str(), known),
                                  joined(known))};
}

}  // namespace weft
