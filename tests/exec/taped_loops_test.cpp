#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/ir/graph.h"
#include "exec_for_tests.h"
#include "taped_loops_for_tests.h"

// Scans that a compiled function differentiates: their steps, and those of the pass that comes back
// through them, become loops of one recording for any length.

namespace dyad {
namespace {

using exec::compile_now;
using exec::count_of;
using exec::expect_loops;
using exec::kLengths;
using exec::same_as;
using exec::same_bits;
using exec::Tensors;
using exec::train;
using exec::Trained;
using Pair = std::pair<Tensor, Tensor>;

using Weights = exec::CellWeights;

TEST(TapedLoops, OneRecordingServesAllLengths) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const auto [h, all] = w.run(x);
        return mean(all * all) + mean(h);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, OfTheLastStateAlone) {
  const Weights w;
  expect_loops(train([&](const Tensor& x) { return sum(w.last(x)); }, w.all(), kLengths));
}

TEST(TapedLoops, OfTheResultsAlone) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        return sum(scan(
                       [&](const Tensor& h, const Tensor& row) {
                         const Tensor next = w.step(h, row);
                         return Pair(next, exp(next));
                       },
                       zeros({2, 4}), x)
                       .second);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, GradientsOfWhatIsSliced) {
  const Weights w;
  const auto loss = [&](const Tensor& x) {
    return sum(scan(
                   [&](const Tensor& h, const Tensor& row) {
                     const Tensor next = w.step(h, row);
                     return Pair(next, next * next);
                   },
                   zeros({2, 4}), x * 2)
                   .second);
  };
  expect_loops(train(loss, w.all(), kLengths, true));
  const auto leaf = [&](const Tensor& x) {
    const auto [h, all] = scan(
        [&](const Tensor& state, const Tensor& row) { return Pair(w.step(state, row), row * 2); },
        zeros({2, 4}), x);
    return sum(h) + sum(x * x) + sum(all);
  };
  expect_loops(train(leaf, w.all(), kLengths, true));
}

TEST(TapedLoops, OfAnEmbedding) {
  const Weights w;
  const Tensor table = normal({10, 3}).requires_grad();
  Tensors leaves = w.all();
  leaves.push_back(table);
  expect_loops(train(
      [&](const Tensor& x) {
        const Tensor ids = (abs(select(x, 2, 0)) * 3).to(i64);
        const auto [h, all] = scan(
            [&](const Tensor& state, const Tensor& row) {
              const Tensor next = w.step(state, row);
              return Pair(next, next);
            },
            zeros({2, 4}), embedding(ids, table));
        return mean(all) + mean(h);
      },
      leaves, kLengths));
}

TEST(TapedLoops, OfSeveralStatesAndGates) {
  const Tensor in = normal({3, 16}).requires_grad(), state = normal({4, 16}).requires_grad(),
               begin = normal({2, 4}).requires_grad();
  expect_loops(train(
      [&](const Tensor& x) {
        const auto [last, all] = scan(
            [&](const Pair& hc, const Tensor& row) {
              const Tensors gates = chunk(matmul(row, in) + matmul(hc.first, state), 4, 1);
              const Tensor c = sigmoid(gates[0]) * hc.second + sigmoid(gates[1]) * tanh(gates[2]);
              const Tensor h = sigmoid(gates[3]) * tanh(c);
              return std::pair(Pair(h, c), h);
            },
            Pair(begin, zeros({2, 4})), x);
        return mean(all) + mean(last.second * last.first);
      },
      {in, state, begin}, kLengths));
}

