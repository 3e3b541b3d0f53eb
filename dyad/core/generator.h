#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <source_location>

#include "dyad/base/loc.h"

namespace dyad {

/// Philox 4x32-10: four random words that are a function of a counter and a key (J. Salmon et al.,
/// "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
[[nodiscard]] std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                      std::array<std::uint32_t, 2> key) noexcept;

/// What one random operator draws from: a stream (the seed) and a place in it (the offset).
///
/// Number i of the operator's result, i counted in row-major order, comes from the four words that
/// Philox gives for the key `seed` and the counter `offset + i` (each as 64 bits, low word first,
/// the upper half of the counter 0). A uniform f32 in [0, 1) is the first word's upper 24 bits
/// times 2^-24; a uniform f64 is the first word and the second's upper 21 bits, 53 in all, times
/// 2^-53. So results do not depend on threads, layout or mode.
struct RandomKey {
  std::int64_t seed = 0;
  std::int64_t offset = 0;
  [[nodiscard]] bool operator==(const RandomKey&) const noexcept = default;
};

/// The four words for number i of a key.
[[nodiscard]] std::array<std::uint32_t, 4> random_words(RandomKey key, std::int64_t i) noexcept;

/// Deals out places in a stream of random numbers, so that no two operators draw the same ones.
/// Safe to use from several threads, although which gets which place is then a matter of timing.
class Generator {
 public:
  explicit Generator(std::uint64_t seed = 0) noexcept;

  /// Starts the stream of `seed` from its beginning.
  void manual_seed(std::uint64_t seed, Loc loc = std::source_location::current());
  /// The place of the next `count` numbers; the generator moves past them. ValueError for a
  /// negative count.
  RandomKey next_key(std::int64_t count);

  /// Seed and offset, to save; `set_state` goes back there. In a compiled function, and in branches
  /// and loops of a graph, setting the default generator happens each time they run; elsewhere in
  /// the definition of a graph once, for what the definition draws.
  [[nodiscard]] RandomKey state() const noexcept;
  void set_state(RandomKey state, Loc loc = std::source_location::current());

 private:
  friend class Evaluator;
  void put(RandomKey state) noexcept;

  mutable std::mutex mutex_;
  RandomKey next_;
};

/// The generator of operators that are given none; it starts with seed 0, so that a program repeats
/// itself unless it asks for something else.
[[nodiscard]] Generator& default_generator() noexcept;

/// Seeds the default generator, as its `set_state` does.
void manual_seed(std::uint64_t seed, Loc loc = std::source_location::current());

}  // namespace dyad
