#include "dyad/onnx/program_writer.h"

#include <bit>
#include <numbers>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dyad/codegen/program_builder.h"
#include "dyad/core/create.h"
#include "dyad/ir/scalar_calls.h"
#include "dyad/ir/scalar_math.h"
#include "dyad/ops/creation.h"

namespace dyad::onnx {
namespace {

using scalar::dtype_of_type;
using scalar::ElementaryCall;
using scalar::Instruction;
using scalar::Op;

class ProgramWriter {
 public:
  ProgramWriter(OnnxEmitter& emitter, const ScalarProgram& program,
                std::span<const ElementaryCall> calls, std::vector<std::string> inputs)
      : e_(emitter), program_(program), calls_(calls), inputs_(std::move(inputs)) {}

  /// Output i of the node, in the shape that it has.
  void output(int i) {
    const std::uint32_t id = program_.outputs()[static_cast<std::size_t>(i)];
    const Shape& shape = e_.output_type(i).shape();
    std::string result = value(id);
    if (!has_shape(id, shape)) result = e_.node("Expand", {result, e_.shape(shape)});
    e_.output(i, e_.cast(result, e_.output_type(i).dtype()));
  }

  /// The name of an instruction's value; written when it is first needed.
  const std::string& value(std::uint32_t id) {
    const auto known = names_.find(id);
    if (known != names_.end()) return known->second;
    std::string made = write(program_.instructions()[id]);
    return names_.emplace(id, std::move(made)).first->second;
  }

 private:
  /// Whether an input that the value depends on has the whole shape.
  bool has_shape(std::uint32_t id, const Shape& shape) const {
    std::vector<std::uint32_t> pending{id};
    std::unordered_set<std::uint32_t> seen;
    while (!pending.empty()) {
      const std::uint32_t next = pending.back();
      pending.pop_back();
      if (!seen.insert(next).second) continue;
      const Instruction& i = program_.instructions()[next];
      if (i.op != Op::input) {
        pending.insert(pending.end(), i.args.begin(), i.args.begin() + scalar::arity(i.op));
      } else if (i.imm >= inputs_.size()) {
        const ElementaryCall& call = calls_[i.imm - inputs_.size()];
        pending.insert(pending.end(), call.args.begin(), call.args.end());
      } else if (e_.input_type(static_cast<int>(i.imm)).shape().same_as(shape)) {
        return true;
      }
    }
    return false;
  }

  std::string number(double x, DType dtype) { return e_.scalar(x, dtype); }

  std::string constant(const Instruction& i) {
    const DType dtype = dtype_of_type(i.type);
    switch (i.type) {
      case ScalarType::f64:
        return number(std::bit_cast<double>(i.imm), dtype);
      case ScalarType::f32:
        return number(std::bit_cast<float>(static_cast<std::uint32_t>(i.imm)), dtype);
      case ScalarType::i32:
        return number(static_cast<std::int32_t>(i.imm), dtype);
      case ScalarType::boolean:
        return number(i.imm != 0 ? 1 : 0, dtype);
      default:
        return e_.constant(tensor(static_cast<std::int64_t>(i.imm), dtype));
    }
  }

  std::string input(const Instruction& i) {
    if (i.imm >= inputs_.size()) return call(calls_[i.imm - inputs_.size()], i.type);
    return e_.cast(inputs_[i.imm], dtype_of_type(i.type));
  }

