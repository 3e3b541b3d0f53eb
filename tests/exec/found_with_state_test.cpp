// What random programs with state (tests/random_programs) once did otherwise when compiled: memory
// that results and gradients share, results whose tape is used up, gradients of some rows.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/autograd/row_grad.h"
#include "dyad/exec/compile.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::compile_now;
using exec::count_up;
using exec::same_bits;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

/// Which of the tensors share memory, and what all show after each of them was filled in turn.
Tensors filled_in_turn(const Tensors& results) {
  const NoGrad apart;
  Tensors seen;
  for (std::size_t i = 0; i < results.size(); ++i) {
    Tensor(results[i]).fill_(static_cast<double>(i + 10));
    for (const Tensor& one : results) seen.push_back(one.detach().clone());
  }
  return seen;
}

/// Calls `f` and its compiled form: their results share memory alike. How many calls were replayed.
std::int64_t expect_shares_as_eagerly(const std::function<Tensors(Tensor)>& f,
                                      const Tensors& inputs) {
  const auto c = compile_now(f);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensors want = filled_in_turn(f(inputs[i].clone()));
    const Tensors got = filled_in_turn(c(inputs[i].clone()));
    EXPECT_EQ(want.size(), got.size());
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_TRUE(same_bits(want[k], got[k])) << "call " << i << ", " << k;
  }
  return c.explain().replays;
}

// --- memory of results --------------------------------------------------------------------------

TEST(MemoryOfResults, AcrossAHostRead) {
  const auto f = [](Tensor x) -> Tensors {
    Tensor made = x * 2;
    const Tensor before = made[0];
    if (sum(made) > 100) made.add_(1);
    return {made.transpose(0, 1), made, before, made.slice(0, 1, 3)};
  };
  EXPECT_EQ(expect_shares_as_eagerly(f, Tensors(6, count_up({3, 4}))), 3);
}

TEST(MemoryOfResults, WrittenAfterAHostRead) {
  const auto f = [](Tensor x) -> Tensors {
    Tensor made = x * 2;
    Tensor row = made[0];
    if (sum(made) > 0) row.fill_(7);
    return {row, made};
  };
  EXPECT_GT(expect_shares_as_eagerly(
                f, {count_up({2, 3}), count_up({2, 3}), -count_up({2, 3}), -count_up({2, 3}),
                    count_up({2, 3}), count_up({2, 3}), -count_up({2, 3}), count_up({3, 3}),
                    count_up({4, 3}), count_up({5, 3})}),
            0);
}

TEST(MemoryOfResults, ViewsOfEqualValues) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor a = x * 2, b = x * 2;
    return {a, b, a[0], b[0], b[1]};
  };
  EXPECT_EQ(expect_shares_as_eagerly(f, Tensors(6, count_up({3, 4}))), 3);
}

TEST(MemoryOfResults, OfALiteral) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor table = tensor({1.0f, 2.0f, 3.0f});
    return {table, table.slice(0, 0, 2), table, x * table};
  };
  EXPECT_EQ(expect_shares_as_eagerly(f, Tensors(6, count_up({3}))), 3);
}

TEST(MemoryOfResults, WhosePlaceOnlyDataTellRunsEagerly) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor made = x * 2;
    return {made, made.slice(0, nonzero(x).size(0), kEnd)};
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    const Tensors want = filled_in_turn(f(count_up({3}))), got = filled_in_turn(c(count_up({3})));
    for (std::size_t k = 0; k < want.size(); ++k) EXPECT_TRUE(same_bits(want[k], got[k])) << i;
  }
  EXPECT_THAT(c.explain().recordings[0].refusal,
              HasSubstr("whose place only data tell, of memory that another result shows"));
}