TEST(TapedLoops, WeightsThatAreUsedBeforeAndAfterToo) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const Tensor turned = w.state * 2, before = matmul(x, w.in);
        const auto [h, all] = scan(
            [&](const Tensor& state, const Tensor& row) {
              const Tensor next =
                  tanh(matmul(row, w.in) + matmul(state, turned) + w.bias * slice(w.bias, 0, 0, 1));
              return Pair(next, next);
            },
            zeros({2, 4}), x);
        return mean(matmul(all, turned)) + sum(h * w.bias) + sum(before);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, OneBehindTheOther) {
  const Weights first, second;
  const Tensor in = normal({4, 4}).requires_grad();
  Tensors leaves = first.all();
  for (const Tensor& leaf : {second.state, second.bias, in}) leaves.push_back(leaf);
  expect_loops(train(
                   [&](const Tensor& x) {
                     const auto [h, all] = scan(
                         [&](const Tensor& state, const Tensor& row) {
                           const Tensor next = first.step(state, row);
                           return Pair(next, next);
                         },
                         zeros({2, 4}), x);
                     const auto [end, again] = scan(
                         [&](const Tensor& state, const Tensor& row) {
                           const Tensor next =
                               tanh(matmul(row, in) + matmul(state, second.state) + second.bias);
                           return Pair(next, next);
                         },
                         h, flip(all, {0}));
                     return mean(again * again) + mean(end * h);
                   },
                   leaves, kLengths),
               4);
}

TEST(TapedLoops, StatesThatNoGradientReaches) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const auto [last, all] = scan(
            [&](const Pair& hc, const Tensor& row) {
              const Tensor h = w.step(hc.first, row);
              return std::pair(Pair(h, hc.second + 1), h * hc.second);
            },
            Pair(zeros({2, 4}), ones({})), x);
        return mean(all);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, StatesThatChangePlacesAndSlicesThatWait) {
  const Weights w;
  const Tensor out = normal({3, 4}).requires_grad();
  Tensors leaves = w.all();
  leaves.push_back(out);
  const auto loss = [&](const Tensor& x) {
    using States = std::vector<Tensor>;
    const auto [last, all] = scan(
        [&](const States& s, const Tensor& row) {
          const Tensor next = w.step(s[1], s[2] * row);
          return std::pair(States{s[1], next, row * 1}, next * s[0]);
        },
        States{zeros({2, 4}), ones({2, 4}), zeros({2, 3})}, x);
    return mean(all) + mean(last[0]) + sum(matmul(last[2], out));
  };
  expect_loops(train(loss, leaves, kLengths));
  expect_loops(train(loss, leaves, kLengths, true));
}

TEST(TapedLoops, WhatIsSlicedAndUsedInTheStepsToo) {
  const Weights w;
  const auto captured = [&](const Tensor& x) {
    return sum(scan(
                   [&](const Tensor& h, const Tensor& row) {
                     const Tensor next = w.step(h, row + mean(x, {0}));
                     return Pair(next, next);
                   },
                   zeros({2, 4}), x)
                   .second);
  };
  static_cast<void>(train(captured, w.all(), kLengths, true));
  const auto twice = [&](const Tensor& x) {
    return sum(scan(
                   [&](const Tensor& h, const std::tuple<Tensor, Tensor>& rows) {
                     const Tensor next = w.step(h, std::get<0>(rows) * std::get<1>(rows));
                     return Pair(next, next);
                   },
                   zeros({2, 4}), std::tuple(x, x))
                   .second);
  };
  static_cast<void>(train(twice, w.all(), kLengths, true));
  const auto begin = [&](const Tensor& x) {
    return sum(scan(
                   [&](const Tensor& h, const Tensor& row) {
                     const Tensor next = h * row;
                     return Pair(next + 1, sum(next));
                   },
                   x, x)
                   .second);
  };
  static_cast<void>(train(begin, {}, {2, 2}, true));
}

TEST(TapedLoops, WithDropoutInTheSteps) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const auto [h, all] = scan(
            [&](const Tensor& state, const Tensor& row) {
              const Tensor next = dropout(w.step(state, dropout(row, 0.2)), 0.3);
              return Pair(next, next + uniform({2, 4}));
            },
            zeros({2, 4}), dropout(x, 0.1));
        return mean(all * all) + mean(dropout(h));
      },
      w.all(), kLengths));
}

TEST(TapedLoops, OfALengthThatDataTell) {
  const Weights w;
  const auto loss = [&](const Tensor& x) {
    const Tensor some = index_select(x, 0, select(nonzero(sum(x, {1, 2}) > 0), 1, 0));
    return sum(scan([&](const Tensor& h, const Tensor& row) { return Pair(w.step(h, row), row); },
                    zeros({2, 4}), some)
                   .first);
  };
  EXPECT_EQ(train(loss, w.all(), kLengths).loops, 0);
}

