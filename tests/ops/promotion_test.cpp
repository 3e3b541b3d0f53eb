#include "dyad/core/promotion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/printing.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/graph.h"
#include "dyad/exec/session.h"
#include "dyad/exec/vmap.h"
#include "dyad/onnx/export.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"
#include "tests/shared/result_types.h"

namespace dyad::testing {
namespace {

using ::testing::HasSubstr;

using Binary = Tensor (*)(const Arg&, const Arg&);
const std::map<std::string, Binary> kOperators = {
    {"add", [](const Arg& a, const Arg& b) { return add(a, b); }},
    {"mul", [](const Arg& a, const Arg& b) { return mul(a, b); }},
    {"div", [](const Arg& a, const Arg& b) { return div(a, b); }},
    {"lt", [](const Arg& a, const Arg& b) { return a < b; }},
    {"pow", [](const Arg& a, const Arg& b) { return pow(a, b); }},
    {"maximum", [](const Arg& a, const Arg& b) { return maximum(a, b); }},
    {"where", [](const Arg& a, const Arg& b) { return where(tensor(true), a, b); }},
};

Arg operand(const std::string& kind, DType dtype) {
  if (kind == "number") return dtype == f64 ? Arg(1.5) : dtype == i64 ? Arg(1) : Arg(true);
  // Without elements, so that not every pair takes a kernel.
  return to(ones(kind == "tensor" ? Shape{0} : Shape{}), dtype);
}

Tensor given(std::string_view name, const std::string& kind, DType dtype) {
  return placeholder(std::string(name), dtype, kind == "tensor" ? Shape{2} : Shape{});
}

bool is_of_complex(const TypedResult& c) { return is_complex(c.a) || is_complex(c.b); }
/// Powers of complex numbers, and of truths, are refused here.
bool is_refused(const TypedResult& c) {
  return c.op == "pow" && (is_of_complex(c) || (c.a == boolean && c.b == boolean));
}

// Re-run by itself, in a process that has called no operator and looked up no row.
TEST(Promotion, MayBeWhatAProcessDoesFirst) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const Tensor y = add(empty({2}, f32), empty({}, f64));
        std::exit(y.dtype() == f32 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Promotion, IsThatOfPyTorch) {
  int checked = 0;
  for (const TypedResult& c : results_of_torch()) {
    const auto op = kOperators.find(c.op);
    if (op == kOperators.end() || is_refused(c)) continue;
    ++checked;
    try {
      EXPECT_EQ(name_of(op->second(operand(c.left, c.a), operand(c.right, c.b)).dtype()),
                name_of(c.result))
          << c.text();
    } catch (const Error& error) {
      ADD_FAILURE() << c.text() << ": " << error.what();
    }
  }
  EXPECT_GT(checked, 5000);
}

TEST(Promotion, IsTheSameInStaticGraphs) {
  Graph graph;
  graph.define([] {
    int count = 0;
    for (const TypedResult& c : results_of_torch()) {
      const auto op = kOperators.find(c.op);
      if (op == kOperators.end() || is_of_complex(c) || is_refused(c)) continue;
      const std::string name = std::to_string(count++);
      const Tensor a = given("a" + name, c.left, c.a);
      const Tensor y = c.right == "number" ? op->second(a, operand(c.right, c.b))
                                           : op->second(a, given("b" + name, c.right, c.b));
      EXPECT_EQ(name_of(y.dtype()), name_of(c.result)) << c.text();
    }
    EXPECT_GT(count, 3000);
  });
}

struct Mixed {
  const char* name;
  std::function<Tensor(const Tensor&, const Tensor&)> f;
  DType a, b;  ///< of a tensor with an axis and of one without
  DType result;
};

const std::vector<Mixed>& mixed_calls() {
  static const std::vector<Mixed> calls = {
      {"add", [](const Tensor& a, const Tensor& b) { return a + b; }, f32, f64, f32},
      {"sub", [](const Tensor& a, const Tensor& b) { return b - a; }, f16, f32, f16},
      {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }, i32, f64, f64},
      {"div", [](const Tensor& a, const Tensor& b) { return a / b; }, u8, i64, f32},
      {"whole", [](const Tensor& a, const Tensor& b) { return a * b; }, u8, i64, u8},
      {"eq", [](const Tensor& a, const Tensor& b) { return a == b; }, f32, f64, boolean},
      {"minimum", [](const Tensor& a, const Tensor& b) { return minimum(b, a); }, f32, f64, f32},
      {"where", [](const Tensor& a, const Tensor& b) { return where(a > 0, b, a); }, f32, f64, f32},
      {"lerp", [](const Tensor& a, const Tensor& b) { return lerp(a, b, 0.25); }, f32, f64, f32},
      {"atan2", [](const Tensor& a, const Tensor& b) { return atan2(a, b); }, bf16, f32, bf16},
      {"hypot", [](const Tensor& a, const Tensor& b) { return hypot(a, b); }, f32, f64, f32},
      {"copysign", [](const Tensor& a, const Tensor& b) { return copysign(a, b); }, f32, f64, f32},
      {"remainder", [](const Tensor& a, const Tensor& b) { return remainder(a, b); }, f32, f64,
       f32},
      {"addcmul", [](const Tensor& a, const Tensor& b) { return addcmul(a, to(a, i32), b); }, f32,
       f64, f32},
      {"addcdiv", [](const Tensor& a, const Tensor& b) { return addcdiv(b, a, b); }, f32, f64, f32},
      {"gcd", [](const Tensor& a, const Tensor& b) { return gcd(a, b); }, i32, i64, i32},
      {"xor", [](const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }, u8, i32, u8},
      {"stack", [](const Tensor& a, const Tensor& b) { return stack({select(a, 0, 0), b}); }, f32,
       f64, f64},
      {"concat", [](const Tensor& a, const Tensor& b) { return concat({a, reshape(b, {1})}, 0); },
       f32, f64, f64},
  };
  return calls;
}

Tensor first(const Mixed& c) { return to(tensor({3.0, 5.0}), c.a); }
Tensor second(const Mixed& c) { return to(tensor(2.0), c.b); }

TEST(Promotion, OfFunctions) {
  for (const Mixed& c : mixed_calls()) {
    EXPECT_EQ(name_of(c.f(first(c), second(c)).dtype()), name_of(c.result)) << c.name;
  }
}

TEST(Promotion, OfCompiledFunctionsAndSessionsIsThatOfEagerOnes) {
  for (const Mixed& c : mixed_calls()) {
    const Tensor a = first(c), b = second(c), eager = c.f(a, b);
    const auto compiled = compile(c.f);
    static_cast<void>(compiled(a, b));
    const Tensor replayed = compiled(a, b);
    Graph graph;
    const Tensor symbolic =
        graph.define([&] { return c.f(placeholder("a", c.a, {"n"}), placeholder("b", c.b, {})); });
    const Tensor run = Session(graph).run({symbolic}, {{"a", a}, {"b", b}})[0];
    for (const Tensor& y : {replayed, run}) {
      EXPECT_EQ(name_of(y.dtype()), name_of(c.result)) << c.name;
      EXPECT_EQ(to_string(y), to_string(eager)) << c.name;
    }
  }
}

// The tensor without axes is rounded first, as in PyTorch.
TEST(Promotion, CastsBeforeItComputes) {
  const Tensor x = tensor({1.0f, 3.0f}), third = tensor(1.0 / 3);
  EXPECT_EQ((x * third).to_vector<float>(), (std::vector<float>{1.0f / 3, 3.0f * (1.0f / 3)}));
  EXPECT_EQ(to_string(tensor({200, 10}, u8) + tensor(300)), to_string(tensor({244, 54}, u8)));
}

TEST(Promotion, GradientsHaveTheDTypesAndShapesOfTheInputs) {
  const auto fn = [](const Tensor& a, const Tensor& b) {
    return gradients(sum(a * b * b), {a, b});
  };
  const Tensor x = tensor({1.0f, 3.0f}), y = tensor(0.5);
  Tensor a = x.clone(), b = y.clone();
  a.requires_grad();
  b.requires_grad();
  const auto eager = fn(a, b);
  EXPECT_EQ(type_string(eager[0]), "f32[2]");
  EXPECT_EQ(type_string(eager[1]), "f64[]");
  EXPECT_EQ(eager[1].item<double>(), 4);

  const auto compiled = compile(fn);
  static_cast<void>(compiled(a, b));
  const auto replayed = compiled(a, b);
  Graph graph;
  const std::vector<Tensor> symbolic =
      graph.define([&] { return fn(placeholder("a", f32, {2}), placeholder("b", f64, {})); });
  const auto run = Session(graph).run({symbolic[0], symbolic[1]}, {{"a", x}, {"b", y}});
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(type_string(replayed[i]), type_string(eager[i]));
    EXPECT_EQ(to_string(replayed[i]), to_string(eager[i]));
    EXPECT_EQ(type_string(run[i]), type_string(eager[i]));
    EXPECT_EQ(to_string(run[i]), to_string(eager[i]));
  }
}

