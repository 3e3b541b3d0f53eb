#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cases.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/vmap.h"
#include "dyad/ir/literal.h"
#include "dyad/ops/ops.h"
#include "dyad/ops/registry.h"
#include "dyad/runtime/threads.h"
#include "exemptions.h"

// What every operator has, by its row and its reference cases, or the line of
// exemptions.txt that says why it has not. The list is exact: an entry that is
// not needed fails as a missing one does.

namespace dyad::testing {
namespace {

using Tensors = std::vector<Tensor>;
/// Operators that lack something, by what they lack.
using Lacks = std::map<std::string, std::set<std::string>>;

bool takes_part(const OpInfo& row) {
  return row.kind != BodyKind::structural && row.kind != BodyKind::control &&
         row.effect == Effect::pure;
}

/// The rows of the library, graph nodes and generators left out.
std::vector<const OpInfo*> rows() {
  ops::register_builtin_ops();
  exec::register_checkpoint_ops();
  std::vector<const OpInfo*> found;
  std::set<const OpInfo*> with_cases;
  for (const Case& c : reference_cases()) with_cases.insert(c.op);
  for (const OpInfo* row : all_ops()) {
    if (takes_part(*row) && (!only_some_cases() || with_cases.contains(row))) found.push_back(row);
  }
  return found;
}

bool takes_floating(const OpInfo& row) {
  for (const ArgInfo& input : row.inputs) {
    if ((input.dtypes & kFloat) != 0) return true;
  }
  return false;
}

bool differentiable(const OpInfo& row) {
  return row.grad != nullptr || (row.expand != nullptr && row.samples.differentiable);
}

/// In a form of its own, by its parts, or by what it computes for an element: unless that reads the
/// bits of floats.
bool has_onnx_form(const OpInfo& row) {
  if (!row.onnx.op.empty() || row.to_onnx != nullptr || row.expand != nullptr) return true;
  return row.kind == BodyKind::pointwise && row.name != "bitcast" && row.name != "nextafter";
}

/// The texts of every message that a test of bad calls expects.
std::string expected_messages() {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator("tests/ops")) {
    if (!entry.path().filename().string().ends_with("errors_test.cpp")) continue;
    std::stringstream content;
    content << std::ifstream(entry.path()).rdbuf();
    text += content.str();
  }
  return text;
}

Lacks of_rows_and_cases() {
  Lacks lacks;
  std::set<std::string> values, gradients;
  for (const Case& c : reference_cases()) {
    if (!c.op) continue;
    values.insert(std::string(c.op->name));
    if (c.grad) gradients.insert(std::string(c.op->name));
  }
  const std::string messages = expected_messages();
  for (const OpInfo* row : rows()) {
    const std::string name(row->name);
    const auto need = [&](bool has, const char* what) {
      if (!has) lacks[what].insert(name);
    };
    need(!row->doc.empty(), "doc");
    need(values.contains(name), "values");
    need(differentiable(*row) || !takes_floating(*row), "gradient");
    need(!differentiable(*row) || gradients.contains(name), "gradient_cases");
    need(has_onnx_form(*row), "onnx");
    // What pointwise operators refuse follows from their rows: see
    // find_bad_calls.
    const bool has_rules = row->kind != BodyKind::pointwise && !row->inputs.empty();
    const bool is_refused = messages.find("\"" + name + "(") != std::string::npos ||
                            messages.find(": " + name + "(") != std::string::npos;
    need(!has_rules || is_refused, "bad_call");
  }
  return lacks;
}

/// The first cases of each row.
std::vector<const Case*> some_cases(int each) {
  std::vector<const Case*> chosen;
  std::map<const OpInfo*, int> seen;
  for (const Case& c : reference_cases()) {
    if (c.op && takes_part(*c.op) && seen[c.op]++ < each) chosen.push_back(&c);
  }
  return chosen;
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !a.shape().same_as(b.shape())) return false;
  if (packed_elements(a) == packed_elements(b)) return true;
  const auto x = elements(a), y = elements(b);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool same = (std::isnan(x[i]) && std::isnan(y[i])) ||
                      (x[i] == y[i] && std::signbit(x[i]) == std::signbit(y[i]));
    if (!same) return false;
  }
  return true;
}

