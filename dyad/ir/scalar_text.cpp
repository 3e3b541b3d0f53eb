#include <fmt/format.h>

#include <bit>
#include <cstdio>

#include "dyad/ir/scalar.h"
#include "dyad/ir/scalar_evaluate.h"

namespace dyad::scalar {
namespace {

/// Exact: hexadecimal for finite floating values, raw bits for the others.
std::string constant_text(ScalarType type, std::uint64_t bits) {
  char text[48];
  switch (type) {
    case ScalarType::f64:
    case ScalarType::f32: {
      const double value =
          type == ScalarType::f64 ? from_bits<double>(bits) : from_bits<float>(bits);
      if (!std::isfinite(value)) return fmt::format("bits:{:x}", bits);
      static_cast<void>(std::snprintf(text, sizeof text, "%a", value));
      return text;
    }
    case ScalarType::i64:
      return std::to_string(from_bits<std::int64_t>(bits));
    case ScalarType::i32:
      return std::to_string(from_bits<std::int32_t>(bits));
    case ScalarType::u64:
      return std::to_string(bits);
    case ScalarType::boolean:
      return bits != 0 ? "true" : "false";
  }
  return {};
}

std::string value_text(std::uint32_t id) { return "%" + std::to_string(id); }

}  // namespace

std::string ScalarProgram::text(bool with_locs) const {
  std::string out;
  for (std::uint32_t id = 0; id < code_.size(); ++id) {
    const Instruction& i = code_[id];
    out +=
        value_text(id) + ": " + std::string(name_of(i.type)) + " = " + std::string(name_of(i.op));
    if (i.op == Op::constant) {
      out += " " + constant_text(i.type, i.imm);
    } else if (i.op == Op::input || i.op == Op::param) {
      out += " " + std::to_string(i.imm);
    } else if (i.op == Op::round) {
      out += "." + std::string(dyad::name_of(i.dtype));
    }
    for (int a = 0; a < arity(i.op); ++a) out += (a == 0 ? " " : ", ") + value_text(i.args[a]);
    if (with_locs && i.loc)
      out += "  at " + std::string(i.loc.file()) + ":" + std::to_string(i.loc.line());
    out += "\n";
  }
  out += "return";
  for (std::size_t o = 0; o < outputs_.size(); ++o)
    out += (o == 0 ? " " : ", ") + value_text(outputs_[o]);
  return out + "\n";
}

}  // namespace dyad::scalar
