#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace dyad::testing {

using UseDamaged = std::function<void(const std::string& bytes, const std::string& damage)>;

/// Calls `use` with `bytes` damaged in each of these ways, always the same ones in the same order,
/// and a text that says which:
/// - cut at each length;
/// - each byte replaced by its complement, by 0, '9', '-' and '"', or with one bit flipped;
/// - each byte left out, or doubled;
/// - each run of 2, 4 and 8 bytes replaced by the least and greatest integers, in both byte orders.
void for_each_damage(const std::string& bytes, const UseDamaged& use);

/// The same with each number written in digits, if it is no part of a word or %name, replaced by
/// each of `numbers`.
void for_each_number(const std::string& bytes, std::span<const char* const> numbers,
                     const UseDamaged& use);

/// Numbers at the ends of what integers hold, and what no reader of sizes can mean.
inline constexpr const char* kAbsurdNumbers[] = {"-1",
                                                 "4294967295",
                                                 "4294967296",
                                                 "1099511627776",
                                                 "4611686018427387904",
                                                 "9223372036854775807",
                                                 "9223372036854775808",
                                                 "18446744073709551615",
                                                 "99999999999999999999",
                                                 "1e300",
                                                 "1.5",
                                                 "null"};

}  // namespace dyad::testing
