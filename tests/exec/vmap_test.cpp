#include "dyad/exec/vmap.h"

#include <cmath>

#include "dyad/autograd/gradients.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/custom_gradient.h"
#include "dyad/exec/derivatives.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using exec::expect_near;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

/// What a loop over the samples gives.
template <class F>
Tensor looped(const F& f, const Tensor& x) {
  Tensors rows;
  for (std::int64_t i = 0; i < x.size(0).number(); ++i) rows.push_back(f(select(x, 0, i)));
  return stack(rows);
}

struct Vmap : ::testing::Test {
  Vmap() { manual_seed(1); }
  Tensor x = normal({3, 2, 4}, 0, 1, f64), w = normal({4, 5}, 0, 1, f64);
};

TEST_F(Vmap, CarriesOutEveryKindOfOperatorForTheBatch) {
  const Tensor row = normal({4}, 0, 1, f64), index = tensor({1, 0, 1});
  struct Named {
    const char* name;
    std::function<Tensor(const Tensor&)> f;
  };
  const std::vector<Named> functions{
      {"pointwise", [&](const Tensor& t) { return tanh(t) * row + 2; }},
      {"ranks", [&](const Tensor& t) { return select(t, 0, 1) * w.transpose(0, 1) * sum(t); }},
      {"where", [&](const Tensor& t) { return where(t > row, t, -1.5); }},
      {"sum", [](const Tensor& t) { return sum(t); }},
      {"axis", [](const Tensor& t) { return sum(t, {0}) - mean(t, {-2}); }},
      {"keepdim", [](const Tensor& t) { return t - max(t, {1}, true); }},
      {"scalar", [](const Tensor& t) { return sum(sum(t)); }},
      {"argmax", [](const Tensor& t) { return argmax(t, 1); }},
      {"var", [](const Tensor& t) { return var(t, {1}); }},
      {"reshape", [](const Tensor& t) { return reshape(t, {4, 2}); }},
      {"flatten", [](const Tensor& t) { return reshape(t, {-1}); }},
      {"permute", [](const Tensor& t) { return permute(t, {1, 0}); }},
      {"unsqueeze", [](const Tensor& t) { return unsqueeze(unsqueeze(t, 0), -1); }},
      {"squeeze", [](const Tensor& t) { return squeeze(sum(t, {0}, true), 0); }},
      {"expand", [](const Tensor& t) { return expand(select(t, 0, 0), {3, 4}); }},
      {"expand 2", [](const Tensor& t) { return expand(select(t, 1, 0), {2, 2}); }},
      {"slice",
       [](const Tensor& t) { return slice(t, 1, 1, kEnd, 2) + select(t, -1, 0).reshape({2, 1}); }},
      {"scatter", [](const Tensor& t) { return slice_scatter(t, slice(t, 1, 0, 2) * 2, 1, 2); }},
      {"matmul", [&](const Tensor& t) { return matmul(t, w); }},
      {"matmul 2", [&](const Tensor& t) { return matmul(w.transpose(0, 1), t.transpose(0, 1)); }},
      {"matmul 3", [&](const Tensor& t) { return matmul(t, t.transpose(0, 1)); }},
      {"linear", [&](const Tensor& t) { return linear(t, w.transpose(0, 1), ones({5}, f64)); }},
      {"softmax", [](const Tensor& t) { return softmax(t, 0) + log_softmax(t, -1); }},
      {"layer_norm", [&](const Tensor& t) { return layer_norm(t, row, row); }},
      {"gather", [](const Tensor& t) { return gather(t, 0, tensor({{1, 0, 1, 0}})); }},
      {"gather 2", [](const Tensor& t) { return gather(t, 1, argmax(t, 1, true)); }},
      {"index_select", [&](const Tensor& t) { return index_select(t, 0, index); }},
      {"index_select 2", [&](const Tensor& t) { return index_select(w, 0, argmax(t, 1)); }},
      {"concat", [&](const Tensor& t) { return concat({t, reshape(row, {1, 4})}, 0); }},
      {"stack", [](const Tensor& t) { return stack({t, t * 2}, -1); }},
      {"pad", [](const Tensor& t) { return pad(t, {1, 0}, {0, 2}, 3); }},
      {"cast", [](const Tensor& t) { return t.to(f32); }},
      {"nothing", [](const Tensor&) { return ones({2}, f64); }},
      {"in place",
       [](const Tensor& t) {
         Tensor made = t * 1;
         select(made, 0, 1).fill_(7);
         return made;
       }},
  };
  for (const auto& [name, f] : functions) {
    SCOPED_TRACE(name);
    expect_near(vmap(f)(x), looped(f, x));
  }
}

