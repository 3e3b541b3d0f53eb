#include "dyad/ir/scalar.h"

#include <algorithm>
#include <bit>

#include "dyad/base/error.h"
#include "dyad/ir/scalar_evaluate.h"
#include "dyad/ir/scalar_schedule.h"

namespace dyad::scalar {
namespace {

constexpr std::string_view kOpNames[kOpCount] = {
    "constant", "input",         "param",       "neg",  "abs", "sqrt", "floor",   "ceil",
    "rint",     "trunc",         "add",         "sub",  "mul", "div",  "rem",     "min",
    "max",      "fma",           "eq",          "ne",   "lt",  "le",   "select",  "and",
    "or",       "xor",           "not",         "shl",  "shr", "sar",  "bitcast", "convert",
    "round",    "select_rarely", "two_over_pi", "ldexp"};
constexpr std::int8_t kArity[kOpCount] = {0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 3,
                                          2, 2, 2, 2, 3, 2, 2, 2, 1, 2, 2, 2, 1, 1, 1, 3, 1, 2};

bool commutes(Op op) {
  return op == Op::eq || op == Op::ne || op == Op::bit_and || op == Op::bit_or || op == Op::bit_xor;
}

std::uint64_t mix(std::uint64_t h, std::uint64_t v) {
  h = (h ^ v) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

std::uint64_t hash_of(const Instruction& i) {
  std::uint64_t h = mix(static_cast<std::uint64_t>(i.op) | static_cast<std::uint64_t>(i.type) << 8 |
                            static_cast<std::uint64_t>(i.dtype) << 16,
                        i.imm);
  for (std::uint32_t a : i.args) h = mix(h, a);
  return h;
}

bool same(const Instruction& a, const Instruction& b) {
  return a.op == b.op && a.type == b.type && a.dtype == b.dtype && a.imm == b.imm &&
         a.args == b.args;
}

[[noreturn]] void type_error(Op op, std::initializer_list<Scalar> args, std::string_view rule,
                             Loc loc) {
  std::string text = "scalar " + std::string(name_of(op)) + "(";
  for (const Scalar& a : args) {
    if (text.back() != '(') text += ", ";
    text += a.is_literal() ? "number" : std::string(name_of(a.type()));
  }
  throw DTypeError(text + "): " + std::string(rule), loc);
}

/// Gives literals the type of the first recorded operand and checks that all agree.
void unify(Op op, std::initializer_list<Scalar*> args, std::initializer_list<Scalar> shown) {
  const Scalar* typed = nullptr;
  for (Scalar* a : args) {
    if (!a->is_literal()) {
      typed = a;
      break;
    }
  }
  if (typed == nullptr) {
    type_error(op, shown, "no operand has a type; give one with x.like(number)", {});
  }
  for (Scalar* a : args) {
    if (a->is_literal()) {
      *a = typed->like(*a);
    } else if (a->type() != typed->type()) {
      type_error(op, shown, "operands differ in type; convert one of them", {});
    } else if (a->program() != typed->program()) {
      type_error(op, shown, "operands belong to different programs", {});
    }
  }
}

enum class Accepts : std::uint8_t { number, floating, integer, bits };

bool accepted(Accepts accepts, ScalarType t) {
  switch (accepts) {
    case Accepts::number:
      return t != ScalarType::boolean;
    case Accepts::floating:
      return is_floating(t);
    case Accepts::integer:
      return is_integer(t);
    case Accepts::bits:
      return !is_floating(t);
  }
  return false;
}

void check(Op op, Accepts accepts, std::initializer_list<Scalar> args) {
  constexpr std::string_view rules[] = {"takes numbers; convert booleans first",
                                        "takes floating-point numbers", "takes integers",
                                        "takes integers or booleans"};
  if (!accepted(accepts, args.begin()->type())) {
    type_error(op, args, rules[static_cast<int>(accepts)], {});
  }
}

Scalar unary(Op op, Accepts accepts, Scalar x) {
  if (x.is_literal())
    type_error(op, {x}, "no operand has a type; give one with x.like(number)", {});
  check(op, accepts, {x});
  return x.program()->record(op, x.type(), {x});
}

Scalar binary(Op op, Accepts accepts, Scalar a, Scalar b) {
  const Scalar shown_a = a, shown_b = b;
  unify(op, {&a, &b}, {shown_a, shown_b});
  check(op, accepts, {a, b});
  return a.program()->record(op, a.type(), {a, b});
}

Scalar compare(Op op, Accepts accepts, Scalar a, Scalar b) {
  const Scalar shown_a = a, shown_b = b;
  unify(op, {&a, &b}, {shown_a, shown_b});
  if (op == Op::lt || op == Op::le) check(op, accepts, {a, b});
  return a.program()->record(op, ScalarType::boolean, {a, b});
}

Scalar choose(Op op, Scalar condition, Scalar a, Scalar b) {
  const Scalar shown_a = a, shown_b = b;
  unify(op, {&a, &b}, {condition, shown_a, shown_b});
  if (condition.is_literal()) condition = a.program()->constant(ScalarType::boolean, condition);
  if (condition.type() != ScalarType::boolean) {
    type_error(op, {condition, a, b}, "the condition must be a boolean", {});
  }
  return a.program()->record(op, a.type(), {condition, a, b});
}

}  // namespace

ScalarType compute_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ScalarType::f64;
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3fn:
    case DType::f8e4m3fnuz:
    case DType::f8e5m2:
    case DType::f8e5m2fnuz:
    case DType::f8e8m0:
    case DType::f4e2m1:
      return ScalarType::f32;
    case DType::i64:
    case DType::u32:
      return ScalarType::i64;
    case DType::i32:
    case DType::i16:
    case DType::i8:
    case DType::u16:
    case DType::u8:
    case DType::i4:
    case DType::i2:
    case DType::u4:
    case DType::u2:
      return ScalarType::i32;
    case DType::u64:
    case DType::string:
      return ScalarType::u64;
    case DType::boolean:
      return ScalarType::boolean;
    case DType::c128:
    case DType::c64:
      break;
  }
  throw DTypeError("a kernel cannot compute with elements of type " + std::string(name_of(dtype)));
}

