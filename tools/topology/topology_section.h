// tools/topology/topology_section.h -- typed access to one TOML table. Every key is read by name, keys that
// were never read are errors, and every error has file, line and column. Internal to the topology reader; the
// only header that includes toml++.
#pragma once

#include <toml++/toml.h>

#include <initializer_list>
#include <string>
#include <vector>

#include "base/result.h"

namespace weft::tools {

/// Thrown only inside the reader; parse_topology() turns it into an Error.
struct TopologyFault {
  std::string text;
};

[[noreturn]] void topology_fault(const std::string& file, const toml::node& where, const std::string& text);

class TopologySection {
 public:
  /// `what` names the table in messages: "[[host]]". Table and file name must outlive the section.
  TopologySection(const toml::table& table, const std::string& file, std::string what)
      : table_(table), file_(file), what_(std::move(what)) {}

  std::string text(const char* key, std::string fallback);
  std::string required_text(const char* key, const char* example);
  uint32_t number(const char* key, uint32_t lowest, uint32_t highest, uint32_t fallback);
  bool flag(const char* key, bool fallback);
  std::vector<std::string> texts(const char* key);
  /// Fails if one of these keys is present. They exist but do not apply here; `why` follows "'KEY' " in the
  /// error.
  void no_use(std::initializer_list<const char*> keys, const std::string& why) const;
  /// Index in `words` of the key's text; `fallback` if the key is missing.
  size_t choice(const char* key, const std::vector<std::string>& words, size_t fallback);
  /// The tables [[key]]; none if there are none.
  std::vector<const toml::table*> tables(const char* key);
  const toml::table* subtable(const char* key);

  [[nodiscard]] bool has(const char* key) const { return table_.contains(key); }
  /// Fails at the first key in file order that was not read.
  void finish() const;
  [[noreturn]] void fault(const char* key, const std::string& text) const;
  [[noreturn]] void fault_here(const std::string& text) const { topology_fault(file_, table_, text); }
  [[nodiscard]] const toml::table& table() const { return table_; }
  [[nodiscard]] const std::string& file() const { return file_; }

 private:
  const toml::node* find(const char* key);
  [[noreturn]] void has_no_key(const toml::key& key, const std::vector<std::string>& known) const;

  const toml::table& table_;
  const std::string& file_;
  std::string what_;
  std::vector<std::string> asked_;
};

}  // namespace weft::tools