TEST_F(Vmap, TakesImagesByTheRowsWord) {
  const Tensor images = normal({3, 2, 2, 5, 5}), weight = normal({4, 2, 3, 3}), bias = normal({4});
  const auto f = [&](const Tensor& t) {
    return avg_pool2d(max_pool2d(relu(conv2d(t, weight, bias, {1, 1}, {1, 1})), {2, 2}), {2, 2});
  };
  expect_near(vmap(f)(images), looped(f, images), 1e-5);
  // A weight for each sample: one call each.
  const Tensor weights = normal({3, 4, 2, 3, 3});
  const Tensor shared = select(images, 0, 0);
  expect_near(vmap([&](const Tensor& k) { return conv2d(shared, k); })(weights),
              looped([&](const Tensor& k) { return conv2d(shared, k); }, weights), 1e-5);
}

TEST_F(Vmap, TheBatchMayLieAnywhere) {
  const auto f = [](const Tensor& a, const Tensor& b) { return std::pair{a * b, sum(a) + b}; };
  const Tensor a = normal({4, 3}, 0, 1, f64), b = normal({4}, 0, 1, f64);
  const auto [product, total] = vmap(f, {.in_axes = {1, std::nullopt}, .out_axis = -1})(a, b);
  expect_near(product, a * reshape(b, {4, 1}));
  expect_near(total, expand(sum(a, {0}), {4, 3}) + reshape(b, {4, 1}));
  // Packs are arguments too.
  const auto g = [](const std::vector<Tensor>& ts, const Tensor& s) { return ts[0] * s + ts[1]; };
  expect_near(vmap(g, {.in_axes = {0, std::nullopt}})(Tensors{a, a * 2}, tensor(3.)), a * 5);
}

TEST_F(Vmap, Nests) {
  const Tensor y = normal({5, 4}, 0, 1, f64);
  const auto dot = [](const Tensor& a, const Tensor& b) { return sum(a * b); };
  const auto rows = [&](const Tensor& a) {
    return vmap(dot, {.in_axes = {std::nullopt, 0}})(a, y);
  };
  const Tensor a = normal({3, 4}, 0, 1, f64);
  expect_near(vmap(rows)(a), matmul(a, y.transpose(0, 1)));
}

TEST_F(Vmap, OfGradGivesPerSampleGradients) {
  Tensor weight = w.clone().requires_grad();
  const auto loss = [&](const Tensor& sample) {
    return sum(pow(softmax(matmul(sample, weight), 1), 2));
  };
  const auto by = [&](const Tensor& sample) { return grad(loss(sample), {weight})[0]; };
  const Tensor found = vmap(by)(x);
  EXPECT_TRUE(found.shape().same_as({3, 4, 5}));
  expect_near(found, looped(by, x));
  // Of a convolution, whose weight gradient is made one sample at a time.
  Tensor kernel = normal({2, 1, 2, 2}, 0, 1, f64).requires_grad();
  const auto by_kernel = [&](const Tensor& image) {
    return grad(sum(pow(conv2d(image, kernel), 2)), {kernel})[0];
  };
  const Tensor images = normal({3, 1, 1, 4, 4}, 0, 1, f64);
  expect_near(vmap(by_kernel)(images), looped(by_kernel, images));
  // And of what is computed again in the backward pass.
  const auto again = [&](const Tensor& sample) {
    return grad(checkpoint(loss, sample), {weight})[0];
  };
  expect_near(vmap(again)(x), looped(by, x));
}

