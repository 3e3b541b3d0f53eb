#include "print.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "dyad/ops/ops.h"
#include "instructions.h"
#include "print_writer.h"

namespace dyad::testing {
namespace {

/// The tensor that an input is in a call.
std::string input_text(const Program& program, int index, const Call& call) {
  Program plain = program;
  const Input& input = program.inputs[static_cast<std::size_t>(index)];
  Input& of = plain.inputs[static_cast<std::size_t>(index)];
  of.order = Order::row_major;
  of.requires_grad = false;
  const Tensor made_plain = make_input(plain, index, call);
  const bool pairs = is_complex(input.dtype);
  const Tensor x = pairs ? view_as_real(made_plain) : made_plain;
  std::vector<std::string> elements, sizes;
  for (const double element : x.to_vector<double>()) elements.push_back(real_text(element));
  for (const std::int64_t size : x.shape().numbers()) sizes.push_back(std::to_string(size));
  std::string made = fmt::format("tensor(std::vector<double>{{{}}}, {{{}}}).to({})", join(elements),
                                 join(sizes), dtype_text(x.dtype()));
  if (pairs) made = fmt::format("view_as_complex({})", made);
  if (input.order == Order::transposed && made_plain.rank() > 1)
    made = fmt::format("contiguous({}.transpose(0, -1)).transpose(0, -1)", made);
  if (input.order == Order::stepped) made = fmt::format("stepped({})", made);
  if (input.requires_grad) made = fmt::format("leaf({})", made);
  return made;
}

constexpr const char* kHead = R"(#include <dyad/dyad.h>
#include <dyad/exec/update.h>
#include <dyad/ops/attrs/optimizer_steps.h>
#include <dyad/ops/registry.h>

#include <iostream>
#include <limits>
#include <tuple>
#include <vector>

using namespace dyad;
)";
/// Where statements say by one call what helpers.h has.
constexpr const char* kHelpers = R"(using namespace dyad::testing;
)";

constexpr const char* kWeighted = R"(
Tensor weighted(const std::vector<Tensor>& results) {
  Tensor total;
  for (const Tensor& result : results) {
    const Tensor y = is_complex(result.dtype()) ? view_as_real(result) : result;
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
/// What instructions with state say by one call.
constexpr const char* kState = R"(
void backward_of(const Tensor& x, bool retain) {
  const Tensor loss = sum(x * x * 0.5);
  if (loss.tracks_grad()) loss.backward({}, retain);
}
Tensor gradient_of(const Tensor& leaf) {
  const Tensor grad = leaf.grad();
  return grad.defined() ? grad : zeros_like(leaf);
}
Tensor derivative(const Tensor& x, const Tensor& by, bool create_graph) {
  const Tensor loss = sum(x * x * 0.5 + x);
  Tensor made;
  if (loss.tracks_grad())
    made = grad(loss, {by},
                {.create_graph = create_graph, .retain_graph = true, .allow_unused = true})[0];
  return made.defined() ? made : zeros_like(by);
}
Tensor rows_of(const Tensor& leaf) {
  const SparseRows rows = sparse_grad(leaf);
  return rows.defined() ? sum(rows.rows) + to(sum(rows.index), f32) : zeros({});
}
const OpInfo& row(std::string_view name) {
  ops::register_builtin_ops();
  return *find_op(name);
}
void adam_step(const Tensor& w, const Tensor& g, const Tensor& mean, const Tensor& square) {
  const Tensor size = full({}, 0.125, w.dtype()), one = ones({}, w.dtype());
  const std::vector<Tensor> targets{w, mean, square};
  const Tensor* inputs[] = {&w, &g, &mean, &square, &size, &one, &size, &one};
  const ops::AdamAttrs attrs;
  no_grad([&] { exec::update(row("adam_step"), inputs, &attrs, targets, {}); });
}
void momentum_step(const Tensor& w, const Tensor& g, const Tensor& velocity) {
  const Tensor size = full({}, 0.125, w.dtype());
  const std::vector<Tensor> targets{w, velocity};
  const Tensor* inputs[] = {&w, &g, &velocity, &size, &size, &size};
  const ops::MomentumAttrs attrs;
  no_grad([&] { exec::update(row("sgd_momentum_step"), inputs, &attrs, targets, {}); });
}
)";
constexpr const char* kTwice = R"(
void backward_twice(const Tensor& loss, std::vector<Tensor> inputs) {
  std::erase_if(inputs, [](const Tensor& one) { return !one.tracks_grad(); });
  if (inputs.empty()) return;
  std::vector<Tensor> grads =
      grad({&loss, 1}, inputs, {.create_graph = true, .allow_unused = true});
  std::erase_if(grads, [](const Tensor& one) { return !one.defined(); });
  const Tensor again = weighted(grads);
  if (again.defined() && again.tracks_grad()) again.backward();
}
)";

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
      const Input& input = program.inputs[static_cast<std::size_t>(value)];
      if (!input.captured && !input.kept) continue;
      out.line(fmt::format("if ({0}.grad().defined()) {0}.sub_({0}.grad() * 0.125);",
                           value_name(value)));
    }
    out.line("return results;");
  } else {
    out.line(fmt::format("return {{{}}};", names(program.body.results)));
  }
}

