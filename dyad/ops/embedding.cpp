#include "dyad/ops/embedding.h"

#include <limits>

#include "dyad/ir/row_gradient.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/embedding.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/reduce.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/scatter.h"
#include "dyad/ops/table_of_rows.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kEmbeddingInputs[] = {{"weight", kFloat}, {"index", kIndex}};
constexpr ArgInfo kEmbeddingBackwardInputs[] = {{"grad", kFloat}, {"index", kIndex}};

void require_table(const InferIn& in, std::size_t i) {
  if (in[i].rank() != 2) {
    fail_shape(in, std::string(in.op.inputs[i].name) + " must be [rows, width] but has " +
                       std::to_string(in[i].rank()) + " axes");
  }
}

struct EmbeddingBackward {
  using Attrs = EmbeddingBackwardAttrs;
  static constexpr Schema schema{
      .name = "embedding_backward",
      .inputs = kEmbeddingBackwardInputs,
      .outputs = kOut,
      .doc = "grad[i] added at row index[i] of a table of zeros, but not at padding_idx.",
      .saved_inputs = kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape &grad = in[0].shape(), &index = in[1].shape();
    bool fits = grad.rank() == index.rank() + 1;
    for (std::size_t i = 0; fits && i < index.size(); ++i) fits = grad[i] == index[i];
    if (!fits) {
      fail_shape(in, "grad must have the axes of index and one of the width, but is " +
                         to_string(grad) + " for an index of " + to_string(index));
    }
    return {Type(in[0].dtype(), {attrs.rows, grad.back()})};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    const Dim width = in[0]->size(-1, loc);
    const Dim count = sizes_of(*in[1], loc).numel();
    const Tensor index = reshape(*in[1], {count});
    Tensor rows = reshape(*in[0], {count, width});
    if (attrs.padding_idx >= 0) rows = where(unsqueeze(index == attrs.padding_idx, -1), 0, rows);
    return {index_add(zeros({attrs.rows, width}, rows.dtype()), 0, index, rows)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Tensor rows = index_select_from_front(g.grad(), 0, g.input(1));
    if (attrs.padding_idx < 0) return g.set(0, rows);
    g.set(0, where(unsqueeze(g.input(1) == attrs.padding_idx, -1), 0, rows));
  }
};

/// Who takes the gradient of the table, input 0, by its rows; null where the whole one is wanted.
RowGradient* rows_of_table(Gradient& g) {
  auto* const by_rows = dynamic_cast<RowGradient*>(&g);
  return by_rows && by_rows->takes_rows(0) ? by_rows : nullptr;
}

struct Embedding {
  using Attrs = EmbeddingAttrs;
  static constexpr Schema schema{.name = "embedding",
                                 .inputs = kEmbeddingInputs,
                                 .outputs = kOut,
                                 .doc = "The rows of weight that index names.",
                                 .saved_inputs = kSecond};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_table(in, 0);
    const Dim rows = in[0].shape()[0];
    if (rows.is_number() && attrs.padding_idx >= rows.number()) {
      fail_index(in, "padding_idx = " + std::to_string(attrs.padding_idx) +
                         " is out of range for a table of " + to_string(rows) + " rows");
    }
    Shape shape = in[1].shape();
    shape.push_back(in[0].shape()[1]);
    return {Type(in[0].dtype(), shape)};
  }
  static std::vector<Tensor> expand(const Attrs&, TensorRefs in, Loc) {
    return {index_select_from_front(*in[0], 0, *in[1], "embedding")};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    if (RowGradient* by_rows = attrs.sparse ? rows_of_table(g) : nullptr) {
      const Dim count = g.input_shape(1).numel();
      const Tensor index = reshape(g.input(1), {count});
      Tensor rows = reshape(g.grad(), {count, g.input_shape(0)[1]});
      if (attrs.padding_idx >= 0) rows = where(unsqueeze(index == attrs.padding_idx, -1), 0, rows);
      return by_rows->set_rows(0, index, rows);
    }
    const Tensor* inputs[] = {&g.grad(), &g.input(1)};
    const EmbeddingBackwardAttrs to{.rows = g.input_shape(0)[0], .padding_idx = attrs.padding_idx};
    g.set(0, apply_with_parts<EmbeddingBackward>(to, {}, inputs)[0]);
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) {
    e.output(0, e.node("Gather", {e.input(0), e.input(1)}, {{"axis", std::int64_t{0}}}));
  }
};

constexpr ArgInfo kRowSumsInputs[] = {{"rows", kFloat}, {"index", kIndex}};
constexpr ArgInfo kPutRowsInputs[] = {{"x", kFloat}, {"index", kIndex}, {"rows", kFloat}};

