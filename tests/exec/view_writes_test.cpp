#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

// Writes in place to views: every mode shows what eager mode shows.

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::same_bits;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

struct ViewWrite {
  std::string name;
  /// Of a captured f32[6, 4] and an argument f32[n, 4], n from 4 on.
  std::function<Tensors(const Tensor& w, const Tensor& x)> run;
  bool in_graph = true;  ///< false: the graph cannot tell what shares memory
};

const std::vector<ViewWrite>& view_writes() {
  static const std::vector<ViewWrite> cases = {
      {"fill_a_slice",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x * 2;
         y.slice(0, 1, 3).fill_(7);
         return {y, sum(y, {0})};
       }},
      {"copy_into_a_row",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x + 1;
         y[2].copy_(x[0]);
         y[-1].copy_(5);
         return {y};
       }},
      {"overlapping_slices",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = tanh(x);
         Tensor a = y.slice(0, 0, 3), b = y.slice(0, 2, 4);
         a.add_(1);
         b.mul_(a[2]);
         a.sub_(b[0] * 0.5f);
         return {y, a, b};
       }},
      {"views_of_views",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x * x;
         Tensor inner = y.slice(0, 1, 4).transpose(0, 1).slice(0, 1, 3);
         inner.mul_(3);
         inner[1].add_(inner[0]);
         return {y, inner, sum(y)};
       }},
      {"the_base_is_written_after_the_view",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x - 1;
         Tensor column = y.select(1, 2), rows = y.slice(0, 0, -1, 2);
         y.add_(x);
         Tensor before = column * 1;
         y.copy_(x * 3);
         return {before, column, rows};
       }},
      {"through_reshape",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = exp(x);
         Tensor flat = y.flatten();
         flat.slice(0, 1, 9, 3).fill_(-1);
         y.reshape({-1, 2})[1].add_(10);
         return {y, flat};
       }},
      {"through_permute",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x * 2;
         y.t().copy_(flatten(x).reshape({4, -1}));
         return {y, sum(y, {1}), mean(y)};
       }},
      {"through_squeeze_and_unsqueeze",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x * 2;
         y.unsqueeze(1).select(2, 0).squeeze(1).fill_(4);
         y.unsqueeze(0)[0][2].sub_(x[0]);
         return {y};
       }},
      {"rows_shift",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x.clone();
         y.slice(0, 1, kEnd).copy_(y.slice(0, 0, -1));
         return {y};
       }},
      {"a_copy_is_apart_from_its_source",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor a = x * 2, b = x * 3;
         a.copy_(b);
         b.slice(0, 0, 2).add_(1);
         a[0].sub_(1);
         b.mul_(2);
         return {a, b};
       }},
      {"pieces",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = relu(x);
         Tensors halves = chunk(y, 2, 1);
         halves[0].sub_(1);
         halves[1].copy_(halves[0] + y.slice(1, 1, 3));
         return {y};
       }},
      {"a_loop_of_rows",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = zeros({4, 4}, x.dtype()), state = x[0] * 0;
         for (int i = 0; i < 4; ++i) {
           state = tanh(state + x[i]);
           y[i].copy_(state);
         }
         return {y, sum(y)};
       }},
      {"detached",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x * 2;
         Tensor same = y.detach();
         same[1].fill_(3);
         y.slice(1, 0, 1).add_(1);
         return {y, same};
       }},
      {"a_scalar_through_a_view",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor s = sum(x);
         Tensor line = s.reshape({1});
         line.add_(1);
         s.mul_(2);
         Tensor y = x * 1;
         y[1][2].copy_(s);
         return {s, line, y};
       }},
      {"other_dtypes",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor mask = x > 0, counts = arange(6);
         mask.slice(0, 0, 2).fill_(1);
         mask.select(1, 3).copy_(x.select(1, 0) < 0);
         counts.slice(0, 0, 6, 2).mul_(10);
         counts[1].copy_(-4);
         return {mask, counts, where(mask, x, 0)};
       }},
      {"the_argument",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor row = x[1];
         Tensor before = row.clone();
         row.mul_(2);
         x.slice(0, 2, 4).copy_(before);
         return {sum(x), row + 1};
       }},
      {"the_whole_argument_after_a_view",
       [](const Tensor&, Tensor x) -> Tensors {
         Tensor columns = x.slice(1, 1, 3);
         x.sub_(1);
         columns.fill_(0.5);
         return {sum(x, {0}), columns};
       }},
      {"the_captured",
       [](const Tensor& w, const Tensor& x) -> Tensors {
         w[2].copy_(x[0]);
         w.slice(0, 3, 5).add_(x[1]);
         return {w * 2, sum(w, {0})};
       }},
      {"the_captured_transposed",
       [](const Tensor& w, const Tensor& x) -> Tensors {
         Tensor turned = w.t();
         turned.slice(0, 1, 2).mul_(x[0][0]);
         turned.copy_(turned * 2 + 1);
         return {turned, w + 0};
       }},
      {"the_captured_row_by_row",
       [](const Tensor& w, const Tensor& x) -> Tensors {
         for (int i = 0; i < 3; ++i) w[i].sub_(x[i] * 0.1f);
         return {matmul(x, w.t())};
       }},
      {"on_either_way_of_a_branch",
       [](const Tensor& w, const Tensor& x) -> Tensors {
         Tensor y = x * 2;
         Tensor row = y[0];
         if (sum(x) > 0) {
           row.fill_(1);
           y[1].add_(w[0] + row);
         } else {
           y.slice(1, 0, 2).copy_(w[1][0]);
         }
         row.add_(1);
         return {y, row};
       }},
      {"a_reshape_that_copies",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x * 2;
         Tensor copied = y.t().reshape({-1});
         y.add_(1);
         copied[0].fill_(100);
         return {y, copied};
       },
       false},
      {"a_reshape_of_a_permuted_result",
       [](const Tensor&, const Tensor& x) -> Tensors {
         Tensor y = x.t() * 2;  // lies as x does
         Tensor flat = y.reshape({-1});
         flat.add_(1);
         return {y, flat};
       },
       false},
  };
  return cases;
}

