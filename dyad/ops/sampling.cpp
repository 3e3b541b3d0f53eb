#include "dyad/ops/arithmetic.h"
#include "dyad/ops/checked.h"
#include "dyad/ops/cumulative.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/random.h"
#include "dyad/ops/sort.h"
#include "dyad/ops/views.h"

// Draws of indices, made from uniform numbers by sorting and searching.
namespace dyad {

Tensor randperm(Dim count, DType dtype, Loc loc) {
  const LocScope scope(loc);
  return to(argsort(uniform({count}, 0, 1, f64, loc), 0, false, loc), dtype, loc);
}

Tensor multinomial(const Tensor& weights, std::int64_t count, bool replacement, Loc loc) {
  const auto call = [&] {
    return "multinomial(weights: " + type_string(weights) + ", count = " + std::to_string(count) +
           "): ";
  };
  if (weights.rank() < 1) throw ShapeError(call() + "an axis of weights is needed", loc.user());
  if (!is_floating(weights.dtype())) {
    throw DTypeError(call() + "weights must be floating; convert them with to()", loc.user());
  }
  if (count < 1) throw ValueError(call() + "the count must be at least 1", loc.user());
  const Dim classes = weights.size(-1, loc);
  if (!replacement && ops::is_below(classes, count)) {
    throw ValueError(call() + "without replacement there are no more than " +
                         to_string(ops::size_now(classes)) + " indices",
                     loc.user());
  }
  const LocScope scope(loc);
  const Tensor valid = ops::checked(detach(weights, loc),
                                    {.of = "multinomial", .argument = "weights", .sum = true}, loc);
  const Tensor exact = to(valid, f64, loc);
  Shape shape = ops::sizes_of(exact, loc);
  if (replacement) {
    const Tensor sums = cumsum(exact, -1);
    shape[shape.size() - 1] = count;
    const Tensor places = uniform(shape, 0, 1, f64, loc) * slice(sums, -1, -1);
    return searchsorted(sums, places, /*right=*/true, loc);
  }
  // Waiting times with the weights as rates: the index of the least one is a draw in proportion to
  // the weights, the next one a draw among the others (Efraimidis and Spirakis, 2006).
  const Tensor waiting = neg(log1p(neg(uniform(shape, 0, 1, f64, loc))));
  const Tensor times = maximum(waiting, 0x1p-54) / exact;
  return slice(argsort(times, -1, false, loc), -1, 0, count);
}

}  // namespace dyad