void require_rows(const InferIn& in, std::size_t rows, std::size_t index) {
  if (in[rows].rank() < 1 || in[index].rank() != 1 ||
      !(in[rows].shape()[0] == in[index].shape()[0])) {
    fail_shape(in, "rows must have a row for each index, but rows is " +
                       to_string(in[rows].shape()) + " and index " + to_string(in[index].shape()));
  }
}

struct RowSums {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "row_sums",
                                 .inputs = kRowSumsInputs,
                                 .outputs = kOut,
                                 .doc = "Each row replaced by the sum of all rows of equal index.",
                                 .samples = {.differentiable = false},
                                 .saved_inputs = kFirst | kSecond};
  static Types infer(const InferIn& in, const Attrs&) {
    require_rows(in, 0, 1);
    return {in[0]};
  }
  static std::vector<Tensor> parts(const NoAttrs&, TensorRefs in, Loc loc) {
    const Tensor &rows = *in[0], &index = *in[1];
    const Shape shape = sizes_of(rows, loc);
    Dim width = 1;
    for (std::size_t i = 1; i < shape.size(); ++i) width = width * shape[i];
    const Tensor same = (unsqueeze(index, 1) == unsqueeze(index, 0)).to(rows.dtype());
    return {reshape(matmul(same, reshape(rows, {shape[0], width})), shape)};
  }
};

struct PutRows {
  using Attrs = NoAttrs;
  static constexpr Schema schema{.name = "put_rows",
                                 .inputs = kPutRowsInputs,
                                 .outputs = kOut,
                                 .doc = "x with rows in the places that index names.",
                                 .samples = {.differentiable = false},
                                 .saved_inputs = kFirst | kSecond | kThird};
  static Types infer(const InferIn& in, const Attrs&) {
    require_rows(in, 2, 1);
    bool fits = in[0].rank() == in[2].rank() && in[0].dtype() == in[2].dtype();
    for (std::size_t i = 1; fits && i < in[0].shape().size(); ++i) {
      fits = in[0].shape()[i] == in[2].shape()[i];
    }
    if (!fits) fail_shape(in, "rows must be rows of x, of its dtype");
    return {in[0]};
  }
  static std::vector<Tensor> parts(const NoAttrs&, TensorRefs in, Loc) {
    return {index_copy(*in[0], 0, *in[1], *in[2])};
  }
};

// --- bags --------------------------------------------------------------------------------------

constexpr ArgInfo kBagInputs[] = {{"weight", kFloat},
                                  {"index", kIndex},
                                  {"offsets", kIndex, /*optional=*/true},
                                  {"per_sample_weights", kFloat, /*optional=*/true}};
constexpr ArgInfo kBagBackwardInputs[] = {{"grad", kFloat},
                                          {"weight", kFloat},
                                          {"index", kIndex},
                                          {"offsets", kIndex, /*optional=*/true},
                                          {"per_sample_weights", kFloat, /*optional=*/true}};
constexpr ArgInfo kBagGradients[] = {{"weight_grad"}, {"per_sample_weights_grad"}};

/// Checks the inputs from `weight` on and gives the number of bags.
Dim bag_count(const InferIn& in, const EmbeddingBagAttrs& attrs, std::size_t first) {
  require_table(in, first);
  const bool has_offsets = in.has(first + 2), weighted = in.has(first + 3);
  const Shape& index = in[first + 1].shape();
  if (attrs.mode != "sum" && attrs.mode != "mean" && attrs.mode != "max") {
    fail_value(in, "mode = \"" + attrs.mode + "\" must be \"sum\", \"mean\" or \"max\"");
  }
  if (index.rank() != (has_offsets ? 1 : 2)) {
    fail_shape(in, std::string("index must be ") +
                       (has_offsets ? "[n] beside offsets" : "[bags, n] without offsets") +
                       ", but has " + std::to_string(index.rank()) + " axes");
  }
  if (has_offsets && in[first + 2].rank() != 1) {
    fail_shape(in, "offsets must have 1 axis, but has " + std::to_string(in[first + 2].rank()));
  }
  if (weighted) {
    if (attrs.mode != "sum") {
      fail_value(in, "per_sample_weights go with mode = \"sum\", not \"" + attrs.mode + "\"");
    }
    if (in[first + 3].dtype() != in[first].dtype()) {
      fail_dtype(in, "per_sample_weights must be " + std::string(name_of(in[first].dtype())) +
                         " as weight is; convert them with to()");
    }
    const Shape& samples = in[first + 3].shape();
    bool equal = samples.rank() == index.rank();
    for (std::size_t i = 0; equal && i < index.size(); ++i) equal = samples[i] == index[i];
    if (!equal) {
      fail_shape(in, "per_sample_weights must have the shape of index, " + to_string(index) +
                         ", but is " + to_string(samples));
    }
  }
  if (!has_offsets) return index[0];
  const Dim starts = in[first + 2].shape()[0];
  if (attrs.include_last_offset && starts.is_number() && starts.number() < 1) {
    fail_shape(in, "offsets need 1 element or more with include_last_offset");
  }
  return attrs.include_last_offset ? starts - 1 : starts;
}

