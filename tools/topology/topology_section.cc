#include "tools/topology/topology_section.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/words.h"

namespace weft::tools {

void topology_fault(const std::string& file, const toml::node& where, const std::string& text) {
  const toml::source_position at = where.source().begin;
  throw TopologyFault{fmt::format("{}:{}:{}: {}", file, at.line, at.column, text)};
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
  if (!table_.contains(key)) {
    for (const auto& [other, node] : table_) {
      const bool asked = std::find(asked_.begin(), asked_.end(), other.str()) != asked_.end();
      if (!asked && !suggestion(other.str(), {key}).empty()) has_no_key(other, {key});
    }
    topology_fault(file_, table_,
                   fmt::format("{} needs '{}'; for example: {} = \"{}\"", what_, key, key, example));
  }
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

void TopologySection::no_use(std::initializer_list<const char*> keys, const std::string& why) const {
  for (const char* key : keys) {
    const auto at = table_.find(key);
    if (at == table_.end()) continue;
    const toml::source_position place = at->first.source().begin;
    throw TopologyFault{fmt::format("{}:{}:{}: '{}' {}", file_, place.line, place.column, key, why)};
  }
}

size_t TopologySection::choice(const char* key, const std::vector<std::string>& words, size_t fallback) {
  if (!table_.contains(key)) {
    asked_.emplace_back(key);
    return fallback;
  }
  const std::string value = text(key, {});
  const auto at = std::find(words.begin(), words.end(), value);
  if (at != words.end()) return static_cast<size_t>(at - words.begin());
  fault(key, fmt::format("'{}' cannot be '{}'{}", key, value, choices(value, words)));
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
  has_no_key(*first, known);
}

void TopologySection::has_no_key(const toml::key& key, const std::vector<std::string>& known) const {
  const toml::source_position at = key.source().begin;
  throw TopologyFault{fmt::format("{}:{}:{}: {} has no key '{}'{}", file_, at.line, at.column, what_,
                                  std::string(key.str()), choices(key.str(), known))};
}

}  // namespace weft::tools
