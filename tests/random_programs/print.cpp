#include "print.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "dyad/core/dtype.h"
#include "instructions.h"

namespace dyad::testing {
namespace {

std::string value_name(int value) { return fmt::format("v{}", value); }

std::string join(const std::vector<std::string>& parts, const char* between = ", ") {
  return fmt::format("{}", fmt::join(parts, between));
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

class Writer {
 public:
  std::string text;

  void line(const std::string& one) { text += std::string(indent_, ' ') + one + "\n"; }
  void deeper() { indent_ += 2; }
  void back() { indent_ -= 2; }

  void body(const Body& of) {
    for (const Statement& one : of.statements) statement(one);
  }

  void statement(const Statement& one) {
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

 private:
  void call(const Statement& one) {
    if (one.out.size() == 1) {
      line(fmt::format("Tensor {} = {};", value_name(one.out[0]), expression(one)));
    } else {
      line(fmt::format("auto [{}] = {};", names(one.out), expression(one)));
    }
  }

  /// A list of results by a call that `inside` completes.
  template <class Inside>
  void results(const Statement& one, const std::string& start, Inside&& inside,
               std::size_t first = 0) {
    const std::string list = fmt::format("r{}", one.out[0]);
    line(fmt::format("std::vector<Tensor> {} = {}", list, start));
    deeper();
    inside();
    back();
    for (std::size_t k = 0; k < one.out.size(); ++k)
      line(fmt::format("Tensor {} = {}[{}].clone();", value_name(one.out[k]), list, k + first));
  }

  void function(const Body& of, const std::string& end) {
    line("[&]() -> std::vector<Tensor> {");
    deeper();
    body(of);
    line(fmt::format("return {{{}}};", names(of.results)));
    back();
    line("}" + end);
  }

  void parameters(const Body& of, const std::string& from, std::size_t first = 0) {
    for (std::size_t k = 0; k < of.parameters.size(); ++k)
      line(fmt::format("Tensor {} = {}[{}];", value_name(of.parameters[k]), from, k + first));
  }

  void loop(const Statement& one) {
    results(
        one,
        fmt::format("while_loop([&](std::vector<Tensor> s) {{ return s[0] < {}; }},",
                    one.numbers[0].n),
        [&] {
          line("[&](std::vector<Tensor> s) -> std::vector<Tensor> {");
          deeper();
          parameters(one.bodies[0], "s", 1);
          body(one.bodies[0]);
          line(fmt::format("return {{s[0] + 1, {}}};", names(one.bodies[0].results)));
          back();
          line("},");
          line(
              fmt::format("std::vector<Tensor>{{tensor(std::int64_t{{0}}), {}}});", names(one.in)));
        },
        1);
  }

  void scan(const Statement& one) {
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

  void give(const std::vector<int>& to, const std::vector<int>& from) {
    line(fmt::format("std::tie({}) = std::tuple({});", names(to), names(from)));
  }

  void host_if(const Statement& one) {
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

  void host_for(const Statement& one) {
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

  std::size_t indent_ = 0;
};

/// The tensor that an input is in a call.
std::string input_text(const Program& program, int index, const Call& call) {
  Program plain = program;
  const Input& input = program.inputs[static_cast<std::size_t>(index)];
  Input& of = plain.inputs[static_cast<std::size_t>(index)];
  of.order = Order::row_major;
  of.requires_grad = false;
  const Tensor x = make_input(plain, index, call);
  std::vector<std::string> elements, sizes;
  for (const double element : x.to_vector<double>()) elements.push_back(real_text(element));
  for (const std::int64_t size : x.shape().numbers()) sizes.push_back(std::to_string(size));
  std::string made = fmt::format("tensor(std::vector<double>{{{}}}, {{{}}}).to({})", join(elements),
                                 join(sizes), dtype_text(x.dtype()));
  if (input.order == Order::transposed && x.rank() > 1)
    made = fmt::format("contiguous({}.transpose(0, -1)).transpose(0, -1)", made);
  if (input.order == Order::stepped) made = fmt::format("stepped({})", made);
  if (input.requires_grad) made = fmt::format("leaf({})", made);
  return made;
}

constexpr const char* kHead = R"(#include <dyad/dyad.h>

#include <iostream>
#include <limits>
#include <tuple>
#include <vector>

using namespace dyad;
)";

constexpr const char* kWeighted = R"(
Tensor weighted(const std::vector<Tensor>& results) {
  Tensor total;
  for (const Tensor& y : results) {
    if (!is_floating(y.dtype())) continue;
    Tensor term = to(sum(y * y * 0.5 + y), f32);
    total = total.defined() ? total + term : term;
  }
  return total;
}
)";

constexpr const char* kStepped =
    "\nTensor stepped(const Tensor& x) { return stack({x, x}, -1).select(-1, 0); }\n";
constexpr const char* kLeaf = "\nTensor leaf(Tensor x) { return x.requires_grad(); }\n";

/// The end of the function: what it gives, and its gradients.
void write_end(Writer& out, const Program& program) {
  std::vector<int> wanted;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].requires_grad) wanted.push_back(static_cast<int>(i));
  }
  if (program.gradients == Gradients::inside) {
    out.line(fmt::format("std::vector<Tensor> results{{{}}};", names(program.body.results)));
    out.line("const Tensor loss = weighted(results);");
    out.line("if (!loss.defined()) return results;");
    out.line(fmt::format("const std::vector<Tensor> wanted{{{}}};", names(wanted)));
    out.line("std::vector<Tensor> grads(wanted.size());");
    out.line("if (loss.tracks_grad())");
    out.line("  grads = grad({&loss, 1}, wanted, {.allow_unused = true});");
    out.line("for (std::size_t i = 0; i < wanted.size(); ++i)");
    out.line("  results.push_back(grads[i].defined() ? grads[i] : zeros_like(wanted[i]));");
    out.line("return results;");
  } else if (program.gradients == Gradients::step) {
    out.line(fmt::format("std::vector<Tensor> results{{{}}};", names(program.body.results)));
    out.line("const Tensor loss = weighted(results);");
    out.line("if (!loss.defined() || !loss.tracks_grad()) return results;");
    out.line("loss.backward();");
    out.line("const NoGrad apart;");
    for (const int value : wanted) {
      if (!program.inputs[static_cast<std::size_t>(value)].captured) continue;
      out.line(fmt::format("if ({0}.grad().defined()) {0}.sub_({0}.grad() * 0.125);",
                           value_name(value)));
    }
    out.line("return results;");
  } else {
    out.line(fmt::format("return {{{}}};", names(program.body.results)));
  }
}

void write_calls(Writer& out, const Program& program) {
  for (const Call& call : program.calls) {
    std::vector<std::string> arguments;
    out.line("{");
    out.deeper();
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      if (program.inputs[i].captured) continue;
      arguments.push_back(fmt::format("a{}", i));
      out.line(fmt::format("Tensor a{} = {};", i, input_text(program, static_cast<int>(i), call)));
    }
    out.line(fmt::format("std::vector<Tensor> results = call({{{}}});", join(arguments)));
    if (program.gradients == Gradients::outside) {
      out.line("const Tensor loss = weighted(results);");
      out.line("if (loss.defined() && loss.tracks_grad()) loss.backward();");
    }
    out.line("for (const Tensor& one : results) std::cout << one << \"\\n\";");
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      const std::string name = fmt::format("{}{}", program.inputs[i].captured ? "v" : "a", i);
      out.line(fmt::format("std::cout << \"v{}: \" << {} << \"\\n\";", i, name));
      if (program.inputs[i].requires_grad) {
        out.line(
            fmt::format("if ({1}.grad().defined()) std::cout << \"gradient of v{0}: \" << "
                        "{1}.grad() << \"\\n\";",
                        i, name));
      }
    }
    out.back();
    out.line("}");
  }
}

}  // namespace