std::string_view name_of(Op op) noexcept { return kOpNames[static_cast<int>(op)]; }
int arity(Op op) noexcept { return kArity[static_cast<int>(op)]; }

ScalarType Scalar::type() const {
  if (is_literal())
    throw DTypeError("a number has no type before it meets a typed operand; use x.like(number)");
  return program_->instructions()[id_].type;
}
Scalar Scalar::like(Scalar literal) const { return program_->constant(type(), literal); }
bool Scalar::is_constant() const {
  return is_literal() || program_->instructions()[id_].op == Op::constant;
}

std::uint32_t ScalarProgram::intern(Instruction instruction) {
  instruction.loc = loc_;
  const auto probe = [&](const Instruction& wanted) {
    std::size_t slot = hash_of(wanted) & (table_.size() - 1);
    while (table_[slot] != 0 && !same(code_[table_[slot] - 1], wanted))
      slot = (slot + 1) & (table_.size() - 1);
    return slot;
  };
  if (table_.size() < 2 * (code_.size() + 1)) {
    table_.assign(std::max<std::size_t>(64, std::bit_ceil(4 * (code_.size() + 1))), 0);
    for (std::uint32_t id = 0; id < code_.size(); ++id) table_[probe(code_[id])] = id + 1;
  }
  const std::size_t slot = probe(instruction);
  if (table_[slot] == 0) {
    code_.push_back(instruction);
    table_[slot] = static_cast<std::uint32_t>(code_.size());
  }
  return table_[slot] - 1;
}

