#include "node/port_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/names.h"
#include "base/words.h"
#include "node/limits.h"

namespace weft::node {
namespace {

template <class Rows>
constexpr bool in_order(const Rows& rows) {
  for (size_t i = 0; i < rows.size(); ++i)
    if (static_cast<size_t>(rows[i].kind) != i) return false;
  return true;
}
static_assert(in_order(kOsKinds) && in_order(kNicKinds), "row_of() finds a kind by its number");

std::string_view argument_form(PortArgument argument) {
  switch (argument) {
    case PortArgument::kNone:
      return "";
    case PortArgument::kInterface:
      return ":INTERFACE";
    case PortArgument::kPath:
      return ":PATH";
    case PortArgument::kFiles:
      return ":IN[,OUT]";
  }
  return "";
}

template <class Rows>
std::string forms(const Rows& rows) {
  std::string text;
  for (size_t i = 0; i < rows.size(); ++i) {
    const char* between = i == 0 ? "" : i + 1 == rows.size() ? " or " : ", ";
    text += fmt::format("{}{}{}", between, rows[i].name, argument_form(rows[i].argument));
  }
  return text;
}

template <class Rows>
std::vector<std::string> names(const Rows& rows) {
  std::vector<std::string> out;
  out.reserve(rows.size());
  for (const auto& row : rows) out.emplace_back(row.name);
  return out;
}

/// Parses the argument behind the colon; returns the fault, or an empty text.
template <class Kind>
std::string take_argument(PortArgument form, std::string_view text, PortName<Kind>& out) {
  switch (form) {
    case PortArgument::kNone:
      return text.empty() ? "" : fmt::format("{} takes no '{}'", to_string(out.kind), text);
    case PortArgument::kInterface:
      out.argument = text;
      return name_fault(text, kInterfaceNameBytesMax, "an interface");
    case PortArgument::kPath:
      out.argument = text;
      if (text.size() > kSocketPathBytesMax) return fmt::format("at most {} bytes", kSocketPathBytesMax);
      return {};
    case PortArgument::kFiles: {
      const size_t comma = std::min(text.find(','), text.size());
      out.argument = text.substr(0, comma);
      out.output = text.substr(std::min(comma + 1, text.size()));
      return {};
    }
  }
  return {};
}

template <class Kind, class Rows>
Result<PortName<Kind>> parse(std::string_view text, const Rows& rows) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view word = text.substr(0, colon);
  const auto row = std::find_if(rows.begin(), rows.end(), [word](const auto& r) { return r.name == word; });
  if (row == rows.end()) return Error{fmt::format("write {}{}", forms(rows), suggestion(word, names(rows)))};
  PortName<Kind> out{.kind = row->kind};
  const std::string_view argument = text.substr(std::min(colon + 1, text.size()));
  if (row->argument != PortArgument::kNone && (argument.empty() || argument.front() == ','))
    return Error{fmt::format("write {}{}", word, argument_form(row->argument))};
  if (const std::string fault = take_argument(row->argument, argument, out); !fault.empty())
    return Error{fault};
  return out;
}

template <class Kind>
std::string text_of(const PortName<Kind>& port) {
  std::string text(to_string(port.kind));
  if (row_of(port.kind).argument != PortArgument::kNone) text += ":" + port.argument;
  if (!port.output.empty()) text += "," + port.output;
  return text;
}

template <class Kind>
std::string label(const PortName<Kind>& port) {
  const PortArgument form = row_of(port.kind).argument;
  const bool named = form == PortArgument::kInterface || form == PortArgument::kPath;
  return named ? port.argument : std::string(to_string(port.kind));
}

}  // namespace

std::string os_forms() {
  return forms(kOsKinds);
}
std::string nic_forms() {
  return forms(kNicKinds);
}
Result<OsName> parse_os(std::string_view text) {
  return parse<OsKind>(text, kOsKinds);
}
Result<NicName> parse_nic(std::string_view text) {
  return parse<NicKind>(text, kNicKinds);
}
std::string to_string(const OsName& os) {
  return text_of(os);
}
std::string to_string(const NicName& nic) {
  return text_of(nic);
}
std::string label_of(const OsName& os) {
  return label(os);
}
std::string label_of(const NicName& nic) {
  return label(nic);
}

}  // namespace weft::node