/// What went wrong with some case of an operator, once each.
void note(Lacks& lacks, const std::string& what, const Case& c, const std::string& error) {
  if (lacks[what].insert(std::string(c.op->name)).second) {
    std::printf("%s of %s: %s\n", what.c_str(), c.text.c_str(), error.c_str());
  }
}

bool has_inputs(const Case& c) {
  for (const Tensor& x : c.inputs) {
    if (x.defined()) return true;
  }
  return false;
}

/// The operator of a case on these inputs, as its types say; nothing when they
/// refuse the inputs.
std::optional<Types> types_for(const Case& c, const Tensors& inputs) {
  Types types;
  for (const Tensor& x : inputs) types.push_back(type_of(x));
  try {
    return infer_types(*c.op, types, c.attrs->data(), Loc());
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Runs a case on other inputs and checks the result's types; false when it
/// refuses the inputs.
bool runs_as_inferred(Lacks& lacks, const char* what, const Case& c, const Tensors& inputs) {
  const auto types = types_for(c, inputs);
  if (!types) return false;
  const Tensors outputs = run(c, inputs);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    bool same =
        outputs[i].dtype() == (*types)[i].dtype() && outputs[i].rank() == (*types)[i].rank();
    for (int axis = 0; same && axis < outputs[i].rank(); ++axis) {
      const Dim size = (*types)[i].shape()[static_cast<std::size_t>(axis)];
      same = !size.is_number() || size.same_as(outputs[i].shape()[static_cast<std::size_t>(axis)]);
    }
    if (!same) note(lacks, what, c, "gives " + type_string(outputs[i]));
  }
  return true;
}

/// Inputs without elements, in every way in which the row's types take them.
void find_no_zero_size(Lacks& lacks) {
  std::set<const OpInfo*> met, taken;
  for (const Case& c : reference_cases()) {
    for (const Tensor& x : c.inputs) {
      if (x.defined() && x.numel().number() == 0) taken.insert(c.op);
    }
  }
  for (const Case* c : some_cases(6)) {
    if (!has_inputs(*c)) continue;
    met.insert(c->op);
    for (const int axis : {0, -1}) {
      for (const bool all : {true, false}) {
        Tensors inputs = c->inputs;
        for (std::size_t i = 0; i < inputs.size(); ++i) {
          const bool cut = (all || i == 0) && inputs[i].defined() && inputs[i].rank() > 0;
          if (cut) inputs[i] = slice(inputs[i], axis, 0, 0);
        }
        try {
          if (runs_as_inferred(lacks, "zero_size", *c, inputs)) taken.insert(c->op);
        } catch (const Error&) {
          // It says that there is nothing to take: the largest of none.
          taken.insert(c->op);
        }
      }
    }
  }
  for (const OpInfo* row : met) {
    if (!taken.contains(row)) lacks["zero_size"].insert(std::string(row->name));
  }
}

/// 0-d inputs give what inputs of one element give, where the row's types take
/// them.
void find_no_scalars(Lacks& lacks) {
  for (const Case* c : some_cases(6)) {
    Tensors scalars = c->inputs, ones = c->inputs;
    bool any = false, empty = false;
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      Tensor& x = scalars[i];
      if (!x.defined()) continue;
      any = true;
      empty = empty || x.numel().number() == 0;
      if (empty) break;
      ones[i] = slice(reshape(x, {-1}), 0, 0, 1);
      x = reshape(ones[i], {});
    }
    if (!any || empty) continue;
    try {
      if (!runs_as_inferred(lacks, "scalar", *c, scalars)) continue;
      if (c->op->kind != BodyKind::pointwise || !types_for(*c, ones)) continue;
      const Tensor a = run(*c, scalars)[0], b = run(*c, ones)[0];
      if (!same_bits(a, reshape(b, a.shape()))) note(lacks, "scalar", *c, "other bits than [1]");
    } catch (const std::exception& e) {
      note(lacks, "scalar", *c, e.what());
    }
  }
}

