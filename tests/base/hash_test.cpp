#include "dyad/base/hash.h"

#include <gtest/gtest.h>

#include <string_view>

namespace dyad {
namespace {

std::uint64_t hash_of(std::string_view text) { return fnv1a(std::as_bytes(std::span(text))); }

// Values from the reference vectors of the hash's authors.
TEST(Hash, IsFnv1a) {
  EXPECT_EQ(hash_of(""), 0xCBF29CE484222325u);
  EXPECT_EQ(hash_of("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(hash_of("foobar"), 0x85944171F73967E8u);
}

}  // namespace
}  // namespace dyad