Scalar ScalarProgram::input(ScalarType type) {
  const std::uint32_t id = intern({.op = Op::input, .type = type, .imm = inputs_.size()});
  inputs_.push_back(id);
  return {this, id};
}

Scalar ScalarProgram::param(int slot, ScalarType type) {
  params_ = std::max(params_, slot + 1);
  return {this, intern({.op = Op::param, .type = type, .imm = static_cast<std::uint64_t>(slot)})};
}

Scalar ScalarProgram::constant_bits(ScalarType type, std::uint64_t bits) {
  return {this, intern({.op = Op::constant, .type = type, .imm = bits})};
}

Scalar ScalarProgram::constant(ScalarType type, Scalar literal) {
  if (!literal.is_literal()) {
    if (literal.type() != type) {
      type_error(Op::constant, {literal}, "a recorded value cannot change its type; convert it",
                 loc_);
    }
    return literal;
  }
  const bool real = literal.kind_ == Scalar::Kind::real;
  const auto as_double = [&] {
    return real ? literal.real_ : static_cast<double>(literal.integer_);
  };
  switch (type) {
    case ScalarType::f64:
      return constant_bits(type, to_bits(as_double()));
    case ScalarType::f32:
      return constant_bits(type, to_bits(static_cast<float>(as_double())));
    default:
      break;
  }
  if (real && literal.real_ != std::trunc(literal.real_)) {
    type_error(Op::constant, {literal}, "a fraction cannot become " + std::string(name_of(type)),
               loc_);
  }
  const std::int64_t value =
      real ? semantics::convert<std::int64_t>(literal.real_) : literal.integer_;
  switch (type) {
    case ScalarType::i64:
      return constant_bits(type, to_bits(value));
    case ScalarType::u64:
      return constant_bits(type, real && literal.real_ >= 0x1p63
                                     ? to_bits(semantics::convert<std::uint64_t>(literal.real_))
                                     : to_bits(value));
    case ScalarType::i32:
      return constant_bits(type, to_bits(static_cast<std::int32_t>(value)));
    default:
      return constant_bits(type, to_bits(value != 0));
  }
}

void ScalarProgram::output(Scalar value, ScalarType type) {
  outputs_.push_back(constant(type, value).id());
}

Scalar ScalarProgram::record(Op op, ScalarType type, std::initializer_list<Scalar> args,
                             DType dtype) {
  Instruction instruction{.op = op, .type = type, .dtype = dtype, .loc = {}};
  bool constant = true;
  std::array<std::uint64_t, 3> bits{};
  int n = 0;
  for (const Scalar& a : args) {
    instruction.args[n] = a.id();
    constant = constant && code_[a.id()].op == Op::constant;
    bits[n++] = code_[a.id()].imm;
  }
  const ScalarType operand = code_[instruction.args[0]].type;
  if (constant) return constant_bits(type, evaluate(instruction, operand, bits));
  const Instruction& first = code_[instruction.args[0]];
  if (is_select(op)) {
    if (first.op == Op::constant)
      return at(first.imm != 0 ? instruction.args[1] : instruction.args[2]);
    if (instruction.args[1] == instruction.args[2]) return at(instruction.args[1]);
  }
  // Only rewritings that keep every bit, signalling NaNs included.
  if ((op == Op::neg || op == Op::bit_not) && first.op == op) return at(first.args[0]);
  if (op == Op::abs && is_floating(type)) {
    if (first.op == Op::abs) return at(instruction.args[0]);
    if (first.op == Op::neg) instruction.args[0] = first.args[0];
  }
  if (commutes(op) && instruction.args[0] > instruction.args[1]) {
    std::swap(instruction.args[0], instruction.args[1]);
  }
  return {this, intern(instruction)};
}

