#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>

#include "dyad/base/error.h"
#include "dyad/codegen/block_program.h"
#include "dyad/codegen/built_in.h"
#include "dyad/ir/scalar_evaluate.h"
#include "dyad/ir/scalar_semantics.h"

// Everything below run_steps is forced into each of its builds, so that the compiler vectorises it
// for each level of x86-64. The arithmetic is IEEE's and the same in all.
namespace dyad::codegen {
namespace {

using scalar::Op;
using Step = BlockProgram::Step;
namespace sem = scalar::semantics;

template <class R, class T, class F>
[[gnu::always_inline]] inline void map(const Step& s, void* const* r, int n, F f) {
  auto* to = static_cast<R*>(r[s.to]);
  const auto* a = static_cast<const T*>(r[s.from[0]]);
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) to[i] = f(a[i]);
}

template <class R, class T, class F>
[[gnu::always_inline]] inline void map2(const Step& s, void* const* r, int n, F f) {
  auto* to = static_cast<R*>(r[s.to]);
  const auto* a = static_cast<const T*>(r[s.from[0]]);
  const auto* b = static_cast<const T*>(r[s.from[1]]);
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) to[i] = f(a[i], b[i]);
}

template <class T>
[[gnu::always_inline]] inline void select(const Step& s, void* const* r, int n) {
  auto* to = static_cast<T*>(r[s.to]);
  const auto* c = static_cast<const bool*>(r[s.from[0]]);
  const auto* a = static_cast<const T*>(r[s.from[1]]);
  const auto* b = static_cast<const T*>(r[s.from[2]]);
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) to[i] = c[i] ? a[i] : b[i];
}

template <class T>
[[gnu::always_inline]] inline void fma(const Step& s, void* const* r, int n) {
  auto* to = static_cast<T*>(r[s.to]);
  const auto* a = static_cast<const T*>(r[s.from[0]]);
  const auto* b = static_cast<const T*>(r[s.from[1]]);
  const auto* c = static_cast<const T*>(r[s.from[2]]);
#pragma GCC ivdep
  for (int i = 0; i < n; ++i) {
    if constexpr (std::same_as<T, float>)
      to[i] = __builtin_fmaf(a[i], b[i], c[i]);
    else
      to[i] = __builtin_fma(a[i], b[i], c[i]);
  }
}

template <class T>
[[gnu::always_inline]] inline void convert(const Step& s, void* const* r, int n) {
  switch (s.type) {
    case ScalarType::f64:
      return map<double, T>(s, r, n, [](T x) { return sem::convert<double>(x); });
    case ScalarType::f32:
      return map<float, T>(s, r, n, [](T x) { return sem::convert<float>(x); });
    case ScalarType::i64:
      return map<std::int64_t, T>(s, r, n, [](T x) { return sem::convert<std::int64_t>(x); });
    case ScalarType::i32:
      return map<std::int32_t, T>(s, r, n, [](T x) { return sem::convert<std::int32_t>(x); });
    case ScalarType::u64:
      return map<std::uint64_t, T>(s, r, n, [](T x) { return sem::convert<std::uint64_t>(x); });
    case ScalarType::boolean:
      return map<bool, T>(s, r, n, [](T x) { return sem::convert<bool>(x); });
  }
}

template <class T>
[[gnu::always_inline]] inline void round(const Step& s, void* const* r, int n) {
  if constexpr (std::same_as<T, float>) {
    if (s.dtype == DType::f16) return map<T, T>(s, r, n, [](T x) { return sem::round_f16(x); });
    return map<T, T>(s, r, n, [](T x) { return sem::round_bf16(x); });
  } else if constexpr (std::same_as<T, std::int32_t>) {
    switch (s.dtype) {
      case DType::i16:
        return map<T, T>(s, r, n, [](T x) { return sem::wrap<std::int16_t>(x); });
      case DType::i8:
        return map<T, T>(s, r, n, [](T x) { return sem::wrap<std::int8_t>(x); });
      case DType::u16:
        return map<T, T>(s, r, n, [](T x) { return sem::wrap<std::uint16_t>(x); });
      default:
        return map<T, T>(s, r, n, [](T x) { return sem::wrap<std::uint8_t>(x); });
    }
  } else if constexpr (std::same_as<T, std::int64_t>) {
    return map<T, T>(s, r, n, [](T x) { return sem::wrap<std::uint32_t>(x); });
  }
}

template <class T>
[[gnu::always_inline]] inline bool common(const Step& s, void* const* r, int n) {
  switch (s.op) {
    case Op::eq:
      map2<bool, T>(s, r, n, [](T a, T b) { return a == b; });
      return true;
    case Op::ne:
      map2<bool, T>(s, r, n, [](T a, T b) { return a != b; });
      return true;
    case Op::lt:
      map2<bool, T>(s, r, n, [](T a, T b) { return a < b; });
      return true;
    case Op::le:
      map2<bool, T>(s, r, n, [](T a, T b) { return a <= b; });
      return true;
    case Op::select:
    case Op::select_rarely:
      select<T>(s, r, n);
      return true;
    case Op::convert:
      convert<T>(s, r, n);
      return true;
    case Op::round:
      round<T>(s, r, n);
      return true;
    default:
      return false;
  }
}

