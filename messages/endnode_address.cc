#include "messages/endnode_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "base/words.h"

namespace weft {
namespace {

constexpr std::array<uint8_t, 6> kIpv6Network{0xfd, 0x57, 0x45, 0x46, 0x54, 0x00};
constexpr uint32_t kIpv4NetworkMask = 0xffff'0000;

std::string address_fault(const std::string& word) {
  in_addr v4{};
  in6_addr v6{};
  const bool is_v4 = inet_pton(AF_INET, word.c_str(), &v4) == 1;
  if (!is_v4 && inet_pton(AF_INET6, word.c_str(), &v6) != 1)
    return fmt::format("must be addresses like 10.0.0.7 or fd00::7, separated by commas, not '{}'",
                       printable(word));
  const bool is_of_lid = is_v4 ? (ntohl(v4.s_addr) & kIpv4NetworkMask) == kEndnodeIpv4Network
                               : std::equal(kIpv6Network.begin(), kIpv6Network.end(), v6.s6_addr);
  if (!is_of_lid) return {};
  return fmt::format(
      "{} cannot be chosen, because 10.87.0.0/16 and fd57:4546:5400::/48 are the addresses of LIDs", word);
}

}  // namespace

std::string address_list_fault(const std::string& list) {
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');)
    if (std::string fault = address_fault(word); !fault.empty()) return fault;
  return {};
}

}  // namespace weft
