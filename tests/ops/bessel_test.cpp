#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "dyad/autograd/gradients.h"
#include "dyad/core/create.h"
#include "dyad/exec/compile.h"
#include "dyad/ir/graph.h"
#include "dyad/ops/ops.h"
#include "dyad/ops/registry.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using BesselFunction = Tensor (*)(const Tensor&, Loc);

/// The first three derivatives.
std::vector<Tensor> bessel_derivatives(BesselFunction f, const Tensor& at) {
  Tensor x = at.detach().requires_grad();
  Tensor y = f(x, {});
  std::vector<Tensor> made;
  for (int order = 1; order <= 3; ++order) {
    y = grad(sum(y), {x}, {.create_graph = true})[0];
    made.push_back(y);
  }
  return made;
}

struct BesselCase {
  const char* name;
  BesselFunction f;
  double x;
  std::vector<double> expected;
};

/// By mpmath in 60 digits, on x's side of 0.
const std::vector<BesselCase>& bessel_cases() {
  static const std::vector<BesselCase> list = {
      {"i0", i0, 1e-12, {5e-13, 0.5, 3.75e-13}},
      {"i0", i0, 1e-6, {5.000000000000624e-07, 0.5000000000001875, 3.7500000000005205e-07}},
      {"i0", i0, -0.001, {-0.0005000000625000026, 0.5000001875000131, -0.00037500005208333564}},
      {"i0", i0, 0.25, {0.12597910894546793, 0.5117697054417362, 0.09456603030600987}},
      {"i0", i0, -3, {-3.9533702174026093, 3.5630025133974876, -3.204966070425959}},
      {"i0", i0, 7.999, {399.49573621362, 377.2212213872591, 358.58087042298166}},
      {"i0", i0, 9, {1030.9147225169565, 979.0422742317129, 934.8595898556174}},
      {"i1", i1, 1e-12, {0.5, 3.75e-13, 0.375}},
      {"i1", i1, 1e-6, {0.5000000000001875, 3.7500000000005205e-07, 0.37500000000015626}},
      {"i1", i1, -0.001, {0.5000001875000131, -0.00037500005208333564, 0.3750001562500114}},
      {"i1", i1, 0.25, {0.5117697054417362, 0.09456603030600987, 0.3848102133333613}},
      {"i1", i1, -3, {3.5630025133974876, -3.204966070425959, 2.9936165879066015}},
      {"i1", i1, 7.999, {377.2212213872591, 358.58087042298166, 342.6230042549044}},
      {"i1", i1, 9, {979.0422742317129, 934.8595898556174, 896.5145715058308}},
      {"i0e", i0e, 1e-12, {-0.9999999999985, 1.4999999999975, -2.499999999995625}},
      {"i0e", i0e, 1e-6, {-0.99999850000125, 1.4999975000021875, -2.4999956250039377}},
      {"i0e", i0e, -0.001, {0.9985012492711614, 1.4975021861881013, 2.495628935094867}},
      {"i0e", i0e, 0.25, {-0.6929045334423511, 0.9933585520952293, -1.618731119644079}},
      {"i0e", i0e, -3, {0.046173640864524544, 0.026738377296615472, 0.025128698593116713}},
      {"i0e", i0e, 7.999, {-0.009291099625033614, 0.0018113563414708957, -0.0005910104461423102}},
      {"i0e", i0e, 9, {-0.007734540645831808, 0.0013329719654534816, -0.0003839797079526896}},
      {"i1e", i1e, 1e-12, {0.499999999999, -0.999999999998125, 1.8749999999965}},
      {"i1e", i1e, 1e-6, {0.4999990000009375, -0.99999812500175, 1.8749965000032813}},
      {"i1e", i1e, -0.001, {0.49900093691694, 0.9981267489067654, 1.8715032791884771}},
      {"i1e", i1e, 0.25, {0.30045401865287813, -0.6253725675488498, 1.176333513468443}},
      {"i1e", i1e, -3, {-0.01943526356790907, -0.0016096787034987584, 0.00569343502520764}},
      {"i1e", i1e, 7.999, {-0.007479743283562718, 0.0012203458953285856, -0.00031957217280100133}},
      {"i1e", i1e, 9, {-0.0064015686803783264, 0.0009489922575007919, -0.00022856703687057026}},
  };
  return list;
}