/// NaN and infinities come through, or are refused in words, eagerly and
/// compiled with one result.
void find_not_finite(Lacks& lacks) {
  for (const Case* c : some_cases(3)) {
    for (std::size_t i = 0; i < c->inputs.size(); ++i) {
      const Tensor& x = c->inputs[i];
      if (!x.defined() || !is_floating(x.dtype()) || x.numel().number() == 0) continue;
      Tensors inputs = c->inputs;
      const Tensor place = reshape(arange(x.numel().number()), x.shape());
      inputs[i] = where(place == 0, std::numeric_limits<double>::quiet_NaN(),
                        where(place == 1, std::numeric_limits<double>::infinity(),
                              where(place == 2, -std::numeric_limits<double>::infinity(), x)));
      try {
        const Tensors eager = run(*c, inputs);
        auto compiled = compile(
            [&](const Tensor& y) {
              Tensors given = inputs;
              given[i] = y;
              return run(*c, given);
            },
            {.recheck = false});
        (void)compiled(inputs[i]);
        const Tensors found = compiled(inputs[i]);
        for (std::size_t k = 0; k < eager.size(); ++k) {
          if (!same_bits(found[k], eager[k])) note(lacks, "not_finite", *c, "other bits compiled");
        }
      } catch (const Error&) {
        // Refused in words: a matrix that has no inverse.
      } catch (const std::exception& e) {
        note(lacks, "not_finite", *c, e.what());
      }
    }
  }
}

/// What every row refuses: an undefined input, a dtype that it does not take,
/// shapes that do not broadcast. The texts name the operator and the input.
void find_bad_calls(Lacks& lacks) {
  std::set<const OpInfo*> met;
  for (const Case* c : some_cases(1)) {
    const OpInfo& op = *c->op;
    const std::string name(op.name);
    const auto expect = [&](const Tensors& inputs, const std::vector<std::string>& parts) {
      try {
        (void)run(*c, inputs);
        note(lacks, "bad_call", *c, "takes what it should refuse: " + parts.back());
      } catch (const Error& e) {
        for (const std::string& part : parts) {
          if (std::string(e.what()).find(part) == std::string::npos) {
            note(lacks, "bad_call", *c, "says: " + std::string(e.what()));
          }
        }
      }
    };
    for (std::size_t i = 0; i < c->inputs.size(); ++i) {
      const ArgInfo& info = *input_info(op, i);
      if (!c->inputs[i].defined() || info.optional) continue;
      Tensors inputs = c->inputs;
      inputs[i] = Tensor();
      expect(inputs, {name, "undefined tensor"});
      for (const DType wrong : {f32, i64, boolean}) {
        if (contains(info.dtypes, wrong)) continue;
        inputs[i] = zeros(c->inputs[i].shape(), wrong);
        expect(inputs,
               {name + "(", std::string(info.name), " but is " + std::string(name_of(wrong))});
        break;
      }
    }
    if (op.kind != BodyKind::pointwise || c->inputs.size() < 2 || op.infer != infer_pointwise) {
      continue;
    }
    Tensors inputs = c->inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].defined()) inputs[i] = zeros({i == 0 ? 2 : 3}, inputs[i].dtype());
    }
    expect(inputs, {name + "(", "do not broadcast: axis 0 is 2 in",
                    "sizes must be equal or one "
                    "of them 1"});
  }
}

