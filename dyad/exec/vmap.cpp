#include "dyad/exec/vmap.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/batching.h"
#include "dyad/exec/control_flow_region.h"
#include "dyad/ir/recorded.h"
#include "dyad/ops/views.h"

namespace dyad::exec {
namespace {

/// Records what a function does with one sample.
class SampleEvaluator final : public RegionEvaluator {
 public:
  explicit SampleEvaluator(Captures& captures) : RegionEvaluator("vmap", captures) {}

  double read_double(const Tensor&, Loc loc) override { fail_read("item()", loc); }
  std::int64_t read_int(const Tensor&, Loc loc) override { fail_read("item()", loc); }
  bool read_bool(const Tensor&, Loc loc) override { fail_read("the truth", loc); }

 private:
  [[noreturn]] static void fail_read(std::string_view what, Loc loc) {
    throw GraphError(fmt::format("vmap: the function reads {} of a tensor, which has a value for "
                                 "each sample; choose with where(), or read it outside",
                                 what),
                     loc.user());
  }
};

Tensor moved(const Tensor& x, int from, int to) {
  if (from == to) return x;
  Ints axes;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != from) axes.push_back(i);
  }
  axes.insert(static_cast<std::size_t>(to), from);
  return permute(x, axes);
}

int checked_axis(std::int64_t axis, int rank, std::string_view of, Loc loc) {
  if (axis < -rank || axis >= rank) {
    throw IndexError(fmt::format("vmap: axis {} of {} is out of range for {} axes", axis, of, rank),
                     loc);
  }
  return from_front(axis, rank);
}

/// The sizes of one of the samples along `axis`, if there is one.
Shape sizes_of_one(const Tensor& x, std::optional<int> axis) {
  Shape shape = shape_of(x);
  if (axis) shape.erase(static_cast<std::size_t>(*axis));
  return shape;
}

}  // namespace

void check_in_axes(std::size_t axes, std::size_t arguments, Loc loc) {
  if (axes == 0 || axes == arguments) return;
  throw ValueError(fmt::format("vmap: in_axes has {} entries for {} arguments", axes, arguments),
                   loc);
}

std::vector<Tensor> run_vmap(const TensorFunction& fn, std::span<const Tensor> inputs,
                             std::span<const std::optional<std::int64_t>> in_axes,
                             std::int64_t out_axis, Loc loc) {
  std::optional<Dim> size;
  std::string first;
  Types samples;
  std::vector<Batched> given;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].defined()) {
      throw ValueError(fmt::format("vmap: tensor {} is undefined", i), loc);
    }
    const std::string name = fmt::format("tensor {}, {}", i, type_string(inputs[i]));
    std::optional<int> axis;
    if (!in_axes[i]) {
      given.push_back({inputs[i], false});
    } else {
      axis = checked_axis(*in_axes[i], inputs[i].rank(), name, loc);
      const Dim here = shape_of(inputs[i])[static_cast<std::size_t>(*axis)];
      if (size && !(*size == here)) {
        throw ShapeError(fmt::format("vmap: {} has {} samples but {} has {}", first,
                                     size_text(*size), name, size_text(here)),
                         loc);
      }
      if (!size) first = name;
      size = size.value_or(here);
      given.push_back({moved(inputs[i], *axis, 0), true});
    }
    samples.emplace_back(inputs[i].dtype(), sizes_of_one(inputs[i], axis));
  }
  if (!size) {
    throw ValueError("vmap: no argument has an axis of samples; name one in in_axes", loc);
  }
  Captures captures;
  SampleEvaluator recorder(captures);
  if (!dynamic_cast<const GraphEvaluator*>(&Evaluator::current())) recorder.ask_around();
  recorder.record(fn, samples, loc);
  const Ref<GraphImpl> graph = recorder.finish();
  for (const Tensor& captured : captures.tensors()) given.push_back({captured, false});
  std::vector<Tensor> results;
  for (Batched& output : Batch(*size).run(*graph, given)) {
    if (!output.batched) {
      Shape shape = shape_of(output.tensor);
      shape.insert(0, *size);
      output.tensor = expand(unsqueeze(output.tensor, 0), shape);
    }
    const int to = checked_axis(out_axis, output.tensor.rank(), "a result", loc);
    results.push_back(moved(output.tensor, 0, to));
  }
  return results;
}

}  // namespace dyad::exec