TEST(Promotion, InPlaceKeepsTheDTypeOrRefuses) {
  Tensor x = tensor({1.0f, 3.0f});
  const Tensor same = x;
  x += tensor(0.5);
  EXPECT_EQ(type_string(x), "f32[2]");
  EXPECT_EQ(same.to_vector<float>(), (std::vector<float>{1.5f, 3.5f}));
  x *= tensor({2.0, 2.0});
  EXPECT_EQ(same.to_vector<float>(), (std::vector<float>{3, 7}));

  Tensor whole = tensor({1, 2}, u8);
  whole += tensor(300);
  EXPECT_EQ(to_string(whole), to_string(tensor({45, 46}, u8)));
  EXPECT_THAT(message_of<DTypeError>([&] { whole += tensor(0.5); }),
              HasSubstr("add_ on u8[2]: the result would be f64, but in place the dtype u8 stays"));
  EXPECT_THAT(message_of<DTypeError>([&] { whole /= tensor(2); }),
              HasSubstr("the result would be f32, but in place the dtype u8 stays"));
  EXPECT_EQ(to_string(whole), to_string(tensor({45, 46}, u8)));

  Tensor scalar = tensor(1.0);
  scalar += tensor(2.0f);
  EXPECT_EQ(scalar.item<double>(), 3);
  EXPECT_THROW(scalar += tensor({1.0f, 2.0f}), ShapeError);

  const auto compiled = compile([](const Tensor& t, const Tensor& by) {
    Tensor sum = t.clone();
    sum += by;
    return sum;
  });
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(to_string(compiled(tensor({1.0f, 3.0f}), tensor(0.5))),
              to_string(tensor({1.5f, 3.5f})));
  }
}