TEST(TapedLoops, OfPartsOfTheResults) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const Tensor all = w.run(x).second;
        return sum(select(all, 0, -1) * 2) + sum(slice(all, 0, 1)) + mean(all * all) +
               sum(flip(all, {0}) * all);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, OverSeveralTensors) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const Tensor turned = matmul(x, w.in), plain = x * x;
        const auto [h, all] = scan(
            [&](const Tensor& state, const std::tuple<Tensor, Tensor>& rows) {
              const Tensor next =
                  tanh(std::get<0>(rows) + matmul(state, w.state)) + sum(std::get<1>(rows));
              return Pair(next, next * w.bias);
            },
            zeros({2, 4}), std::tuple(turned, plain));
        return mean(all) + sum(h);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, GradientsOfSomeTensors) {
  const Weights w;
  const auto f = [&](const Tensors& in) -> Tensors {
    const Tensor x = in[0].clone().requires_grad();
    const Tensor h =
        scan([&](const Tensor& state, const Tensor& row) { return Pair(w.step(state, row), row); },
             zeros({2, 4}), x * 3)
            .first;
    return grad(sum(h * h), {w.state, w.in});
  };
  const auto c = compile_now(std::function<Tensors(const Tensors&)>(f));
  manual_seed(2);
  for (const std::int64_t length : kLengths) {
    const Tensors x{normal({length, 2, 3})};
    const Tensors eager = f({x[0].clone()}), compiled = c(x);
    for (std::size_t i = 0; i < eager.size(); ++i) EXPECT_TRUE(same_bits(eager[i], compiled[i]));
  }
}

TEST(TapedLoops, HooksOfSteps) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        return sum(scan(
                       [&](const Tensor& h, const Tensor& row) {
                         const Tensor next = w.step(h, row);
                         next.register_hook([](const Tensor& g) { return clamp(g, -0.1, 0.1); });
                         return Pair(next, next * 2);
                       },
                       zeros({2, 4}), x)
                       .second);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, HooksThatDoMoreThanComputeStayApart) {
  const Weights w;
  const auto with = [&](const std::function<Tensor(const Tensor&)>& hook) {
    return [&w, hook](const Tensor& x) {
      return sum(scan(
                     [&](const Tensor& h, const Tensor& row) {
                       const Tensor next = w.step(h, row);
                       next.register_hook(hook);
                       return Pair(next, next * 2);
                     },
                     zeros({2, 4}), x)
                     .second);
    };
  };
  const auto reads = with([](const Tensor& g) { return g[0][0].item() > 1e9 ? g * 2 : g; });
  EXPECT_EQ(train(reads, w.all(), {5, 5, 5, 6, 6}).loops, 0);
  const auto draws = with([](const Tensor& g) { return g * uniform(g.shape()); });
  const auto step = [&](const Tensor& x) {
    for (const Tensor& leaf : w.all()) leaf.zero_grad();
    manual_seed(9);
    draws(x).backward();
    return w.state.grad().clone();
  };
  const auto c = compile_now(step);
  for (const std::int64_t length : {5, 6, 7, 6}) {
    const Tensor x = normal({length, 2, 3});
    EXPECT_TRUE(same_bits(step(x), c(x)));
  }
}