TEST_F(Vmap, IsDifferentiableByWhatItTakesAndUses) {
  Tensor leaf = x.clone().requires_grad(), weight = w.clone().requires_grad();
  const auto f = [&](const Tensor& t) { return softmax(matmul(t, weight), 1); };
  const Tensors found = grad(sum(pow(vmap(f)(leaf), 3)), {leaf, weight});
  const Tensors by_loop = grad(sum(pow(looped(f, leaf), 3)), {leaf, weight});
  for (std::size_t i = 0; i < 2; ++i) expect_near(found[i], by_loop[i]);
  // Of a Jacobian for each sample.
  const auto jacobians = vmap(
      [](const Tensor& t) { return jacobian([](const Tensor& u) { return sin(u) * sum(u); }, t); });
  const Tensor points = normal({3, 2}, 0, 1, f64);
  expect_near(jacobians(points), looped(
                                     [](const Tensor& t) {
                                       return jacobian(
                                           [](const Tensor& u) { return sin(u) * sum(u); }, t);
                                     },
                                     points));
}

TEST_F(Vmap, EachSampleDrawsItsOwnNumbers) {
  const auto f = [](const Tensor& t) { return dropout(t, 0.5) + 0; };
  manual_seed(5);
  const Tensor batch = vmap(f)(ones({4, 32}, f64));
  const Tensor next = uniform({2});
  manual_seed(5);
  const Tensor wanted = looped(f, ones({4, 32}, f64));
  EXPECT_TRUE(exec::same_bits(batch, wanted));
  EXPECT_TRUE(exec::same_bits(uniform({2}), next));
  EXPECT_NE(select(batch, 0, 0).to_vector<double>(), select(batch, 0, 1).to_vector<double>());
  manual_seed(6);
  const Tensor noise =
      vmap([](const Tensor& t) { return t + normal({3}, 0, 1, f64); })(zeros({4}, f64));
  manual_seed(6);
  expect_near(noise,
              looped([](const Tensor& t) { return t + normal({3}, 0, 1, f64); }, zeros({4}, f64)));
}

TEST_F(Vmap, IsTheSameInStaticGraphsAndCompiled) {
  const auto f = [&](const Tensor& t) {
    return sum(softmax(matmul(t, w), 1) * reshape(mean(t, {1}), {2, 1}), {0});
  };
  const auto batch = vmap(f);
  const Tensor eager = batch(x);
  Graph graph;
  const auto [y, by] = graph.define([&] {
    const Tensor in = placeholder("x", f64, {Dim::symbol("n"), 2, 4});
    const Tensor y = batch(in);
    return std::pair{y, gradients(sum(y * y), {in})[0]};
  });
  graph.verify();
  Session session(graph);
  const Tensors found = session.run({y, by}, {{"x", x}});
  EXPECT_TRUE(exec::same_bits(found[0], eager));
  Tensor leaf = x.clone().requires_grad();
  expect_near(found[1], [&] {
    const Tensor z = batch(leaf);
    return grad(sum(z * z), {leaf})[0];
  }());
  auto compiled = compile([&](const Tensor& t) { return batch(t); });
  for (const int n : {3, 3, 3, 5, 5, 5}) {
    const Tensor in = normal({n, 2, 4}, 0, 1, f64);
    EXPECT_TRUE(exec::same_bits(compiled(in), batch(in)));
  }
  EXPECT_GE(compiled.explain().replays, 1);
}

TEST_F(Vmap, OfNoSamplesGivesNone) {
  const auto f = [&](const Tensor& t) { return matmul(t, w); };
  EXPECT_TRUE(vmap(f)(zeros({0, 2, 4}, f64)).shape().same_as({0, 2, 5}));
}

