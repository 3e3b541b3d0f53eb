#include "dyad/exec/autocast.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/exec/checkpoint.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/ops/ops.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using ::testing::HasSubstr;
using Results = std::vector<Tensor>;

/// Every element as f64: two tensors of one dtype with the same bits give the same ones.
std::vector<std::vector<double>> numbers_of(const Results& tensors) {
  std::vector<std::vector<double>> all;
  for (const Tensor& t : tensors) all.push_back(t.to(f64).to_vector<double>());
  return all;
}

int count(const std::string& text, const std::string& what) {
  int found = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
  return found;
}

/// A network of two layers, the first one used twice.
struct Weights {
  Tensor w = (manual_seed(3), normal({16, 16})).requires_grad();
  Tensor b = normal({16}).requires_grad();
  Tensor v = normal({4, 16}).requires_grad();
  Tensor x = normal({8, 16}), y = randint(0, 4, {8});

  [[nodiscard]] Tensor loss() const {
    Tensor h = gelu(linear(x, w, b));
    h = layer_norm(linear(h, w, b), ones({16}));
    return cross_entropy(linear(h, v, Tensor()), y);
  }
  /// The same with the casts written out.
  [[nodiscard]] Tensor loss_by_hand() const {
    const Tensor wn = w.to(bf16), bn = b.to(bf16);
    Tensor h = gelu(linear(x.to(bf16), wn, bn));
    h = layer_norm(linear(h, wn, bn).to(f32), ones({16}));
    return cross_entropy(linear(h.to(bf16), v.to(bf16), Tensor()).to(f32), y);
  }
  [[nodiscard]] Results with_gradients(const Tensor& loss) const {
    Results all{loss};
    for (const Tensor& g : gradients(loss, {w, b, v})) all.push_back(g);
    return all;
  }
};

TEST(Autocast, ProductsAreNarrowAndSumsAreWide) {
  const Tensor x = ones({4, 4}), wide = ones({4, 4}, f64);
  const Autocast scope(bf16);
  const Tensor product = matmul(x, x);
  EXPECT_EQ(product.dtype(), bf16);
  EXPECT_EQ(linear(x, x, Tensor()).dtype(), bf16);
  EXPECT_EQ((product + 1.0f).dtype(), bf16);
  EXPECT_EQ((product + x).dtype(), f32);
  EXPECT_EQ(relu(product).dtype(), bf16);
  EXPECT_EQ(softmax(product, 1).dtype(), f32);
  EXPECT_EQ(sum(product).dtype(), f32);
  EXPECT_EQ(mse_loss(product, x).dtype(), f32);
  EXPECT_EQ(matmul(wide, wide).dtype(), f64);
  EXPECT_EQ(exp(x).dtype(), f32);
  EXPECT_EQ(max(product).dtype(), bf16);
  {
    const Autocast off(bf16, false);
    EXPECT_EQ(matmul(x, x).dtype(), f32);
    const Autocast half(f16);
    EXPECT_EQ(matmul(x, x).dtype(), f16);
  }
  EXPECT_EQ(matmul(x, x).dtype(), bf16);
}

TEST(Autocast, EndsWithItsScope) {
  const Tensor x = ones({4, 4});
  {
    const Autocast scope;
  }
  EXPECT_EQ(matmul(x, x).dtype(), f32);
  EXPECT_THAT(message_of<DTypeError>([] { const Autocast scope(f32); }),
              HasSubstr("Autocast: the dtype must be bf16 or f16, found f32"));
  EXPECT_EQ(matmul(x, x).dtype(), f32);
}

TEST(Autocast, LayersOfEachKindCompute) {
  const Autocast scope(bf16);
  manual_seed(1);
  const Tensor image = normal({2, 3, 8, 8}).requires_grad(),
               kernel = normal({4, 3, 3, 3}).requires_grad();
  const Tensor convolved = conv2d(image, kernel, Tensor());
  EXPECT_EQ(convolved.dtype(), bf16);
  EXPECT_EQ(conv_transpose2d(convolved, normal({4, 3, 3, 3})).dtype(), bf16);
  const Tensor q = normal({2, 2, 5, 8}).requires_grad();
  const Tensor attended = scaled_dot_product_attention(q, q, q);
  EXPECT_EQ(attended.dtype(), bf16);
  const Tensor both = einsum("bhtd,bhsd->bhts", {q, q});
  EXPECT_EQ(both.dtype(), bf16);
  (sum(convolved) + sum(attended) + sum(both)).backward();
  for (const Tensor& t : {image, kernel, q}) EXPECT_EQ(t.grad().dtype(), f32);
}

