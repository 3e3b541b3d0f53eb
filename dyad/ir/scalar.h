#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "dyad/base/loc.h"
#include "dyad/core/dtype.h"

namespace dyad::scalar {

class ScalarProgram;

/// The types that arithmetic is done in. f16, bf16 and the small floats compute in f32, i16, i8,
/// u16, u8 and the small integers in i32, u32 in i64; of strings, kept as addresses of texts of
/// which there is one each, u64 tells which are the same: see `compute_type`.
enum class ScalarType : std::uint8_t { f64, f32, i64, i32, u64, boolean };

/// The type that elements of a dtype are computed in. Throws DTypeError for complex numbers, whose
/// operators are written in those of their parts.
[[nodiscard]] ScalarType compute_type(DType dtype);
/// The dtype whose elements are values of `type` as they stand.
[[nodiscard]] constexpr DType dtype_of_type(ScalarType type) noexcept {
  constexpr DType dtypes[] = {DType::f64, DType::f32, DType::i64,
                              DType::i32, DType::u64, DType::boolean};
  return dtypes[static_cast<int>(type)];
}
[[nodiscard]] constexpr bool is_floating(ScalarType t) noexcept { return t <= ScalarType::f32; }
[[nodiscard]] constexpr bool is_integer(ScalarType t) noexcept {
  return t == ScalarType::i64 || t == ScalarType::i32 || t == ScalarType::u64;
}
[[nodiscard]] constexpr std::string_view name_of(ScalarType t) noexcept {
  return dyad::name_of(dtype_of_type(t));
}

/// The operations of scalar programs. Each has one exact meaning (`scalar_semantics.h`), whoever
/// runs it.
enum class Op : std::uint8_t {
  constant,  ///< `imm` holds the value's bits
  input,     ///< element of input `imm`
  param,     ///< value of slot `imm`, the same for all elements of a call
  neg,
  abs,  ///< floating or integer
  sqrt,
  floor,
  ceil,
  rint,
  trunc,  ///< floating; rint to nearest even
  add,
  sub,
  mul,
  div,  ///< IEEE, or integers that wrap; integer x / 0 is 0
  rem,  ///< integers: sign of the dividend; x rem 0 is 0
  min,
  max,  ///< a < b ? a : b, a > b ? a : b
  fma,  ///< floating, one rounding
  eq,
  ne,
  lt,
  le,      ///< ordered, `ne` unordered; the type is that of the operands
  select,  ///< a ? b : c
  bit_and,
  bit_or,
  bit_xor,  ///< integers and booleans
  bit_not,
  shl,
  shr,
  sar,  ///< integers; the count is taken modulo the width; shr fills with zeros, as sar of u64 does
  bitcast,  ///< f32 <-> i32, f64 <-> i64 <-> u64
  convert,  ///< float to integer truncates, saturates, NaN gives 0; to boolean: != 0
  round,  ///< to what a tensor of `dtype` holds: f16, bf16 (nearest even), i16, i8, u16, u8 and u32
          ///< (an i64) wrap
  select_rarely,  ///< a ? b : c, where few elements want b: what only b needs may be left out while
                  ///< none does (`scalar_schedule.h`)
  two_over_pi,    ///< i64: 54 bits of 2/pi, from the one worth 2^-(a + 1) on; a is clamped to -64
                  ///< to 1162
  ldexp,  ///< floating: a * 2^b with one rounding, for 1/4 < |a| < 4 or NaN and whole b of at
          ///< most 250 (f32) or 2000 (f64) either way
};
inline constexpr int kOpCount = static_cast<int>(Op::ldexp) + 1;
[[nodiscard]] std::string_view name_of(Op op) noexcept;
/// How many operands an operation takes (0 to 3).
[[nodiscard]] int arity(Op op) noexcept;
[[nodiscard]] constexpr bool is_select(Op op) noexcept {
  return op == Op::select || op == Op::select_rarely;
}

/// One instruction; its number in the program names its value. Operands come before it.
struct Instruction {
  Op op = Op::constant;
  ScalarType type = ScalarType::f32;  ///< of the result
  DType dtype = DType::f32;           ///< what `round` rounds to; otherwise f32
  std::array<std::uint32_t, 3> args{};
  std::uint64_t imm = 0;
  Loc loc = {};
};

/// A value of a program under construction, or a C++ number that takes its type from the operand it
/// meets: `x / (1.0 + exp(-x))`. Cheap to copy. Operators record an instruction in the program of
/// their operands. Operands of different types are a DTypeError: convert first. Definitions cannot
/// branch on a Scalar: use `select`.
class Scalar {
 public:
  template <std::floating_point T>
  Scalar(T value) noexcept : kind_(Kind::real), real_(static_cast<double>(value)) {}
  template <std::integral T>
  Scalar(T value) noexcept
      : kind_(std::same_as<T, bool> ? Kind::boolean : Kind::integer),
        integer_(static_cast<std::int64_t>(value)) {}