std::vector<Scalar> ScalarProgram::inlined(const ScalarProgram& callee,
                                           std::span<const Scalar> inputs) {
  if (inputs.size() != callee.inputs_.size()) {
    throw InternalError("scalar program of " + std::to_string(callee.inputs_.size()) +
                        " inputs inlined with " + std::to_string(inputs.size()));
  }
  std::vector<Scalar> values;
  values.reserve(callee.code_.size());
  const Loc outer = loc_;
  for (const Instruction& i : callee.code_) {
    if (!outer) loc_ = i.loc;
    const auto arg = [&](int k) { return values[i.args[k]]; };
    switch (arity(i.op)) {
      case 1:
        values.push_back(record(i.op, i.type, {arg(0)}, i.dtype));
        continue;
      case 2:
        values.push_back(record(i.op, i.type, {arg(0), arg(1)}, i.dtype));
        continue;
      case 3:
        values.push_back(record(i.op, i.type, {arg(0), arg(1), arg(2)}, i.dtype));
        continue;
      default:
        break;
    }
    if (i.op == Op::input)
      values.push_back(constant(i.type, inputs[i.imm]));
    else if (i.op == Op::param)
      values.push_back(param(static_cast<int>(i.imm), i.type));
    else
      values.push_back(constant_bits(i.type, i.imm));
  }
  loc_ = outer;
  std::vector<Scalar> outputs;
  outputs.reserve(callee.outputs_.size());
  for (std::uint32_t id : callee.outputs_) outputs.push_back(values[id]);
  return outputs;
}

void ScalarProgram::prune() {
  std::vector<bool> used(code_.size());
  for (std::uint32_t id : inputs_) used[id] = true;
  for (std::uint32_t id : outputs_) used[id] = true;
  for (std::size_t id = code_.size(); id-- > 0;) {
    for (int a = 0; used[id] && a < arity(code_[id].op); ++a) used[code_[id].args[a]] = true;
  }
  std::vector<std::uint32_t> moved(code_.size());
  std::uint32_t count = 0;
  for (std::size_t id = 0; id < code_.size(); ++id) {
    if (!used[id]) continue;
    Instruction i = code_[id];
    for (int a = 0; a < arity(i.op); ++a) i.args[a] = moved[i.args[a]];
    moved[id] = count;
    code_[count++] = i;
  }
  code_.resize(count);
  table_.clear();
  for (std::uint32_t& id : inputs_) id = moved[id];
  for (std::uint32_t& id : outputs_) id = moved[id];
  params_ = 0;
  for (const Instruction& i : code_) {
    if (i.op == Op::param) params_ = std::max(params_, static_cast<int>(i.imm) + 1);
  }
}

int ScalarProgram::cost() const noexcept {
  int cost = 0;
  const std::vector<ScheduledStep> steps = schedule(code_, outputs_);
  for (std::size_t at = 0; at < steps.size(); ++at) {
    const Op op = code_[steps[at].id].op;
    if (steps[at].guarded > 0)
      at += steps[at].guarded;
    else if (op != Op::constant && op != Op::input && op != Op::param)
      cost += op == Op::div || op == Op::rem || op == Op::sqrt ? 8 : 1;
  }
  return cost;
}

