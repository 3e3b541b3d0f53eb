#include "dyad/ops/ops.h"
#include "instructions.h"

// Values from nothing, or from nothing but sizes: filled, counted, drawn.

namespace dyad::testing {
namespace {

using F = const Frame&;

/// A shape of sizes of a value, and of numbers.
bool shape_draft(Draft& d) {
  if (!d.input(with_rank(0, 3))) return false;
  const int rank = d.example(0).rank();
  for (auto left = d.numbers.between(0, 2); left > 0; --left) {
    if (rank > 0 && d.numbers.chance(60)) {
      d.size(0, d.numbers.below(rank));
    } else {
      d.whole(0, 4);
    }
  }
  return true;
}

}  // namespace

void add_sources(Instructions& list) {
  const auto one = [&](std::string name, std::string text, int weight, auto call,
                       std::function<bool(Draft&)> draft) {
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) { return std::vector<Tensor>{call(f)}; }, std::move(draft)});
  };
  one(
      "full", "full({#*}, %0, @)", 4,
      [](F f) { return full(f.sizes(), f.real(0), f.statement().dtype); },
      [](Draft& d) {
        d.real({0, 1, -2, 0.5});
        d.statement().dtype = d.numbers.pick(std::vector{f32, f32, f64, i64, boolean});
        return shape_draft(d);
      });
  one(
      "zeros_like", "zeros_like($0)", 2, [](F f) { return zeros_like(f[0]); },
      [](Draft& d) { return d.input(any_value); });
  one(
      "arange", "arange(#0, @)", 3, [](F f) { return arange(f.size(0), f.statement().dtype); },
      [](Draft& d) {
        d.statement().dtype = d.numbers.pick(std::vector{i64, f32, i32});
        if (!d.input(with_rank(1, 3))) return false;
        d.size(0, 0);
        return true;
      });
  one(
      "size", "size_tensor(#0)", 2, [](F f) { return size_tensor(f.size(0)); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 3))) return false;
        d.size(0, d.numbers.below(d.example(0).rank()));
        return true;
      });
  one(
      "randn", "randn({#*}, @)", 4, [](F f) { return randn(f.sizes(), f.statement().dtype); },
      [](Draft& d) {
        d.statement().dtype = d.numbers.pick(std::vector{f32, f32, f64});
        return shape_draft(d);
      });
  one(
      "rand_like", "rand_like($0)", 3, [](F f) { return rand_like(f[0]); },
      [](Draft& d) { return d.input(is_float); });
  one(
      "dropout", "dropout($0, %0)", 3, [](F f) { return dropout(f[0], f.real(0)); },
      [](Draft& d) {
        d.real({0.25, 0.5});
        return d.input(is_float);
      });
  one(
      "randint", "randint(-2, 5, {#*})", 2, [](F f) { return randint(-2, 5, f.sizes()); },
      shape_draft);
  one(
      "bernoulli", "bernoulli(sigmoid($0))", 1, [](F f) { return bernoulli(sigmoid(f[0])); },
      [](Draft& d) { return d.input(is_float); });
  one(
      "randperm", "randperm(#0)", 1, [](F f) { return randperm(f.size(0)); },
      [](Draft& d) {
        if (!d.input(with_rank(1, 3))) return false;
        d.size(0, 0);
        return true;
      });
}

}  // namespace dyad::testing