TEST(TapedLoops, SeveralPassesThatAddToLeaves) {
  const Weights w;
  static_cast<void>(train(
      [&](const Tensor& x) {
        const auto [h, all] = w.run(x);
        sum(h).backward({}, true);
        return mean(all);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, WhatIsOnTheTapeButNotDifferentiated) {
  const Weights w;
  const auto f = [&](const Tensor& x) {
    const Tensor h = w.last(x);
    return (h * 2).detach();
  };
  const auto c = compile_now(f);
  manual_seed(4);
  for (const std::int64_t length : kLengths) {
    const Tensor x = normal({length, 2, 3});
    EXPECT_TRUE(same_bits(f(x), c(x)));
  }
  EXPECT_EQ(c.explain().recordings.size(), 2U);
}

/// What lies row by row is multiplied in another order than what is turned.
TEST(TapedLoops, StepsThatTurnWhatTheyRead) {
  const Tensor w = normal({3, 2}).requires_grad();
  expect_loops(train(
      [&](const Tensor& x) {
        const auto [last, all] = scan(
            [&](const Tensor& h, const Tensor& row) {
              const Tensor turned = transpose(h, 0, 1);
              const Tensor next = tanh(matmul(row, w) + matmul(turned, h));
              return Pair(next,
                          matmul(turned, slice(transpose(transpose(row, 0, 1), 0, 1), 1, 0, 2)));
            },
            ones({2, 2}), x);
        return sum(last * last) + mean(all * all);
      },
      {w}, kLengths, true));
}

TEST(TapedLoops, InUpdatesOfTheWeights) {
  const Weights w, same = same_as(w);
  const auto step = [](const Weights& of, const Tensor& x) {
    for (const Tensor& leaf : of.all()) leaf.zero_grad();
    const Tensor h =
        scan([&](const Tensor& state, const Tensor& row) { return Pair(of.step(state, row), row); },
             zeros({2, 4}), x)
            .first;
    const Tensor loss = mean(h * h);
    loss.backward();
    const NoGrad no_tape;
    for (Tensor leaf : of.all()) leaf -= leaf.grad() * 0.1;
    return loss.detach();
  };
  const auto c = compile_now([&](const Tensor& x) { return step(same, x); });
  manual_seed(5);
  for (const std::int64_t length : kLengths) {
    const Tensor x = normal({length, 2, 3});
    EXPECT_TRUE(same_bits(step(w, x), c(x)));
    for (std::size_t i = 0; i < w.all().size(); ++i)
      EXPECT_TRUE(same_bits(w.all()[i], same.all()[i])) << length;
  }
  EXPECT_EQ(c.explain().recordings.size(), 2U);
}

TEST(TapedLoops, InLowPrecision) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const Autocast low(bf16);
        const auto [h, all] = w.run(x);
        return mean(all * all) + mean(h);
      },
      w.all(), kLengths));
}

/// Losses whose steps stay in the recording one by one, with the same bits.
TEST(TapedLoops, StepsThatTheProgramLooksAtStayApart) {
  const Weights w;
  Tensors kept;
  const auto second = [&](const Tensor& x) {
    kept.clear();
    const Tensor h = scan(
                         [&](const Tensor& state, const Tensor& row) {
                           kept.push_back(w.step(state, row));
                           return Pair(kept.back(), row);
                         },
                         zeros({2, 4}), x)
                         .first;
    return sum(h) + sum(kept[1] * kept[1]);
  };
  EXPECT_EQ(train(second, w.all(), kLengths).loops, 0);
  const auto every_other = [&](const Tensor& x) {
    int t = 0;
    return sum(scan(
                   [&](const Tensor& state, const Tensor& row) {
                     const Tensor next = w.step(state, row);
                     return Pair(t++ % 2 == 0 ? next : next * 2, row);
                   },
                   zeros({2, 4}), x)
                   .first);
  };
  EXPECT_EQ(train(every_other, w.all(), kLengths).loops, 0);
}

TEST(TapedLoops, WhatTheProgramKeepsOfStepsIsStillThere) {
  const Weights w;
  Tensor kept;
  const auto loss = [&](const Tensor& x) {
    return sum(scan(
                   [&](const Tensor& state, const Tensor& row) {
                     const Tensor next = w.step(state, row);
                     kept = next * 1;
                     return Pair(next, row);
                   },
                   zeros({2, 4}), x)
                   .first);
  };
  const auto c = compile_now([&](const Tensor& x) {
    for (const Tensor& leaf : w.all()) leaf.zero_grad();
    const Tensor result = loss(x);
    result.backward();
    return result.detach();
  });
  const Tensor x = normal({6, 2, 3});
  static_cast<void>(c(x));
  const Tensor result = loss(x);
  EXPECT_TRUE(same_bits(sum(kept.detach() * 1), result.detach()));
  static_cast<void>(c(x));
  EXPECT_EQ(kept.shape(), Shape({2, 4}));
  EXPECT_EQ((kept + kept).shape(), Shape({2, 4}));
}