struct EmbeddingBag {
  using Attrs = EmbeddingBagAttrs;
  static constexpr Schema schema{
      .name = "embedding_bag",
      .inputs = kBagInputs,
      .outputs = kOut,
      .doc = "The rows of weight that each bag of indices names: their sum, mean or maximum.",
      .saved_inputs = kFirst | kSecond | kThird | kFourth,
      .checks = kSecond | kThird};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Dim bags = bag_count(in, attrs, 0);
    return {Type(in[0].dtype(), {bags, in[0].shape()[1]})};
  }
  static void grad(Gradient& g, const Attrs& attrs);
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor &weight = *in[0], &index = *in[1];
    const bool weighted = in.size() > 3 && in[3]->defined();
    const Dim count = sizes_of(index).numel();
    const Tensor flat = reshape(index, {-1});
    const Tensor rows = index_select_from_front(weight, 0, flat, "embedding_bag");
    Tensor member = members(attrs, in, count);  // [bags, n]
    if (attrs.padding_idx >= 0) {
      member = logical_and(member, unsqueeze(flat != attrs.padding_idx, 0));
    }
    if (attrs.mode == "max") {
      const Tensor each =
          where(unsqueeze(member, 2), unsqueeze(rows, 0), -std::numeric_limits<double>::infinity());
      return {where(any(member, {1}, true), max(each, {1}), 0)};
    }
    const Tensor share = to(member, weight.dtype());
    if (attrs.mode == "mean") {
      return {matmul(share, rows) / maximum(sum(share, {1}, true), 1)};
    }
    return {matmul(weighted ? share * reshape(*in[3], {1, -1}) : share, rows)};
  }

 private:
  /// Which of the n indices each bag holds: bool[bags, n].
  static Tensor members(const Attrs& attrs, TensorRefs in, Dim count) {
    const Tensor& index = *in[1];
    if (in.size() < 3 || !in[2]->defined()) {
      const Shape sizes = sizes_of(index);
      const Tensor bags = unsqueeze(arange(sizes[0]), 1);
      return bags == reshape(dyad::expand(bags, sizes), {1, -1});
    }
    const Tensor offsets = to(*in[2], i64), at = unsqueeze(arange(count), 0);
    const Tensor bounds =
        attrs.include_last_offset ? offsets : concat({offsets, reshape(size_tensor(count), {1})});
    const Tensor ends = slice(bounds, 0, 1);
    const Tensor starts = attrs.include_last_offset ? slice(offsets, 0, 0, -1) : offsets;
    return logical_and(at >= unsqueeze(starts, 1), at < unsqueeze(ends, 1));
  }
};

struct EmbeddingBagBackward {
  using Attrs = EmbeddingBagAttrs;
  static constexpr Schema schema{
      .name = "embedding_bag_backward",
      .inputs = kBagBackwardInputs,
      .outputs = kBagGradients,
      .doc = "The gradients of weight and per_sample_weights of embedding_bag.",
      .saved_inputs = kFirst | kSecond | kThird | kFourth | 16};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Dim bags = bag_count(in, attrs, 1);
    const Shape& grad = in[0].shape();
    if (grad.rank() != 2 || !(grad[0] == bags) || !(grad[1] == in[1].shape()[1])) {
      fail_shape(in, "grad must be [" + to_string(bags) + ", " + to_string(in[1].shape()[1]) +
                         "] but is " + to_string(grad));
    }
    return {in[1], in.has(4) ? in[4] : Type(in[1].dtype(), {0})};
  }
  static std::vector<Tensor> parts(const Attrs& attrs, TensorRefs in, Loc loc) {
    const bool weighted = in.size() > 4 && in[4]->defined();
    std::vector<Tensor> inputs;
    for (std::size_t i = 1; i < in.size(); ++i) inputs.push_back(*in[i]);
    inputs.resize(4);
    const auto bags = [&](const std::vector<Tensor>& x) {
      const Tensor* refs[] = {x.data(), &x[1], &x[2], &x[3]};
      return EmbeddingBag::parts(attrs, refs, loc);
    };
    std::vector<Tensor> found =
        derivative(bags, inputs, {true, false, false, weighted}, {*in[0]}, loc);
    return {found[0], weighted ? found[3] : zeros({0}, in[1]->dtype())};
  }
};

