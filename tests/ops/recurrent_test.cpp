#include <gtest/gtest.h>

#include "bad_calls.h"
#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/threads.h"

namespace dyad::testing {
namespace {

/// The gradients of a layer at one size, on so many threads.
std::vector<double> gradients_of(const std::vector<Tensor>& inputs, int threads) {
  const int before = get_num_threads();
  set_num_threads(threads);
  std::vector<Tensor> in;
  for (const Tensor& x : inputs) in.push_back(clone(x).requires_grad());
  const RecurrentResult r = gru(in[0], in[1], in[2], in[3], in[4]);
  (sum(r.y * r.y) + sum(r.h)).backward();
  std::vector<double> all = elements(r.y);
  for (const Tensor& x : in) {
    const std::vector<double> more = elements(x.grad());
    all.insert(all.end(), more.begin(), more.end());
  }
  set_num_threads(before);
  return all;
}

TEST(Recurrent, HasTheSameBitsOnOneThreadAndOnTwo) {
  // f64: our own products.
  const std::vector<Tensor> inputs{normal({5, 64, 24}, 0, 1, f64), normal({120, 24}, 0, 0.2, f64),
                                   normal({120, 40}, 0, 0.2, f64), normal({120}, 0, 1, f64),
                                   normal({120}, 0, 1, f64)};
  EXPECT_EQ(gradients_of(inputs, 1), gradients_of(inputs, 2));
}

/// Sizes at which the library's products are used agree with the loops in f64.
TEST(Recurrent, InSinglePrecisionIsCloseToDouble) {
  for (const std::int64_t samples : {1, 7, 40}) {
    const Tensor x = normal({6, samples, 48}, 0, 1, f64), w = normal({256, 48}, 0, 0.1, f64),
                 r = normal({256, 64}, 0, 0.1, f64), b = normal({256}, 0, 0.1, f64);
    const auto run = [&](DType dtype) {
      std::vector<Tensor> in{to(x, dtype), to(w, dtype), to(r, dtype), to(b, dtype)};
      for (Tensor& t : in) t = clone(t).requires_grad();
      const RecurrentResult made = lstm(in[0], in[1], in[2], in[3], {}, {.reverse = samples == 7});
      sum(made.y * made.y + made.y).backward();
      std::vector<double> all = elements(made.y);
      for (const Tensor& t : in) {
        const std::vector<double> more = elements(t.grad());
        all.insert(all.end(), more.begin(), more.end());
      }
      return all;
    };
    const std::vector<double> one = run(f32), two = run(f64);
    ASSERT_EQ(one.size(), two.size());
    for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(one[i], two[i], 2e-3) << i;
  }
}

/// The usual form runs in one pass over each row; with peepholes of zero the general form computes
/// the same.
TEST(Recurrent, TheUsualLstmHasTheBitsOfTheGeneralForm) {
  for (const DType dtype : {f32, f64}) {
    for (const bool with_states : {false, true}) {
      for (const bool reverse : {false, true}) {
        // 19 wide: vectors and what is left of them.
        const Tensor x = normal({7, 5, 11}, 0, 1, dtype), w = normal({76, 11}, 0, 0.5, dtype),
                     r = normal({76, 19}, 0, 0.5, dtype), b = normal({76}, 0, 1, dtype);
        const Tensor h0 = with_states ? normal({5, 19}, 0, 1, dtype) : Tensor(),
                     c0 = with_states ? normal({5, 19}, 0, 1, dtype) : Tensor();
        const auto run = [&](const Tensor& peephole) {
          std::vector<Tensor> in{clone(x), clone(w), clone(r), clone(b)};
          if (with_states) in.insert(in.end(), {clone(h0), clone(c0)});
          for (Tensor& t : in) t = t.requires_grad();
          const RecurrentResult made = lstm(in[0], in[1], in[2], in[3], {},
                                            {.lengths = tensor({7, 3, 0, 5, 1}, i64),
                                             .h0 = with_states ? in[4] : Tensor(),
                                             .c0 = with_states ? in[5] : Tensor(),
                                             .peephole = peephole,
                                             .reverse = reverse});
          (sum(made.y * made.y) + sum(made.h) + sum(made.c * made.c)).backward();
          std::vector<double> all = elements(made.y);
          for (const Tensor& t : in) {
            const std::vector<double> more = elements(t.grad());
            all.insert(all.end(), more.begin(), more.end());
          }
          return all;
        };
        EXPECT_EQ(run({}), run(zeros({57}, dtype)));
      }
    }
  }
}

TEST(Errors, OfRecurrentLayersNameTheArgument) {
  expect_errors(
      {
          {Kind::shape,
           "lstm(x: f32[3, 2], weight_ih: f32[8, 2], weight_hh: f32[8, 2], bias_ih: none, bias_hh: "
           "none, lengths: none, h0: none, c0: none, peephole: none): x must be [steps, samples, "
           "width] but has 2 axes",
           CALL(lstm(F(3, 2), F(8, 2), F(8, 2)))},
          {Kind::shape,
           "gru(x: f32[3, 2, 4], weight_ih: f32[6, 5], weight_hh: f32[6, 2], bias_ih: none, "
           "bias_hh: none, lengths: none, h0: none, cell = \"gru\"): weight_ih must be [gates * "
           "hidden, width of x] = [6, 4] but is [6, 5]",
           CALL(gru(F(3, 2, 4), F(6, 5), F(6, 2)))},
          {Kind::value,
           "rnn(x: f32[3, 2, 4], weight_ih: f32[2, 4], weight_hh: f32[2, 2], bias_ih: none, "
           "bias_hh: none, lengths: none, h0: none, cell = \"rnn\", activations = \"sine\"): "
           "activations: there is no \"sine\"; the names are relu tanh sigmoid affine leaky_relu "
           "thresholded_relu scaled_tanh hard_sigmoid elu softsign softplus",
           CALL(rnn(F(3, 2, 4), F(2, 4), F(2, 2), {}, {}, {.activations = "sine"}))},
          {Kind::value, "gru: c0 and peephole belong to lstm",
           CALL(gru(F(3, 2, 4), F(6, 4), F(6, 2), {}, {}, {.c0 = F(2, 2)}))},
      },
      "recurrent_test.cpp");
  const Tensor x = zeros({3, 1, 2}), w = zeros({2, 2});
  EXPECT_THROW((void)rnn(x, w, w, {}, {}, {.lengths = full({1}, 4, i64)}), ValueError);
}

}  // namespace
}  // namespace dyad::testing
