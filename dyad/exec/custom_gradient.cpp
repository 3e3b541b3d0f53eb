#include "dyad/exec/custom_gradient.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/base/error.h"
#include "dyad/exec/attached_gradient.h"
#include "dyad/exec/graph_of_call.h"
#include "dyad/exec/vmap.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/op_info.h"
#include "dyad/ir/recorded.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace exec {
namespace {

/// A gradient rule as an attribute: its name is what graphs show of it.
struct RuleAttrs {
  std::string name;
  std::int64_t sources = 0;
  std::shared_ptr<const GradientRule> rule;
};

constexpr AttrsInfo kRuleAttrs{
    .size = sizeof(RuleAttrs),
    .make = [] { return static_cast<void*>(new RuleAttrs()); },
    .copy =
        [](const void* attrs) {
          return static_cast<void*>(new RuleAttrs(*static_cast<const RuleAttrs*>(attrs)));
        },
    .destroy = [](void* attrs) noexcept { delete static_cast<RuleAttrs*>(attrs); },
    .visit =
        [](void* attrs, AttrVisitor& visitor) {
          auto& rule = *static_cast<RuleAttrs*>(attrs);
          visitor.visit("name", rule.name);
          visitor.visit("sources", rule.sources);
        },
};

/// In a graph: sources, then results.
constinit const OpInfo kCustomGradientOp{
    .name = "custom_gradient",
    .doc = "The results of a custom function, whose gradients go to the sources by its own rule.",
    .kind = BodyKind::composite,
    .inputs = kAnyTensors,
    .outputs = kAnyTensors,
    .samples = {},
    .saved_inputs = autograd::kSavesAll,
    .saved_outputs = autograd::kSavesAll,
    .attrs = &kRuleAttrs,
    .infer = [](const InferIn& in) -> Types {
      const auto sources = attrs_at<RuleAttrs>(in.attrs).sources;
      return Types(in.inputs.begin() + sources, in.inputs.end());
    },
    .expand = [](const void* attrs, TensorRefs in, Loc) -> std::vector<Tensor> {
      std::vector<Tensor> results;
      for (const Tensor* t : in.subspan(attrs_at<RuleAttrs>(attrs).sources)) results.push_back(*t);
      return results;
    },
    .grad = [](Gradient& g) { (*g.attrs<RuleAttrs>().rule)(g); },
};

}  // namespace

std::vector<Tensor> attach_gradient(const std::string& name, std::span<const Tensor> sources,
                                    const std::vector<bool>& kept, std::span<const Tensor> results,
                                    const std::vector<bool>& kept_results, GradientRule rule,
                                    Loc loc) {
  RuleAttrs attrs{name, static_cast<std::int64_t>(sources.size()),
                  std::make_shared<const GradientRule>(std::move(rule))};
  std::vector<const Tensor*> inputs;
  for (const Tensor& source : sources) inputs.push_back(&source);
  std::vector<Tensor> outputs(results.size());
  std::vector<Tensor> all(sources.begin(), sources.end());
  all.insert(all.end(), results.begin(), results.end());
  if (GraphOfCall graph(all); graph.evaluator()) {
    for (const Tensor& result : results) inputs.push_back(&result);
    graph.evaluator()->apply(kCustomGradientOp, inputs, &attrs, outputs, loc);
    return outputs;
  }
  for (std::size_t i = 0; i < results.size(); ++i) outputs[i] = detach(results[i], loc);
  if (autograd::should_record(kCustomGradientOp, inputs)) {
    const autograd::Kept keep{kept, kept_results};
    autograd::record(kCustomGradientOp, inputs, &attrs, outputs, loc.user(), &keep);
  }
  return outputs;
}

namespace {

/// What a rule sees of one sample.
class SampleGradient final : public Gradient {
 public:
  SampleGradient(std::span<const Tensor> grads, std::span<const Tensor> sources,
                 std::span<const Tensor> results, const std::vector<bool>& wanted)
      : grads_(grads), sources_(sources), results_(results), wanted_(wanted), made_(wanted.size()) {
    for (const Tensor& t : sources) source_shapes_.push_back(shape_of(t));
    for (const Tensor& t : results) result_shapes_.push_back(shape_of(t));
  }