/// The tensor that the function is given where `made` is the input's own.
std::string given_text(const Program& program, std::size_t i, const std::string& made,
                       const char* before) {
  const Input& input = program.inputs[i];
  if (input.computed) return made + " * 1.5";
  if (input.view_of < 0) return made;
  const auto of = static_cast<std::size_t>(input.view_of);
  const std::string name = fmt::format("{}{}", program.inputs[of].captured ? "v" : before, of);
  const bool turned = program.inputs[of].shape.size() > 1;
  return name + ".detach()" + (turned ? ".transpose(0, -1)" : "");
}

/// What lives on from call to call.
void write_lasting(Writer& out, const Program& program) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    const auto made = [&](std::size_t call) {
      return input_text(program, static_cast<int>(i),
                        program.calls[std::min(call, program.calls.size() - 1)]);
    };
    if (input.captured)
      out.line(fmt::format("Tensor v{} = {};", i, given_text(program, i, made(0), "a")));
    if (input.kept) out.line(fmt::format("Tensor k{}[] = {{{}, {}}};", i, made(0), made(1)));
  }
}

/// The line that makes the argument of call `k`, and the name of the leaf behind it.
std::string write_argument(Writer& out, const Program& program, std::size_t i, std::size_t k) {
  const Input& input = program.inputs[i];
  if (input.kept) {
    out.line(fmt::format("Tensor a{0} = k{0}[{1}];", i, k % 2));
    return fmt::format("a{}", i);
  }
  const std::string made = input_text(program, static_cast<int>(i), program.calls[k]);
  if (input.computed) {
    out.line(fmt::format("Tensor m{} = {};", i, made));
    out.line(fmt::format("Tensor a{0} = m{0} * 1.5;", i));
    return fmt::format("m{}", i);
  }
  out.line(fmt::format("Tensor a{} = {};", i, given_text(program, i, made, "a")));
  return fmt::format("a{}", i);
}

/// What the caller does after call `k`.
void write_after(Writer& out, const Program& program, std::size_t k,
                 const std::vector<std::string>& leaves) {
  if (program.after == After::nothing) return;
  out.line("const NoGrad apart;");
  if (program.after == After::write_results) {
    out.line("for (std::size_t i = 0; i < results.size(); ++i)");
    out.line("  results[i].fill_(static_cast<double>(i + 2));");
    out.line("for (const Tensor& one : results) std::cout << one << \"\\n\";");
    return;
  }
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    if (!input.requires_grad || !(input.captured || input.kept)) continue;
    out.line(fmt::format("if ({0}.grad().defined()) {0}.sub_({0}.grad() * 0.125);", leaves[i]));
    if (k % 2 == 1) out.line(fmt::format("{}.zero_grad();", leaves[i]));
  }
}

void write_call(Writer& out, const Program& program, std::size_t k) {
  std::vector<std::string> arguments, wanted, leaves;
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const Input& input = program.inputs[i];
    const std::string given = fmt::format("{}{}", input.captured ? "v" : "a", i);
    leaves.push_back(input.captured ? given : write_argument(out, program, i, k));
    if (!input.captured) arguments.push_back(given);
    if (input.requires_grad) wanted.push_back(given);
  }
  out.line(fmt::format("std::vector<Tensor> results = call({{{}}});", join(arguments)));
  if (program.gradients == Gradients::outside || program.gradients == Gradients::twice) {
    const bool twice = program.gradients == Gradients::twice;
    out.line("const Tensor loss = weighted(results);");
    out.line("if (loss.defined() && loss.tracks_grad()) " +
             (twice ? fmt::format("backward_twice(loss, {{{}}});", join(wanted))
                    : std::string("loss.backward();")));
  }
  out.line("for (const Tensor& one : results) std::cout << one << \"\\n\";");
  write_after(out, program, k, leaves);
  for (std::size_t i = 0; i < program.inputs.size(); ++i) {
    const std::string given = fmt::format("{}{}", program.inputs[i].captured ? "v" : "a", i);
    out.line(fmt::format("std::cout << \"v{}: \" << {} << \"\\n\";", i, given));
    if (program.inputs[i].requires_grad) {
      out.line(
          fmt::format("if ({1}.grad().defined()) std::cout << \"gradient of v{0}: \" << "
                      "{1}.grad() << \"\\n\";",
                      i, leaves[i]));
    }
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
  const bool wide = any_statement(program.body, [](const Statement& one) { return one.op->wide; });
  if (wide) out.text += "#include <tests/random_programs/helpers.h>\n";
  out.text += kHead;
  if (wide) out.text += kHelpers;
  if (program.gradients != Gradients::none) out.text += kWeighted;
  if (std::ranges::any_of(program.inputs,
                          [](const Input& in) { return in.order == Order::stepped; }))
    out.text += kStepped;
  if (is_stateful(program.seed) ||
      std::ranges::any_of(program.inputs, [](const Input& in) { return in.requires_grad; }))
    out.text += kLeaf;
  if (is_stateful(program.seed)) out.text += kState;
  if (program.gradients == Gradients::twice) out.text += kTwice;
  out.line("");
  out.line("void run(bool compiled) {");
  out.deeper();
  out.line(fmt::format("manual_seed({}u);", program.seed));
  write_lasting(out, program);
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
  for (std::size_t k = 0; k < program.calls.size(); ++k) {
    out.line("{");
    out.deeper();
    write_call(out, program, k);
    out.back();
    out.line("}");
  }
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
