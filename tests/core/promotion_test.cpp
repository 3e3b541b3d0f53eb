#include "dyad/core/promotion.h"

#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "tests/shared/message_of.h"
#include "tests/shared/result_types.h"

namespace dyad::testing {
namespace {

TypedOperand operand(const std::string& kind, DType dtype) {
  return {.dtype = dtype, .rank = kind == "tensor" ? 1 : 0, .is_number = kind == "number"};
}

TEST(ResultType, IsThatOfPyTorch) {
  int checked = 0;
  for (const TypedResult& c : results_of_torch()) {
    if (c.op != "result_type") continue;
    ++checked;
    EXPECT_EQ(name_of(result_type({operand(c.left, c.a), operand(c.right, c.b)})),
              name_of(c.result))
        << c.text();
  }
  EXPECT_GT(checked, 800);
}

TEST(ResultType, OfTensorsAndNumbers) {
  const Tensor x = make_empty(f16, {2}), scalar = make_empty(f64, {}), whole = make_empty(i32, {});
  EXPECT_EQ(result_type({x, scalar}), f16);
  EXPECT_EQ(result_type({scalar, whole}), f64);
  EXPECT_EQ(result_type({whole, 2.5}), f32);
  EXPECT_EQ(result_type({whole, 2}), i32);
  EXPECT_EQ(result_type({2}), i64);
  EXPECT_EQ(result_type({Tensor(), x}), f16);
}

// Of three and more the kinds meet in one dtype each, whatever their order.
TEST(ResultType, OfMoreOperands) {
  const TypedOperand wide{.dtype = f64}, whole{.dtype = i32, .rank = 2},
      part{.dtype = f32, .rank = 1}, number{.dtype = f64, .is_number = true},
      truth{.dtype = boolean, .rank = 1};
  EXPECT_EQ(result_type({part, whole, wide}), f32);
  EXPECT_EQ(result_type({wide, whole, part}), f32);
  EXPECT_EQ(result_type({whole, truth, wide}), f64);
  EXPECT_EQ(result_type({whole, truth, number}), f32);
  EXPECT_EQ(result_type({truth, {.dtype = i8}, {.dtype = i64, .is_number = true}}), i8);
  EXPECT_EQ(result_type({truth, {.dtype = i64, .is_number = true}}), i64);
}

// PyTorch promotes neither; they follow the same rule here.
TEST(ResultType, OfSmallDTypesAndStrings) {
  EXPECT_EQ(result_type({{f8e5m2, 1}, {f32, 0}}), f8e5m2);
  EXPECT_EQ(result_type({{i4, 1}, {i64, 0}}), i4);
  EXPECT_EQ(result_type({{i4, 1}, {f16, 0}}), f16);
  EXPECT_EQ(result_type({{i64, 1}, {DType::string, 0}}), DType::string);
  EXPECT_EQ(result_type({{DType::string, 1}, {i64, 0}}), DType::string);
}

TEST(ResultType, NeedsAnOperand) {
  EXPECT_EQ(message_of<ValueError>([] { (void)result_type(std::initializer_list<Arg>{}); }),
            "result_type() needs an operand");
  EXPECT_THROW((void)result_type({Arg(Tensor())}), ValueError);
}

}  // namespace
}  // namespace dyad::testing