template <class T>
[[gnu::always_inline]] inline bool numeric(const Step& s, void* const* r, int n) {
  switch (s.op) {
    case Op::neg:
      map<T, T>(s, r, n, [](T a) { return sem::neg(a); });
      return true;
    case Op::abs:
      map<T, T>(s, r, n, [](T a) { return sem::abs(a); });
      return true;
    case Op::add:
      map2<T, T>(s, r, n, [](T a, T b) { return sem::add(a, b); });
      return true;
    case Op::sub:
      map2<T, T>(s, r, n, [](T a, T b) { return sem::sub(a, b); });
      return true;
    case Op::mul:
      map2<T, T>(s, r, n, [](T a, T b) { return sem::mul(a, b); });
      return true;
    case Op::div:
      map2<T, T>(s, r, n, [](T a, T b) { return sem::div(a, b); });
      return true;
    case Op::min:
      map2<T, T>(s, r, n, [](T a, T b) { return a < b ? a : b; });
      return true;
    case Op::max:
      map2<T, T>(s, r, n, [](T a, T b) { return a > b ? a : b; });
      return true;
    case Op::bitcast:
      map<T, T>(s, r, n, [](T a) { return a; });
      return true;
    default:
      return false;
  }
}

template <class T>
[[gnu::always_inline]] inline bool floating(const Step& s, void* const* r, int n) {
  switch (s.op) {
    case Op::sqrt:
      map<T, T>(s, r, n, [](T a) { return std::sqrt(a); });
      return true;
    case Op::floor:
      map<T, T>(s, r, n, [](T a) { return std::floor(a); });
      return true;
    case Op::ceil:
      map<T, T>(s, r, n, [](T a) { return std::ceil(a); });
      return true;
    case Op::rint:
      map<T, T>(s, r, n, [](T a) { return std::rint(a); });
      return true;
    case Op::trunc:
      map<T, T>(s, r, n, [](T a) { return std::trunc(a); });
      return true;
    case Op::fma:
      fma<T>(s, r, n);
      return true;
    case Op::ldexp:
      map2<T, T>(s, r, n, [](T a, T b) { return sem::ldexp(a, b); });
      return true;
    default:
      return false;
  }
}

template <class T>
[[gnu::always_inline]] inline bool bits(const Step& s, void* const* r, int n) {
  switch (s.op) {
    case Op::bit_and:
      map2<T, T>(s, r, n, [](T a, T b) { return static_cast<T>(a & b); });
      return true;
    case Op::bit_or:
      map2<T, T>(s, r, n, [](T a, T b) { return static_cast<T>(a | b); });
      return true;
    case Op::bit_xor:
      map2<T, T>(s, r, n, [](T a, T b) { return static_cast<T>(a ^ b); });
      return true;
    case Op::bit_not:
      map<T, T>(s, r, n, [](T a) {
        if constexpr (std::same_as<T, bool>)
          return !a;
        else
          return static_cast<T>(~a);
      });
      return true;
    default:
      return false;
  }
}

template <class T>
[[gnu::always_inline]] inline bool integer(const Step& s, void* const* r, int n) {
  switch (s.op) {
    case Op::rem:
      map2<T, T>(s, r, n, [](T a, T b) { return sem::rem(a, b); });
      return true;
    case Op::shl:
      map2<T, T>(s, r, n, [](T a, T b) { return sem::shl(a, b); });
      return true;
    case Op::shr:
      map2<T, T>(s, r, n, [](T a, T b) { return sem::shr(a, b); });
      return true;
    case Op::sar:
      map2<T, T>(s, r, n, [](T a, T b) { return sem::sar(a, b); });
      return true;
    case Op::two_over_pi:
      if constexpr (std::same_as<T, std::int64_t>)
        map<T, T>(s, r, n, [](T a) { return sem::two_over_pi(a); });
      return std::same_as<T, std::int64_t>;
    default:
      return false;
  }
}

template <class T>
[[gnu::always_inline]] inline bool run_typed(const Step& s, void* const* r, int n) {
  if (common<T>(s, r, n)) return true;
  if constexpr (std::same_as<T, bool>)
    return bits<T>(s, r, n);
  else if constexpr (std::integral<T>)
    return numeric<T>(s, r, n) || bits<T>(s, r, n) || integer<T>(s, r, n);
  else
    return numeric<T>(s, r, n) || floating<T>(s, r, n);
}

[[gnu::always_inline]] inline bool run_all(std::span<const Step> steps, void* const* r, int n) {
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const Step& s = steps[at];
    if (s.guarded > 0) {
      const auto* wanted = static_cast<const bool*>(r[s.from[0]]);
      if (std::find(wanted, wanted + n, true) == wanted + n) at += s.guarded;
      continue;
    }
    bool known = false;
    switch (s.operand) {
      case ScalarType::f64:
        known = run_typed<double>(s, r, n);
        break;
      case ScalarType::f32:
        known = run_typed<float>(s, r, n);
        break;
      case ScalarType::i64:
        known = run_typed<std::int64_t>(s, r, n);
        break;
      case ScalarType::i32:
        known = run_typed<std::int32_t>(s, r, n);
        break;
      case ScalarType::u64:
        known = run_typed<std::uint64_t>(s, r, n);
        break;
      case ScalarType::boolean:
        known = run_typed<bool>(s, r, n);
        break;
    }
    if (!known) return false;
  }
  return true;
}

#if defined(__x86_64__) && defined(__GNUC__)
[[gnu::target("avx2,fma,bmi,bmi2,f16c")]] bool run_level3(std::span<const Step> steps,
                                                          void* const* r, int n) {
  return run_all(steps, r, n);
}
#endif
bool run_base(std::span<const Step> steps, void* const* r, int n) { return run_all(steps, r, n); }

}  // namespace

void run_steps(std::span<const Step> steps, void* const* registers, int n) {
#if defined(__x86_64__) && defined(__GNUC__)
  static const bool level3 = built_in_level() >= 3;
  const bool known = level3 ? run_level3(steps, registers, n) : run_base(steps, registers, n);
#else
  const bool known = run_base(steps, registers, n);
#endif
  if (!known)
    throw InternalError("a scalar program holds an operation that its type does not have");
}

}  // namespace dyad::codegen
