#include "dyad/ir/scalar_evaluate.h"

#include <concepts>

#include "dyad/base/error.h"

namespace dyad::scalar {
namespace {

[[noreturn]] void cannot(const Instruction& i, ScalarType operand) {
  throw InternalError("scalar " + std::string(name_of(i.op)) + " has no meaning for " +
                      std::string(name_of(operand)));
}

template <class T>
std::uint64_t round_bits(const Instruction& i, T x) {
  if constexpr (std::same_as<T, float>) {
    if (i.dtype == DType::f16) return to_bits(semantics::round_f16(x));
    if (i.dtype == DType::bf16) return to_bits(semantics::round_bf16(x));
  }
  if constexpr (std::same_as<T, std::int32_t>) {
    if (i.dtype == DType::i16) return to_bits(semantics::wrap<std::int16_t>(x));
    if (i.dtype == DType::i8) return to_bits(semantics::wrap<std::int8_t>(x));
    if (i.dtype == DType::u16) return to_bits(semantics::wrap<std::uint16_t>(x));
    if (i.dtype == DType::u8) return to_bits(semantics::wrap<std::uint8_t>(x));
  }
  if constexpr (std::same_as<T, std::int64_t>) {
    if (i.dtype == DType::u32) return to_bits(semantics::wrap<std::uint32_t>(x));
  }
  cannot(i, i.type);
}

template <class T>
std::uint64_t evaluate_typed(const Instruction& i, ScalarType operand, T a, T b, T c) {
  using namespace semantics;
  constexpr bool floating = std::floating_point<T>, boolean = std::same_as<T, bool>;
  constexpr bool integer = std::integral<T> && !boolean;
  switch (i.op) {
    case Op::eq:
      return to_bits(a == b);
    case Op::ne:
      return to_bits(a != b);
    case Op::lt:
      return to_bits(a < b);
    case Op::le:
      return to_bits(a <= b);
    case Op::convert:
      return with_type(i.type,
                       [&](auto to) { return to_bits(semantics::convert<decltype(to)>(a)); });
    case Op::round:
      return round_bits(i, a);
    default:
      break;
  }
  if constexpr (!boolean) {
    switch (i.op) {
      case Op::neg:
        return to_bits(semantics::neg(a));
      case Op::abs:
        return to_bits(semantics::abs(a));
      case Op::add:
        return to_bits(semantics::add(a, b));
      case Op::sub:
        return to_bits(semantics::sub(a, b));
      case Op::mul:
        return to_bits(semantics::mul(a, b));
      case Op::div:
        return to_bits(semantics::div(a, b));
      case Op::min:
        return to_bits(a < b ? a : b);
      case Op::max:
        return to_bits(a > b ? a : b);
      case Op::bitcast:
        return to_bits(a);
      default:
        break;
    }
  }
  if constexpr (floating) {
    switch (i.op) {
      case Op::sqrt:
        return to_bits(std::sqrt(a));
      case Op::floor:
        return to_bits(std::floor(a));
      case Op::ceil:
        return to_bits(std::ceil(a));
      case Op::rint:
        return to_bits(std::rint(a));
      case Op::trunc:
        return to_bits(std::trunc(a));
      case Op::fma:
        return to_bits(std::fma(a, b, c));
      case Op::ldexp:
        return to_bits(semantics::ldexp(a, b));
      default:
        break;
    }
  } else {
    switch (i.op) {
      case Op::bit_and:
        return to_bits(static_cast<T>(a & b));
      case Op::bit_or:
        return to_bits(static_cast<T>(a | b));
      case Op::bit_xor:
        return to_bits(static_cast<T>(a ^ b));
      case Op::bit_not:
        return boolean ? to_bits(!a) : to_bits(static_cast<T>(~static_cast<std::int64_t>(a)));
      default:
        break;
    }
  }
  if constexpr (integer) {
    switch (i.op) {
      case Op::rem:
        return to_bits(semantics::rem(a, b));
      case Op::shl:
        return to_bits(semantics::shl(a, b));
      case Op::shr:
        return to_bits(semantics::shr(a, b));
      case Op::sar:
        return to_bits(semantics::sar(a, b));
      default:
        break;
    }
  }
  cannot(i, operand);
}

}  // namespace

std::uint64_t evaluate(const Instruction& i, ScalarType operand,
                       const std::array<std::uint64_t, 3>& args) {
  if (is_select(i.op)) return args[0] != 0 ? args[1] : args[2];
  if (i.op == Op::two_over_pi) {
    return to_bits(semantics::two_over_pi(from_bits<std::int64_t>(args[0])));
  }
  return with_type(operand, [&](auto zero) {
    using T = decltype(zero);
    return evaluate_typed<T>(i, operand, from_bits<T>(args[0]), from_bits<T>(args[1]),
                             from_bits<T>(args[2]));
  });
}

std::vector<std::uint64_t> evaluate(const ScalarProgram& program,
                                    std::span<const std::uint64_t> inputs,
                                    std::span<const std::uint64_t> slots) {
  const auto code = program.instructions();
  std::vector<std::uint64_t> values(code.size());
  for (std::size_t id = 0; id < code.size(); ++id) {
    const Instruction& i = code[id];
    switch (i.op) {
      case Op::constant:
        values[id] = i.imm;
        break;
      case Op::input:
        values[id] = inputs[i.imm];
        break;
      case Op::param:
        values[id] = slots[i.imm];
        break;
      default:
        values[id] = evaluate(i, code[i.args[0]].type,
                              {values[i.args[0]], values[i.args[1]], values[i.args[2]]});
    }
  }
  std::vector<std::uint64_t> outputs;
  for (std::uint32_t id : program.outputs()) outputs.push_back(values[id]);
  return outputs;
}

std::uint64_t slot_bits(ScalarType type, double value) {
  return with_type(type,
                   [&](auto zero) { return to_bits(semantics::convert<decltype(zero)>(value)); });
}
std::uint64_t slot_bits(ScalarType type, std::int64_t value) {
  return with_type(type,
                   [&](auto zero) { return to_bits(semantics::convert<decltype(zero)>(value)); });
}

}  // namespace dyad::scalar
