#include "dyad/core/generator.h"

#include <bit>
#include <string>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/evaluator.h"
#include "dyad/core/generator_scope.h"

namespace dyad {
namespace {

std::array<std::uint32_t, 2> halves(std::int64_t value) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  return {static_cast<std::uint32_t>(bits), static_cast<std::uint32_t>(bits >> 32)};
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> c,
                                        std::array<std::uint32_t, 2> key) noexcept {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p = std::uint64_t{0xD2511F53} * c[0], q = std::uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<std::uint32_t>(q >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(q),
         static_cast<std::uint32_t>(p >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(p)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return c;
}

std::array<std::uint32_t, 4> random_words(RandomKey key, std::int64_t i) noexcept {
  const auto place = halves(static_cast<std::int64_t>(static_cast<std::uint64_t>(key.offset) +
                                                      static_cast<std::uint64_t>(i)));
  return philox4x32({place[0], place[1], 0, 0}, halves(key.seed));
}

Generator::Generator(std::uint64_t seed) noexcept : next_{std::bit_cast<std::int64_t>(seed), 0} {}

void Generator::manual_seed(std::uint64_t seed, Loc loc) {
  set_state({std::bit_cast<std::int64_t>(seed), 0}, loc);
}

RandomKey Generator::next_key(std::int64_t count) {
  if (count < 0) {
    throw ValueError("next_key: " + std::to_string(count) + " random numbers: at least 0",
                     Loc().user());
  }
  const std::lock_guard lock(mutex_);
  const RandomKey key = next_;
  next_.offset = static_cast<std::int64_t>(static_cast<std::uint64_t>(key.offset) +
                                           static_cast<std::uint64_t>(count));
  return key;
}

RandomKey Generator::state() const noexcept {
  const std::lock_guard lock(mutex_);
  return next_;
}

void Generator::set_state(RandomKey state, Loc loc) {
  if (!Evaluator::is_eager() && this == &default_generator()) {
    Evaluator::current().set_random_state(state, loc);
  } else {
    put(state);
  }
}

void Generator::put(RandomKey state) noexcept {
  const std::lock_guard lock(mutex_);
  next_ = state;
}

namespace {
thread_local Generator* scoped_generator = nullptr;
}  // namespace

GeneratorScope::GeneratorScope(Generator& generator) noexcept
    : previous_(std::exchange(scoped_generator, &generator)) {}
GeneratorScope::~GeneratorScope() { scoped_generator = previous_; }

Generator& default_generator() noexcept {
  if (scoped_generator != nullptr) return *scoped_generator;
  // Immortal: static tensors may be drawn at exit.
  static auto* generator = new Generator;  // NOLINT(bugprone-unhandled-exception-at-new)
  return *generator;
}

void manual_seed(std::uint64_t seed, Loc loc) { default_generator().manual_seed(seed, loc); }

}  // namespace dyad