std::string to_cpp(const Program& program, const CompileOptions& options, const std::string& note) {
  Writer out;
  for (std::size_t at = 0; at < note.size();) {
    const std::size_t end = std::min(note.find('\n', at), note.size());
    out.text += "// " + note.substr(at, end - at) + "\n";
    at = end + 1;
  }
  out.text += kHead;
  if (program.gradients != Gradients::none) out.text += kWeighted;
  if (std::ranges::any_of(program.inputs,
                          [](const Input& in) { return in.order == Order::stepped; }))
    out.text += kStepped;
  if (std::ranges::any_of(program.inputs, [](const Input& in) { return in.requires_grad; }))
    out.text += kLeaf;
  out.line("");
  out.line("void run(bool compiled) {");
  out.deeper();
  out.line(fmt::format("manual_seed({}u);", program.seed));
  std::vector<std::string> parameters;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    if (program.inputs[i].captured) {
      out.line(fmt::format("Tensor v{} = {};", i,
                           input_text(program, static_cast<int>(i), program.calls[0])));
    }
  }
  out.line("const auto function = [&](std::vector<Tensor> arguments) -> std::vector<Tensor> {");
  out.deeper();
  std::size_t next = 0;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    if (!program.inputs[i].captured)
      out.line(fmt::format("Tensor v{} = arguments[{}];", i, next++));
  }
  out.body(program.body);
  write_end(out, program);
  out.back();
  out.line("};");
  out.line(fmt::format("const auto fast = compile(function, {});", to_string(options)));
  out.line("const auto call = [&](std::vector<Tensor> arguments) {");
  out.line("  return compiled ? fast(arguments) : function(arguments);");
  out.line("};");
  write_calls(out, program);
  out.back();
  out.line("}");
  out.line("");
  out.line("int main() {");
  out.line("  std::cout << \"eager\\n\";");
  out.line("  run(false);");
  out.line("  std::cout << \"compiled\\n\";");
  out.line("  run(true);");
  out.line("}");
  return out.text;
}

}  // namespace dyad::testing
