#include <gtest/gtest.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/custom_gradient.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"

// Passes from outside that come to some of a compiled function's results only: a leaf that they do
// not reach has no gradient, and what does not come takes no part in sums.

namespace dyad {
namespace {

using exec::Tensors;
using Several = std::function<Tensors(const Tensor&)>;
using Pair = std::pair<Tensor, Tensor>;

using Bits = std::vector<std::uint32_t>;

Bits bits_of(const Tensor& x) {
  Bits all;
  for (const float number : exec::bits(x)) all.push_back(std::bit_cast<std::uint32_t>(number));
  return all;
}

/// Of the gradients; nothing for a leaf that has none.
std::vector<Bits> gradients_of(const Tensors& leaves) {
  std::vector<Bits> all;
  for (const Tensor& leaf : leaves)
    all.push_back(leaf.grad().defined() ? bits_of(leaf.grad()) : Bits());
  return all;
}

/// Goes back through those results whose bits are set in `through`.
void go_back(const Tensors& results, unsigned through) {
  Tensor loss;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if ((through >> i & 1) == 0) continue;
    const Tensor part = sum(results[i] * results[i]) * 0.5 - sum(results[i]);
    loss = loss.defined() ? loss + part : part;
  }
  loss.backward();
}

struct Inputs {
  std::vector<Shape> shapes;
  bool need_grad = false;
  CompileOptions options = {};
  bool end_infinite = false;  ///< the last row
};

/// For random inputs of each of the shapes, and each set of results `through` which a pass goes:
/// the same gradients eagerly and compiled, and the same leaves without one.
Explanation compare(const Several& fn, const Tensors& leaves, const std::vector<unsigned>& through,
                    Inputs in) {
  in.options.background = Background::never;
  const auto fast = compile(fn, in.options);
  manual_seed(5);
  for (const Shape& shape : in.shapes) {
    for (const unsigned set : through) {
      Tensor x = normal(shape);
      if (in.end_infinite) {
        const double infinity = std::numeric_limits<double>::infinity();
        x = concat({x.slice(0, 1), full_like(x.slice(0, 0, 1), infinity)});
      }
      Tensor same = x.clone();
      if (in.need_grad) {
        x.requires_grad();
        same.requires_grad();
      }
      Tensors all = leaves;
      for (const Tensor& leaf : leaves) leaf.zero_grad();
      go_back(fn(x), set);
      all.push_back(x);
      const auto want = gradients_of(all);
      for (const Tensor& leaf : leaves) leaf.zero_grad();
      go_back(fast(same), set);
      all.back() = same;
      EXPECT_EQ(gradients_of(all), want) << "shape " << to_string(shape) << ", results " << set;
    }
  }
  return fast.explain();
}

TEST(PartialBackward, LeavesWhatItDoesNotReachWithoutAGradient) {
  const Tensor w = ones({2}).requires_grad(), v = ones({2}).requires_grad();
  const Several fn = [&](const Tensor& x) { return Tensors{x * w, x * v + w * 0.5}; };
  const auto fast = compile(fn, {.background = Background::never});
  for (int call = 0; call < 4; ++call) {
    w.zero_grad();
    v.zero_grad();
    sum(fast(full({2}, -0.0))[0]).backward();
    EXPECT_FALSE(v.grad().defined()) << call;
    EXPECT_EQ(bits_of(w.grad()), bits_of(full({2}, -0.0))) << call;  // and no 0 was added
  }
}

TEST(PartialBackward, HasNoPartInSums) {
  const Tensor w = ones({2}).requires_grad();
  const Tensor scale = tensor({std::numeric_limits<float>::infinity(), 2.0F});
  const Several fn = [&](const Tensor& x) { return Tensors{x * w, w * scale, exp(w) + x}; };
  const Explanation page = compare(fn, {w}, {1, 2, 4, 3, 5, 6, 7}, {{{2}, {2}, {2}}, true});
  EXPECT_EQ(page.recordings.size(), 1U);
}

TEST(PartialBackward, ServesMoreSetsThanItKeeps) {
  Tensors leaves;
  for (int i = 0; i < 4; ++i) leaves.push_back(normal({3}).requires_grad());
  const Several fn = [&](const Tensor& x) {
    Tensors results;
    Tensor h = x;
    for (const Tensor& leaf : leaves) results.push_back(h = tanh(h * leaf));
    return results;
  };
  std::vector<unsigned> sets;
  for (unsigned set = 1; set < 16; ++set) sets.push_back(set * 7 % 16);
  compare(fn, leaves, sets, {{{4, 3}, {4, 3}}, true});
}

TEST(PartialBackward, SeveralPassesAddUp) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const Several fn = [&](const Tensor& x) { return Tensors{exp(x * w), x * w * v, tanh(w)}; };
  const auto fast = compile(fn, {.background = Background::never});
  manual_seed(2);
  for (int call = 0; call < 4; ++call) {
    const Tensor x = normal({5, 3});
    std::vector<std::vector<Bits>> seen;
    for (const bool compiled : {false, true}) {
      w.zero_grad();
      v.zero_grad();
      const Tensors results = compiled ? fast(x) : fn(x);
      sum(results[1]).backward({}, true);
      seen.push_back(gradients_of({w, v}));
      sum(results[0] + sum(results[2])).backward();
      seen.push_back(gradients_of({w, v}));
    }
    EXPECT_EQ(seen[2], seen[0]) << call;
    EXPECT_EQ(seen[3], seen[1]) << call;
  }
}