  /// Whether it is a bare number without a program.
  [[nodiscard]] bool is_literal() const noexcept { return program_ == nullptr; }
  [[nodiscard]] ScalarProgram* program() const noexcept { return program_; }
  [[nodiscard]] std::uint32_t id() const noexcept { return id_; }
  /// Type of a recorded value; a literal has none (DTypeError).
  [[nodiscard]] ScalarType type() const;
  /// The number as a constant of this value's program and type.
  [[nodiscard]] Scalar like(Scalar literal) const;
  /// Whether this is a constant of the program, or a literal.
  [[nodiscard]] bool is_constant() const;

 private:
  friend class ScalarProgram;
  enum class Kind : std::uint8_t { value, real, integer, boolean };
  Scalar(ScalarProgram* program, std::uint32_t id) noexcept
      : program_(program), id_(id), kind_(Kind::value), integer_(0) {}

  ScalarProgram* program_ = nullptr;
  std::uint32_t id_ = 0;
  Kind kind_;
  union {
    double real_;
    std::int64_t integer_;
  };
};

/// A straight-line program from input elements to output elements. Equal instructions are shared
/// and constants fold as they are recorded. Scalars made from it refer to it by address: record all
/// of it before moving it.
class ScalarProgram {
 public:
  /// The next input element, of the type that a tensor of `type` is computed in.
  Scalar input(ScalarType type);
  Scalar input(DType dtype) { return input(compute_type(dtype)); }
  /// The value of a slot of the call.
  Scalar param(int slot, ScalarType type);
  Scalar constant(ScalarType type, Scalar literal);
  Scalar constant_bits(ScalarType type, std::uint64_t bits);
  /// Makes `value` the next output; a literal becomes a constant of `type`. A value of another type
  /// is a DTypeError.
  void output(Scalar value, ScalarType type);
  void output(Scalar value) { output(value, value.type()); }
  /// Records another program on the given inputs (and its params as they are); gives its outputs.
  std::vector<Scalar> inlined(const ScalarProgram& callee, std::span<const Scalar> inputs);
  /// Removes what no output needs. Inputs stay. Handles become invalid.
  void prune();

  /// Instructions recorded from here on carry this place.
  void set_loc(Loc loc) noexcept { loc_ = loc; }

  [[nodiscard]] std::span<const Instruction> instructions() const noexcept { return code_; }
  [[nodiscard]] std::span<const std::uint32_t> inputs() const noexcept { return inputs_; }
  [[nodiscard]] std::span<const std::uint32_t> outputs() const noexcept { return outputs_; }
  [[nodiscard]] int param_count() const noexcept { return params_; }
  [[nodiscard]] ScalarType input_type(std::size_t i) const { return code_[inputs_[i]].type; }
  [[nodiscard]] ScalarType output_type(std::size_t i) const { return code_[outputs_[i]].type; }
  [[nodiscard]] Scalar at(std::uint32_t id) noexcept { return {this, id}; }
  /// Operations per element, inputs, params, constants and what is rarely wanted not counted; a
  /// division or root counts 8.
  [[nodiscard]] int cost() const noexcept;

