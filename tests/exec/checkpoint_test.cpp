#include "dyad/exec/checkpoint.h"

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/core/storage.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/executable.h"
#include "dyad/exec/session.h"
#include "exec_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::message_of;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

struct Net {
  Tensor w1 = normal({4, 8}, 0, 1, f64), w2 = normal({8, 4}, 0, 1, f64);
  Net() {
    w1.requires_grad();
    w2.requires_grad();
  }
  [[nodiscard]] Tensor block(const Tensor& x) const {
    return tanh(matmul(relu(matmul(x, w1)), w2)) + x;
  }
  /// A block several times, each kept or computed again.
  [[nodiscard]] Tensor run(const Tensor& x, bool again, int blocks = 3) const {
    Tensor h = x;
    for (int i = 0; i < blocks; ++i) {
      h = again ? checkpoint([this](const Tensor& t) { return block(t); }, h) : block(h);
    }
    return mean(h * h);
  }
  [[nodiscard]] Tensors by(const Tensor& loss, const Tensor& x) const {
    const Tensors outputs{loss}, inputs{x, w1, w2};
    return grad(outputs, inputs, {.allow_unused = true});
  }
};

void expect_same(const Tensors& a, const Tensors& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(exec::same_bits(a[i], b[i])) << i;
}

TEST(Checkpoint, GivesTheSameBitsAndGradients) {
  manual_seed(1);
  const Net net;
  Tensor x = normal({5, 4}, 0, 1, f64).requires_grad();
  const Tensor plain = net.run(x, false), again = net.run(x, true);
  EXPECT_TRUE(exec::same_bits(plain, again));
  expect_same(net.by(plain, x), net.by(again, x));
  EXPECT_TRUE(exec::same_bits(no_grad([&] { return net.run(x, true); }), plain));
  // Leaves accumulate as usual.
  net.run(x, true).backward();
  const Tensor from_again = net.w1.grad();
  net.w1.zero_grad();
  net.run(x, false).backward();
  EXPECT_TRUE(exec::same_bits(from_again, net.w1.grad()));
}

TEST(Checkpoint, NestsAndTakesTensorsFromOutsideOnce) {
  manual_seed(2);
  const Net net;
  Tensor x = normal({5, 4}, 0, 1, f64).requires_grad();
  const auto close = [&](const Tensors& a, const Tensors& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_LT(max(abs(a[i] - b[i])).item(), 1e-12) << i;
    }
  };
  // The lambdas refer to locals, which live until the backward pass.
  Tensors plain, again;
  for (const bool checkpointed : {false, true}) {
    const Tensor scaled = net.w1 * 2;
    const auto inner = [&](const Tensor& t) { return sigmoid(matmul(t, scaled) + sum(net.w1)); };
    const auto outer = [&](const Tensor& t) {
      return matmul(checkpointed ? checkpoint(inner, t * 2) : inner(t * 2), net.w2) * t;
    };
    const Tensor y = sum(checkpointed ? checkpoint(outer, x) : outer(x));
    (checkpointed ? again : plain) = net.by(y, x);
  }
  close(plain, again);
}

TEST(Checkpoint, IsDifferentiatedTwice) {
  Tensor x = tensor({0.3, -0.7, 1.1}).requires_grad(), w = tensor({2., 3., 4.}).requires_grad();
  const auto f = [&](const Tensor& t) { return sin(t * w) * t; };
  const auto second = [&](bool again) {
    const Tensor y = sum(again ? checkpoint(f, x) : f(x));
    const Tensors first = grad(y, {x, w}, {.create_graph = true});
    return grad(sum(first[0] * first[0]) + sum(first[1] * x), {x, w});
  };
  const Tensors plain = second(false), again = second(true);
  for (std::size_t i = 0; i < 2; ++i) EXPECT_LT(max(abs(plain[i] - again[i])).item(), 1e-12);
}

TEST(Checkpoint, RepeatsItsRandomNumbers) {
  Tensor x = ones({64}, f64).requires_grad();
  const auto f = [](const Tensor& t) { return dropout(dropout(t, 0.5) * t, 0.3); };
  manual_seed(7);
  const Tensor y = checkpoint(f, x);
  const Tensor next = uniform({2});
  const Tensor by = grad(sum(y), {x})[0];
  // y = mask * x^2 / keep, so that its derivative at 1 is 2 y, for the same mask.
  EXPECT_TRUE(exec::same_bits(by, y.detach() * 2));
  manual_seed(7);
  const Tensor plain = f(x);
  EXPECT_TRUE(exec::same_bits(plain, y));
  EXPECT_TRUE(exec::same_bits(uniform({2}), next)) << "the generator moves on once";
}