TEST(PartialBackward, OperatorsThatJoinGradientsHaveZeros) {
  const Tensor w = normal({4, 3}).requires_grad();
  const Several fn = [&](const Tensor& x) {
    const Tensors parts = split(x * w, 2, 0);
    return Tensors{parts[0] * 2, exp(parts[1]), sum(w)};
  };
  compare(fn, {w}, {1, 2, 4, 3, 5, 6}, {{{4, 3}, {4, 3}, {4, 3}}, true});
}

TEST(PartialBackward, StepsOfAScan) {
  const Tensor w = normal({3, 3}).requires_grad(), out = normal({3, 2}).requires_grad(),
               bias = zeros({3}).requires_grad();
  const Several fn = [&](const Tensor& x) {
    const auto [last, made] = scan(
        [&](const Pair& state, const Tensor& row) {
          const Tensor h = tanh(matmul(row, w) + state.first * 0.5 + bias);
          return std::pair(Pair(h, state.second + h * h), matmul(h, out));
        },
        Pair(zeros({2, 3}), zeros({2, 3})), x);
    return Tensors{last.first, last.second, made};
  };
  const std::vector<Shape> shapes{{6, 2, 3}, {9, 2, 3}, {3, 2, 3},
                                  {2, 2, 3}, {1, 2, 3}, {30, 2, 3}};
  const Explanation page =
      compare(fn, {w, out, bias}, {4, 1, 2, 3, 5, 6, 7}, {shapes, true, {.varying = {{0, 0}}}});
  EXPECT_LE(page.recordings.size(), 2U);
}

TEST(PartialBackward, StatesThatOneStepAlonePassesBackTo) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const Several fn = [&](const Tensor& x) {
    const auto [last, made] = scan(
        [&](const Pair& state, const Tensor& row) {
          return std::pair(Pair(row, state.second * w + state.first * v), row * w);
        },
        Pair(zeros({3}), ones({3})), x);
    return Tensors{last.first, last.second, made};
  };
  compare(fn, {w, v}, {1, 2, 3, 4, 5, 6, 7}, {{{6, 3}, {9, 3}, {7, 3}, {12, 3}}, true});
}

