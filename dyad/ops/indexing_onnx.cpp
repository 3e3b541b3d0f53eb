#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "dyad/ir/onnx_node.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/cumulative.h"
#include "dyad/ops/diagonal.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/index.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/loss.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/ranges.h"
#include "dyad/ops/rearrange.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/sort.h"
#include "dyad/ops/views.h"

// What ONNX's operators mean that sort, search, gather, scatter and rearrange, and those of losses.

namespace dyad::ops {
namespace {

using Along = Tensor (*)(const Tensor&, std::int64_t, bool, bool, Loc);

template <Along f>
void place_of_extreme(OnnxNode& n) {
  n.output(0, f(n.input(0), n.integer("axis", 0), n.flag("keepdims", true),
                n.flag("select_last_index"), n.loc()));
}

template <Along f>
void running(OnnxNode& n) {
  const Tensor x = n.input(0);
  n.output(0, to(f(x, n.constant_integer(1, 0), n.flag("exclusive"), n.flag("reverse"), n.loc()),
                 x.dtype(), n.loc()));
}

void top_k(OnnxNode& n) {
  const Dim k = n.has(1) ? n.one_size(1) : Dim(n.integer("k", 1));
  const auto [values, indices] = topk(n.input(0), k, n.integer("axis", -1), n.flag("largest", true),
                                      n.flag("sorted", true), n.loc());
  n.output(0, values);
  n.output(1, indices);
}

void unique_elements(OnnxNode& n) {
  std::optional<std::int64_t> axis;
  if (n.has_attribute("axis")) axis = n.integer("axis", 0);
  const Unique found = unique(n.input(0), n.flag("sorted", true), axis, n.loc());
  n.output(0, found.values);
  n.output(1, found.indices);
  n.output(2, ravel(found.inverse, n.loc()));
  n.output(3, found.counts);
}

void one_hot_rows(OnnxNode& n) {
  const Tensor indices = n.input(0), values = n.input(2);
  // The depth may be a floating number.
  const auto known = n.known_sizes(1);
  const Dim depth = known && known->size() == 1 ? (*known)[0] : Dim(n.constant_integer(1, 0));
  const std::int64_t axis = n.integer("axis", -1);
  const Tensor whole = to(indices, i64, n.loc());
  const Tensor counted = where(lt(whole, 0), add(whole, size_tensor(depth)), whole, n.loc());
  Tensor hot = one_hot(counted, depth, boolean, n.loc());  // the classes last
  if (axis != -1 && axis != indices.rank()) {
    Ints order;
    const std::int64_t at = axis < 0 ? axis + indices.rank() + 1 : axis;
    for (std::int64_t i = 0; i < indices.rank(); ++i) {
      if (i == at) order.push_back(indices.rank());
      order.push_back(i);
    }
    hot = permute(hot, order, n.loc());
  }
  n.output(0, where(hot, select(values, 0, 1), select(values, 0, 0), n.loc()));
}

void tile_by(OnnxNode& n) { n.output(0, tile(n.input(0), n.sizes(1), n.loc())); }

void reverse_sequences(OnnxNode& n) {
  n.output(0, reverse_sequence(n.input(0), n.input(1), n.integer("time_axis", 0),
                               n.integer("batch_axis", 1), n.loc()));
}

void compress_by(OnnxNode& n) {
  std::optional<std::int64_t> axis;
  if (n.has_attribute("axis")) axis = n.integer("axis", 0);
  n.output(0, compress(n.input(1), n.input(0), axis, n.loc()));
}

void trilu(OnnxNode& n) {
  const std::int64_t k = n.constant_integer(1, 0);
  n.output(0, n.flag("upper", true) ? triu(n.input(0), k, n.loc()) : tril(n.input(0), k, n.loc()));
}

void eye_like(OnnxNode& n) {
  const Tensor x = n.input(0);
  n.output(0, eye(x.size(0), x.size(1), n.integer("k", 0), n.dtype("dtype", x.dtype()), n.loc()));
}

void range(OnnxNode& n) {
  const DType dtype = n.input(0).dtype();
  const auto is_constant = [&](int i) { return n.constant(i).defined(); };
  const bool whole =
      !is_floating(dtype) || (n.known_sizes(0) && n.known_sizes(1) && n.known_sizes(2));
  if (is_floating(dtype) && (!whole || (is_constant(0) && is_constant(1) && is_constant(2)))) {
    const double begin = n.constant_number(0, 0), step = n.constant_number(2, 1);
    const double count = std::ceil((n.constant_number(1, 0) - begin) / step);
    const Tensor numbers = arange(std::max<std::int64_t>(0, static_cast<std::int64_t>(count)), f64);
    n.output(0, to(add(mul(numbers, step), begin), dtype, n.loc()));
    return;
  }
  const std::int64_t step = n.constant_integer(2);
  if (step == 0) n.fail("its step is 0");
  if (is_constant(0) && is_constant(1)) {
    n.output(0, to(arange(n.constant_integer(0), n.constant_integer(1), step, i64, n.loc()), dtype,
                   n.loc()));
    return;
  }
  const Dim begin = n.one_size(0), end = n.one_size(1);
  const Dim count = step > 0 ? ceil_div(end - begin, step) : ceil_div(begin - end, -step);
  const Tensor numbers = mul(arange(max(count, 0), i64, n.loc()), step, n.loc());
  n.output(0, to(add(numbers, size_tensor(begin), n.loc()), dtype, n.loc()));
}

void scatter_elements(OnnxNode& n) {
  const std::string reduction = n.text("reduction", "none");
  const Tensor x = n.input(0), index = n.input(1), source = n.input(2);
  const std::int64_t axis = n.integer("axis", 0);
  if (reduction == "none") {
    n.output(0, scatter(x, axis, index, source, n.loc()));
    return;
  }
  const std::string_view name = reduction == "add"   ? "sum"
                                : reduction == "mul" ? "prod"
                                : reduction == "max" ? "amax"
                                                     : "amin";
  n.output(0, scatter_reduce(x, axis, index, source, name, true, n.loc()));
}

void scatter_slices(OnnxNode& n) {
  n.output(0, scatter_nd(n.input(0), n.input(1), n.input(2), n.text("reduction", "none"), n.loc()));
}

/// Counts before all axes, then after; of the axes that are named, or all.
void pad_by(OnnxNode& n, const Shape& counts, const Ints& axes, double value) {
  const Tensor x = n.input(0);
  const auto rank = static_cast<std::size_t>(x.rank());
  const std::size_t named = axes.empty() ? rank : axes.size();
  if (counts.size() != 2 * named) {
    n.fail("its pads are " + std::to_string(counts.size()) + " numbers, not two for each of " +
           std::to_string(named) + " axes");
  }
  Shape low(rank, 0), high(rank, 0);
  for (std::size_t i = 0; i < named; ++i) {
    const std::int64_t axis = axes.empty() ? static_cast<std::int64_t>(i) : axes[i];
    const auto at = static_cast<std::size_t>(n.axis_of(axis, x.rank()));
    low[at] = counts[i];
    high[at] = counts[named + i];
  }
  const std::string mode = n.text("mode", "constant");
  n.output(
      0, mode == "constant" ? pad(x, low, high, value, n.loc()) : pad(x, low, high, mode, n.loc()));
}

void pad_by_attributes(OnnxNode& n) {
  Shape counts;
  for (const std::int64_t count : n.integers("pads", {})) counts.push_back(count);
  pad_by(n, counts, {}, n.number("value", 0));
}

void pad_by_inputs(OnnxNode& n) {
  pad_by(n, n.sizes(1), n.has(3) ? n.constant_integers(3) : Ints{}, n.constant_number(2, 0));
}

template <Tensor (*window)(Dim, bool, DType, Loc)>
void window_of(OnnxNode& n) {
  n.output(
      0, window(n.one_size(0), n.flag("periodic", true), n.dtype("output_datatype", f32), n.loc()));
}

Reduction reduction_of(OnnxNode& n) {
  const std::string name = n.text("reduction", "mean");
  if (name == "mean") return Reduction::mean;
  if (name == "sum") return Reduction::sum;
  if (name != "none") n.fail("its reduction is '" + name + "'");
  return Reduction::none;
}

/// A class that no target has, for nodes that ignore none.
constexpr std::int64_t kNoClass = std::numeric_limits<std::int32_t>::min();

void negative_log_likelihood(OnnxNode& n) {
  n.output(0, nll_loss(n.input(0), n.input(1), n.input(2), reduction_of(n),
                       n.integer("ignore_index", kNoClass), n.loc()));
}

void softmax_cross_entropy(OnnxNode& n) {
  const Tensor logits = n.input(0);
  n.output(0, cross_entropy(logits, n.input(1), n.input(2), reduction_of(n),
                            n.integer("ignore_index", kNoClass), 0, n.loc()));
  if (n.wants(1)) n.output(1, log_softmax(logits, 1, n.loc()));
}

}  // namespace

std::span<const OnnxRule> indexing_onnx_rules() {
  static constexpr OnnxRule kRules[] = {
      {"ArgMax", 1, place_of_extreme<argmax>},
      {"ArgMin", 1, place_of_extreme<argmin>},
      {"CumSum", 11, running<cumsum>},
      {"CumProd", 26, running<cumprod>},
      {"TopK", 1, top_k},
      {"Unique", 11, unique_elements},
      {"NonZero", 9,
       [](OnnxNode& n) { n.output(0, transpose(nonzero(n.input(0), n.loc()), 0, 1, n.loc())); }},
      {"OneHot", 9, one_hot_rows},
      {"Tile", 6, tile_by},
      {"ReverseSequence", 10, reverse_sequences},
      {"Compress", 9, compress_by},
      {"DepthToSpace", 1,
       [](OnnxNode& n) {
         n.output(0, depth_to_space(n.input(0), n.integer("blocksize", 1), n.text("mode", "DCR"),
                                    n.loc()));
       }},
      {"SpaceToDepth", 1,
       [](OnnxNode& n) {
         n.output(0, space_to_depth(n.input(0), n.integer("blocksize", 1), n.loc()));
       }},
      {"Trilu", 14, trilu},
      {"EyeLike", 9, eye_like},
      {"Range", 11, range},
      {"GatherND", 11,
       [](OnnxNode& n) {
         n.output(0, gather_nd(n.input(0), n.input(1), n.integer("batch_dims", 0), n.loc()));
       }},
      {"Scatter", 9, scatter_elements},
      {"ScatterElements", 11, scatter_elements},
      {"ScatterND", 11, scatter_slices},
      {"Pad", 2, pad_by_attributes},
      {"Pad", 11, pad_by_inputs},
      {"HannWindow", 17, window_of<hann_window>},
      {"HammingWindow", 17,
       [](OnnxNode& n) {
         n.output(0, hamming_window(n.one_size(0), n.flag("periodic", true), 25.0 / 46,
                                    n.dtype("output_datatype", f32), n.loc()));
       }},
      {"BlackmanWindow", 17, window_of<blackman_window>},
      {"NegativeLogLikelihoodLoss", 12, negative_log_likelihood},
      {"SoftmaxCrossEntropyLoss", 12, softmax_cross_entropy},
  };
  return kRules;
}

}  // namespace dyad::ops