/// compile(fn) gives the bits of eager execution.
void find_not_compiled(Lacks& lacks) {
  for (const Case* c : some_cases(16)) {
    try {
      Tensors given;
      for (const Tensor& x : c->inputs) {
        if (x.defined()) given.push_back(x);
      }
      const auto call = [c](const Tensors& tensors) {
        Tensors inputs = c->inputs;
        std::size_t next = 0;
        for (Tensor& x : inputs) {
          if (x.defined()) x = tensors[next++];
        }
        return run(*c, inputs);
      };
      const Tensors eager = call(given);
      auto compiled = compile(call, {.recheck = false});
      for (int again = 0; again < 2; ++again) {
        const Tensors found = compiled(given);
        for (std::size_t i = 0; i < eager.size(); ++i) {
          if (!same_bits(found[i], eager[i])) note(lacks, "compiled", *c, "other bits");
        }
      }
      if (compiled.explain().replays == 0) note(lacks, "compiled", *c, "is never replayed");
    } catch (const std::exception& e) {
      note(lacks, "compiled", *c, e.what());
    }
  }
}

/// How the floating inputs of a case are changed before they are narrowed: x * scale + shift.
struct Change {
  double scale = 1, shift = 0;
};

/// The inputs of a case changed and narrowed, and the same numbers in f32; nothing where the
/// operator does not take them.
std::optional<std::pair<Tensors, Tensors>> narrow_and_wide(const Case& c, DType narrow,
                                                           const Change& change) {
  Tensors inputs, wide;
  bool any = false;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    Tensor x = c.inputs[i];
    const bool floating = x.defined() && is_floating(x.dtype());
    if (floating) {
      if (c.op && !contains(input_info(*c.op, i)->dtypes, narrow)) return std::nullopt;
      any = true;
      x = (x * change.scale + change.shift).to(narrow);
      for (const double v : elements(x)) {
        if (!std::isfinite(v)) return std::nullopt;
      }
    }
    inputs.push_back(x);
    wide.push_back(floating ? x.to(f32) : x);
  }
  if (!any) return std::nullopt;
  return std::pair(std::move(inputs), std::move(wide));
}

/// Whether what is multiplied last may have been rounded, where the CPU multiplies bf16: weights
/// and gradients of scores.
bool multiplies_rounded(std::string_view name, DType narrow) {
  return narrow == bf16 && name.find("attention") != name.npos;
}

/// What is wrong with the narrow results beside those in f32: each is rounded once, or from sums
/// that were.
std::string narrow_error(const Tensors& narrow, const Tensors& wide, double loose = 1,
                         double of_largest = 1e-5) {
  for (std::size_t i = 0; i < narrow.size(); ++i) {
    const DType dtype = narrow[i].dtype();
    const double eps = dtype == f16 ? 0x1p-10 : dtype == bf16 ? 0x1p-7 : 0x1p-20;
    const double largest = dtype == f16 ? 65504 : 3e38;
    const auto x = elements(narrow[i]), y = elements(wide[i]);
    double scale = 0;
    for (const double v : y) scale = std::isfinite(v) ? std::max(scale, std::abs(v)) : scale;
    for (std::size_t k = 0; k < x.size(); ++k) {
      if (std::isnan(y[k]) ? std::isnan(x[k]) : x[k] == y[k]) continue;
      if (std::abs(y[k]) > largest * 0.99 && std::isinf(x[k])) continue;
      if (std::abs(x[k] - y[k]) <= loose * (2 * eps * std::abs(y[k]) + of_largest * scale + 1e-6))
        continue;
      return std::string(name_of(dtype)) + " gives " + std::to_string(x[k]) + ", f32 " +
             std::to_string(y[k]);
    }
  }
  return {};
}

/// The gradients of the sum of a case's floating results, by its floating inputs.
Tensors gradients_of(const Case& c, const Tensors& inputs) {
  Tensors leaves, given = inputs;
  for (Tensor& x : given) {
    if (!x.defined() || !is_floating(x.dtype())) continue;
    x = clone(x);
    leaves.push_back(x.requires_grad());
  }
  Tensor total = zeros({}, f32);
  for (const Tensor& y : run(c, given)) {
    if (is_floating(y.dtype())) total = total + sum(to(y, f32));
  }
  return grad(total, leaves);
}

