#include "base/sip_hash.h"

#include <gtest/gtest.h>

#include <array>

namespace weft {
namespace {

/// Vectors of SipHash's authors: key 00 01 … 0f, input 00 01 02 … of 8 and 16 bytes.
TEST(SipHash, gives_what_its_authors_publish) {
  constexpr SipKey kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};
  EXPECT_EQ(sip_hash(kKey, std::array<uint64_t, 1>{0x0706050403020100}), 0x93f5f5799a932462U);
  EXPECT_EQ(sip_hash(kKey, std::array<uint64_t, 2>{0x0706050403020100, 0x0f0e0d0c0b0a0908}),
            0x3f2acc7f57c29bdbU);
}

}  // namespace
}  // namespace weft