// Whether a sample has axes decides, not whether the batch does.
TEST(Promotion, OfSamples) {
  const Tensor scalars = to(tensor({1.0, 2.0, 3.0}), f16), rows = to(ones({3, 2}), f16);
  const Tensor one = tensor(2.0f);
  EXPECT_EQ(type_string(vmap([&](const Tensor& x) { return x + one; })(scalars)), "f32[3]");
  EXPECT_EQ(type_string(vmap([&](const Tensor& x) { return x + one; })(rows)), "f16[3, 2]");
  const Tensor wide = tensor({1.0, 2.0, 3.0});
  const auto both = vmap([](const Tensor& x, const Tensor& y) { return x * y; });
  EXPECT_EQ(type_string(both(rows, wide)), "f16[3, 2]");
}

TEST(Promotion, RowsWithTypesOfTheirOwnKeepThem) {
  // 0.1 as f16 is less: 1.25 / 0.1 would be rounded up.
  const Tensor x = to(tensor({1.25, -1.25}), f16), scale = tensor(0.1f);
  const Tensor wide = fake_quantize(to(x, f32), scale, 0, -128, 127);
  EXPECT_EQ(to_string(to(fake_quantize(x, scale, 0, -128, 127), f32)),
            to_string(to(to(wide, f16), f32)));
}

TEST(Promotion, RefusalsNameWhatWasGiven) {
  EXPECT_THAT(message_of<DTypeError>(
                  [] { static_cast<void>(bitwise_and(tensor({1.0f, 2.0f}), tensor(1.0))); }),
              HasSubstr("a: f32[2], b: f64[]"));
}

TEST(Promotion, IsACastInGraphsAndInOnnx) {
  Graph graph;
  static_cast<void>(
      graph.define([] { return placeholder("a", f32, {2}) + placeholder("b", f64, {}); }));
  EXPECT_THAT(graph.to_string(), HasSubstr("cast"));
  EXPECT_THAT(onnx::to_bytes(graph), HasSubstr("Cast"));
}

}  // namespace
}  // namespace dyad::testing
