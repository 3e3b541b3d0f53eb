#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace dyad {

/// The 64-bit FNV-1a hash (Fowler, Noll, Vo) of some bytes: the same on every machine and in every
/// run, for names of contents. Not for what an adversary chooses.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::span<const std::byte> bytes) noexcept {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const std::byte b : bytes) hash = (hash ^ static_cast<std::uint64_t>(b)) * 0x100000001B3u;
  return hash;
}

}  // namespace dyad