TEST(MemoryOfResults, WithANewGradient) {
  const auto expect = [](const std::function<Tensors(Tensor)>& f) {
    const auto c = compile_now(f);
    for (int i = 0; i < 8; ++i) {
      const auto call = [&](const auto& g) {
        const Tensor x = count_up({1, 3}).requires_grad();
        Tensors all = g(x);
        all.push_back(x.grad());
        return filled_in_turn(all);
      };
      const Tensors want = call(f), got = call(c);
      ASSERT_EQ(want.size(), got.size());
      for (std::size_t k = 0; k < want.size(); ++k)
        EXPECT_TRUE(same_bits(want[k], got[k])) << i << " " << k;
    }
    EXPECT_GT(c.explain().replays, 0);
  };
  expect([](Tensor x) -> Tensors {
    const Tensor made = x.detach() * 2;
    x.set_grad(made.clone());
    return {made};
  });
  expect([](Tensor x) -> Tensors {
    const Tensor made = x.detach() * 2;
    x.set_grad(made);
    return {made};
  });
  expect([](Tensor x) -> Tensors {
    Tensor made = (x.detach() * 2)[0];
    x.set_grad(unsqueeze(made, 0));
    made.mul_(5);
    return {made};
  });
  expect([](Tensor x) -> Tensors {
    const Tensor made = x * 2;
    x.set_grad(made.detach());
    return {made};
  });
}

// --- the tape -----------------------------------------------------------------------------------

TEST(WritesOnTheTape, AViewWrittenToATensorIsNoViewOfIt) {
  const Tensor w = count_up({2, 2}).requires_grad();
  Tensor x = zeros({2});
  x.copy_(w[0]);
  x.mul_(3);
  sum(x).backward();
  EXPECT_TRUE(same_bits(w.grad(), tensor({{3.0f, 3.0f}, {0.0f, 0.0f}})));
}

TEST(WritesOnTheTape, AnArgumentThatWasWrittenAViewIsWrittenAgain) {
  const auto f = [](Tensor x, const Tensor& y) {
    x.copy_(unsqueeze(y.detach().clone().requires_grad(), 0)[0]);
  };
  const auto c = compile_now(f);
  Tensor x = zeros({2}), same = zeros({2});
  for (int i = 0; i < 4; ++i) {
    f(x, count_up({2}) + i);
    c(same, count_up({2}) + i);
    EXPECT_TRUE(same_bits(x, same)) << i;
    EXPECT_EQ(x.tracks_grad(), same.tracks_grad()) << i;
  }
}

