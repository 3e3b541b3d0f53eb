#include "dyad/ops/ops.h"
#include "instructions.h"

// Sums and what else goes along axes; ways through rows, and order.

namespace dyad::testing {
namespace {

using F = const Frame&;

}  // namespace

void add_reductions(Instructions& list) {
  const auto one = [&](std::string name, std::string text, int weight, auto call,
                       std::function<bool(Draft&)> draft) {
    list.push_back({std::move(name), std::move(text), weight,
                    [call](F f) { return std::vector<Tensor>{call(f)}; }, std::move(draft)});
  };
  // Number 0 says whether the axes stay, the others are the axes.
  const auto over_axes = [&](const std::string& name, int weight, auto call,
                             const Draft::Fits& fits) {
    one(
        name, name + "($0, {#1*}, #0)", weight,
        [call](F f) { return call(f[0], f.wholes(1), f.whole(0) != 0); },
        [fits](Draft& d) {
          d.whole(0, 1);
          return d.input(with_rank(0, 4, fits)) && d.axes();
        });
  };
  const auto along = [&](const std::string& name, int weight, auto call, const Draft::Fits& fits) {
    one(
        name, name + "($0, #0)", weight, [call](F f) { return call(f[0], f.whole(0)); },
        [fits](Draft& d) { return d.input(with_rank(1, 4, fits)) && d.axis(); });
  };
  using T = const Tensor&;
  over_axes("sum", 12, [](T x, Ints axes, bool keep) { return sum(x, axes, keep); }, any_value);
  over_axes("mean", 6, [](T x, Ints axes, bool keep) { return mean(x, axes, keep); }, is_float);
  over_axes("max", 4, [](T x, Ints axes, bool keep) { return max(x, axes, keep); }, is_number);
  over_axes("min", 2, [](T x, Ints axes, bool keep) { return min(x, axes, keep); }, is_number);
  over_axes("prod", 2, [](T x, Ints axes, bool keep) { return prod(x, axes, keep); }, is_number);
  over_axes("any", 2, [](T x, Ints axes, bool keep) { return any(x, axes, keep); }, any_value);
  over_axes("all", 2, [](T x, Ints axes, bool keep) { return all(x, axes, keep); }, any_value);
  over_axes(
      "logsumexp", 2, [](T x, Ints axes, bool keep) { return logsumexp(x, axes, keep); }, is_float);
  over_axes("amax", 1, [](T x, Ints axes, bool keep) { return amax(x, axes, keep); }, is_number);
  over_axes("nansum", 1, [](T x, Ints axes, bool keep) { return nansum(x, axes, keep); }, is_float);
  over_axes(
      "count_nonzero", 1, [](T x, Ints axes, bool keep) { return count_nonzero(x, axes, keep); },
      any_value);
  one(
      "var", "var($0, {#1*}, 1, #0)", 3,
      [](F f) { return var(f[0], f.wholes(1), 1, f.whole(0) != 0); },
      [](Draft& d) {
        d.whole(0, 1);
        return d.input(with_rank(0, 4, is_float)) && d.axes();
      });
  one(
      "norm", "norm($0, %0, {#*})", 1, [](F f) { return norm(f[0], f.real(0), f.wholes()); },
      [](Draft& d) {
        d.real({2, 1, 3});
        return d.input(with_rank(0, 4, is_float)) && d.axes();
      });
  along("argmax", 3, [](T x, std::int64_t axis) { return argmax(x, axis); }, is_number);
  along("argmin", 1, [](T x, std::int64_t axis) { return argmin(x, axis); }, is_number);
  along("softmax", 6, [](T x, std::int64_t axis) { return softmax(x, axis); }, is_float);
  along("log_softmax", 4, [](T x, std::int64_t axis) { return log_softmax(x, axis); }, is_float);
  along("cumsum", 4, [](T x, std::int64_t axis) { return cumsum(x, axis); }, is_number);
  along("cumprod", 1, [](T x, std::int64_t axis) { return cumprod(x, axis); }, is_number);
  along("logcumsumexp", 1, [](T x, std::int64_t axis) { return logcumsumexp(x, axis); }, is_float);
  along("argsort", 1, [](T x, std::int64_t axis) { return argsort(x, axis); }, is_number);
  const auto values_and_indices = [&](const std::string& name, int weight, auto call) {
    list.push_back({name, name + "($0, #0)", weight,
                    [call](F f) {
                      const ValuesAndIndices both = call(f[0], f.whole(0));
                      return std::vector<Tensor>{both.values, both.indices};
                    },
                    [](Draft& d) { return d.input(with_rank(1, 4, is_number)) && d.axis(); }, 2});
  };
  values_and_indices("sort", 3, [](T x, std::int64_t axis) { return sort(x, axis); });
  values_and_indices("cummax", 1, [](T x, std::int64_t axis) { return cummax(x, axis); });
  values_and_indices("max_with_indices", 2,
                     [](T x, std::int64_t axis) { return max_with_indices(x, axis); });
  list.push_back({"topk", "topk($0, #0)", 2,
                  [](F f) {
                    const ValuesAndIndices both = topk(f[0], f.size(0));
                    return std::vector<Tensor>{both.values, both.indices};
                  },
                  [](Draft& d) {
                    d.whole(1, 2);
                    return d.input(with_rank(1, 4, is_number));
                  },
                  2});
  list.push_back({"var_mean", "var_mean($0, {#*})", 2,
                  [](F f) {
                    const auto [variance, average] = var_mean(f[0], f.wholes());
                    return std::vector<Tensor>{variance, average};
                  },
                  [](Draft& d) { return d.input(with_rank(1, 4, is_float)) && d.axes(); }, 2});
  one(
      "layer_norm", "layer_norm($0, $1, $2)", 3, [](F f) { return layer_norm(f[0], f[1], f[2]); },
      [](Draft& d) {
        return d.input(with_rank(1, 4, is_float)) &&
               d.input(with_rank(1, 1, broadcasts_with(d.example(0), is_float))) &&
               d.input(same_type(d.example(1)));
      });
  one(
      "rms_norm", "rms_norm($0, $1)", 2, [](F f) { return rms_norm(f[0], f[1]); },
      [](Draft& d) {
        return d.input(with_rank(1, 4, is_float)) &&
               d.input(with_rank(1, 1, broadcasts_with(d.example(0), is_float)));
      });
  one(
      "normalize", "normalize($0, 2, #0)", 1, [](F f) { return normalize(f[0], 2, f.whole(0)); },
      [](Draft& d) { return d.input(with_rank(1, 4, is_float)) && d.axis(); });
}

}  // namespace dyad::testing
