#include "trace.h"

#include <cmath>
#include <cstring>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/element.h"
#include "dyad/ir/literal.h"
#include "dyad/ops/ops.h"
#include "instructions.h"

namespace dyad::testing {
namespace {

std::string seen_difference(const Seen& got, const Seen& want) {
  if (got.value.defined() != want.value.defined()) {
    return want.value.defined() ? "is undefined, not " + type_string(want.value)
                                : "is " + type_string(got.value) + ", not undefined";
  }
  if (!got.value.defined()) return {};
  if (type_string(got.value) != type_string(want.value))
    return "is " + type_string(got.value) + ", not " + type_string(want.value);
  if (got.tracks_grad != want.tracks_grad)
    return got.tracks_grad ? "tracks gradients" : "does not track gradients";
  return element_difference(got.value, want.value);
}

/// Mixes words into one.
class Mixer {
 public:
  void add(std::uint64_t word) noexcept {
    hash_ = (hash_ ^ word) * 0x9E3779B97F4A7C15u;
    hash_ ^= hash_ >> 29;
  }
  void add(const std::string& text) noexcept {
    for (const char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
    add(text.size());
  }
  void add_elements(const Tensor& x) {
    const Tensor row = contiguous(x);
    const std::size_t size = size_of(x.dtype());
    const auto* at = static_cast<const std::byte*>(row.raw_data());
    const std::vector<double> values =
        is_floating(x.dtype()) ? row.to_vector<double>() : std::vector<double>();
    for (std::int64_t i = 0; i < row.numel().number(); ++i, at += size) {
      std::uint64_t word = 0;
      std::memcpy(&word, at, size);
      const auto place = static_cast<std::size_t>(i);
      add(!values.empty() && std::isnan(values[place]) ? 0x7ff8 : word);
    }
  }
  [[nodiscard]] std::uint64_t hash() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325u;
};

bool calls_library(const Body& body) {
  for (const Statement& statement : body.statements) {
    if (statement.op->library) return true;
    for (const Body& inner : statement.bodies) {
      if (calls_library(inner)) return true;
    }
  }
  return false;
}

/// What is to be the same of an error: a compiled function names another operator of a tape that
/// was used up.
std::string same_part(const std::string& error) {
  const bool used_up = error.find("its saved tensors were freed by the first") != std::string::npos;
  return used_up ? error.substr(0, error.find(':')) : error;
}

}  // namespace

std::string element_difference(const Tensor& got, const Tensor& want) {
  const Tensor a = contiguous(got), b = contiguous(want);
  const auto count = static_cast<std::size_t>(a.numel().number());
  const std::size_t bytes = count * size_of(a.dtype());
  const auto* x = static_cast<const std::byte*>(a.raw_data());
  const auto* y = static_cast<const std::byte*>(b.raw_data());
  if (bytes == 0 || std::memcmp(x, y, bytes) == 0) return {};
  const std::vector<double> p = a.to_vector<double>(), q = b.to_vector<double>();
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = size_of(a.dtype());
    if (std::memcmp(x + i * size, y + i * size, size) == 0) continue;
    if (std::isnan(p[i]) && std::isnan(q[i])) continue;
    return "element " + std::to_string(i) + " is " + number_text(p[i]) + ", not " +
           number_text(q[i]);
  }
  return {};
}

bool is_missing_second_derivative(const Trace& trace) {
  return trace.error.find("of a call that was replayed before any had been asked for") !=
         std::string::npos;
}

std::string difference(const Trace& got, const Trace& want) {
  if (same_part(got.error) != same_part(want.error)) {
    return "error: " + (got.error.empty() ? "none" : got.error) + ", not " +
           (want.error.empty() ? "none" : want.error);
  }
  for (const Seen& seen : got.seen) {
    const auto of = std::ranges::find(want.seen, seen.name, &Seen::name);
    if (of == want.seen.end()) return "values: " + seen.name + " is one too many";
    const std::string text = seen_difference(seen, *of);
    if (!text.empty()) return "values: " + seen.name + " " + text;
  }
  return {};
}

std::uint64_t digest(const Program& program, const Traces& traces) {
  const bool exact = !calls_library(program.body);
  Mixer mixer;
  for (const Trace& trace : traces) {
    mixer.add(trace.error.substr(0, trace.error.find(':')));
    for (const Seen& seen : trace.seen) {
      mixer.add(seen.name);
      if (!seen.value.defined()) continue;
      mixer.add(std::string(name_of(seen.value.dtype())));
      mixer.add(static_cast<std::uint64_t>(seen.value.rank()));
      if (!exact) continue;
      for (const Dim size : seen.value.shape())
        mixer.add(static_cast<std::uint64_t>(size.number()));
      mixer.add_elements(seen.value);
    }
  }
  return mixer.hash();
}

}  // namespace dyad::testing