/// f16 and bf16 give what f32 gives for the same inputs, to their precision: rows and functions,
/// with numbers of which squares and sums leave f16, and with numbers far from 0.
void find_narrow(Lacks& lacks) {
  std::map<std::string, int> seen;
  for (const Case& c : reference_cases()) {
    const std::string name(c.op ? c.op->name : std::string_view(c.name));
    if ((c.op && !takes_part(*c.op)) || seen[name]++ >= 12) continue;
    for (const DType narrow : {f16, bf16}) {
      for (const Change change : {Change{}, Change{.scale = 1000}, Change{.shift = 100}}) {
        // With a thousandfold of the logarithms of sums, weights are not weights.
        if (change.scale != 1 && multiplies_rounded(name, narrow)) continue;
        const auto given = narrow_and_wide(c, narrow, change);
        if (!given) continue;
        Tensors wide;
        try {
          wide = run(c, given->second);
        } catch (const Error&) {
          continue;  // changed inputs may be refused: probabilities, edges that do not rise
        }
        std::string error;
        try {
          error = narrow_error(run(c, given->first), wide, 1,
                               multiplies_rounded(name, narrow) ? 0x1p-6 : 1e-5);
        } catch (const DTypeError& e) {
          // Functions may be of dtypes that have no narrow ones: complex numbers.
          if (c.op) error = e.what();
        } catch (const std::exception& e) {
          error = e.what();
        }
        if (error.empty() || !lacks["narrow"].insert(name).second) continue;
        std::printf("narrow of %s, x * %g + %g: %s\n", c.text.c_str(), change.scale, change.shift,
                    error.c_str());
      }
    }
  }
}

/// The same of gradients, whose rules may round a few times, and read results that were rounded.
void find_narrow_gradients(Lacks& lacks) {
  std::map<std::string, int> seen;
  for (const Case& c : reference_cases()) {
    const std::string name(c.op ? c.op->name : std::string_view(c.name));
    if (!c.grad || (c.op && !takes_part(*c.op)) || seen[name]++ >= 4) continue;
    for (const DType narrow : {f16, bf16}) {
      for (const Change change : {Change{}, Change{.scale = 1000}, Change{.shift = 100}}) {
        std::string error;
        try {
          const auto given = narrow_and_wide(c, narrow, change);
          if (!given) continue;
          error = narrow_error(gradients_of(c, given->first), gradients_of(c, given->second), 8);
        } catch (const Error&) {
          continue;
        }
        if (error.empty() || !lacks["narrow_gradient"].insert(name).second) continue;
        std::printf("narrow gradient of %s, x * %g + %g: %s\n", c.text.c_str(), change.scale,
                    change.shift, error.c_str());
      }
    }
  }
}

/// The elements of `x` in memory that is mapped and hardly touched, with more
/// than 2^31 elements between neighbours along the first axis that has any:
/// offsets that 32 bits do not hold.
Tensor far_apart(const Tensor& x) {
  constexpr std::int64_t kApart = (std::int64_t{1} << 31) + 24;
  const Shape& shape = x.shape();
  int axis = 0;
  while (axis < x.rank() && shape[static_cast<std::size_t>(axis)].number() < 2) ++axis;
  if (axis == x.rank() || x.numel().number() == 0) return x;
  const std::int64_t count = shape[static_cast<std::size_t>(axis)].number();
  if (count > 8) return x;
  Strides strides = contiguous_strides(shape);
  strides[static_cast<std::size_t>(axis)] = kApart;
  const std::size_t bytes = static_cast<std::size_t>(kApart * count) * size_of(x.dtype());
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return x;
  const Tensor whole =
      from_blob(memory, {kApart * count}, x.dtype(), [memory, bytes] { munmap(memory, bytes); });
  Tensor made = make_view(whole, shape, strides, 0);
  made.copy_(x);
  return made;
}

