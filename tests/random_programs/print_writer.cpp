#include "print_writer.h"

#include <fmt/format.h>

#include <cmath>

#include "dyad/core/dtype.h"
#include "instructions.h"

namespace dyad::testing {
namespace {

std::string number_text(const Number& number) {
  return number.of < 0 ? std::to_string(number.n)
                       : fmt::format("{}.size({})", value_name(number.of), number.n);
}

/// The C++ of an instruction's text.
std::string expression(const Statement& statement) {
  const std::string& text = statement.op->text;
  std::string made;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '@') {
      made += dtype_text(statement.dtype);
      continue;
    }
    if (c != '$' && c != '#' && c != '%') {
      made += c;
      continue;
    }
    std::size_t which = 0;
    bool rest = false;
    if (text[at + 1] == '*') {
      rest = true;
      ++at;
    } else {
      which = static_cast<std::size_t>(text[++at] - '0');
      if (at + 1 < text.size() && text[at + 1] == '*') {
        rest = true;
        ++at;
      }
    }
    if (c == '%') {
      made += real_text(statement.reals[which]);
    } else if (c == '$') {
      made += rest ? names(statement.in) : value_name(statement.in[which]);
    } else {
      std::vector<std::string> parts;
      const std::size_t end = rest ? statement.numbers.size() : which + 1;
      for (std::size_t i = which; i < end; ++i) parts.push_back(number_text(statement.numbers[i]));
      made += join(parts);
    }
  }
  return made;
}

}  // namespace

std::string value_name(int value) { return fmt::format("v{}", value); }

