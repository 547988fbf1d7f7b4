#include "verbs/process/settings.h"

#include <errno.h>
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <optional>
#include <sstream>

#include "base/environment.h"
#include "base/names.h"
#include "base/parse_number.h"
#include "base/words.h"
#include "fabric/carrier/curve_keys.h"
#include "fabric/carrier/link_connect.h"
#include "messages/endnode_address.h"
#include "node/limits.h"

namespace weft::verbs {
namespace {

namespace fs = std::filesystem;

/// Leaves `out` unchanged when the variable is absent.
template <class Number>
Status read_number(const char* name, int base, Number least, Number most, Number& out) {
  const std::string text = environment_variable(name);
  if (text.empty()) return {};
  const std::optional<Number> value = parse_number<Number>(text, base);
  if (!value || *value < least || *value > most)
    return Error{fmt::format("{}={}: not a number from {} to {}", name, text, least, most)};
  out = *value;
  return {};
}

Result<std::string> find_switch(const std::string& fabric) {
  if (fabric.empty()) return Error{"WEFT_FABRIC is not set: no device"};
  if (fabric.find(':') != std::string::npos) return fabric;
  const std::string dir = fabric.starts_with('/') ? fabric : state_directory_base() + "/" + fabric;
  std::string first;
  std::error_code fault;
  for (const auto& entry : fs::directory_iterator(dir, fault)) {
    const std::string path = entry.path();
    if (!path.ends_with(".sock") || !(first.empty() || path < first)) continue;
    first = path;
  }
  if (first.empty()) return Error{fmt::format("WEFT_FABRIC={}: no switch has a socket in {}", fabric, dir)};
  return "shm:" + first;
}

/// PATH:SIDE; absent: no file.
Status read_direct_file(Settings& out) {
  const std::string text = environment_variable("WEFT_DIRECT_FILE");
  if (text.empty()) return {};
  const size_t colon = text.rfind(':');
  const std::string side = colon == std::string::npos ? std::string() : text.substr(colon + 1);
  if (colon == 0 || (side != "0" && side != "1"))
    return Error{
        fmt::format("WEFT_DIRECT_FILE={}: must be PATH:SIDE, and the side is 0 or 1", printable(text))};
  out.direct_file = text.substr(0, colon);
  out.direct_file_side = side == "1" ? 1 : 0;
  return {};
}

Status read_keys(Settings& out) {
  out.curve_secret = environment_variable("WEFT_CURVE_SECRET");
  out.curve_server = environment_variable("WEFT_CURVE_SERVER");
  if (out.curve_secret.empty() != out.curve_server.empty())
    return Error{"WEFT_CURVE_SECRET and WEFT_CURVE_SERVER must be set together"};
  if (!out.curve_secret.empty() || !fabric::endpoint_needs_curve(out.endpoint)) return {};
  return Error{
      fmt::format("WEFT_FABRIC={} leaves this machine and needs keys: set WEFT_CURVE_SECRET and "
                  "WEFT_CURVE_SERVER, or use "
                  "weft run --key FILE --switch-key FILE; weft keygen makes them",
                  printable(out.endpoint))};
}

/// The addresses themselves are read by those who use them (verbs/process/connection_service.cc).
Status check_addresses() {
  const std::string text = environment_variable("WEFT_IP");
  const std::string fault = address_list_fault(text);
  return fault.empty() ? Status{} : Status{Error{fmt::format("WEFT_IP={}: {}", printable(text), fault)}};
}

/// The number of adapters, at the switch of WEFT_FABRIC, or the switches of the further ones.
Status read_adapters(Settings& out) {
  const std::string text = environment_variable("WEFT_ADAPTERS");
  if (text.find(':') == std::string::npos)
    return read_number<uint8_t>("WEFT_ADAPTERS", 10, 1, node::kLinksMax, out.adapters);
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) out.more_endpoints.push_back(word);
  if (out.more_endpoints.size() >= node::kLinksMax)
    return Error{fmt::format("WEFT_ADAPTERS={}: at most {} adapters", printable(text), node::kLinksMax)};
  out.adapters = static_cast<uint8_t>(out.more_endpoints.size() + 1);
  return {};
}

std::string node_name() {
  if (std::string name = environment_variable("WEFT_NODE"); !name.empty()) return name;
  std::string name = fmt::format("{}-{}", program_invocation_short_name, getpid());
  for (char& c : name)
    if (!is_name_character(c)) c = '_';
  if (name.front() == '.' || name.front() == '-') name.front() = '_';
  return name.size() > node::kProgramNameBytesMax ? name.substr(name.size() - node::kProgramNameBytesMax)
                                                  : name;
}

}  // namespace

