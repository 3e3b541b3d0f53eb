// What random programs (tests/random_programs) once did otherwise in another mode: sizes that hide
// or decide something, writes, state.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"

namespace dyad {
namespace {

using exec::compile_now;
using exec::count_up;
using exec::expect_replays_as_eagerly;
using exec::same_bits;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

TEST(FoundLater, AWriteOfNoElementsPutsItsTargetOnTheTape) {
  const auto f = [](Tensor x, Tensor y) { x.copy_(y); };
  const auto c = compile_now(f);
  for (int i = 0; i < 3; ++i) {
    Tensor x = zeros({0}), same = zeros({0}), y = ones({}).requires_grad();
    f(x, y);
    c(same, y);
    EXPECT_TRUE(x.tracks_grad());
    EXPECT_TRUE(same.tracks_grad()) << i;
  }
}

TEST(FoundLater, ALoopOfNoStepsGivesValuesOfTheRecording) {
  const auto f = [](Tensor xs) -> Tensors {
    const auto [last, ys] = scan(
        [](const Tensors& s, const Tensor& x) { return std::pair(Tensors{s[0] + sum(x)}, x * 2); },
        Tensors{zeros({})}, xs);
    return {last[0], ys};
  };
  EXPECT_GT(
      expect_replays_as_eagerly(f, {zeros({0, 2}), zeros({0, 2}), zeros({0, 2}), zeros({0, 2})}),
      0);
}

TEST(FoundLater, AWriteIsRecordedTheSameWayAtEverySize) {
  const auto of_a_view = [](Tensor x) -> Tensors {
    const Tensor line = diagonal(x, -1);
    Tensor made = clamp(line, 1, 2);
    made.copy_(line);
    return {made};
  };
  EXPECT_GT(
      expect_replays_as_eagerly(of_a_view, {count_up({1, 2}), count_up({2, 2}), count_up({3, 2}),
                                            count_up({4, 2}), count_up({2, 2}), count_up({5, 2})}),
      0);
  const auto through_a_reshape = [](Tensor x) -> Tensors {
    Tensor flat = flatten(avg_pool1d(x, 2), 0);
    flat.copy_(flat);
    return {flat};
  };
  EXPECT_GT(expect_replays_as_eagerly(
                through_a_reshape, {count_up({1, 2, 2}), count_up({1, 2, 4}), count_up({1, 2, 2}),
                                    count_up({1, 2, 6}), count_up({1, 2, 8}), count_up({1, 2, 6})}),
            0);
}

TEST(FoundLater, AWriteToAPartOfABroadcastRunsEagerly) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor wide = expand(x, {1, 1, 2});
    Tensor part = wide.select(-1, 0);
    part.mul_(2.0f);
    return {wide.clone(), x};
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = full({1, 1, 1}, static_cast<float>(i));
    const Tensors eager = f(x.clone()), compiled = c(x.clone());
    EXPECT_TRUE(same_bits(eager[0], compiled[0]));
    EXPECT_TRUE(same_bits(eager[1], compiled[1]));
  }
  EXPECT_THAT(c.explain().recordings[0].refusal, HasSubstr("which is broadcast"));
}

TEST(FoundLater, SizesThatOnlyDataTellAreKnownBehindHostReads) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor places = nonzero(x), all_but_one = places.slice(0, 1, kEnd);
    const Tensor wide = full({all_but_one.size(0)}, 3.0f);
    if (sum(x) > 0) return {all_but_one.clone(), wide + 1};
    return {all_but_one * 2, zeros({places.size(0)})};
  };
  const Tensors inputs{tensor({1.0f, 0.0f, 2.0f}),  tensor({1.0f, 1.0f, 2.0f}),
                       tensor({1.0f, 0.0f, 0.0f}),  tensor({1.0f, -4.0f, 0.0f}),
                       tensor({-1.0f, 0.0f, 0.0f}), tensor({-1.0f, 3.0f, 2.0f}),
                       tensor({5.0f, 3.0f, 2.0f}),  tensor({-1.0f, -3.0f, 0.0f})};
  EXPECT_GT(expect_replays_as_eagerly(f, inputs), 1);
}