/// Differentiates what `f(weights, x)` gives by `loss`, outside of the compiled function.
Trained train_outside(const std::function<Tensor(const Weights&, const Tensor&)>& f,
                      const std::function<Tensor(const std::function<Tensor(const Tensor&)>&,
                                                 const Weights&, const Tensor&)>& loss) {
  const Weights w, same = same_as(w);
  const auto c = compile_now([&](const Tensor& x) { return f(same, x); });
  manual_seed(3);
  for (const std::int64_t length : kLengths) {
    Tensor x = normal({length, 2, 3}).requires_grad(), y = x.detach().clone().requires_grad();
    loss([&](const Tensor& in) { return f(w, in); }, w, x).backward();
    loss([&](const Tensor& in) { return c(in); }, same, y).backward();
    EXPECT_EQ(exec::bits(x.grad()), exec::bits(y.grad())) << length;
    for (std::size_t i = 0; i < w.all().size(); ++i)
      EXPECT_EQ(exec::bits(w.all()[i].grad()), exec::bits(same.all()[i].grad())) << length;
  }
  const Explanation page = c.explain();
  Trained done{static_cast<std::int64_t>(page.recordings.size()), page.replays};
  for (const CompiledGraph& graph : c.graphs()) done.loops += count_of(*graph.recorded, "scan");
  return done;
}

TEST(TapedLoops, ALastRowWithoutAGradient) {
  const auto before = [](const Weights& w, const Tensor& x) {
    const Tensor rows = x * 2, begin = matmul(rows.select(0, 0), w.in);
    return scan(
               [&](const Tensor& h, const Tensor& row) {
                 return Pair(lerp(matmul(row, w.in) + w.bias, matmul(h, w.state), 0.5), h);
               },
               begin, rows)
        .second;
  };
  const Trained done = train_outside(before, [](const auto& f, const Weights&, const Tensor& x) {
    const Tensor states = f(x);
    return sum(states * states);
  });
  EXPECT_LE(done.recordings, 2);
}

TEST(TapedLoops, DifferentiatedFromOutside) {
  const auto last = [](const Weights& w, const Tensor& x) { return w.last(x); };
  const auto all = [](const Weights& w, const Tensor& x) {
    const auto [h, rows] = scan(
        [&](const Tensor& state, const Tensor& row) {
          const Tensor next = w.step(state, row), more = tanh(matmul(row, w.in));
          return Pair(next, next * more);
        },
        zeros({2, 4}), x);
    return rows + h;
  };
  const auto once = [](const auto& f, const Weights&, const Tensor& x) { return sum(f(x)); };
  // What else the weights and the rows are used for comes between the steps' parts.
  const auto often = [](const auto& f, const Weights& w, const Tensor& x) {
    const Tensor before = sum(matmul(x, w.in)), first = f(x);
    return sum(first) * before + sum(f(x * 2) * w.bias) + mean(x);
  };
  EXPECT_EQ(train_outside(last, once).recordings, 2);
  EXPECT_EQ(train_outside(last, often).recordings, 4) << "of leaves, and of what was computed";
  EXPECT_EQ(train_outside(all, once).recordings, 2);
  EXPECT_EQ(train_outside(all, often).recordings, 4);
}

TEST(TapedLoops, StepsThatDifferentiateTheirSlices) {
  const auto step = [](const Tensor& x) {
    return scan(
               [](const Tensor& h, const Tensor& row) {
                 sum(row * row).backward();
                 return Pair(h * 2, h);
               },
               ones({2, 3}), x)
        .first;
  };
  const auto c = compile_now(step);
  manual_seed(8);
  for (const std::int64_t length : {4, 6, 5, 6}) {
    Tensor x = normal({length, 2, 3}).requires_grad(), same = x.detach().clone().requires_grad();
    EXPECT_TRUE(same_bits(step(x), c(same)));
    EXPECT_EQ(exec::bits(x.grad()), exec::bits(same.grad())) << length;
  }
}