std::string join(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string names(const std::vector<int>& values) {
  std::vector<std::string> parts;
  for (const int value : values) parts.push_back(value_name(value));
  return join(parts);
}

std::string dtype_text(DType dtype) {
  return dtype == DType::boolean ? "boolean" : std::string(name_of(dtype));
}

std::string real_text(double x) {
  if (std::isnan(x)) return "std::numeric_limits<double>::quiet_NaN()";
  if (std::isinf(x))
    return std::string(x < 0 ? "-" : "") + "std::numeric_limits<double>::infinity()";
  std::string text = fmt::format("{}", x);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <class Inside>
void Writer::results(const Statement& one, const std::string& start, Inside&& inside,
                     std::size_t first) {
  const std::string list = fmt::format("r{}", one.out[0]);
  line(fmt::format("std::vector<Tensor> {} = {}", list, start));
  deeper();
  inside();
  back();
  for (std::size_t k = 0; k < one.out.size(); ++k)
    line(fmt::format("Tensor {} = {}[{}].clone();", value_name(one.out[k]), list, k + first));
}

void Writer::body(const Body& of) {
  for (const Statement& one : of.statements) statement(one);
}

void Writer::statement(const Statement& one) {
  switch (one.op->form) {
    case Form::call:
      call(one);
      break;
    case Form::write:
      line(expression(one) + ";");
      break;
    case Form::cond:
      results(one, fmt::format("cond({},", value_name(one.in[0])), [&] {
        function(one.bodies[0], ",");
        function(one.bodies[1], ");");
      });
      break;
    case Form::while_loop:
    case Form::while_cond:
      loop(one);
      break;
    case Form::scan:
      scan(one);
      break;
    case Form::host_if:
      host_if(one);
      break;
    case Form::host_for:
      host_for(one);
      break;
  }
}

void Writer::call(const Statement& one) {
  if (one.out.size() == 1) {
    line(fmt::format("Tensor {} = {};", value_name(one.out[0]), expression(one)));
  } else {
    line(fmt::format("auto [{}] = {};", names(one.out), expression(one)));
  }
}

void Writer::function(const Body& of, const std::string& end) {
  line("[&]() -> std::vector<Tensor> {");
  deeper();
  parameters(of, "s", 1);
  body(of);
  line(fmt::format("return {{{}}};", names(of.results)));
  back();
  line("}" + end);
}

void Writer::parameters(const Body& of, const std::string& from, std::size_t first) {
  for (std::size_t k = 0; k < of.parameters.size(); ++k)
    line(fmt::format("Tensor {} = {}[{}];", value_name(of.parameters[k]), from, k + first));
}

void Writer::loop(const Statement& one) {
  results(
      one,
      fmt::format("while_loop([&](std::vector<Tensor> s) {{ return s[0] < {}; }},",
                  one.numbers[0].n),
      [&] {
        line("[&](std::vector<Tensor> s) -> std::vector<Tensor> {");
        deeper();
        if (one.op->form == Form::while_cond) {
          branch(one);
        } else {
          parameters(one.bodies[0], "s", 1);
          body(one.bodies[0]);
          line(fmt::format("return {{s[0] + 1, {}}};", names(one.bodies[0].results)));
        }
        back();
        line("},");
        line(fmt::format("std::vector<Tensor>{{tensor(std::int64_t{{0}}), {}}});", names(one.in)));
      },
      1);
}

/// The step of a loop that goes one of two ways.
void Writer::branch(const Statement& one) {
  line(fmt::format(
      "std::vector<Tensor> next = cond(remainder(s[0], tensor(std::int64_t{{{}}})) < 1,",
      one.numbers[1].n));
  deeper();
  function(one.bodies[0], ",");
  function(one.bodies[1], ");");
  back();
  line("next.insert(next.begin(), s[0] + 1);");
  line("return next;");
}

void Writer::scan(const Statement& one) {
  const Body& of = one.bodies[0];
  const std::string both = fmt::format("r{}", one.out[0]);
  line(fmt::format("auto {} = scan([&](std::vector<Tensor> s, Tensor {}) {{", both,
                   value_name(of.parameters.back())));
  deeper();
  Body carried = of;
  carried.parameters.pop_back();
  parameters(carried, "s");
  body(of);
  std::vector<int> carry = of.results;
  carry.pop_back();
  line(fmt::format("return std::pair(std::vector<Tensor>{{{}}}, {});", names(carry),
                   value_name(of.results.back())));
  back();
  std::vector<int> state = one.in;
  state.erase(state.begin());
  line(fmt::format("}}, std::vector<Tensor>{{{}}}, {});", names(state), value_name(one.in[0])));
  for (std::size_t k = 0; k + 1 < one.out.size(); ++k)
    line(fmt::format("Tensor {} = {}.first[{}].clone();", value_name(one.out[k]), both, k));
  line(fmt::format("Tensor {} = {}.second.clone();", value_name(one.out.back()), both));
}

void Writer::give(const std::vector<int>& to, const std::vector<int>& from) {
  line(fmt::format("std::tie({}) = std::tuple({});", names(to), names(from)));
}

void Writer::host_if(const Statement& one) {
  line(fmt::format("Tensor {};", names(one.out)));
  line(fmt::format("if ({}) {{", value_name(one.in[0])));
  deeper();
  body(one.bodies[0]);
  give(one.out, one.bodies[0].results);
  back();
  line("} else {");
  deeper();
  body(one.bodies[1]);
  give(one.out, one.bodies[1].results);
  back();
  line("}");
}

void Writer::host_for(const Statement& one) {
  std::vector<int> state = one.in;
  state.erase(state.begin());
  for (std::size_t k = 0; k < one.out.size(); ++k)
    line(fmt::format("Tensor {} = {};", value_name(one.out[k]), value_name(state[k])));
  line(fmt::format("for (auto k = {}.item<std::int64_t>() % 3; k > 0; --k) {{",
                   value_name(one.in[0])));
  deeper();
  for (std::size_t k = 0; k < one.out.size(); ++k)
    line(fmt::format("Tensor {} = {};", value_name(one.bodies[0].parameters[k]),
                     value_name(one.out[k])));
  body(one.bodies[0]);
  give(one.out, one.bodies[0].results);
  back();
  line("}");
}

}  // namespace dyad::testing