/// Inputs that lie farther apart than 32 bits count give the reference values.
void find_narrow_indices(Lacks& lacks) {
  for (const Case* c : some_cases(4)) {
    Tensors inputs;
    for (const Tensor& x : c->inputs) inputs.push_back(x.defined() ? far_apart(x) : x);
    try {
      const Tensors found = run(*c, inputs);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const std::string error = difference(*c, found[i], c->outputs[i]);
        if (!error.empty()) note(lacks, "far_apart", *c, error);
      }
    } catch (const std::exception& e) {
      note(lacks, "far_apart", *c, e.what());
    }
  }
}

/// The operator on many copies of a case's inputs at once.
Tensors on_copies(const Case& c, std::int64_t copies) {
  Tensors given;
  for (const Tensor& x : c.inputs) {
    if (!x.defined()) continue;
    Shape shape = x.shape();
    shape.insert(0, copies);
    given.push_back(clone(expand(unsqueeze(x, 0), shape)));
  }
  return vmap([&](const Tensors& sample) {
    Tensors inputs = c.inputs;
    std::size_t next = 0;
    for (Tensor& x : inputs) {
      if (x.defined()) x = sample[next++];
    }
    return run(c, inputs);
  })(given);
}

/// vmap of the operator gives the reference values for each sample.
void find_not_vectorised(Lacks& lacks) {
  for (const Case* c : some_cases(8)) {
    if (!has_inputs(*c)) continue;
    try {
      const Tensors found = on_copies(*c, 2);
      for (std::size_t i = 0; i < found.size(); ++i) {
        for (int sample = 0; sample < 2; ++sample) {
          const std::string error = difference(*c, select(found[i], 0, sample), c->outputs[i]);
          if (!error.empty()) note(lacks, "vmap", *c, error);
        }
      }
    } catch (const std::exception& e) {
      note(lacks, "vmap", *c, e.what());
    }
  }
}

/// Enough copies to be divided among threads give the same bits at 1 and 2.
void find_thread_dependent(Lacks& lacks) {
  for (const Case* c : some_cases(2)) {
    if (!has_inputs(*c)) continue;
    std::int64_t elements_of_one = 1;
    for (const Tensor& x : c->inputs) {
      if (x.defined()) elements_of_one = std::max(elements_of_one, x.numel().number());
    }
    // Those that go one by one are not divided, however many.
    const bool at_once = c->op->kind != BodyKind::opaque || c->op->batching != Batching::none;
    const std::int64_t copies = at_once ? std::min<std::int64_t>(4096, 40000 / elements_of_one) : 2;
    try {
      Tensors found[2];
      for (const int threads : {1, 2}) {
        set_num_threads(threads);
        found[threads - 1] = on_copies(*c, copies + 2);
      }
      for (std::size_t i = 0; i < found[0].size(); ++i) {
        if (!same_bits(found[0][i], found[1][i])) note(lacks, "threads", *c, "other bits");
      }
    } catch (const std::exception& e) {
      note(lacks, "threads", *c, e.what());
    }
  }
}

class Completeness : public Interpreted {};

TEST_F(Completeness, EveryOperatorHasEverythingOrAReason) {
  Exemptions exemptions;
  Lacks lacks = of_rows_and_cases();
  find_bad_calls(lacks);
  find_no_zero_size(lacks);
  find_no_scalars(lacks);
  find_not_finite(lacks);
  find_not_compiled(lacks);
  find_narrow_indices(lacks);
  find_narrow(lacks);
  find_narrow_gradients(lacks);
  find_not_vectorised(lacks);
  find_thread_dependent(lacks);
  std::set<std::string> kinds;
  for (const auto& [what, names] : lacks) kinds.insert(what);
  for (const auto& [what, names] : exemptions.entries()) kinds.insert(what);
  for (const std::string& what : kinds) exemptions.check(what, lacks[what]);
  if (only_some_cases()) return;
  EXPECT_EQ(exemptions.exempted(), exemptions.count())
      << "operators exempted by exemptions.txt; its first line says how many "
         "it means";
}

}  // namespace
}  // namespace dyad::testing