TEST(Autocast, RecurrentLayersAreThoseOfCastsWrittenOut) {
  manual_seed(7);
  const Tensor x = normal({6, 2, 4});
  const Tensor w = (normal({24, 4}) * 0.3f).detach().requires_grad();
  const Tensor u = (normal({24, 6}) * 0.3f).detach().requires_grad();
  const Tensor wn = (normal({18, 4}) * 0.3f).detach().requires_grad();
  const Tensor un = (normal({18, 6}) * 0.3f).detach().requires_grad();
  const auto run = [&](bool by_hand) {
    const Autocast scope(bf16, !by_hand);
    const auto cast = [&](const Tensor& t) { return by_hand ? t.to(bf16) : t; };
    const Tensor a = lstm(cast(x), cast(w), cast(u)).y;
    const Tensor b = gru(cast(x), cast(wn), cast(un)).y;
    EXPECT_EQ(a.dtype(), bf16);
    EXPECT_EQ(b.dtype(), bf16);
    const Tensor loss = sum(a.to(f32)) + sum(b.to(f32));
    Results all{a, b};
    for (const Tensor& g : gradients(loss, {w, u, wn, un})) all.push_back(g);
    return numbers_of(all);
  };
  const auto expected = run(true);
  EXPECT_EQ(run(false), expected);
  const auto compiled = compile([&] {
    const Autocast scope(bf16);
    return lstm(x, w, u).y;
  });
  for (int i = 0; i < 3; ++i) EXPECT_EQ(numbers_of({compiled()})[0], expected[0]);
}

TEST(Autocast, ValuesAndGradientsAreThoseOfCastsWrittenOut) {
  const Weights net;
  const auto expected = numbers_of(net.with_gradients(net.loss_by_hand()));
  Results eager;
  {
    const Autocast scope(bf16);
    eager = net.with_gradients(net.loss());
  }
  EXPECT_EQ(numbers_of(eager), expected);
  Tensor loss;
  {
    const Autocast scope(bf16);
    loss = net.loss();
  }
  EXPECT_EQ(numbers_of(net.with_gradients(loss)), expected) << "backward after the scope";
  const auto inside = compile([&] {
    const Autocast scope(bf16);
    return net.with_gradients(net.loss());
  });
  const auto outside = compile([&] { return net.with_gradients(net.loss()); });
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(numbers_of(inside()), expected) << "call " << i;
    const Autocast scope(bf16);
    EXPECT_EQ(numbers_of(outside()), expected) << "call " << i;
  }
}

TEST(Autocast, TheSameInAGraph) {
  const Weights net;
  const auto expected = numbers_of(net.with_gradients(net.loss_by_hand()));
  Graph g;
  const Results results = g.define([&] {
    const Autocast scope(bf16);
    return net.with_gradients(net.loss());
  });
  const std::string text = g.to_string();
  EXPECT_EQ(count(text, "= cast(%w"), 0);
  Session session(g);
  EXPECT_EQ(numbers_of(session.run(results)), expected);
  const Autocast around(f16);
  EXPECT_EQ(numbers_of(Session(g).run(results)), expected) << "a graph runs as it was defined";
}

TEST(Autocast, AParameterIsCastOnceInAScope) {
  const Weights net;
  Graph g;
  g.define([&] {
    const Autocast scope(bf16);
    return matmul(net.x, net.w) + matmul(net.x, net.w);
  });
  EXPECT_EQ(count(g.to_string(), "cast("), 3) << g.to_string();  // w once, x each time
}