TEST_F(Vmap, TellsWhatIsWrong) {
  EXPECT_THAT(
      message_of<GraphError>(
          [&] { (void)vmap([](const Tensor& t) { return sum(t) > 0 ? t : -t; })(x); }),
      HasSubstr("vmap: the function reads the truth of a tensor, which has a value for each "
                "sample; choose with where()"));
  EXPECT_THAT(message_of<GraphError>(
                  [&] { (void)vmap([](const Tensor& t) { return t * sum(t).item(); })(x); }),
              HasSubstr("vmap: the function reads item()"));
  EXPECT_THAT(
      message_of<ShapeError>(
          [&] { (void)vmap([](const Tensor& a, const Tensor& b) { return a + b; })(x, w); }),
      HasSubstr("vmap: tensor 0, f64[3, 2, 4] has 3 samples but tensor 1, f64[4, 5] has 4"));
  EXPECT_THAT(message_of<ValueError>(
                  [&] { (void)vmap([](const Tensor& t) { return t; }, {.in_axes = {0, 1}})(x); }),
              HasSubstr("vmap: in_axes has 2 entries for 1 arguments"));
  EXPECT_THAT(message_of<ValueError>([&] {
                (void)vmap([](const Tensor& t) { return t; }, {.in_axes = {std::nullopt}})(x);
              }),
              HasSubstr("vmap: no argument has an axis of samples; name one in in_axes"));
  EXPECT_THAT(message_of<IndexError>(
                  [&] { (void)vmap([](const Tensor& t) { return t; }, {.in_axes = {3}})(x); }),
              HasSubstr("vmap: axis 3 of tensor 0, f64[3, 2, 4] is out of range for 3 axes"));
  Tensor outside = zeros({2, 4}, f64);
  EXPECT_THAT(message_of<GraphError>([&] {
                (void)vmap([&](const Tensor& t) {
                  outside.add_(t);
                  return t;
                })(x);
              }),
              HasSubstr("vmap: a function writes in place to f64[2, 4], a tensor from outside"));
  EXPECT_THAT(message_of<GraphError>([&] {
                (void)vmap([&](const Tensor& t) {
                  const Tensor end = while_loop([](const Tensor& u) { return sum(u) < 9; },
                                                [](const Tensor& u) { return u * 2; }, exp(t));
                  return grad(sum(end), {t})[0];
                })(x);
              }),
              HasSubstr("vmap: while_states inside a vectorised function has no form for a batch; "
                        "take the gradient of the whole batch, outside"));
  EXPECT_THAT(message_of<GraphError>([&] {
                (void)vmap([&](const Tensor& t) {
                  return exec::run_while(
                      [](std::span<const Tensor> s) { return std::vector{sum(s[0]) < 9}; },
                      [](std::span<const Tensor> s) { return std::vector{s[0] * 2, s[0]}; },
                      std::vector{exp(t)}, {}, 1)[1];
                })(x);
              }),
              HasSubstr("vmap: a while_loop that keeps what its steps made has no form for a "
                        "batch, whose samples may take different numbers of them"));
}

/// Values, gradients by both arguments and results in a static graph and compiled are those of a
/// loop.
template <class F>
void expect_like_a_loop(const F& f, const Tensor& x, const Tensor& weight, bool inner_gradient) {
  Tensor leaf = x.clone().requires_grad(), used = weight.clone().requires_grad();
  const auto of_sample = [&](const Tensor& t) { return f(t, used); };
  const auto batch = vmap(of_sample);
  expect_near(batch(leaf), looped(of_sample, leaf));
  const Tensors found = grad(sum(pow(batch(leaf), 2)), {leaf, used});
  const Tensors wanted = grad(sum(pow(looped(of_sample, leaf), 2)), {leaf, used});
  for (std::size_t i = 0; i < 2; ++i) expect_near(found[i], wanted[i]);
  if (inner_gradient) {
    const auto by = [&](const Tensor& t) { return grad(sum(of_sample(t)), {used})[0]; };
    expect_near(vmap(by)(x), looped(by, x));
  }
  Graph graph;
  const auto [y, by] = graph.define([&] {
    const Tensor in = placeholder("x", x.dtype(), {Dim::symbol("n"), x.size(1), x.size(2)});
    const Tensor y = vmap([&](const Tensor& t) { return f(t, weight); })(in);
    return std::pair{y, gradients(sum(y * y), {in})[0]};
  });
  graph.verify();
  const Tensors run = Session(graph).run({y, by}, {{"x", x}});
  expect_near(run[0], detach(batch(leaf)));
  expect_near(run[1], found[0]);
  auto compiled = compile([&](const Tensor& t) { return vmap(of_sample)(t); });
  for (int i = 0; i < 3; ++i) expect_near(compiled(x), detach(batch(x)));
}