TEST(TapedLoops, SlicesOfWhichOneNumberIsUsed) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const auto [h, all] = scan(
            [&](const Tensor& state, const Tensor& row) {
              const Tensor next = tanh(matmul(state, w.state) * mean(row));
              return Pair(next, next);
            },
            ones({2, 4}), x);
        return mean(all) + sum(h);
      },
      w.all(), kLengths, true));
}

TEST(TapedLoops, StatesThatNoStepChanges) {
  const Weights w;
  static_cast<void>(train(
      [&](const Tensor& x) {
        const auto [h, all] =
            scan([](const Tensor& state, const Tensor&) { return Pair(state, state); },
                 matmul(w.state, w.state), x);
        return mean(all * all) + sum(h);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, StatesBeforeTheSteps) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const auto [h, all] = scan(
            [&](const Tensor& state, const Tensor& row) { return Pair(w.step(state, row), state); },
            ones({2, 4}), x);
        return mean(all * all) + sum(h);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, BeforeOneThatIsNotOnTheTape) {
  const Weights w;
  expect_loops(train(
                   [&](const Tensor& x) {
                     const Tensor h = w.last(x);
                     const Tensor norm =
                         scan([](const Tensor& s,
                                 const Tensor& row) { return Pair(s * 0.5 + sum(row), row); },
                              ones({2, 4}), x)
                             .first;
                     return sum(h * norm);
                   },
                   w.all(), kLengths),
               3);
}

TEST(TapedLoops, AnErrorInAStepLeavesTheRecordingWhole) {
  const Weights w;
  const auto loss = [&](const Tensor& x) {
    int t = 0;
    const auto run = [&](bool fails) {
      return scan(
                 [&](const Tensor& h, const Tensor& row) {
                   if (fails && ++t == 3) throw ValueError("enough", Loc());
                   return Pair(w.step(h, row), row);
                 },
                 zeros({2, 4}), x)
          .first;
    };
    try {
      static_cast<void>(run(true));
    } catch (const ValueError&) {
      t = 0;
    }
    return sum(run(false));
  };
  expect_loops(train(loss, w.all(), kLengths, true));
}

TEST(TapedLoops, AnErrorThatIsAnAnswerForThoseThatAreLongEnough) {
  const Weights w;
  const auto loss = [&](const Tensor& x) {
    int t = 0;
    try {
      return sum(scan(
                     [&](const Tensor& h, const Tensor& row) {
                       if (++t == 7) throw ValueError("enough", Loc());
                       return Pair(w.step(h, row), row);
                     },
                     zeros({2, 4}), x)
                     .first);
    } catch (const ValueError&) {
      return sum(w.bias * 2);
    }
  };
  static_cast<void>(train(loss, w.all(), {8, 9, 12, 5}));
}

TEST(TapedLoops, OfStepsThatAreComputedAgain) {
  const Weights w;
  expect_loops(train(
      [&](const Tensor& x) {
        const auto step = [&](const Tensor& h, const Tensor& row) {
          return exp(w.step(h, row)) * 0.1;
        };
        const auto [h, all] = scan(
            [&](const Tensor& state, const Tensor& row) {
              const Tensor next = checkpoint(step, state, row);
              return Pair(next, next);
            },
            zeros({2, 4}), x);
        return mean(all) + sum(h);
      },
      w.all(), kLengths));
}

TEST(TapedLoops, InABodyOfAnother) {
  const Weights w;
  static_cast<void>(train(
      [&](const Tensor& x) {
        return sum(scan(
                       [&](const Tensor& h, const Tensor& row) {
                         const Tensor inner =
                             scan([&](const Tensor& s,
                                      const Tensor& part) { return Pair(tanh(s + part), part); },
                                  sum(h, {1}), reshape(row, {3, 2}))
                                 .first;
                         const Tensor next = w.step(h, row) + unsqueeze(inner, 1);
                         return Pair(next, next);
                       },
                       zeros({2, 4}), x)
                       .second);
      },
      w.all(), kLengths));
}

}  // namespace
}  // namespace dyad