// Eagerly nothing is multiplied there: nothing times an infinite row would be no number.
TEST(PartialBackward, FirstStepsThatComputeNothing) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const std::vector<Shape> shapes{{5, 3}, {4, 3}, {9, 3}, {2, 3}, {30, 3}};
  const Several scaled = [&](const Tensor& x) {
    const auto [last, made] =
        scan([&](const Tensor& s, const Tensor& row) { return std::pair(s * row * w, s * 1); },
             ones({3}), x);
    return Tensors{last, made};
  };
  compare(scaled, {w}, {1, 2, 3}, {shapes, true, {.varying = {{0, 0}}}, true});
  const Several joined = [&](const Tensor& x) {
    const auto [last, made] = scan(
        [&](const Pair& s, const Tensor& row) {
          return std::pair(Pair(s.first * w, s.second * row + s.first),
                           Tensors{row * v, s.second * 1, s.first * 1});
        },
        Pair(ones({3}), zeros({3})), x);
    return Tensors{last.first, last.second, made[0], made[1], made[2]};
  };
  const Several chain = [&](const Tensor& x) {
    return scan(
               [&](const Tensors& s, const Tensor& row) {
                 return std::pair(Tensors{s[0] * 0.5 + s[1] * w, s[1] * 0.5 + s[2] * w,
                                          s[2] * 0.5 + s[3] * w, s[3] * 0.5 * w + row},
                                  row);
               },
               Tensors(4, zeros({3})), x)
        .first;
  };
  compare(chain, {w}, {1, 2, 3, 8, 15}, {{{6, 3}, {9, 3}, {5, 3}, {4, 3}, {3, 3}, {2, 3}}});
  std::vector<unsigned> sets;
  for (unsigned set = 1; set < 32; set += 3) sets.push_back(set);
  compare(joined, {w, v}, sets, {shapes, true, {.varying = {{0, 0}}}, true});
}

TEST(PartialBackward, GatesOfACell) {
  const Tensor w = normal({3, 12}).requires_grad(), u = normal({3, 12}).requires_grad();
  const Several fn = [&](const Tensor& x) {
    const auto [last, made] = scan(
        [&](const Pair& state, const Tensor& row) {
          const Tensors gates = split(matmul(row, w) + matmul(state.first, u), 3, 1);
          const Tensor c = sigmoid(gates[0]) * state.second + sigmoid(gates[1]) * tanh(gates[2]);
          const Tensor h = sigmoid(gates[3]) * tanh(c);
          return std::pair(Pair(h, c), h);
        },
        Pair(zeros({2, 3}), zeros({2, 3})), x);
    return Tensors{last.first, last.second, made};
  };
  compare(fn, {w, u}, {1, 2, 3, 4, 5, 6, 7},
          {{{6, 2, 3}, {9, 2, 3}, {7, 2, 3}, {12, 2, 3}}, true, {.varying = {{0, 0}}}});
}

TEST(PartialBackward, OneOfSeveralSlices) {
  const Tensor w = ones({6}).requires_grad();
  const Several fn = [&](const Tensor& x) {
    const Tensor h = x * w;
    return Tensors{h.slice(0, 0, 2) * -0.0, h.slice(0, 2, 4) * -0.0, h.slice(0, 4, 6) * 2.0};
  };
  compare(fn, {w}, {1, 2, 4, 3, 5, 6, 7}, {{{6}, {6}, {6}}, true});
}

TEST(PartialBackward, RulesOfSeveralGradientsRunOnOne) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const auto joined = custom_gradient(
      [](const Tensor& x, const Tensor& y) { return Tensors{x * 2, y * 3}; },
      [](const CustomGradient& g) { return Tensors{exp(g.grad(0)), g.grad(0) + g.grad(1)}; });
  const Several custom = [&](const Tensor& x) {
    const Tensors both = joined(x * w, x * v);
    return Tensors{both[0], both[1], x * w};
  };
  compare(custom, {w, v}, {1, 2, 3, 4, 5, 6, 7}, {{{3}, {3}, {3}}, true});
  const Tensor u = normal({3}).requires_grad();
  const Several beside = [&](const Tensor& x) {
    const Tensors both = joined(x * w, x * v);
    return Tensors{both[0] + exp(u * 100), both[1]};  // the zeros are for `joined` alone
  };
  compare(beside, {w, v, u}, {1, 2, 3}, {{{3}, {3}, {3}}, true});
  const Several statistics = [&](const Tensor& x) {
    const auto made = batch_norm_train(x, w, v);
    return Tensors{std::get<0>(made), std::get<1>(made), std::get<2>(made)};
  };
  compare(statistics, {w, v}, {1, 2, 3, 4, 5, 6, 7}, {{{5, 3}, {5, 3}, {5, 3}}, true});
}