TEST(FoundLater, EinsumOfASliceWhoseSizeIsOneNow) {
  const auto f = [](Tensor x) {
    const Tensor rest = x.slice(0, 2, x.size(0));
    return einsum("ij,kj->ik", {rest, rest});
  };
  const auto c = compile_now(f);
  for (const std::int64_t rows : {1, 3, 4, 3, 5, 6}) {
    Tensor x = count_up({rows, 1}).requires_grad(), same = count_up({rows, 1}).requires_grad();
    sum(f(x)).backward();
    sum(c(same)).backward();
    EXPECT_TRUE(same_bits(x.grad(), same.grad())) << rows;
  }
}

TEST(FoundLater, ADefinitionThatIsRunAgainForABranchWritesOnce) {
  Graph graph;
  const Tensor x = graph.placeholder("x", f32, {3});
  Tensor kept = ones({3});
  const Tensor made = graph.define([&]() -> Tensor {
    const Tensor order = argsort(x, 0);
    Tensor all = x;
    all.fill_(2);
    kept.add_(1);
    if (sum(all) > 0) return order.to(f32) + kept;
    return order.to(f32) - kept;
  });
  Session session(graph);
  const Tensor got = session.run({made}, {{"x", tensor({3.0f, 1.0f, 2.0f})}})[0];
  EXPECT_TRUE(same_bits(got, tensor({3.0f, 4.0f, 2.0f})));
}

// --- the layout of tensors ----------------------------------------------------------------------

TEST(Contiguous, IsCompiled) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor turned = x.transpose(0, 1).contiguous();
    return {turned, x.contiguous() * 2, contiguous(turned) + 1};
  };
  EXPECT_EQ(expect_replays_as_eagerly(f, Tensors(6, count_up({2, 3}))), 3);
}

TEST(Contiguous, SharesMemoryOrNotAsInEagerMode) {
  const auto f = [](Tensor x) -> Tensors {
    Tensor row_major = x.contiguous();
    row_major.add_(1);
    return {row_major, x * 2};
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 9; ++i) {
    const auto made = [&] {
      const Tensor all = count_up({2, 3});
      return i % 3 == 2 ? all.transpose(0, 1) : all;
    };
    Tensor x = made(), same = made();
    const Tensors eager = f(x), compiled = c(same);
    EXPECT_TRUE(same_bits(x, same)) << i;
    for (std::size_t k = 0; k < eager.size(); ++k)
      EXPECT_TRUE(same_bits(eager[k], compiled[k])) << i;
  }
  EXPECT_GE(c.explain().replays, 3);
}

TEST(Contiguous, OfALeafAsksForItsStrides) {
  const auto f = [](Tensor x) { return x.contiguous(); };
  const auto c = compile_now(f);
  for (int i = 0; i < 12; ++i) {
    Tensor all = count_up({3, 3});
    Tensor x = (i % 4 == 3 ? all.transpose(0, 1) : all).requires_grad();
    const Tensor eager = f(x), compiled = c(x);
    EXPECT_EQ(compiled.is_contiguous(), eager.is_contiguous()) << i;
    EXPECT_EQ(compiled.impl()->storage == x.impl()->storage,
              eager.impl()->storage == x.impl()->storage)
        << i;
    EXPECT_TRUE(same_bits(eager, compiled)) << i;
  }
  EXPECT_GE(c.explain().replays, 4);
}

TEST(Contiguous, OfALeafIsTheLeaf) {
  const auto f = [](Tensor x) {
    sum(x.contiguous() * x).backward();
    return x.contiguous().grad().clone();
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 5; ++i) {
    const Tensor x = count_up({3}).requires_grad(), same = count_up({3}).requires_grad();
    EXPECT_TRUE(same_bits(f(x), c(same)));
  }
  EXPECT_GT(c.explain().replays, 0);
}

// --- gradients of some rows ---------------------------------------------------------------------

