#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/exec/autocast.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/control_flow.h"
#include "exec_for_tests.h"
#include "taped_loops_for_tests.h"

// Scans inside of the steps of others, which a compiled function differentiates: texts of sentences
// of words, in one recording for any number of both.

namespace dyad {
namespace {

using exec::bits;
using exec::compile_now;
using exec::Tensors;
using exec::Trained;
using Pair = std::pair<Tensor, Tensor>;

/// A network over words, and one over what it gives of sentences.
struct TextWeights {
  Tensor word = normal({3, 4}).requires_grad(), sentence = normal({4, 4}).requires_grad(),
         state = normal({4, 4}).requires_grad(), bias = normal({4}).requires_grad();
  [[nodiscard]] Tensors all() const { return {word, sentence, state, bias}; }
  [[nodiscard]] Tensor step(const Tensor& h, const Tensor& x) const {
    return tanh(matmul(x, word) + matmul(h, state) + bias);
  }
  /// The last state, and all of them.
  [[nodiscard]] Pair run(const Tensor& begin, const Tensor& x) const {
    return scan(
        [&](const Tensor& h, const Tensor& row) {
          const Tensor next = step(h, row);
          return Pair(next, next);
        },
        begin, x);
  }
  [[nodiscard]] Tensor words(const Tensor& begin, const Tensor& x) const {
    return run(begin, x).first;
  }
};

struct TextLengths {
  std::int64_t sentences, words;
};
const std::vector<TextLengths> kTextLengths{{5, 6},  {7, 8},  {6, 6}, {9, 5},
                                            {5, 12}, {12, 7}, {7, 8}};

Trained train_on_texts(const std::function<Tensor(const Tensor&)>& loss, const Tensors& leaves,
                       bool rows_need_grad = false,
                       const std::vector<TextLengths>& lengths = kTextLengths) {
  std::vector<Shape> shapes;
  for (const TextLengths& of : lengths) shapes.push_back({of.sentences, of.words, 2, 3});
  return exec::train(loss, leaves, shapes, rows_need_grad);
}

/// One recording serves all lengths but the first, which are taken for numbers.
void expect_one_recording(const Trained& done) {
  EXPECT_EQ(done.recordings, 2);
  EXPECT_GT(done.loops, 0);
  EXPECT_GE(done.replays, 3);
}

/// The same of training, and of training that differentiates by the words, too.
void expect_one_recording(const std::function<Tensor(const Tensor&)>& loss, const TextWeights& w) {
  expect_one_recording(train_on_texts(loss, w.all()));
  expect_one_recording(train_on_texts(loss, w.all(), true));
}

/// A state of sentences that goes on by what `of_sentence` makes of it and each of them.
template <class F>
Tensor over_sentences(const TextWeights& w, const F& of_sentence, const Tensor& x) {
  const auto [h, all] = scan(
      [&](const Tensor& state, const Tensor& sentence) {
        const Tensor next = tanh(of_sentence(state, sentence) + matmul(state, w.state));
        return Pair(next, next);
      },
      zeros({2, 4}), x);
  return mean(all * all) + mean(h);
}

TEST(TapedNested, WordsOfSentences) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w,
        [&](const Tensor&, const Tensor& sentence) {
          return matmul(w.words(zeros({2, 4}), sentence), w.sentence);
        },
        x);
  };
  expect_one_recording(loss, w);
}

TEST(TapedNested, WordsThatBeginWithTheStateOfSentences) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w, [&](const Tensor& state, const Tensor& sentence) { return w.words(state, sentence); },
        x);
  };
  expect_one_recording(loss, w);
}

TEST(TapedNested, OneStateForBoth) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return sum(scan(
                   [&](const Tensor& state, const Tensor& sentence) {
                     const Tensor next = w.words(state, sentence);
                     return Pair(next, next);
                   },
                   zeros({2, 4}), x)
                   .second);
  };
  expect_one_recording(loss, w);
}

TEST(TapedNested, AllStatesOfWords) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w,
        [&](const Tensor& state, const Tensor& sentence) {
          const auto [h, all] = scan(
              [&](const Tensor& inner, const Tensor& row) {
                const Tensor next = w.step(inner, row);
                return Pair(next, next * next);
              },
              state, sentence);
          return h + mean(all, {0}) + amax(all, {0});
        },
        x);
  };
  expect_one_recording(loss, w);
}