TEST(PartialBackward, RulesThatAskWhatComes) {
  const Tensor w = ones({3, 3}).requires_grad();
  const Several fn = [&](const Tensor& x) {
    const auto [values, vectors] = eigh(eye(3) * w);  // equal ones: vectors have no gradient
    return Tensors{values, vectors, x * w};
  };
  compare(fn, {w}, {1, 4, 5}, {{{3, 3}, {3, 3}}, true});
  const Tensor v = normal({3, 3}).requires_grad();
  const Several again = [&](const Tensor& x) {
    return checkpoint([&](const Tensor& y) { return Tensors{tanh(y * w), exp(y) * v}; }, x);
  };
  compare(again, {w, v}, {1, 2, 3}, {{{3, 3}, {3, 3}}, true});
}

TEST(PartialBackward, ValuesWithoutTheirVectors) {
  const Tensor w = normal({5, 5}).requires_grad();
  const Several fn = [&](const Tensor& x) -> Tensors {
    const auto [values, vectors] = eigh((w + w.t()) * x);
    return {values, vectors * vectors};
  };
  compare(fn, {w}, {0b11, 0b01, 0b10, 0b01}, {.shapes = {{1}, {1}, {1}, {1}, {1}}});
}

TEST(PartialBackward, WhatIsMadeWithoutALookAtTheGradient) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const auto careless = custom_gradient([](const Tensor& x) { return x * 2; },
                                        [](const CustomGradient& g) { return g.saved(0) * 3; });
  const Several fn = [&](const Tensor& x) {
    const Tensor h = x * w;
    h.register_hook([](const Tensor& g) { return ones_like(g); });
    return Tensors{h, x * v, careless(x * w), h * 2};
  };
  compare(fn, {w, v}, {1, 2, 3, 4, 5, 6, 7, 8, 12, 10}, {{{3}, {3}, {3}}, true});
}

TEST(PartialBackward, AfterWritesToWhatItDoesNotRead) {
  Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const Several fn = [&](const Tensor& x) { return Tensors{exp(x) * w, tanh(x * v)}; };
  const auto fast = compile(fn, {.background = Background::never});
  for (int call = 0; call < 5; ++call) {
    for (const bool compiled : {false, true}) {
      const Tensor x = normal({4, 3}).requires_grad();
      const Tensors results = compiled ? fast(x) : fn(x);
      sum(results[1]).backward({}, true);
      {
        const NoGrad off;
        v.add_(0.5);
      }
      sum(results[0]).backward({}, true);
      EXPECT_THROW(sum(results[1]).backward(), GradError) << call;
    }
  }
}

TEST(PartialBackward, StepsThatGoWays) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const Several fn = [&](const Tensor& x) {
    const auto [last, made] = scan(
        [&](const Tensor& state, const Tensor& row) {
          const Tensor h = cond(
              sum(row) > 0, [&](const Tensor& s) { return tanh(s * w + row); },
              [&](const Tensor& s) { return s * 0.5; }, state);
          return std::pair(h, h * v);
        },
        zeros({3}), x);
    return Tensors{last, made};
  };
  compare(fn, {w, v}, {1, 2, 3}, {{{8, 3}, {8, 3}, {12, 3}, {9, 3}, {20, 3}}, true});
}