TEST(Bessel, DerivativesNearZeroAndBeyond) {
  for (const auto& [name, f, x, expected] : bessel_cases()) {
    const std::vector<Tensor> made = bessel_derivatives(f, full({}, x, f64));
    for (std::size_t i = 0; i < 3; ++i) {
      const double e = expected[i];
      EXPECT_NEAR(made[i].item<double>(), e, 1e-13 * std::abs(e) + (std::abs(x) > 1 ? 1e-15 : 0))
          << name << " at " << x << ", order " << i + 1;
    }
  }
}

/// By mpmath. A series whose terms cancel loses a digit of these.
TEST(Bessel, OrderOneIsExactBelowEight) {
  struct Value {
    double x, plain, scaled;
  };
  for (const auto& [x, plain, scaled] :
       {Value{0.5, 0.25789430539089631636, 0.15642080318487169714},
        Value{3, 3.9533702174026093965, 0.19682671329730085363},
        Value{6.000000000000001, 61.341936777640288497, 0.15205145930850587447},
        Value{7.526122698685974, 255.79677445410968133, 0.13782928576887738791},
        Value{7.999, 399.49573621361996805, 0.1341499724258620533}}) {
    for (const double side : {1.0, -1.0}) {
      const Tensor at = full({}, side * x, f64);
      EXPECT_NEAR(i1(at).item<double>(), side * plain, 0x1p-50 * plain) << x;
      EXPECT_NEAR(i1e(at).item<double>(), side * scaled, 0x1p-50 * scaled) << x;
    }
  }
  const Tensor single = full({}, 7.4892778396606445, f32);
  EXPECT_NEAR(i1(single).item<double>(), 247.07866600307285919, 0x1p-21 * 247);
}

/// Where exp(-|x|) has its kink, sign(x) is 0.
TEST(Bessel, DerivativesAtZero) {
  const auto at_zero = [](BesselFunction f) {
    std::vector<double> values;
    for (const Tensor& d : bessel_derivatives(f, full({}, 0, f64)))
      values.push_back(d.item<double>());
    return values;
  };
  EXPECT_EQ(at_zero(i0), (std::vector{0.0, 0.5, 0.0}));
  EXPECT_EQ(at_zero(i1), (std::vector{0.5, 0.0, 0.375}));
  EXPECT_EQ(at_zero(i0e), (std::vector{0.0, 0.5, 0.0}));
  EXPECT_EQ(at_zero(i1e), (std::vector{0.5, 0.0, 0.375}));
}

TEST(Bessel, DerivativesCompiled) {
  for (const BesselFunction f : {&i0, &i1, &i0e, &i1e}) {
    const auto second = [f](const Tensor& x) { return bessel_derivatives(f, x)[1]; };
    const auto compiled = compile(second);
    const Tensor x = tensor({0.0, 1e-9, -1e-3, 0.5, -7.0, 30.0});
    EXPECT_EQ(compiled(x).to_vector<double>(), second(x).to_vector<double>());
  }
}

TEST(Bessel, OrdersHaveALimit) {
  ops::register_builtin_ops();
  const std::string text = testing::message_of<GraphError>([] {
    (void)parse_graph(R"(graph {
      %x = placeholder : f32[2]
      %y = bessel_ratio(%x) {n = 21}
      return %y
    })");
  });
  EXPECT_NE(text.find("the order n must be from 1 to 20"), std::string::npos) << text;
}

}  // namespace
}  // namespace dyad