TEST(TapedNested, TwoOneBehindTheOther) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w,
        [&](const Tensor& state, const Tensor& sentence) {
          const auto [h, all] = w.run(state, sentence);
          return scan(
                     [&](const Tensor& inner, const Tensor& row) {
                       return Pair(tanh(inner * 0.5 + matmul(row, w.sentence)), row);
                     },
                     h, all)
              .first;
        },
        x);
  };
  expect_one_recording(loss, w);
}

TEST(TapedNested, OverWhatTheProgramMadeOfTheSentence) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w,
        [&](const Tensor& state, const Tensor& sentence) {
          return w.words(zeros({2, 4}), sentence * unsqueeze(slice(state, 1, 0, 3), 0));
        },
        x);
  };
  expect_one_recording(loss, w);
}

TEST(TapedNested, WordsOfAFixedNumber) {
  const TextWeights w;
  std::vector<TextLengths> lengths;
  for (const std::int64_t sentences : exec::kLengths) lengths.push_back({sentences, 0});
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w, [&](const Tensor& state, const Tensor& sentence) { return w.words(state, sentence); },
        x);
  };
  for (const std::int64_t words : {6, 5, 4, 3, 2, 1}) {
    for (TextLengths& of : lengths) of.words = words;
    expect_one_recording(train_on_texts(loss, w.all(), false, lengths));
  }
}

TEST(TapedNested, ThreeDeep) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w,
        [&](const Tensor& state, const Tensor& sentence) {
          return scan(
                     [&](const Tensor& inner, const Tensor& row) {
                       const Tensor letters = scan(
                                                  [&](const Tensor& s, const Tensor& part) {
                                                    const Tensor next = tanh(s * part);
                                                    return Pair(next, next);
                                                  },
                                                  sum(inner, {0}), unsqueeze(sum(row, {0}), 1))
                                                  .first;
                       return Pair(w.step(inner, row) + letters, row);
                     },
                     state, sentence)
              .first;
        },
        x);
  };
  expect_one_recording(train_on_texts(loss, w.all()));
}

TEST(TapedNested, WhileLoopsOfSentences) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    const Tensor count = full({}, 5, i64);
    const auto [n, h] = while_loop([&](const Tensor& i, const Tensor&) { return i < count; },
                                   [&](const Tensor& i, const Tensor& state) {
                                     const Tensor one = index_select(x, 0, reshape(i, {1}));
                                     const Tensor words = reshape(one, {x.size(1), 2, 3});
                                     return Pair(i + 1, w.words(state, words));
                                   },
                                   Pair(zeros({}, i64), zeros({2, 4})));
    return sum(h * h);
  };
  expect_one_recording(train_on_texts(loss, w.all()));
}

// Step by step: which steps add to what the data tell.
TEST(TapedNested, BesideBranches) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w,
        [&](const Tensor& state, const Tensor& sentence) {
          return cond(
              sum(sentence) > 0, [&](const Tensor& h) { return tanh(h * 2); },
              [&](const Tensor& h) { return h * 0.5; }, w.words(state, sentence));
        },
        x);
  };
  std::vector<TextLengths> lengths = kTextLengths;
  for (TextLengths& of : lengths) of.sentences += 15;
  static_cast<void>(train_on_texts(loss, w.all(), false, lengths));
}

TEST(TapedNested, WithBranchesInside) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w,
        [&](const Tensor& state, const Tensor& sentence) {
          return scan(
                     [&](const Tensor& h, const Tensor& row) {
                       const Tensor next = cond(
                           sum(row) > 0, [&](const Tensor& s) { return w.step(s, row); },
                           [&](const Tensor& s) { return s * 0.5; }, h);
                       return Pair(next, next);
                     },
                     state, sentence)
              .first;
        },
        x);
  };
  std::vector<TextLengths> lengths = kTextLengths;
  for (TextLengths& of : lengths) of.words += 20;
  static_cast<void>(train_on_texts(loss, w.all(), false, lengths));
}