Tensor input(std::int64_t n, int call) {
  manual_seed(static_cast<std::uint64_t>(100 * n + call));
  return normal({n, 4}) + (call % 2 == 0 ? 1.0f : -1.0f);
}

void expect_same(const Tensors& got, const Tensors& want, const std::string& where) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_TRUE(same_bits(got[i], want[i])) << where << ", result " << i;
}

class ViewWrites : public ::testing::TestWithParam<ViewWrite> {};

TEST_P(ViewWrites, CompiledAsEager) {
  const ViewWrite& c = GetParam();
  for (const bool recheck : {false, true}) {
    manual_seed(1);
    const Tensor start = normal({6, 4});
    const Tensor w_eager = start.clone(), w_fast = start.clone();
    const auto fast =
        compile([&](const Tensor& x) { return c.run(w_fast, x); }, {.recheck = recheck});
    int call = 0;
    for (const std::int64_t n : {4, 4, 4, 6, 6, 5, 4, 9, 5, 6}) {
      const Tensor x = input(n, call++);
      const Tensor x_eager = x.clone(), x_fast = x.clone();
      const Tensors want = c.run(w_eager, x_eager);
      const std::string where = c.name + ", call " + std::to_string(call);
      expect_same(fast(x_fast), want, where);
      EXPECT_TRUE(same_bits(x_fast, x_eager)) << where << ", the argument";
      EXPECT_TRUE(same_bits(w_fast, w_eager)) << where << ", the captured tensor";
    }
    const Explanation told = fast.explain();
    EXPECT_EQ(told.eager, 0) << to_string(told);
    for (const ExplainedRecording& recording : told.recordings) EXPECT_EQ(recording.refusal, "");
    if (!recheck) {
      EXPECT_GE(told.replays, 6) << to_string(told);
    }
  }
}