TEST_F(Vmap, SamplesGoTheirOwnWays) {
  const Tensor weight = normal({4}, 0, 1, f64);
  expect_like_a_loop(
      [](const Tensor& t, const Tensor& w) {
        return cond(
            sum(t) > 0, [&](const Tensor& u) { return sin(u) * w; },
            [&](const Tensor& u) { return u * u + w; }, t);
      },
      x, weight, true);
  for (const double level : {-100.0, 100.0}) {
    expect_like_a_loop(
        [&](const Tensor& t, const Tensor& w) {
          return cond(sum(w) > level, [&] { return t * w; }, [&] { return w * 2 - t; });
        },
        x, weight, true);
  }
}

TEST_F(Vmap, LoopsGoOnUntilTheLastSampleIsDone) {
  const Tensor weight = uniform({4}, 1.2, 1.5, f64);
  expect_like_a_loop(
      [](const Tensor& t, const Tensor& w) {
        return while_loop([](const Tensor& u) { return max(u) < 20; },
                          [&](const Tensor& u) { return u * w + 0.1; }, exp(t));
      },
      x, weight, false);
  // As many steps for all.
  expect_like_a_loop(
      [](const Tensor& t, const Tensor& w) {
        const auto state = while_loop(
            [](const Tensor& i, const Tensor&) { return i < 3; },
            [&](const Tensor& i, const Tensor& u) { return std::tuple{i + 1, sin(u) * w}; },
            std::tuple{zeros({}, i64), t});
        return std::get<1>(state);
      },
      x, weight, false);
}

TEST_F(Vmap, ScansCarryAStateForEachSample) {
  const Tensor weight = normal({4}, 0, 1, f64);
  expect_like_a_loop(
      [](const Tensor& t, const Tensor& w) {
        const auto [last, all] = scan(
            [&](const Tensor& carry, const Tensor& row) {
              const Tensor next = tanh(carry * w + row);
              return std::pair{next, next * 2};
            },
            zeros({4}, f64), t);
        return all + last;
      },
      x, weight, true);
}

TEST_F(Vmap, KeepsGradientsOfTheirOwn) {
  const Tensor weight = normal({4}, 0, 1, f64);
  const auto clipped = custom_gradient([](const Tensor& u, const Tensor& w) { return sin(u) * w; },
                                       [](const CustomGradient& g) {
                                         return std::tuple{clamp(g.grad(), -0.5, 0.5) * g.saved(1),
                                                           sum(g.grad() * g.saved(0), {0})};
                                       });
  expect_like_a_loop([&](const Tensor& t, const Tensor& w) { return clipped(t, w) + t; }, x, weight,
                     true);
  const auto between = custom_gradient(
      [](Saver& saver, const Tensor& u) {
        const Tensor half = u / 2;
        saver.save(half);
        return exp(half);
      },
      [](const CustomGradient& g) { return g.grad() * cos(g.saved(0)); });
  expect_like_a_loop([&](const Tensor& t, const Tensor& w) { return between(t * w); }, x, weight,
                     true);
}

/// Tensors of numbers that the function makes anew at each call.
TEST_F(Vmap, LiteralsAreConstantsOfACompiledFunction) {
  const auto batch = vmap([](const Tensor& t) {
    const std::vector<std::int64_t> classes{1, 3};
    return cross_entropy(t, tensor(classes)) + sum(t * tensor({1.0, 2.0, 3.0, 4.0}));
  });
  const auto compiled = compile([&](const Tensor& t) { return batch(t); });
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(exec::same_bits(compiled(x), batch(x)));
}

}  // namespace
}  // namespace dyad