TEST(PartialBackward, ConditionsOnData) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const Several graph = [&](const Tensor& x) {
    const auto ways = cond(
        sum(x) > 0, [&](const Tensor& s) { return Pair(s * w, exp(s) * v); },
        [&](const Tensor& s) { return Pair(s * v, s + w); }, x);
    return Tensors{ways.first, ways.second};
  };
  const Several host = [&](const Tensor& x) {
    return (sum(x) > 0).item<bool>() ? Tensors{x * w, exp(x) * v} : Tensors{x * v, x + w};
  };
  const std::vector<Shape> shapes(12, {3});
  compare(graph, {w, v}, {1, 2, 3}, {shapes, true});
  compare(host, {w, v}, {1, 2, 3}, {shapes, true});
}

TEST(PartialBackward, RowsOfATable) {
  const Tensor table = normal({10, 3}).requires_grad(), other = normal({10, 3}).requires_grad();
  const auto fn = [&](const Tensor& index) {
    return Tensors{sparse_embedding(index, table), sparse_embedding(index, other) * 2};
  };
  const auto fast = compile(fn, {.background = Background::never});
  for (int call = 0; call < 5; ++call) {
    const Tensor index = tensor({1, 4, call, 1});
    std::vector<std::vector<Bits>> seen;
    for (const bool compiled : {false, true}) {
      table.zero_grad();
      other.zero_grad();
      const Tensors results = compiled ? fast(index) : fn(index);
      sum(results[static_cast<std::size_t>(call % 2)]).backward();
      seen.push_back(gradients_of({table, other}));
      EXPECT_TRUE(sparse_grad(call % 2 == 0 ? table : other).defined()) << call;
    }
    EXPECT_EQ(seen[1], seen[0]) << call;
  }
}

TEST(PartialBackward, PaddedSizes) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const Several fn = [&](const Tensor& x) { return Tensors{tanh(x * w), sum(exp(x * v), 0)}; };
  const Explanation page = compare(fn, {w, v}, {1, 2, 3},
                                   {{{5, 3}, {7, 3}, {6, 3}, {3, 3}},
                                    true,
                                    {.varying = {{0, 0}}, .buckets = {{{0, 0}, {4, 8}}}}});
  EXPECT_FALSE(page.recordings.empty());
}

TEST(PartialBackward, KernelsAreInTheTable) {
  const Tensor w = normal({3}).requires_grad(), v = normal({3}).requires_grad();
  const Several fn = [&](const Tensor& x) { return Tensors{tanh(x * w), exp(x * v)}; };
  const auto fast = compile(fn, {.background = Background::never});
  const auto kernels = [&] {
    std::size_t count = 0;
    for (const auto& recording : fast.explain().recordings) count += recording.table.size();
    return count;
  };
  for (int call = 0; call < 3; ++call) go_back(fast(normal({4, 3})), 3);
  const std::size_t before = kernels();
  for (int call = 0; call < 3; ++call) go_back(fast(normal({4, 3})), 1);
  EXPECT_GT(kernels(), before);
}

TEST(PartialBackward, ThreadsTakeTheirOwn) {
  const Tensor scale = normal({3});
  const Several fn = [&](const Tensor& x) {
    return Tensors{tanh(x * scale), exp(x), x * x * scale};
  };
  const auto fast = compile(fn, {.background = Background::never});
  for (int call = 0; call < 3; ++call) go_back(fast(normal({4, 3}).requires_grad()), 7);
  std::vector<std::thread> threads;
  std::vector<int> differences(4, 0);
  for (std::size_t t = 0; t < differences.size(); ++t) {
    threads.emplace_back([&, t] {
      for (unsigned set = 1; set < 40; ++set) {
        const Tensor x = full({4, 3}, 0.1 * set).requires_grad(),
                     same = full({4, 3}, 0.1 * set).requires_grad();
        const unsigned through = (set + static_cast<unsigned>(t)) % 7 + 1;
        go_back(fn(x), through);
        go_back(fast(same), through);
        differences[t] += bits_of(x.grad()) == bits_of(same.grad()) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, std::vector<int>(4, 0));
}

}  // namespace
}  // namespace dyad
