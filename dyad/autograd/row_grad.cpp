#include "dyad/autograd/row_grad.h"

#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/tape.h"
#include "dyad/ir/recorded.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace {

/// A leaf whose grad is a part of a sparse gradient: what takes note of gradients, a recording,
/// sees two more leaves.
Tensor slot(DType dtype) { return make_empty(dtype, {0}); }

Tensor part(const Tensor& leaf) {
  Evaluator::current().note_grad(leaf, false);
  return autograd::grad_of(*leaf.impl());
}

}  // namespace

SparseRows sparse_grad(const Tensor& leaf) {
  if (!leaf.defined()) return {};
  const autograd::LeafGrad* kept = autograd::leaf_grad_of(*leaf.impl());
  if (!kept || !kept->index.defined()) {
    Evaluator::current().note_grad(leaf, false);  // that there are no rows is an answer, too
    return {};
  }
  return {.index = part(kept->index), .rows = part(kept->rows)};
}

namespace autograd {

Tensor dense_grad(const Tensor& leaf) {
  Evaluator::current().note_grad(leaf, false);
  return grad_of(*leaf.impl());
}

const Tensor& part_of(const Tensor& leaf, GradPart part) {
  // NOLINTNEXTLINE(bugprone-return-const-ref-from-parameter): callers keep the leaf
  if (part == GradPart::whole) return leaf;
  LeafGrad& kept = make_leaf_grad(*leaf.impl());
  if (!kept.index.defined()) {
    kept.index = slot(i64);
    kept.rows = slot(f32);
    // They are as much of a recording as the leaf itself.
    kept.index.impl()->recorded = kept.rows.impl()->recorded = leaf.impl()->recorded;
  }
  return part == GradPart::index ? kept.index : kept.rows;
}

void accumulate_rows(const Tensor& leaf, const Tensor& index, const Tensor& rows) {
  const NoGrad no_grad;
  const auto append = [](const Tensor& where, const Tensor& more) {
    const Tensor before = part(where);
    make_leaf_grad(*where.impl()).grad =
        before.defined() ? concat({before, more}, 0) : more.clone();
  };
  append(part_of(leaf, GradPart::index), index.to(i64));
  append(part_of(leaf, GradPart::rows), rows);
}

void set_sparse_grad(const Tensor& leaf, const SparseRows& rows) {
  for (const auto& [where, value] : {std::pair{part_of(leaf, GradPart::index), rows.index},
                                     {part_of(leaf, GradPart::rows), rows.rows}}) {
    Evaluator::current().note_grad(where, true);
    make_leaf_grad(*where.impl()).grad = value;
  }
}

Tensor with_rows(const Tensor& dense, const SparseRows& rows, const Shape& shape) {
  const NoGrad no_grad;
  const Tensor base = dense.defined() ? dense : zeros(shape, rows.rows.dtype());
  return scatter_add(base, 0, expand(unsqueeze(rows.index, 1), shape_of(rows.rows)), rows.rows);
}

}  // namespace autograd
}  // namespace dyad