  const Tensor& grad(int i) override { return grads_[at(i)]; }
  bool has_grad(int) const override { return true; }
  const Tensor& input(int i) override { return sources_[at(i)]; }
  const Tensor& output(int i) override { return results_[at(i)]; }
  const Shape& input_shape(int i) const override { return source_shapes_[at(i)]; }
  DType input_dtype(int i) const override { return sources_[at(i)].dtype(); }
  const Shape& output_shape(int i) const override { return result_shapes_[at(i)]; }
  int input_count() const override { return static_cast<int>(sources_.size()); }
  bool needs(int i) const override { return wanted_[at(i)]; }
  void set(int i, Tensor gradient) override { made_[at(i)] = std::move(gradient); }
  const void* raw_attrs() const override { return nullptr; }

  /// The gradients of the sources, those that there are.
  [[nodiscard]] const std::vector<Tensor>& made() const noexcept { return made_; }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  std::span<const Tensor> grads_, sources_, results_;
  const std::vector<bool>& wanted_;
  std::vector<Shape> source_shapes_, result_shapes_;
  std::vector<Tensor> made_;
};

}  // namespace

std::vector<Tensor> batch_custom_gradient(const Node& node, std::span<const Tensor> inputs) {
  const auto& attrs = node.attrs_as<RuleAttrs>();
  const auto count = static_cast<std::size_t>(attrs.sources);
  const std::size_t results = inputs.size() - count;
  const Loc loc = node.loc();
  const auto batched = [rule = attrs.rule, count, results, loc](Gradient& g) {
    std::vector<bool> wanted;
    std::vector<Tensor> given;
    for (std::size_t i = 0; i < results; ++i) given.push_back(g.grad(static_cast<int>(i)));
    for (std::size_t i = 0; i < count; ++i) {
      wanted.push_back(g.needs(static_cast<int>(i)));
      given.push_back(g.input(static_cast<int>(i)));
    }
    for (std::size_t i = 0; i < results; ++i) given.push_back(g.output(static_cast<int>(i)));
    std::vector<int> set;
    const auto of_sample = [&](std::span<const Tensor> tensors) {
      SampleGradient sample(tensors.first(results), tensors.subspan(results, count),
                            tensors.subspan(results + count), wanted);
      (*rule)(sample);
      std::vector<Tensor> made;
      set.clear();
      for (std::size_t i = 0; i < count; ++i) {
        if (!sample.made()[i].defined()) continue;
        made.push_back(sample.made()[i]);
        set.push_back(static_cast<int>(i));
      }
      return made;
    };
    const std::vector<std::optional<std::int64_t>> axes(given.size(), 0);
    std::vector<Tensor> made = run_vmap(of_sample, given, axes, 0, loc);
    for (std::size_t i = 0; i < set.size(); ++i) g.set(set[i], std::move(made[i]));
  };
  return attach_gradient(attrs.name, inputs.first(count), std::vector<bool>(count, true),
                         inputs.subspan(count), std::vector<bool>(results, true), batched, loc);
}

}  // namespace exec

const Tensor& CustomGradient::saved(int i) const {
  const auto at = static_cast<std::size_t>(i);
  if (at >= saved_.size()) {
    throw ValueError(fmt::format("saved({}): the forward part saved {} tensors", i, saved_.size()));
  }
  if (constant_[at] && grad_enabled()) {
    throw GradError(fmt::format(
        "a second derivative through saved tensor {} of a custom function, {}, which was computed "
        "on the way and is a constant here: save an argument or a result, or compute it again",
        i, type_string(saved_[at])));
  }
  return saved_[at];
}

/// Where each tensor that backward reads is kept, and the call of backward.
struct CustomRule {
  enum class Place : std::uint8_t { argument, result, between };
  struct Saved {
    Place place;
    int index;
  };
  std::string name;
  int arguments = 0;
  int results = 0;
  bool on_tape = false;
  std::vector<Saved> saved;
  exec::CustomBackward backward;