TEST(TapedNested, DifferentiatedFromOutside) {
  const TextWeights w;
  const auto run = [&](const Tensor& x) {
    return over_sentences(
        w,
        [&](const Tensor& state, const Tensor& sentence) {
          return matmul(w.words(state * 0.5, sentence), w.sentence);
        },
        x);
  };
  const auto c = compile_now(run);
  manual_seed(5);
  for (const TextLengths& of : kTextLengths) {
    const Tensor drawn = normal({of.sentences, of.words, 2, 3});
    std::vector<std::vector<decltype(bits(drawn))>> gradients;
    for (const bool compiled : {false, true}) {
      const Tensor x = drawn.clone().requires_grad();
      for (const Tensor& leaf : w.all()) leaf.zero_grad();
      const Tensor loss = compiled ? c(x) : run(x);
      loss.backward();
      gradients.push_back({bits(loss), bits(x.grad())});
      for (const Tensor& leaf : w.all()) gradients.back().push_back(bits(leaf.grad()));
    }
    EXPECT_EQ(gradients[0], gradients[1]) << of.sentences << " sentences of " << of.words;
  }
  EXPECT_EQ(c.explain().recordings.size(), 2U);
  EXPECT_GE(c.explain().replays, 3);
}

TEST(TapedNested, WeightsThatArePassed) {
  const TextWeights w;
  const auto run = [&](const Tensor& x, const Tensor& state) {
    const auto words = [&](const Tensor& begin, const Tensor& sentence) {
      return scan(
                 [&](const Tensor& h, const Tensor& row) {
                   return Pair(tanh(matmul(row, w.word) + matmul(h, state)), row);
                 },
                 begin, sentence)
          .first;
    };
    return sum(scan(
                   [&](const Tensor& h, const Tensor& sentence) {
                     const Tensor next = tanh(words(h, sentence) + matmul(h, state));
                     return Pair(next, next);
                   },
                   zeros({2, 4}), x)
                   .second);
  };
  const auto c = compile_now(run);
  manual_seed(6);
  for (const TextLengths& of : kTextLengths) {
    const Tensor drawn = normal({of.sentences, of.words, 2, 3}), weight = normal({4, 4}) * 0.5;
    std::vector<std::vector<decltype(bits(drawn))>> gradients;
    for (const bool compiled : {false, true}) {
      const Tensor state = weight.clone().requires_grad();
      w.word.zero_grad();
      const Tensor loss = compiled ? c(drawn, state) : run(drawn, state);
      loss.backward();
      gradients.push_back({bits(loss), bits(state.grad()), bits(w.word.grad())});
    }
    EXPECT_EQ(gradients[0], gradients[1]) << of.sentences << " sentences of " << of.words;
  }
  EXPECT_EQ(c.explain().recordings.size(), 2U);
}

TEST(TapedNested, WritesBesideLoops) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    const Tensor counts = zeros({4});
    const auto [h, all] = scan(
        [&](const Tensor& state, const Tensor& sentence) {
          const Tensor next = w.words(state, sentence);
          const NoGrad no_tape;
          Tensor(counts).add_(1);
          return Pair(next, next);
        },
        zeros({2, 4}), x);
    return sum(all * all) + sum(h * counts);
  };
  static_cast<void>(train_on_texts(loss, w.all(), true));
}

TEST(TapedNested, UnderAutocast) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    const Autocast scope(bf16);
    return over_sentences(
        w, [&](const Tensor& state, const Tensor& sentence) { return w.words(state, sentence); },
        x);
  };
  static_cast<void>(train_on_texts(loss, w.all()));
}

TEST(TapedNested, SecondDerivatives) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    const Tensor first = over_sentences(
        w, [&](const Tensor& state, const Tensor& sentence) { return w.words(state, sentence); },
        x);
    const Tensor g = grad(first, {w.state}, {.create_graph = true})[0];
    return first + sum(g * g);
  };
  std::vector<TextLengths> lengths = kTextLengths;
  for (TextLengths& of : lengths) of = {of.sentences + 6, of.words + 6};
  static_cast<void>(train_on_texts(loss, w.all(), false, lengths));
  static_cast<void>(train_on_texts(loss, w.all()));
}

TEST(TapedNested, WithDropout) {
  const TextWeights w;
  const auto loss = [&](const Tensor& x) {
    return over_sentences(
        w,
        [&](const Tensor& state, const Tensor& sentence) {
          return dropout(w.words(state, dropout(sentence, 0.3)), 0.2);
        },
        x);
  };
  expect_one_recording(train_on_texts(loss, w.all()));
}

}  // namespace
}  // namespace dyad