TEST_P(ViewWrites, InAGraphAsEager) {
  const ViewWrite& c = GetParam();
  for (const bool symbolic : {false, true}) {
    manual_seed(1);
    const Tensor start = normal({6, 4});
    const Tensor w_eager = start.clone(), w_graph = start.clone();
    Graph graph;
    const auto define = [&] {
      return graph.define([&] {
        const Dim n = symbolic ? Dim("n") : Dim(5);
        return c.run(w_graph, placeholder("x", f32, {n, 4}));
      });
    };
    if (!c.in_graph) {
      EXPECT_THAT(message_of<GraphError>(define), HasSubstr("use clone() where a copy is meant"));
      continue;
    }
    const Tensors fetches = define();
    Session session(graph);
    int call = 0;
    for (const std::int64_t n : {5, 5, 5, 6, 4, 5}) {
      if (!symbolic && n != 5) continue;
      const Tensor x = input(n, call++), x_eager = x.clone();
      const Tensors want = c.run(w_eager, x_eager);
      const std::string where = c.name + ", run " + std::to_string(call);
      expect_same(session.run(fetches, {{"x", x}}), want, where);
      EXPECT_TRUE(same_bits(w_graph, w_eager)) << where << ", the captured tensor";
    }
    EXPECT_TRUE(same_graph(*Graph::parse(graph.to_string()).impl(), *graph.impl()));
  }
}

/// The sum of all elements of floating results, each weighted by its place.
Tensor weighted(const Tensors& results) {
  Tensor total;
  for (const Tensor& y : results) {
    if (!is_floating(y.dtype())) continue;
    const Tensor line = y.reshape({-1});
    const Tensor term = sum(line * line * cos(arange(y.numel(), y.dtype()) + 1));
    total = total.defined() ? total + term : term;
  }
  return total;
}