  /// Stable text, one instruction a line; equal text means equal programs. `with_locs` adds the
  /// places.
  [[nodiscard]] std::string text(bool with_locs = false) const;

  /// Records an instruction, or finds or folds it. For the functions below; definitions use those.
  Scalar record(Op op, ScalarType type, std::initializer_list<Scalar> args,
                DType dtype = DType::f32);

 private:
  std::uint32_t intern(Instruction instruction);

  std::vector<Instruction> code_;
  std::vector<std::uint32_t> inputs_, outputs_;
  std::vector<std::uint32_t> table_;  // open addressing over code_, id + 1
  int params_ = 0;
  Loc loc_;
};

/// Runs a program on one element: bits in (inputs, slots), bits out. Slow; for folding, tests and
/// small cases.
[[nodiscard]] std::vector<std::uint64_t> evaluate(const ScalarProgram& program,
                                                  std::span<const std::uint64_t> inputs,
                                                  std::span<const std::uint64_t> slots = {});

Scalar operator+(Scalar a, Scalar b);
Scalar operator-(Scalar a, Scalar b);
Scalar operator*(Scalar a, Scalar b);
Scalar operator/(Scalar a, Scalar b);
/// Integers: remainder with the sign of the dividend.
Scalar operator%(Scalar a, Scalar b);
Scalar operator-(Scalar a);
Scalar operator==(Scalar a, Scalar b);
Scalar operator!=(Scalar a, Scalar b);
Scalar operator<(Scalar a, Scalar b);
Scalar operator<=(Scalar a, Scalar b);
Scalar operator>(Scalar a, Scalar b);
Scalar operator>=(Scalar a, Scalar b);
/// Integers and booleans, bit by bit.
Scalar operator&(Scalar a, Scalar b);
Scalar operator|(Scalar a, Scalar b);
Scalar operator^(Scalar a, Scalar b);
Scalar operator~(Scalar a);
Scalar operator!(Scalar a);
Scalar operator<<(Scalar a, Scalar count);
/// Shift right that keeps the sign; `shift_right_logical` fills with zeros.
Scalar operator>>(Scalar a, Scalar count);
Scalar shift_right_logical(Scalar a, Scalar count);

/// condition ? a : b, both computed.
Scalar select(Scalar condition, Scalar a, Scalar b);
/// The same, for an `a` that few elements want: where none of those at hand does, code skips what
/// only `a` needs. Several in a row of the same condition are skipped at once.
Scalar select_rarely(Scalar condition, Scalar a, Scalar b);
/// a * b + c with one rounding (floating).
Scalar fma(Scalar a, Scalar b, Scalar c);
/// a < b ? a : b and a > b ? a : b: the second operand when one is NaN.
Scalar min(Scalar a, Scalar b);
Scalar max(Scalar a, Scalar b);
Scalar abs(Scalar x);
Scalar sqrt(Scalar x);
Scalar floor(Scalar x);
Scalar ceil(Scalar x);
Scalar trunc(Scalar x);
/// To the nearest integer, ties to even.
Scalar rint(Scalar x);
/// x * 2^n, see Op::ldexp.
Scalar ldexp(Scalar x, Scalar n);
/// The same bits as a value of the type of equal width.
Scalar bitcast(Scalar x, ScalarType type);
/// Float to integer truncates and saturates (NaN gives 0), integer to narrower wraps, to boolean is
/// x != 0.
Scalar convert(Scalar x, ScalarType type);
/// The value after being stored in a tensor of `dtype` and loaded again; its type is
/// `compute_type(dtype)`. Small integers and small floats
/// saturate.
Scalar cast(Scalar x, DType dtype);
/// What a tensor of one of kSmall holds in a byte for a number, as i32, and the number behind such
/// a byte: small_float_code, small_float_value and convert_element as instructions.
Scalar to_code(Scalar x, DType dtype, bool saturate = true);
Scalar from_code(Scalar code, DType dtype);

}  // namespace dyad::scalar

namespace dyad {
using scalar::Scalar;
using scalar::ScalarProgram;
using scalar::ScalarType;
}  // namespace dyad