TEST(SparseGradients, OfATableThatIsAnArgumentAreTheCallsOwn) {
  for (const bool clears : {false, true}) {
    const auto f = [clears](Tensor table, Tensor at) {
      if (clears) table.zero_grad();
      sum(square(sparse_embedding(at, table))).backward();
      return table.grad().clone();
    };
    const auto c = compile_now(f);
    Tensors tables, copies;
    for (int i = 0; i < 2; ++i) {
      tables.push_back(count_up({4, 2}).requires_grad());
      copies.push_back(count_up({4, 2}).requires_grad());
    }
    for (std::size_t call = 0; call < 12; ++call) {
      const std::size_t i = call % 3 == 0 ? 1 : 0;
      const Tensor at = tensor({static_cast<std::int64_t>(call % 4), std::int64_t{1}});
      EXPECT_TRUE(same_bits(f(tables[i], at), c(copies[i], at))) << call;
      for (std::size_t k = 0; k < 2; ++k) {
        const SparseRows want = sparse_grad(tables[k]), got = sparse_grad(copies[k]);
        ASSERT_EQ(want.defined(), got.defined()) << call;
        if (!want.defined()) continue;
        EXPECT_TRUE(same_bits(want.rows, got.rows)) << call;
        EXPECT_TRUE(same_bits(want.index, got.index)) << call;
      }
    }
    EXPECT_GE(c.explain().replays, clears ? 3 : 0);
  }
}

TEST(SparseGradients, ThatCameAfterTheRecordingAreSeenAndForgotten) {
  for (const bool clears : {false, true}) {
    Tensor table = count_up({3, 2}).requires_grad(), same = count_up({3, 2}).requires_grad();
    const auto f = [clears](Tensor w) {
      const Tensor before = w.grad();
      if (clears) w.zero_grad();
      sum(w * 2).backward();
      return before.defined() ? before.clone() : zeros({});
    };
    const auto c = compile_now([&](Tensor w) { return f(w); });
    for (int i = 0; i < 10; ++i) {
      if (i > 4 && i % 2 == 0) {
        for (const Tensor& w : {table, same}) sum(sparse_embedding(tensor({1}), w)).backward();
      }
      EXPECT_TRUE(same_bits(f(table), c(same))) << clears << " " << i;
      EXPECT_TRUE(same_bits(table.grad(), same.grad())) << clears << " " << i;
    }
  }
}

TEST(SparseGradients, OfATableMadeInsideNeedOneRecording) {
  const auto f = [](Tensor x) {
    Tensor table = (x * 2).detach().requires_grad();
    sum(square(sparse_embedding(tensor({0, 1, 0}), table))).backward();
    return table.grad();
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = count_up({3, 2}) + i;
    EXPECT_TRUE(same_bits(f(x), c(x)));
  }
  EXPECT_EQ(c.explain().replays, 3);
}

// --- leaves and results -------------------------------------------------------------------------