TEST_P(ViewWrites, GradientsInAGraphAgreeWithFiniteDifferences) {
  const ViewWrite& c = GetParam();
  if (!c.in_graph) return;
  manual_seed(3);
  const Tensor w = normal({6, 4}).to(f64), x = normal({5, 4}).to(f64) * 0.5 + 0.7;
  const auto loss = [&](const Tensor& at_w, const Tensor& at_x) {
    return weighted(c.run(at_w.clone(), at_x.clone()));
  };
  Graph graph;
  const auto fetches = graph.define([&] {
    Tensor start_w = placeholder("w", f64, {6, 4}), start_x = placeholder("x", f64, {5, 4});
    return grad(Tensors{loss(start_w, start_x)}, Tensors{start_w, start_x}, {.allow_unused = true});
  });
  for (std::size_t input = 0; input < 2; ++input) {
    if (!fetches[input].defined()) continue;
    const auto got =
        Session(graph).run({fetches[input]}, {{"w", w}, {"x", x}})[0].to_vector<double>();
    const Tensor& moved = input == 0 ? w : x;
    for (std::int64_t i = 0; i < moved.numel().number(); ++i) {
      double values[2];
      for (int side = 0; side < 2; ++side) {
        const Tensor at = moved.clone();
        at.data<double>()[i] += side == 0 ? 1e-5 : -1e-5;
        values[side] = (input == 0 ? loss(at, x) : loss(w, at)).item();
      }
      const double want = (values[0] - values[1]) / 2e-5;
      EXPECT_NEAR(got[static_cast<std::size_t>(i)], want, 1e-6 * std::max(1.0, std::abs(want)))
          << c.name << ", input " << input << ", element " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, ViewWrites, ::testing::ValuesIn(view_writes()),
                         [](const auto& info) { return info.param.name; });

TEST(ViewWritesCompiled, BothBranchesWriteWhatIsCaptured) {
  const auto run = [](const Tensor& w, const Tensor& x) {
    Tensor row = w[0];
    if (sum(x) > 0) {
      row.add_(x);
    } else {
      w.select(1, 2).fill_(-1);
    }
    return row * 2;
  };
  const Tensor w_eager = zeros({3, 4}), w_fast = zeros({3, 4});
  const auto fast = compile([&](const Tensor& x) { return run(w_fast, x); }, {.recheck = false});
  for (int i = 0; i < 8; ++i) {
    const Tensor x = full({4}, i % 3 == 0 ? -1 : i);
    EXPECT_TRUE(same_bits(fast(x), run(w_eager, x)));
    EXPECT_TRUE(same_bits(w_fast, w_eager));
  }
  EXPECT_EQ(fast.explain().eager, 0);
}

TEST(ViewWritesCompiled, RowsOfParametersUnderNoGrad) {
  const auto train = [](bool compiled) {
    manual_seed(4);
    Tensor w = normal({4, 3}).requires_grad();
    const auto step = [&](const Tensor& x) {
      w.zero_grad();
      Tensor loss = mean(square(matmul(x, w)));
      loss.backward();
      no_grad([&] {
        w.grad().slice(0, 0, 1).mul_(0.5);
        w.slice(0, 1, 3).sub_(w.grad().slice(0, 1, 3) * 0.1f);
        w[0].sub_(w.grad()[0]);
      });
      return loss;
    };
    const auto fast = compile(step);
    Tensors seen;
    for (int i = 0; i < 12; ++i) {
      const Tensor x = normal({i % 2 == 0 ? 5 : 7, 4});
      seen.push_back(compiled ? fast(x) : step(x));
    }
    seen.push_back(w.detach());
    seen.push_back(w.grad());
    if (compiled) {
      EXPECT_EQ(fast.explain().eager, 0) << to_string(fast.explain());
    }
    return seen;
  };
  expect_same(train(true), train(false), "training");
}

TEST(ViewWritesCompiled, AGradientThatWasThereIsScaledInPlace) {
  const auto run = [](const Tensor& w, bool compiled) {
    const auto clip = [&](const Tensor& scale) {
      w.grad()[1].mul_(scale);
      return sum(w.grad());
    };
    const auto fast = compile(clip, {.recheck = false});
    Tensors seen;
    for (int i = 0; i < 4; ++i) {
      const Tensor scale = full({}, 0.5 + i);
      seen.push_back(compiled ? fast(scale) : clip(scale));
      seen.push_back(w.grad().clone());
    }
    return seen;
  };
  const auto leaf = [] {
    Tensor w = ones({3, 2}).requires_grad();
    sum(w * w).backward();
    return w;
  };
  expect_same(run(leaf(), true), run(leaf(), false), "clipping");
}

TEST(ViewWritesCompiled, GradientsThroughAMaskMadeByWrites) {
  Tensor w = tensor({1.0f, 2.0f, 3.0f, 4.0f}).requires_grad();
  const auto fn = [&](const Tensor& x) {
    Tensor mask = zeros({4});
    mask.slice(0, 1, 3).copy_(x);
    return sum(w * w * mask);
  };
  const auto fast = compile(fn, {.recheck = false});
  for (int i = 1; i < 5; ++i) {
    fast(full({2}, i)).backward();
    const Tensor got = w.grad();
    w.zero_grad();
    fn(full({2}, i)).backward();
    EXPECT_TRUE(same_bits(got, w.grad()));
    w.zero_grad();
  }
}

TEST(ViewWritesCompiled, WhatEagerModeRefusesIsRefused) {
  Tensor w = ones({3, 2}).requires_grad();
  const auto to_leaf = [&](const Tensor& x) {
    w[0].copy_(x);
    return w * 1;
  };
  const auto to_tracked = [&](const Tensor& x) {
    Tensor y = w * 2;
    y[0].copy_(x);
    return y;
  };
  for (const std::function<Tensor(const Tensor&)>& fn :
       {std::function<Tensor(const Tensor&)>(to_leaf),
        std::function<Tensor(const Tensor&)>(to_tracked)}) {
    const auto fast = compile(fn);
    const std::string eager = message_of<GradError>([&] { (void)fn(ones({2})); });
    EXPECT_THAT(eager, HasSubstr("in-place write to"));
    EXPECT_EQ(message_of<GradError>([&] { (void)fast(ones({2})); }), eager);
  }
}

TEST(ViewWritesCompiled, ArgumentsThatShareMemory) {
  const auto fn = [](const Tensor& a, const Tensor& b) {
    a[0].add_(b[1]);
    return a + b;
  };
  const auto fast = compile(fn, {.recheck = false});
  const auto check = [&](const std::function<std::pair<Tensor, Tensor>(const Tensor&)>& views) {
    const Tensor memory = normal({4, 3}), copy = memory.clone();
    const auto [a, b] = views(memory);
    const auto [c, d] = views(copy);
    EXPECT_TRUE(same_bits(fast(a, b), fn(c, d)));
    EXPECT_TRUE(same_bits(memory, copy));
  };
  const auto apart = [](const Tensor& x) { return std::pair(x.slice(0, 0, 2), x.slice(0, 2, 4)); };
  const auto same = [](const Tensor& x) { return std::pair(x.slice(0, 0, 2), x.slice(0, 0, 2)); };
  const auto lapped = [](const Tensor& x) { return std::pair(x.slice(0, 0, 2), x.slice(0, 1, 3)); };
  for (int i = 0; i < 3; ++i) check(apart);
  EXPECT_EQ(fast.explain().replays, 2);
  for (int i = 0; i < 3; ++i) check(same);
  for (int i = 0; i < 3; ++i) check(lapped);
  for (int i = 0; i < 3; ++i) check(apart);
  const Explanation told = fast.explain();
  EXPECT_EQ(told.replays, 5) << to_string(told);
  ASSERT_EQ(told.recordings.size(), 2u);
  EXPECT_THAT(told.recordings[1].reason, HasSubstr("an argument shares memory with another"));
  EXPECT_THAT(told.recordings[1].refusal,
              HasSubstr("an in-place write to f32[2, 3], which shares memory with f32[2, 3]"));
}

TEST(ViewWritesCompiled, CapturedTensorsThatShareMemoryRunEagerly) {
  const Tensor w = zeros({3, 2});
  Tensor row = w[1], same = w.detach();
  const auto fast = compile([&](const Tensor& x) {
    same[0].copy_(x);  // another object for all of w
    return w * 2;
  });
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(fast(full({2}, i)).to_vector<float>()[1], static_cast<float>(2 * i));
  EXPECT_EQ(fast.explain().eager, 0);
  const auto slow = compile([&](const Tensor& x) {
    row.copy_(x);
    return w * 2;
  });
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(slow(full({2}, i)).to_vector<float>()[2], static_cast<float>(2 * i));
  EXPECT_THAT(slow.explain().recordings[0].refusal, HasSubstr("make the view inside it"));
}

TEST(ViewWritesCompiled, StridesThatDecideWhetherAReshapeIsAView) {
  const auto fn = [](const Tensor& x) {
    Tensor flat = x.reshape({-1});
    flat[1].fill_(9);
    return flat * 1;
  };
  const auto fast = compile(fn, {.recheck = false});
  for (int i = 0; i < 8; ++i) {
    const Tensor x = normal({3, 4}), y = x.clone();
    const bool turned = i % 3 == 2;
    EXPECT_TRUE(same_bits(fast(turned ? x.t() : x), fn(turned ? y.t() : y)));
    EXPECT_TRUE(same_bits(x, y));
  }
  EXPECT_EQ(fast.explain().eager, 0) << to_string(fast.explain());
}

TEST(ViewWritesInEveryMode, BroadcastViewsCannotBeWritten) {
  const auto fn = [](const Tensor& x) {
    Tensor y = x * 2;
    Tensor wide = y.expand({3, 4});
    wide.fill_(1);
    return y;
  };
  const std::string rule =
      "in-place write to f32[3, 4], which is broadcast: several of its elements are one element in "
      "memory; write to the tensor that was expanded, or to a clone()";
  EXPECT_THAT(message_of<ValueError>([&] { (void)fn(ones({1, 4})); }), HasSubstr(rule));
  const auto fast = compile(fn);
  EXPECT_THAT(message_of<ValueError>([&] { (void)fast(ones({1, 4})); }), HasSubstr(rule));
  Graph graph;
  EXPECT_THAT(message_of<ValueError>(
                  [&] { graph.define([&] { return fn(placeholder("x", f32, {1, 4})); }); }),
              HasSubstr(rule));
  // As large as before: a view like any other.
  const auto same_size = [](const Tensor& x) {
    Tensor y = x * 2;
    y.expand({1, 1, 4})[0][0].fill_(1);
    return y;
  };
  Graph whole;
  const Tensor y = whole.define([&] { return same_size(placeholder("x", f32, {1, 4})); });
  EXPECT_TRUE(same_bits(Session(whole).run({y}, {{"x", ones({1, 4})}})[0], ones({1, 4})));
}

TEST(ViewWritesInAGraph, BodiesWriteTheirOwnTensors) {
  const auto fn = [](const Tensor& x) {
    return while_loop([](const Tensor&, const Tensor& i) { return i < 3; },
                      [&](Tensor y, const Tensor& i) {
                        Tensor next = y * 1;
                        next[0].add_(next[1]);
                        next.select(1, 0).copy_(x.select(1, 1) * 2);
                        Tensor z = cond(
                            sum(next) > 0,
                            [&] {
                              Tensor twice = next * 2;
                              twice[2].fill_(1);
                              return twice;
                            },
                            [&] { return next * 1; });
                        return std::tuple(z, i + 1);
                      },
                      std::tuple(x * 1, tensor(0, i64)));
  };
  Graph graph;
  const auto fetches = graph.define([&] { return fn(placeholder("x", f32, {"n", 4})); });
  Session session(graph);
  for (const std::int64_t n : {3, 5}) {
    const Tensor x = input(n, 0);
    const auto got = session.run({std::get<0>(fetches)}, {{"x", x}});
    EXPECT_TRUE(same_bits(got[0], std::get<0>(fn(x))));
  }
  Graph refused;
  const auto define = [&] {
    refused.define([&] {
      Tensor x = placeholder("x", f32, {3, 4}) * 1;
      return cond(
          sum(x) > 0,
          [&] {
            x[0].fill_(1);
            return x;
          },
          [&] { return x; });
    });
  };
  EXPECT_THAT(
      message_of<GraphError>(define),
      HasSubstr("cond: a function writes in place to f32[3, 4], a tensor from outside; give "
                "the new value as a result and write it after the cond"));
}

TEST(ViewWritesInAGraph, AVariablesHandleShowsWritesInPlaceButNoAssignment) {
  Graph graph;
  const auto [written, later] = graph.define([&] {
    Tensor w = variable("w", zeros({2, 2}));
    w[1].fill_(3);
    Tensor seen = w + 0;
    Tensor assigned = assign(variable("v", ones({2})), full({2}, 5));
    return std::pair(seen, assigned + w[1]);
  });
  const auto got = Session(graph).run({written, later}, {});
  EXPECT_EQ(got[0].to_vector<float>(), (std::vector<float>{0, 0, 3, 3}));
  EXPECT_EQ(got[1].to_vector<float>(), (std::vector<float>{8, 8}));
  EXPECT_EQ(graph.variables()[0].second.to_vector<float>(), (std::vector<float>{0, 0, 3, 3}));
}

TEST(WholeWrites, TakeTheValueAsItIs) {
  Tensor w = arange(12).to(f32).reshape({3, 4});
  const auto step = compile(
      [&](const Tensor& x) {
        w.copy_(w * 0.5f + x);
        return sum(w);
      },
      CompileOptions{.recheck = false, .background = Background::never});
  Tensor expected = w.clone();
  for (int i = 0; i < 3; ++i) {
    static_cast<void>(step(ones({3, 4})));
    expected = expected * 0.5f + ones({3, 4});
    EXPECT_TRUE(same_bits(w, expected));
  }
  const CompiledGraph graph = step.graphs().at(0);
  EXPECT_EQ(exec::count_of(*graph.compiled, "slice_scatter"), 0);
  // Of an argument there is a copy.
  const auto copied = compile(
      [](const Tensor& x) {
        Tensor y = sum(x);
        y.copy_(x);
        return y;
      },
      CompileOptions{.recheck = false, .background = Background::never});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = full({}, 2.5f);
    Tensor y = copied(x);
    y.fill_(7);
    EXPECT_EQ(x.item<float>(), 2.5f);
  }
  // What lies otherwise than the tensor is still put where that lies.
  const auto turned = compile(
      [&](const Tensor& x) {
        w.copy_(transpose(x, 0, 1) + 1.0f);
        return w * 2.0f;
      },
      CompileOptions{.recheck = false, .background = Background::never});
  for (int i = 0; i < 3; ++i) {
    const Tensor x = normal({4, 3});
    const Tensor y = turned(x);
    EXPECT_TRUE(same_bits(w, contiguous(transpose(x, 0, 1) + 1.0f)));
    EXPECT_TRUE(same_bits(y, w * 2.0f));
    EXPECT_TRUE(w.is_contiguous());
  }
}

}  // namespace
}  // namespace dyad