  void operator()(Gradient& g) const {
    CustomGradient given;
    for (int i = 0; i < results; ++i) {
      given.grads_.push_back(g.grad(i));
    }
    for (const Saved& at : saved) {
      given.saved_.push_back(at.place == Place::result ? g.output(at.index) : g.input(at.index));
      given.constant_.push_back(on_tape && at.place == Place::between &&
                                is_differentiable(given.saved_.back().dtype()));
    }
    for (int i = 0; i < arguments; ++i) given.needs_.push_back(g.needs(i));
    std::vector<Tensor> made = backward(given);
    if (static_cast<int>(made.size()) != arguments) {
      throw ValueError(
          fmt::format("{}: backward gave {} gradients for {} arguments (an undefined "
                      "tensor stands for none)",
                      name, made.size(), arguments));
    }
    for (int i = 0; i < arguments; ++i) {
      Tensor& gradient = made[static_cast<std::size_t>(i)];
      if (!gradient.defined() || !g.needs(i)) continue;
      if (!(gradient.shape().rank() == g.input_shape(i).rank() &&
            fits(gradient, g.input_shape(i)))) {
        throw ShapeError(fmt::format("{}: backward gave {} for argument {}, whose shape is {}",
                                     name, type_string(gradient), i, to_string(g.input_shape(i))));
      }
      g.set(i, std::move(gradient));
    }
  }

  static bool fits(const Tensor& gradient, const Shape& shape) {
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (!(gradient.size(axis) == shape[static_cast<std::size_t>(axis)])) return false;
    }
    return true;
  }
};

std::vector<Tensor> exec::call_custom(const std::string& name, const CustomForward& forward,
                                      const CustomBackward& backward,
                                      std::span<const Tensor> arguments, bool save_arguments,
                                      Loc loc) {
  for (const Tensor& argument : arguments) {
    if (!argument.defined()) throw ValueError(name + ": an argument is an undefined tensor", loc);
  }
  Saver saver;
  std::vector<Tensor> results;
  {
    const NoGrad own_rule;
    results = forward(saver, arguments);
  }
  for (const Tensor& result : results) {
    if (!result.defined()) throw ValueError(name + ": forward gave an undefined tensor", loc);
  }
  if (save_arguments) {
    for (const Tensor& argument : arguments) saver.save(argument);
  }
  const GraphOfCall graph(arguments);
  CustomRule rule{.name = name,
                  .arguments = static_cast<int>(arguments.size()),
                  .results = static_cast<int>(results.size()),
                  .on_tape = graph.evaluator() == nullptr,
                  .saved = {},
                  .backward = backward};
  std::vector<Tensor> sources(arguments.begin(), arguments.end());
  std::vector<bool> kept(arguments.size(), false), kept_results(results.size(), false);
  const auto find = [](std::span<const Tensor> among, const Tensor& tensor) {
    const auto found =
        std::ranges::find_if(among, [&](const Tensor& t) { return t.is_same(tensor); });
    return found == among.end() ? -1 : static_cast<int>(found - among.begin());
  };
  for (const Tensor& tensor : saver.tensors()) {
    if (const int i = find(arguments, tensor); i >= 0) {
      kept[static_cast<std::size_t>(i)] = true;
      rule.saved.push_back({CustomRule::Place::argument, i});
    } else if (const int o = find(results, tensor); o >= 0) {
      kept_results[static_cast<std::size_t>(o)] = true;
      rule.saved.push_back({CustomRule::Place::result, o});
    } else {
      rule.saved.push_back({CustomRule::Place::between, static_cast<int>(sources.size())});
      sources.push_back(tensor.is_concrete() ? tensor.detach() : tensor);
      kept.push_back(true);
    }
  }
  return attach_gradient(name, sources, kept, results, kept_results, std::move(rule), loc);
}

}  // namespace dyad