  std::string call(const ElementaryCall& call, ScalarType type) {
    const DType dtype = dtype_of_type(type);
    const std::string x = value(call.args[0]);
    const auto times = [&](const std::string& a, double factor) {
      return e_.node("Mul", {a, number(factor, dtype)});
    };
    const auto plus = [&](const std::string& a, double term) {
      return e_.node("Add", {a, number(term, dtype)});
    };
    const std::string_view f = call.function;
    if (f == "pow") return e_.node("Pow", {x, value(call.args[1])});
    if (f == "exp2") return e_.node("Pow", {number(2, dtype), x});
    if (f == "log2") return times(e_.node("Log", {x}), std::numbers::log2e);
    if (f == "log10") return times(e_.node("Log", {x}), std::numbers::log10e);
    if (type == ScalarType::f64 && (f == "cos" || f == "tan")) {  // runtimes have the sine alone
      const std::string cosine = e_.node("Sin", {plus(x, std::numbers::pi / 2)});
      return f == "cos" ? cosine : e_.node("Div", {e_.node("Sin", {x}), cosine});
    }
    // Exact near 0: tanh(x / 2) * (exp(x) + 1), and below 1 twice atanh(x / (x + 2)).
    if (f == "expm1") {
      return e_.node("Mul", {e_.node("Tanh", {times(x, 0.5)}), plus(e_.node("Exp", {x}), 1)});
    }
    if (f == "log1p") {
      const std::string ratio = e_.node("Div", {x, plus(x, 2)});
      return e_.node("Where", {e_.node("Less", {x, number(1, dtype)}),
                               times(e_.node("Atanh", {ratio}), 2), e_.node("Log", {plus(x, 1)})});
    }
    std::string name(f);
    name[0] = static_cast<char>(name[0] - 'a' + 'A');
    return e_.node(name, {x});
  }

  std::string binary(std::string_view op, const Instruction& i) {
    return e_.node(op, {value(i.args[0]), value(i.args[1])});
  }
  /// Integer division and remainder by 0 are 0.
  std::string divided(std::string_view op, const Instruction& i) {
    if (is_floating(i.type)) return binary(op, i);
    const DType dtype = dtype_of_type(i.type);
    const std::string zero = number(0, dtype), &by = value(i.args[1]);
    const std::string none = e_.node("Equal", {by, zero});
    const std::string divisor = e_.node("Where", {none, number(1, dtype), by});
    OnnxAttrs attributes;
    if (op == "Mod") attributes.emplace_back("fmod", std::int64_t{1});
    return e_.node("Where", {none, zero, e_.node(op, {value(i.args[0]), divisor}, attributes)});
  }
  std::string bitwise(std::string_view of_truth, std::string_view of_bits, const Instruction& i) {
    if (i.type == ScalarType::boolean) return binary(of_truth, i);
    if (e_.opset() < 18) e_.fail("ONNX works on bits of integers from opset 18 on");
    return binary(of_bits, i);
  }
  std::string not_(const std::string& x, ScalarType type) {
    if (type == ScalarType::boolean) return e_.node("Not", {x});
    return e_.node("Sub", {number(-1, dtype_of_type(type)), x});
  }
  /// ONNX shifts unsigned integers.
  std::string shifted(const std::string& x, const std::string& count, ScalarType type,
                      const std::string& direction) {
    const DType bits = type == ScalarType::i32 ? DType::u32 : DType::u64;
    const std::string made =
        e_.node("BitShift", {e_.cast(x, bits), e_.cast(count, bits)}, {{"direction", direction}});
    return e_.cast(made, dtype_of_type(type));
  }
  std::string shifted_with_sign(const Instruction& i) {
    const std::string &x = value(i.args[0]), &count = value(i.args[1]);
    if (i.type == ScalarType::u64) return shifted(x, count, i.type, "RIGHT");
    const std::string below = not_(shifted(not_(x, i.type), count, i.type, "RIGHT"), i.type);
    const std::string negative = e_.node("Less", {x, number(0, dtype_of_type(i.type))});
    return e_.node("Where", {negative, below, shifted(x, count, i.type, "RIGHT")});
  }
  std::string truncated(const std::string& x, DType dtype) {
    return e_.node("Where", {e_.node("Less", {x, number(0, dtype)}), e_.node("Ceil", {x}),
                             e_.node("Floor", {x})});
  }
  /// The first where it compares so, else the second.
  std::string chosen(std::string_view comparison, const Instruction& i) {
    const std::string &a = value(i.args[0]), &b = value(i.args[1]);
    return e_.node("Where", {e_.node(comparison, {a, b}), a, b});
  }