TEST(FoundLater, ResultsOfALeafMadeInsideHaveGradientsOfAnySize) {
  const auto f = [](Tensor x) {
    const Tensor point = x.detach().clone().requires_grad();
    return concat({point * 2, point, x}, 0);
  };
  const auto c = compile_now(f);
  for (const std::int64_t n : {1, 2, 2, 3, 4, 3, 5}) {
    Tensor x = count_up({n, 1}).requires_grad(), same = count_up({n, 1}).requires_grad();
    sum(square(f(x))).backward();
    sum(square(c(same))).backward();
    EXPECT_TRUE(same_bits(x.grad(), same.grad())) << n;
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(FoundLater, ResultsOfSeveralLeavesMadeInside) {
  const auto f = [](Tensor x) {
    const Tensor row = x[0].detach().clone().requires_grad();
    const Tensor table = x.detach().clone().requires_grad();
    return x * row + table;
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    Tensor x = (count_up({3, 4}) + i).requires_grad(),
           same = (count_up({3, 4}) + i).requires_grad();
    sum(square(f(x))).backward();
    sum(square(c(same))).backward();
    EXPECT_TRUE(same_bits(x.grad(), same.grad())) << i;
    EXPECT_TRUE(c(x.detach()).tracks_grad());
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(FoundLater, ALeafMadeInsideHasNoGradientFromBeingRecorded) {
  const auto f = [](const Tensor& x) {
    Tensor leaf = (x * 1).requires_grad();
    return std::pair(leaf, sum(leaf * leaf));
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    const auto [leaf, loss] = c(count_up({3}));
    EXPECT_FALSE(leaf.grad().defined()) << i;
    loss.backward();
    EXPECT_TRUE(same_bits(leaf.grad(), leaf.detach() * 2)) << i;
  }
}

TEST(FoundLater, AReturnedLeafFromOutsideIsThatLeaf) {
  Tensor w = ones({2}).requires_grad();
  const auto c = compile_now([&] {
    const Tensor other = w.detach();  // met before the leaf
    return std::pair{sum(other * 2), w};
  });
  for (int i = 1; i < 6; ++i) {
    sum(c().second * 3).backward();
    EXPECT_TRUE(same_bits(w.grad(), full({2}, static_cast<float>(3 * i)))) << i;
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(FoundLater, EqualResultsHaveMemoryOfTheirOwn) {
  const auto c = compile_now([](Tensor x) { return std::pair{x * 2, x * 2}; });
  for (int i = 0; i < 5; ++i) {
    auto [a, b] = c(count_up({3}));
    a.fill_(7);
    EXPECT_TRUE(same_bits(b, count_up({3}) * 2)) << i;
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(FoundLater, ADetachedGradientFromBeforeIsThatGradient) {
  Tensor w = ones({2}).requires_grad();
  sum(w * 3).backward();
  const auto c = compile_now([&](Tensor x) { return w.grad().detach() * x; });
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(same_bits(c(ones({2})), w.grad() * 1.0f)) << i;
    w.zero_grad();
    sum(w * static_cast<float>(i)).backward();
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(FoundLater, ACapturedTensorIsItsOwnersBetweenCalls) {
  Tensor h = zeros({4, 4});
  const auto c = compile_now([&](Tensor x) { return matmul(x, h); });
  for (int i = 0; i < 4; ++i) (void)c(ones({4, 4}));
  EXPECT_GT(c.explain().replays, 0);
  Tensor t = ones({4, 4}).requires_grad();
  h.copy_(t * 2);  // an error where other tensors share its memory
  EXPECT_TRUE(same_bits(h, full({4, 4}, 2.0)));
  sum(h).backward();
  EXPECT_TRUE(same_bits(t.grad(), full({4, 4}, 2.0)));
}

TEST(LeafGrads, AnArgumentMayBeALeafOrComputed) {
  const auto f = [](Tensor x) {
    sum(x * x).backward();
    return x * 2;
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 8; ++i) {
    Tensor leaf = count_up({3}).requires_grad(), same = count_up({3}).requires_grad();
    const bool computed = i % 3 == 2;
    f(computed ? leaf * 3 : leaf);
    c(computed ? same * 3 : same);
    EXPECT_TRUE(same_bits(leaf.grad(), same.grad())) << i;
  }
}

TEST(Recording, GradientsMayLieInAnotherOrderAtOtherSizes) {
  // Of one row the gradient lies row by row and is kept, of several it is copied.
  const auto step = [](const Tensor& leaf) {
    const Tensor part = slice(leaf, 1, 1, leaf.size(1), 1), large = exp(part);
    const Tensor y = matmul(large, transpose(part, -1, -2));
    sum(y * y * 0.5 + y).backward();
    return y;
  };
  const auto c = exec::compile_now(step);
  manual_seed(7);
  for (const std::int64_t rows : {1, 2, 3, 5, 4, 2}) {
    Tensor x = normal({1, rows, 2}).requires_grad(), same = x.detach().clone().requires_grad();
    EXPECT_TRUE(exec::same_bits(step(x), c(same)));
    EXPECT_EQ(exec::bits(x.grad()), exec::bits(same.grad())) << rows;
  }
}

}  // namespace
}  // namespace dyad