Result<Settings> read_settings() {
  Settings out;
  Result<std::string> endpoint = find_switch(environment_variable("WEFT_FABRIC"));
  if (!endpoint) return endpoint.error();
  out.endpoint = *endpoint;
  out.name = node_name();
  if (const std::string fault = name_fault(out.name, node::kProgramNameBytesMax, "a node"); !fault.empty())
    return Error{"WEFT_NODE: " + printable(fault)};
  out.dir = environment_variable("WEFT_NODE_DIR");
  // The pages of the fabric's own nodes stand one directory up.
  if (!out.dir.empty() && access(fmt::format("{}/../{}.stats", out.dir, out.name).c_str(), F_OK) == 0)
    return Error{fmt::format("WEFT_NODE={}: a node of the fabric's topology has this name", out.name)};
  const std::string flavour = environment_variable("WEFT_FLAVOUR");
  if (!flavour.empty() && flavour != "infiniband" && flavour != "roce")
    return Error{fmt::format("WEFT_FLAVOUR={}: must be infiniband or roce", flavour)};
  out.roce = flavour == "roce";
  const std::string strict = environment_variable("WEFT_STRICT_MEMORY");
  if (!strict.empty() && strict != "0" && strict != "1")
    return Error{fmt::format("WEFT_STRICT_MEMORY={}: must be 0 or 1", strict)};
  out.strict_memory = strict == "1";
  const std::string direct = environment_variable("WEFT_DIRECT");
  if (!direct.empty() && direct != "0" && direct != "1")
    return Error{fmt::format("WEFT_DIRECT={}: must be 0 or 1", direct)};
  if (direct == "1" && !out.dir.empty()) out.direct_dir = out.dir;
  if (Status read = read_direct_file(out); !read) return read.error();
  if (Status good = check_addresses(); !good) return good.error();
  if (Status read = read_keys(out); !read) return read.error();
  uint16_t lid = 0;
  uint64_t guid = 0;
  if (Status read = read_number<uint16_t>("WEFT_LID", 10, 1, kLidMax, lid); !read) return read.error();
  if (Status read = read_number<uint64_t>("WEFT_GUID", 16, 1, ~uint64_t{0}, guid); !read) return read.error();
  if ((lid == 0) != (guid == 0)) return Error{"WEFT_LID and WEFT_GUID must be set together"};
  if (Status read = read_number<uint64_t>("WEFT_IDENTITY", 16, 1, ~uint64_t{0}, out.identity); !read)
    return read.error();
  if (out.identity != 0 && guid == 0) return Error{"WEFT_IDENTITY needs WEFT_GUID and WEFT_LID"};
  out.lid = Lid(lid);
  out.guid = Guid(guid);
  if (Status read = read_number<uint32_t>("WEFT_CELL_PAYLOAD", 10, kCellPayloadBytesMin, kCellPayloadBytesMax,
                                          out.cell_payload_bytes);
      !read)
    return read.error();
  if (Status read =
          read_number<uint32_t>("WEFT_FLIT_PAYLOAD", 10, 0, kCellPayloadBytesMax, out.flit_payload_bytes);
      !read)
    return read.error();
  if (Status read = read_adapters(out); !read) return read.error();
  if (const std::string text = environment_variable("WEFT_SILENCE"); !text.empty()) {
    Result<Duration> silence = fabric::parse_silence(text);
    if (!silence) return Error{"WEFT_SILENCE: " + silence.error().text};
    out.silence = *silence;
  }
  return out;
}

std::string device_name() {
  const std::string name = environment_variable("WEFT_DEVICE");
  return name.empty() ? "weft0" : name;
}

}  // namespace weft::verbs