TEST(Autocast, ACastIsRenewedWhenItsParameterIsWritten) {
  Tensor w = ones({2, 2}).requires_grad();
  const Tensor x = ones({2, 2});
  const auto twice = [&] {
    const Autocast scope(bf16);
    const Tensor before = sum(matmul(x, w)).detach();
    {
      const NoGrad no_tape;
      w.mul_(2.0f);
    }
    return std::pair{before, sum(matmul(x, w)).detach()};
  };
  const auto eager = twice();
  EXPECT_EQ(eager.first.item<float>(), 8.0f);
  EXPECT_EQ(eager.second.item<float>(), 16.0f);
  const auto compiled = compile(twice);
  for (float first = 16.0f; first < 200.0f; first *= 2) {
    const auto [a, b] = compiled();
    EXPECT_EQ(a.item<float>(), first);
    EXPECT_EQ(b.item<float>(), 2 * first);
  }
}

TEST(Autocast, StepsInOneScopeMayGoBackEach) {
  const Tensor w = ones({2, 2}).requires_grad(), x = ones({2, 2});
  const Autocast scope(bf16);
  for (int i = 0; i < 3; ++i) sum(matmul(x, w)).backward();
  EXPECT_EQ(w.grad().to_vector<float>(), std::vector<float>(4, 6.0f));
}

TEST(Autocast, RecordingsAreKeptApart) {
  const Tensor x = ones({2, 2});
  const auto product = compile([](const Tensor& a) { return matmul(a, a); });
  EXPECT_EQ(product(x).dtype(), f32);
  EXPECT_EQ(product(x).dtype(), f32);
  {
    const Autocast scope(bf16);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(product(x).dtype(), bf16);
  }
  {
    const Autocast scope(f16);
    EXPECT_EQ(product(x).dtype(), f16);
  }
  EXPECT_EQ(product(x).dtype(), f32);
  const Explanation page = product.explain();
  ASSERT_EQ(page.recordings.size(), 3u);
  EXPECT_EQ(page.recordings[1].reason, "autocast was off, is bf16");
  EXPECT_EQ(page.recordings[2].reason, "autocast was bf16, is f16");
}

TEST(Autocast, RulesOfACallFromOutsideComputeInTheDtypesOfItsOperators) {
  manual_seed(5);
  const Tensor given = normal({6, 6}) + 4.0f * eye(6);
  const auto function = [](const Tensor& x) { return sum(square(inverse(x))); };
  const auto fast = compile(function);
  const auto gradient = [&](const auto& f) {
    Tensor x = given.clone().requires_grad();
    const Autocast scope(bf16);
    f(x).backward();
    return numbers_of({x.grad()});
  };
  const auto expected = gradient(function);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(gradient(fast), expected);
}

TEST(Autocast, ACheckpointComputesAgainAsItDidAtFirst) {
  const auto gradient = [](bool by_checkpoint) {
    const Weights net;
    Tensor h;
    {
      const Autocast scope(bf16);
      const auto block = [&](const Tensor& t) { return relu(linear(t, net.w, net.b)); };
      h = by_checkpoint ? checkpoint(block, net.x) : block(net.x);
      h = sum(h * h);
    }
    h.backward();
    return numbers_of({h, net.w.grad(), net.b.grad()});
  };
  EXPECT_EQ(gradient(true), gradient(false));
}

TEST(Autocast, BodiesOfGraphControlFlow) {
  const Tensor w = full({2, 2}, 0.25f);
  const auto loop = [&](const Tensor& x) {
    const Autocast scope(bf16);
    return while_loop([](const Tensor& v) { return sum(v) < 100.0f; },
                      [&](const Tensor& v) { return matmul(v, w).to(f32) * 3.0f; }, x);
  };
  const Tensor x = ones({2, 2});
  const Tensor expected = loop(x);
  Graph g;
  const Tensor y = g.define([&] { return loop(placeholder("x", f32, {2, 2})); });
  EXPECT_EQ(numbers_of(Session(g).run({y}, {{"x", x}})), numbers_of({expected}));
  EXPECT_THAT(g.to_string(), HasSubstr("bf16"));
}

}  // namespace
}  // namespace dyad