/// The gradients of a call whose inputs are these, of the table and of the samples' weights.
std::vector<Tensor> bag_gradients(Gradient& g, const EmbeddingBagAttrs& attrs, const Tensor& table,
                                  const Tensor& index) {
  const Tensor none;
  const auto input = [&](int i) -> const Tensor& {
    return i < g.input_count() ? g.input(i) : none;
  };
  const Tensor* refs[] = {&g.grad(), &table, &index, &input(2), &input(3)};
  std::vector<Tensor> found = apply_with_parts<EmbeddingBagBackward>(attrs, {}, refs);
  if (refs[4]->defined()) g.set(3, found[1]);
  return found;
}

void EmbeddingBag::grad(Gradient& g, const Attrs& attrs) {
  RowGradient* const by_rows = attrs.sparse ? rows_of_table(g) : nullptr;
  Attrs whole = attrs;
  whole.sparse = false;
  if (by_rows == nullptr) return g.set(0, bag_gradients(g, whole, g.input(0), g.input(1))[0]);
  // The same bags of a table of the rows that were read, one for each index. Indices that do not
  // count name a row in front of them.
  const Dim count = g.input_shape(1).numel();
  const Tensor line = reshape(g.input(1), {count});
  Tensor rows = index_select_from_front(g.input(0), 0, line), places = arange(count);
  const bool padded = attrs.padding_idx >= 0;
  if (padded) {
    rows = pad(rows, {1, 0}, {0, 0});
    places = where(line == attrs.padding_idx, 0, places + 1);
    whole.padding_idx = 0;
  }
  const Tensor found = bag_gradients(g, whole, rows, reshape(places, g.input_shape(1)))[0];
  by_rows->set_rows(0, line, padded ? slice(found, 0, 1) : found);
}

}  // namespace

std::span<const OpInfo* const> embedding_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Embedding>,
                                            &op_info_with_parts<EmbeddingBackward>,
                                            &op_info_with_parts<RowSums>,
                                            &op_info_with_parts<PutRows>,
                                            &op_info_with_parts<EmbeddingBag>,
                                            &op_info_with_parts<EmbeddingBagBackward>};
  return kRows;
}

Tensor table_of_rows(const Tensor& index, const Tensor& rows, Dim count, Loc loc) {
  const Tensor* inputs[] = {&rows, &index};
  return apply_with_parts<EmbeddingBackward>({.rows = count}, loc, inputs)[0];
}

}  // namespace ops

Tensor embedding(const Tensor& indices, const Tensor& weight, Loc loc) {
  return apply<ops::Embedding>({}, loc, weight, indices);
}
Tensor embedding(const Tensor& indices, const Tensor& weight, std::int64_t padding_idx, Loc loc) {
  if (padding_idx < 0) {
    const Dim row = weight.size(0, loc) + padding_idx;
    if (!is_known(row)) {
      throw GraphError("embedding: padding_idx = " + std::to_string(padding_idx) +
                           " counts from the end of a table of " + size_text(weight.size(0, loc)) +
                           " rows, a number that the graph does not know; name it from the front",
                       loc.user());
    }
    if (row.number() < 0) {
      throw IndexError("embedding: padding_idx = " + std::to_string(padding_idx) +
                           " counts from the end of a table of " + size_text(weight.size(0, loc)) +
                           " rows, which has no such row; name it from the front",
                       loc.user());
    }
    padding_idx = row.number();
  }
  return apply<ops::Embedding>({.padding_idx = padding_idx}, loc, weight, indices);
}

Tensor sparse_embedding(const Tensor& indices, const Tensor& weight, std::int64_t padding_idx,
                        Loc loc) {
  return apply<ops::Embedding>({.padding_idx = padding_idx, .sparse = true}, loc, weight, indices);
}
Tensor row_sums(const Tensor& rows, const Tensor& index, Loc loc) {
  const Tensor* inputs[] = {&rows, &index};
  return ops::apply_with_parts<ops::RowSums>({}, loc, inputs)[0];
}
Tensor put_rows(const Tensor& x, const Tensor& index, const Tensor& rows, Loc loc) {
  const Tensor* inputs[] = {&x, &index, &rows};
  return ops::apply_with_parts<ops::PutRows>({}, loc, inputs)[0];
}

Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const Tensor& offsets,
                     const EmbeddingBagArgs& args, Loc loc) {
  const char* const modes[] = {"sum", "mean", "max"};
  const ops::EmbeddingBagAttrs attrs{.mode = modes[static_cast<int>(args.mode)],
                                     .include_last_offset = args.include_last_offset,
                                     .padding_idx = args.padding_idx,
                                     .sparse = args.sparse};
  const Tensor* refs[] = {&weight, &indices, &offsets, &args.per_sample_weights};
  return ops::apply_with_parts<ops::EmbeddingBag>(attrs, loc, refs)[0];
}

}  // namespace dyad