  std::string write(const Instruction& i) {
    const DType dtype = dtype_of_type(i.type);
    const auto unary = [&](std::string_view op) { return e_.node(op, {value(i.args[0])}); };
    switch (i.op) {
      case Op::constant:
        return constant(i);
      case Op::input:
        return input(i);
      case Op::neg:
        return unary("Neg");
      case Op::abs:
        return unary("Abs");
      case Op::sqrt:
        return unary("Sqrt");
      case Op::floor:
        return unary("Floor");
      case Op::ceil:
        return unary("Ceil");
      case Op::rint:
        return unary("Round");
      case Op::trunc:
        return truncated(value(i.args[0]), dtype);
      case Op::add:
        return binary("Add", i);
      case Op::sub:
        return binary("Sub", i);
      case Op::mul:
        return binary("Mul", i);
      case Op::div:
        return divided("Div", i);
      case Op::rem:
        return divided("Mod", i);
      case Op::min:
        return chosen("Less", i);
      case Op::max:
        return chosen("Greater", i);
      case Op::fma:
        return e_.node("Add", {binary("Mul", i), value(i.args[2])});
      case Op::eq:
        return binary("Equal", i);
      case Op::ne:
        return e_.node("Not", {binary("Equal", i)});
      case Op::lt:
        return binary("Less", i);
      case Op::le:
        return binary("LessOrEqual", i);
      case Op::select:
      case Op::select_rarely:
        return e_.node("Where", {value(i.args[0]), value(i.args[1]), value(i.args[2])});
      case Op::bit_and:
        return bitwise("And", "BitwiseAnd", i);
      case Op::bit_or:
        return bitwise("Or", "BitwiseOr", i);
      case Op::bit_xor:
        return bitwise("Xor", "BitwiseXor", i);
      case Op::bit_not:
        return not_(value(i.args[0]), i.type);
      case Op::shl:
        return shifted(value(i.args[0]), value(i.args[1]), i.type, "LEFT");
      case Op::shr:
        return shifted(value(i.args[0]), value(i.args[1]), i.type, "RIGHT");
      case Op::sar:
        return shifted_with_sign(i);
      case Op::convert:
        return e_.cast(value(i.args[0]), dtype);
      case Op::round:
        return e_.cast(e_.cast(value(i.args[0]), i.dtype), dtype);
      default:
        e_.fail("it reads the bits of floats, which ONNX cannot before opset 26");
        return {};
    }
  }

  OnnxEmitter& e_;
  const ScalarProgram& program_;
  std::span<const ElementaryCall> calls_;
  std::vector<std::string> inputs_;
  std::unordered_map<std::uint32_t, std::string> names_;
};

}  // namespace

void write_program(OnnxEmitter& emitter, const Node& node) {
  const scalar::CallRecorder recorder;
  codegen::ProgramBuilder builder;
  std::vector<codegen::ProgramBuilder::Id> operands;
  std::vector<DType> results;
  for (const Value input : node.inputs()) {
    if (contains(kSmall, input.type().dtype())) emitter.fail("it has no counterpart in ONNX");
    operands.push_back(builder.input(input.type().dtype()));
  }
  for (const Type& type : node.types()) results.push_back(type.dtype());
  for (const codegen::ProgramBuilder::Id result :
       builder.apply(node.op(), node.attrs().data(), operands, results)) {
    builder.output(result);
  }
  const ScalarProgram program = builder.take();
  std::vector<std::string> inputs;
  for (int i = 0; i < emitter.input_count(); ++i) inputs.push_back(emitter.input(i));
  ProgramWriter writer(emitter, program, recorder.calls(), std::move(inputs));
  for (int i = 0; i < static_cast<int>(results.size()); ++i) writer.output(i);
}

std::string write_uniform(OnnxEmitter& emitter, const std::string& seed,
                          const std::string& counters, DType dtype) {
  ScalarProgram program;
  const Scalar key = program.input(ScalarType::i64), counter = program.input(ScalarType::i64);
  program.output(scalar::uniform(key, counter, scalar::compute_type(dtype)));
  ProgramWriter writer(emitter, program, {}, {seed, counters});
  return emitter.cast(writer.value(program.outputs()[0]), dtype);
}

}  // namespace dyad::onnx