Scalar operator+(Scalar a, Scalar b) { return binary(Op::add, Accepts::number, a, b); }
Scalar operator-(Scalar a, Scalar b) { return binary(Op::sub, Accepts::number, a, b); }
Scalar operator*(Scalar a, Scalar b) { return binary(Op::mul, Accepts::number, a, b); }
Scalar operator/(Scalar a, Scalar b) { return binary(Op::div, Accepts::number, a, b); }
Scalar operator%(Scalar a, Scalar b) { return binary(Op::rem, Accepts::integer, a, b); }
Scalar operator-(Scalar a) { return unary(Op::neg, Accepts::number, a); }
Scalar operator==(Scalar a, Scalar b) { return compare(Op::eq, Accepts::number, a, b); }
Scalar operator!=(Scalar a, Scalar b) { return compare(Op::ne, Accepts::number, a, b); }
Scalar operator<(Scalar a, Scalar b) { return compare(Op::lt, Accepts::number, a, b); }
Scalar operator<=(Scalar a, Scalar b) { return compare(Op::le, Accepts::number, a, b); }
Scalar operator>(Scalar a, Scalar b) { return compare(Op::lt, Accepts::number, b, a); }
Scalar operator>=(Scalar a, Scalar b) { return compare(Op::le, Accepts::number, b, a); }
Scalar operator&(Scalar a, Scalar b) { return binary(Op::bit_and, Accepts::bits, a, b); }
Scalar operator|(Scalar a, Scalar b) { return binary(Op::bit_or, Accepts::bits, a, b); }
Scalar operator^(Scalar a, Scalar b) { return binary(Op::bit_xor, Accepts::bits, a, b); }
Scalar operator~(Scalar a) { return unary(Op::bit_not, Accepts::bits, a); }
Scalar operator!(Scalar a) { return unary(Op::bit_not, Accepts::bits, a); }
Scalar operator<<(Scalar a, Scalar count) { return binary(Op::shl, Accepts::integer, a, count); }
Scalar operator>>(Scalar a, Scalar count) { return binary(Op::sar, Accepts::integer, a, count); }
Scalar shift_right_logical(Scalar a, Scalar count) {
  return binary(Op::shr, Accepts::integer, a, count);
}

Scalar select(Scalar condition, Scalar a, Scalar b) { return choose(Op::select, condition, a, b); }
Scalar select_rarely(Scalar condition, Scalar a, Scalar b) {
  return choose(Op::select_rarely, condition, a, b);
}

Scalar fma(Scalar a, Scalar b, Scalar c) {
  const Scalar shown_a = a, shown_b = b, shown_c = c;
  unify(Op::fma, {&a, &b, &c}, {shown_a, shown_b, shown_c});
  check(Op::fma, Accepts::floating, {a, b, c});
  return a.program()->record(Op::fma, a.type(), {a, b, c});
}

Scalar min(Scalar a, Scalar b) { return binary(Op::min, Accepts::number, a, b); }
Scalar max(Scalar a, Scalar b) { return binary(Op::max, Accepts::number, a, b); }
Scalar abs(Scalar x) { return unary(Op::abs, Accepts::number, x); }
Scalar sqrt(Scalar x) { return unary(Op::sqrt, Accepts::floating, x); }
Scalar floor(Scalar x) { return unary(Op::floor, Accepts::floating, x); }
Scalar ceil(Scalar x) { return unary(Op::ceil, Accepts::floating, x); }
Scalar trunc(Scalar x) { return unary(Op::trunc, Accepts::floating, x); }
Scalar rint(Scalar x) { return unary(Op::rint, Accepts::floating, x); }
Scalar ldexp(Scalar x, Scalar n) { return binary(Op::ldexp, Accepts::floating, x, n); }

Scalar bitcast(Scalar x, ScalarType type) {
  if (x.type() == type) return x;
  const auto wide = [](ScalarType t) {
    return t == ScalarType::f64 || t == ScalarType::i64 || t == ScalarType::u64;
  };
  if (wide(x.type()) != wide(type) || x.type() == ScalarType::boolean ||
      type == ScalarType::boolean) {
    type_error(Op::bitcast, {x},
               "cannot become " + std::string(name_of(type)) + ", which has another width", {});
  }
  return x.program()->record(Op::bitcast, type, {x});
}

Scalar convert(Scalar x, ScalarType type) {
  if (x.type() == type) return x;
  return x.program()->record(Op::convert, type, {x});
}

Scalar cast(Scalar x, DType dtype) {
  if (contains(kSmall, dtype)) return from_code(to_code(x, dtype), dtype);
  const Scalar computed = convert(x, compute_type(dtype));
  if (dtype == DType::string) return computed;
  if (dtype_of_type(computed.type()) == dtype) return computed;
  return x.program()->record(Op::round, computed.type(), {computed}, dtype);
}

}  // namespace dyad::scalar