TEST(WritesOnTheTape, AResultOfWhichAViewIsOnTheTapeIsNotWritten) {
  const auto f = [](Tensor x) -> Tensors {
    const Tensor made = x * 2;
    return {made, sum(made[0] * 3)};
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = count_up({2, 2}).requires_grad();
    const auto text = [&](const auto& g) {
      return message_of<GradError>([&] { g(x)[0].fill_(1); });
    };
    EXPECT_THAT(text(c), HasSubstr("shares memory with a view that tracks gradients")) << i;
    EXPECT_EQ(text(f), text(c)) << i;
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(ReplayedTape, IsNotDifferentiatedAfterWhatItKeepsWasWritten) {
  const auto c = compile_now([](Tensor x) { return exp(x); });
  for (int i = 0; i < 4; ++i) {
    const Tensor x = count_up({3}).requires_grad();
    Tensor y = c(x);
    no_grad([&] { y.fill_(1); });
    EXPECT_THAT(message_of<GradError>([&] { sum(y).backward(); }),
                HasSubstr("overwritten in place after"))
        << i;
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(ReplayedTape, ReturnsAnArgumentThatIsALeafOrComputed) {
  const auto f = [](Tensor x) -> Tensors { return {x * 2, x}; };
  const auto c = compile_now(f);
  for (int i = 0; i < 9; ++i) {
    const auto gradient = [&](const auto& g) {
      const Tensor x = count_up({3}).requires_grad();
      const Tensors made = g(i % 3 == 1 ? x * 1.5f : x);
      (sum(square(made[0])) + sum(made[1])).backward();
      return x.grad();
    };
    EXPECT_TRUE(same_bits(gradient(f), gradient(c))) << i;
  }
  EXPECT_GE(c.explain().replays, 3);
}

TEST(WritesOnTheTape, ToATensorOfWhichOnlyTheRecordingHasAnother) {
  const auto run = [](bool compiled) {
    Tensor x = count_up({2});
    const auto f = [&] {
      const Tensor leaf = x.detach().clone().requires_grad();
      x.add_(leaf);
      return x;
    };
    const auto c = compile_now(f);
    for (int i = 0; i < 4; ++i) {
      compiled ? c() : f();
      EXPECT_TRUE(x.tracks_grad()) << i;
    }
    return x.detach();
  };
  EXPECT_TRUE(same_bits(run(false), run(true)));
}

TEST(CapturedTensors, MetByAnotherOfTheirMemoryMayBeginToTrackGradients) {
  Tensor w = ones({2});
  const auto f = [&](Tensor x) {
    const Tensor fixed = w.detach() * 2;
    return fixed + w * x;
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 8; ++i) {
    w.requires_grad(i > 4);
    const Tensor want = f(count_up({2})), got = c(count_up({2}));
    EXPECT_TRUE(same_bits(want, got)) << i;
    EXPECT_EQ(want.tracks_grad(), got.tracks_grad()) << i;
  }
}

TEST(WrittenGaps, AreReadByLibrariesAsTheyLie) {
  // Every other column of a matrix: what a replayed call has of it after the write is dense.
  const auto run = [](bool compiled, bool captured) {
    manual_seed(3);
    Tensor all = randn({7, 18});
    Tensor x = all.slice(1, 0, 18, 2);
    const auto f = [&](Tensor given) {
      Tensor& used = captured ? x : given;
      used.mul_(0.9f);
      return matmul(used.slice(0, 0, 1), used.transpose(0, 1));
    };
    const auto c = compile_now(f);
    Tensors seen;
    for (int i = 0; i < 6; ++i) {
      const Tensor given = i % 3 == 0 ? x.contiguous() : x;
      seen.push_back(compiled ? c(given) : f(given));
    }
    return seen;
  };
  for (const bool captured : {false, true}) {
    const Tensors want = run(false, captured), got = run(true, captured);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(want[i], got[i])) << i;
  }
}

TEST(Hooks, OnTensorsFromOutsideRunTheFunctionEagerly) {
  const auto doubled = [](const Tensor& g) { return g * 2; };
  const Tensor w = ones({2}).requires_grad(), same = ones({2}).requires_grad();
  for (const int kind : {0, 1, 2}) {
    const auto f = [&](const Tensor& leaf) {
      return [&, leaf](Tensor x) {
        const Tensor made = x * leaf;
        (kind == 0 ? x : kind == 1 ? leaf : made).register_hook(doubled);
        return made;
      };
    };
    const auto eager = f(w);
    const auto c = compile_now(f(same));
    for (int i = 0; i < 5; ++i) {
      const auto gradient = [&](const auto& g) {
        const Tensor leaf = count_up({2}).requires_grad();
        const Tensor x = i % 2 == 0 ? leaf * 3 : leaf;
        (sum(g(x)) + sum(square(x))).backward();
        return leaf.grad();
      };
      EXPECT_TRUE(same_bits(gradient(eager), gradient(c))) << kind << " " << i;
      EXPECT_TRUE(same_bits(w.grad(), same.grad())) << kind << " " << i;
    }
    EXPECT_EQ(c.explain().recordings[0].refusal.empty(), kind == 2);
  }
}

TEST(LeavesMadeInside, OfMemoryFromOutsideAreNewInEveryCall) {
  Tensor w = ones({2});
  const auto f = [&](Tensor x) -> Tensors {
    Tensor leaf = w.detach().requires_grad();
    sum(leaf * x).backward();
    return {leaf, leaf.grad()};
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 5; ++i) {
    const Tensors want = f(count_up({2}) + i), got = c(count_up({2}) + i);
    EXPECT_TRUE(same_bits(want[0], got[0])) << i;
    EXPECT_TRUE(same_bits(want[1], got[1])) << i;
    EXPECT_TRUE(same_bits(want[0].grad(), got[0].grad())) << i;
  }
}

TEST(LeavesMadeInside, OfMemoryFromOutsideNeedOneRecording) {
  Tensor w = ones({2});
  const auto f = [&](Tensor x) {
    Tensor leaf = w.detach().requires_grad();
    sum(leaf * x).backward();
    return leaf.grad() * 2;
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 6; ++i)
    EXPECT_TRUE(same_bits(f(count_up({2}) + i), c(count_up({2}) + i))) << i;
  EXPECT_EQ(c.explain().replays, 3);
}

TEST(LeavesMadeInside, OfTheGradientFromBeforeAreNewInEveryCall) {
  const auto f = [](const Tensor& w) {
    const Tensor before = w.grad();
    sum(square(w)).backward();
    return before.detach().requires_grad();
  };
  const auto run = [&](bool compiled) {
    const Tensor w = count_up({2}).requires_grad();
    sum(w).backward();
    const auto c = compile_now([&] { return f(w); });
    Tensors seen;
    for (int i = 0; i < 6; ++i) seen.push_back((compiled ? c() : f(w)).detach().clone());
    return seen;
  };
  const Tensors want = run(false), got = run(true);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(want[i], got[i])) << i;
}

TEST(GradientsFromBefore, AreWrittenThoughTheLeafGetsAnother) {
  const auto f = [](const Tensor& w) {
    Tensor before = w.grad();
    sum(square(w)).backward();
    before.mul_(2);
    return before;
  };
  const auto run = [&](bool compiled) {
    const Tensor w = count_up({2}).requires_grad();
    sum(w).backward();
    const auto c = compile_now([&] { return f(w); });
    Tensors seen;
    for (int i = 0; i < 6; ++i) {
      const Tensor before = w.grad();
      const Tensor made = compiled ? c() : f(w);
      for (const Tensor& one : {before, made, w.grad()}) seen.push_back(one.clone());
    }
    return seen;
  };
  const Tensors want = run(false), got = run(true);
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_TRUE(same_bits(want[i], got[i])) << i;
}

// --- results whose tape is used up --------------------------------------------------------------

TEST(SpentResults, TrackGradientsAsEagerly) {
  const Tensor w = ones({2}).requires_grad();
  const auto f = [&](Tensor x) -> Tensors {
    const Tensor loss = sum(square(x * w));
    loss.backward();
    return {loss, loss.detach(), x * 3};
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 6; ++i) {
    const Tensor x = count_up({2}).requires_grad(), same = count_up({2}).requires_grad();
    const Tensors want = f(x), got = c(same);
    for (std::size_t k = 0; k < want.size(); ++k)
      EXPECT_EQ(want[k].tracks_grad(), got[k].tracks_grad()) << i << " " << k;
    sum(want[2]).backward();  // the others still have their tape
    sum(got[2]).backward();
    EXPECT_TRUE(same_bits(x.grad(), same.grad())) << i;
  }
  EXPECT_EQ(c.explain().replays, 3);
}

TEST(SpentResults, ByAWriteWithoutTheTapeToo) {
  const auto f = [](Tensor x) {
    const Tensor y = exp(x);
    no_grad([&] { Tensor(y).sub_(x); });
    return y;
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = count_up({2}).requires_grad();
    EXPECT_TRUE(c(x).tracks_grad()) << i;
    EXPECT_TRUE(same_bits(f(x), c(x))) << i;
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(SpentResults, WhoseGradientsAreAskedForRunEagerly) {
  const auto f = [](Tensor x) {
    const Tensor loss = sum(square(x));
    loss.backward();
    return loss;
  };
  const auto c = compile_now(f);
  const auto differentiate = [](const auto& g) {
    return message_of<GradError>([&] { g(count_up({2}).requires_grad()).backward(); });
  };
  for (int i = 0; i < 4; ++i) EXPECT_EQ(c(count_up({2}).requires_grad()).item<float>(), 1.0f);
  EXPECT_GT(c.explain().replays, 0);
  EXPECT_THAT(differentiate(c), HasSubstr("whose tape a backward pass inside it has used up"));
  EXPECT_EQ(differentiate(c), differentiate(f));
  EXPECT_THAT(c.explain().recordings[0].refusal, HasSubstr("has used up their tape"));
}

TEST(SpentResults, WhoseTapeServesInPartRunEagerly) {
  // The way to one of two leaves is as it was.
  const auto f = [](Tensor x, Tensor y) {
    const Tensor made = square(x) + square(y);
    no_grad([&] { x.mul_(2); });
    return sum(made);
  };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    const Tensor x = count_up({2}).requires_grad(), y = count_up({2}).requires_grad();
    const Tensor want = grad(f(x, y), {y})[0], got = grad(c(x, y), {y})[0];
    EXPECT_TRUE(same_bits(want, got)) << i;
  }
}

// --- gradients of some rows ---------------------------------------------------------------------

TEST(RowsOfGradients, OfALeafThatHadNoneAreSeen) {
  const auto f = [](const Tensor& table) {
    const SparseRows rows = sparse_grad(table);
    const Tensor made = rows.defined() ? sum(rows.rows) : zeros({});
    return made + sum(sparse_embedding(tensor({0, 1, 0}), table));
  };
  const Tensor table = count_up({3, 2}).requires_grad(), same = count_up({3, 2}).requires_grad();
  const auto c = compile_now([&] { return f(same); });
  for (int i = 0; i < 6; ++i) {
    if (i == 4) {
      table.zero_grad();
      same.zero_grad();
    }
    const Tensor want = f(table), got = c();
    EXPECT_TRUE(same_bits(want, got)) << i;
    want.backward();
    got.backward();
  }
}

TEST(RowsOfGradients, FromOutsideAreRows) {
  const auto f = [](Tensor table, Tensor at) -> Tensors {
    return {softmax(sparse_embedding(at, table, 1), 0), table};
  };
  for (const bool computed : {false, true}) {
    const auto c = compile_now(f);
    for (int i = 0; i < 8; ++i) {
      const auto call = [&](const auto& g) {
        const Tensor table = (count_up({3, 2}) * 0.37f).requires_grad();
        const Tensor at = tensor({static_cast<std::int64_t>(i % 3), std::int64_t{1},
                                  static_cast<std::int64_t>(i % 2), std::int64_t{2}});
        const Tensors made = g(computed && i % 2 == 0 ? table * 1.5f : table, at);
        const Tensor loss = sum(square(made[0]) * 0.3f) + sum(square(made[1]));
        if (i % 4 == 3) return std::tuple{grad(loss, {table})[0], Tensor(), Tensor()};
        loss.backward();
        const SparseRows rows = sparse_grad(table);
        return std::tuple{table.grad(), rows.index, rows.rows};
      };
      const auto [want, index, rows] = call(f);
      const auto [got, same_index, same_rows] = call(c);
      EXPECT_TRUE(same_bits(want, got)) << i;
      ASSERT_EQ(rows.defined(), same_rows.defined()) << i;
      if (!rows.defined()) continue;
      EXPECT_TRUE(same_bits(index, same_index)) << i;
      EXPECT_TRUE(same_bits(rows, same_rows)) << i;
    }
    EXPECT_GT(c.explain().replays, 0);
  }
}

TEST(RowsOfGradients, OfACapturedTableByACapturedIndex) {
  Tensor at = tensor({0, 2, 0});
  const auto f = [&](const Tensor& table, const Tensor& x) {
    return sum(sparse_embedding(at, table) * x);
  };
  const Tensor table = count_up({3, 2}).requires_grad(), same = count_up({3, 2}).requires_grad();
  const auto c = compile_now([&](Tensor x) { return f(same, x); });
  for (int i = 0; i < 6; ++i) {
    const Tensor x = count_up({3, 2}) + i;
    f(table, x).backward();
    const Tensor made = c(x);
    if (i == 5) {
      at.fill_(1);
      EXPECT_THAT(message_of<GradError>([&] { made.backward(); }), HasSubstr("was overwritten"));
      break;
    }
    made.backward();
    EXPECT_TRUE(same_bits(sparse_grad(table).rows, sparse_grad(same).rows)) << i;
    EXPECT_TRUE(same_bits(sparse_grad(table).index, sparse_grad(same).index)) << i;
  }
  EXPECT_GT(c.explain().replays, 0);
}

TEST(RowsOfGradients, OfATableWithoutColumns) {
  const auto f = [](Tensor table) { return sum(sparse_embedding(tensor({0, 1}), table)); };
  const auto c = compile_now(f);
  for (int i = 0; i < 4; ++i) {
    const Tensor table = zeros({3, 0}).requires_grad();
    f(table).backward();
    c(table).backward();
    EXPECT_EQ(sparse_grad(table).rows.shape(), Shape({4, 0})) << i;
  }
}

}  // namespace
}  // namespace dyad