TEST(Checkpoint, DoesNotWriteToTensorsFromOutsideAgain) {
  Tensor mean_so_far = zeros({3}, f64), x = tensor({1., 2., 3.}).requires_grad();
  const auto f = [&](const Tensor& t) {
    no_grad([&] { mean_so_far.copy_(mean_so_far * 0.5 + t.detach() * 0.5); });
    Tensor local = zeros({3}, f64);
    local.add_(1);
    return t * t * local;
  };
  const Tensor y = checkpoint(f, x);
  EXPECT_EQ(grad(sum(y), {x})[0].to_vector<double>(), (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(mean_so_far.to_vector<double>(), (std::vector<double>{0.5, 1, 1.5}));
}

TEST(Checkpoint, GivesTensorsFromOutsideAndSeveralResults) {
  Tensor x = tensor({1., 2.}).requires_grad(), w = tensor({3., 4.}).requires_grad();
  const auto [y, same, index] =
      checkpoint([&](const Tensor& t) { return std::tuple{t * w, w, argmax(t, 0)}; }, x);
  EXPECT_EQ(index.item<int>(), 1);
  const Tensors by = grad(sum(y) + sum(same * same), {x, w});
  EXPECT_EQ(by[0].to_vector<double>(), (std::vector<double>{3, 4}));
  EXPECT_EQ(by[1].to_vector<double>(), (std::vector<double>{7, 10}));
}

TEST(Checkpoint, NeedsLessMemory) {
  manual_seed(3);
  constexpr int kBlocks = 12;
  Tensor w = (normal({256, 256}, 0, 0.05)).detach().requires_grad();
  const Tensor x = normal({512, 256});
  const auto block = [&](const Tensor& t) {
    return tanh(sigmoid(tanh(matmul(t, w)) * 2) - sigmoid(t) * 0.5);
  };
  const auto peak = [&](bool again) {
    w.zero_grad();
    reset_peak_memory();
    const std::size_t before = memory_stats().in_use;
    Tensor h = x;
    for (int i = 0; i < kBlocks; ++i) h = again ? checkpoint(block, h) : block(h);
    sum(h).backward();
    return memory_stats().peak - before;
  };
  const std::size_t plain = peak(false), again = peak(true);
  const std::size_t activation = 512 * 256 * 4;
  EXPECT_GT(plain, kBlocks * 4 * activation);
  EXPECT_LT(again, (kBlocks + 12) * activation);
}

TEST(Checkpoint, RefusesWhatHasChangedSince) {
  Tensor x = tensor({1., 2.}).requires_grad(), w = tensor({3., 4.}).requires_grad();
  const Tensor y = sum(checkpoint([&](const Tensor& t) { return t * w; }, x));
  no_grad([&] { w.add_(1); });
  EXPECT_THAT(message_of<GradError>([&] { y.backward(); }),
              HasSubstr("was overwritten in place after it was saved"));
  EXPECT_THAT(message_of<ValueError>(
                  [&] { (void)checkpoint([](const Tensor& t) { return t; }, Tensor()); }),
              HasSubstr("checkpoint: an input is an undefined tensor"));
}

// --- static graphs
// ----------------------------------------------------------------------------------

TEST(CheckpointInGraph, RepeatsItsNodesAndGivesTheSameBits) {
  manual_seed(4);
  const Net net;
  const Tensor x = normal({5, 4}, 0, 1, f64);
  const auto run = [&](bool again, std::string* text) {
    Graph graph;
    const Tensors fetches = graph.define([&] {
      Tensor in = placeholder("x", f64, {Dim::symbol("n"), 4});
      const Tensor loss = net.run(in, again, 2);
      Tensors all = gradients(loss, Tensors{in, net.w1, net.w2});
      all.push_back(loss);
      return all;
    });
    graph.verify();
    *text = graph.to_string();
    Session session(graph);
    return session.run(fetches, {{"x", x}});
  };
  std::string plain_text, again_text;
  const Tensors plain = run(false, &plain_text), again = run(true, &again_text);
  expect_same(plain, again);
  const auto count = [](const std::string& text, std::string_view what) {
    int n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++n;
    return n;
  };
  EXPECT_EQ(count(plain_text, "= relu("), 2);
  EXPECT_EQ(count(again_text, "= relu("), 4);
  // The text says it all.
  Graph read = Graph::parse(again_text);
  EXPECT_EQ(read.to_string(), again_text);
  // And eagerly the same.
  Tensor leaf = x.clone().requires_grad();
  const Tensors eager = net.by(net.run(leaf, true, 2), leaf);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(exec::same_bits(eager[i], again[i])) << i;
}

TEST(CheckpointInGraph, NestsRepeatsRandomNumbersAndDifferentiatesTwice) {
  Graph graph;
  const Tensors fetches = graph.define([] {
    Tensor x = placeholder("x", f64, {64});
    const auto inner = [](const Tensor& t) { return dropout(t, 0.5) * t; };
    const Tensor y = checkpoint([&](const Tensor& t) { return checkpoint(inner, t * 3) * t; }, x);
    const Tensor first = gradients(sum(y), {x})[0];
    return Tensors{y, first, gradients(sum(first * x), {x})[0]};
  });
  graph.verify();
  Session session(graph);
  const Tensors found = session.run(fetches, {{"x", ones({64}, f64)}});
  // y = m (3x)^2 x: its derivatives at 1 are 3 y and, of 27 m x^3, 9 y.
  EXPECT_LT(max(abs(found[1] - found[0] * 3)).item(), 1e-12);
  EXPECT_LT(max(abs(found[2] - found[0] * 9)).item(), 1e-12);
  EXPECT_GT(max(found[0]).item(), 0);
}

TEST(CheckpointInGraph, RunsInLessMemory) {
  const auto bytes = [](bool again) {
    Graph graph;
    const Tensors fetches = graph.define([&] {
      Tensor h = placeholder("x", f32, {256, 256}), w = placeholder("w", f32, {256, 256});
      const Tensor x = h;
      const auto block = [&](const Tensor& t) { return tanh(matmul(sigmoid(matmul(t, w)), w)); };
      for (int i = 0; i < 10; ++i) h = again ? checkpoint(block, h) : block(h);
      return gradients(sum(h), {w});
    });
    Session session(graph);
    const Tensor x = ones({256, 256}), w = full({256, 256}, 0.001);
    session.run(fetches, {{"x", x}, {"w", w}});
    reset_peak_memory();
    const std::size_t before = memory_stats().in_use;
    session.run(fetches, {{"x", x}, {"w", w}});
    return std::pair{memory_stats().peak - before, to_string(session.explain())};
  };
  const auto plain = bytes(false), again = bytes(true);
  EXPECT_NE(plain.second, again.second);
  EXPECT_LT(again.first, plain.first) << plain.second << again.second;
}

// --- compiled functions
// -----------------------------------------------------------------------------

TEST(CheckpointCompiled, GivesTheSameBits) {
  manual_seed(5);
  const Net net;
  const auto step = [&net](const Tensor& x) {
    Tensor leaf = x.detach().requires_grad();
    const Tensor loss = net.run(leaf, true);
    Tensors all = net.by(loss, leaf);
    all.push_back(loss.detach());
    return all;
  };
  const auto forward = [&net](const Tensor& x) { return net.run(x, true); };
  auto compiled = compile(step);
  auto outside = compile(forward);
  for (int call = 0; call < 4; ++call) {
    Tensor x = normal({5, 4}, 0, 1, f64).requires_grad();
    expect_same(compiled(x), step(x));
    expect_same(net.by(outside(x), x), net.by(forward(x), x));
  }
  EXPECT_GE(compiled.explain().replays, 1);
  EXPECT_GE(outside.explain().replays, 1);
  // Computed again, not shared with the first time.
  const std::string text = to_string(*compiled.graphs().front().compiled);
  EXPECT_THAT(text, HasSubstr("recompute"));
}

TEST(CheckpointCompiled, RepeatsItsRandomNumbers) {
  auto f = compile([](const Tensor& x) {
    Tensor leaf = x.detach().requires_grad();
    const Tensor y = checkpoint([](const Tensor& t) { return dropout(t, 0.5) * t; }, leaf);
    return std::pair{y.detach(), grad(sum(y), {leaf})[0]};
  });
  for (int call = 0; call < 4; ++call) {
    const auto [y, by] = f(ones({64}, f64));
    EXPECT_TRUE(exec::same_bits(by, y * 2)) << call;
  }
}

}  // namespace
}  // namespace dyad
