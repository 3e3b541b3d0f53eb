#include "dyad/ir/op_info.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dyad/base/error.h"
#include "tests/ir/ops_for_tests.h"
#include "tests/shared/message_of.h"

namespace dyad::testing {
namespace {

using ::testing::HasSubstr;

Types infer(std::string_view name, std::initializer_list<Type> inputs) {
  const std::vector<Type> types(inputs);
  const NoAttrs none;
  return infer_types(op(name), types, &none, std::source_location::current());
}

std::string text(const Types& types) {
  std::string all;
  for (const Type& t : types) all += (all.empty() ? "" : " ") + to_string(t);
  return all;
}

Tensor typed(DType dtype) { return make_empty(dtype, Shape{2}); }

DType promoted(std::string_view name, std::initializer_list<Tensor> inputs) {
  std::vector<const Tensor*> refs;
  for (const Tensor& t : inputs) refs.push_back(&t);
  return promote_inputs(op(name), refs);
}

TEST(Types, Text) {
  EXPECT_EQ(to_string(Type(f32, {"batch", 784})), "f32[batch, 784]");
  EXPECT_EQ(to_string(Type::sequence_of(Type::optional_of(Type(i64, {})))), "seq(optional(i64[]))");
  EXPECT_EQ(to_string(Type::none()), "none");
}

TEST(Types, Same) {
  EXPECT_TRUE(Type(f32, {"n"}).same_as(Type(f32, {"n"})));
  EXPECT_FALSE(Type(f32, {"n"}).same_as(Type(f32, {"m"})));
  EXPECT_FALSE(Type(f32, {"n"}).same_as(Type(f64, {"n"})));
  EXPECT_FALSE(Type(f32, {}).same_as(Type::none()));
  const Type list = Type::sequence_of(Type(f32, {3}));
  EXPECT_TRUE(list.same_as(Type::sequence_of(Type(f32, {3}))));
  EXPECT_FALSE(list.same_as(Type::sequence_of(Type(f32, {4}))));
  EXPECT_FALSE(list.same_as(Type::optional_of(Type(f32, {3}))));
}

TEST(Registry, FindsWhatWasRegistered) {
  EXPECT_EQ(find_op("variable"), &kVariableOp);
  EXPECT_EQ(find_op("add"), &op("add"));
  EXPECT_EQ(find_op("no such operator"), nullptr);
  const auto all = all_ops();
  EXPECT_NE(std::ranges::find(all, &kAssignOp), all.end());
  EXPECT_TRUE(std::ranges::is_sorted(all, {}, &OpInfo::name));
}

TEST(Registry, RefusesANameTwiceAndAddsNothingThen) {
  static constexpr OpInfo fresh{.name = "fresh", .infer = infer_pointwise};
  static constexpr OpInfo second_add{.name = "add", .infer = infer_pointwise};
  const OpInfo* rows[] = {&fresh, &second_add};
  EXPECT_THAT(message_of<ValueError>([&] { register_ops(rows); }),
              HasSubstr("there is already an operator add"));
  EXPECT_EQ(find_op("fresh"), nullptr);
  const OpInfo* again[] = {&op("add")};
  EXPECT_NO_THROW(register_ops(again));
}

TEST(InferTypes, BroadcastsAndPromotes) {
  EXPECT_EQ(text(infer("add", {Type(f32, {3, 1}), Type(f32, {"n"})})), "f32[3, n]");
  EXPECT_EQ(text(infer("add", {Type(i64, {2}), Type(f16, {})})), "f16[2]");
  EXPECT_EQ(text(infer("div", {Type(i64, {2}), Type(i64, {})})), "f32[2]");
  EXPECT_EQ(text(infer("div", {Type(f64, {2}), Type(i64, {})})), "f64[2]");
  EXPECT_EQ(text(infer("less", {Type(f64, {2}), Type(i64, {})})), "bool[2]");
}

TEST(InferTypes, AConditionTakesNoPartInPromotion) {
  EXPECT_EQ(text(infer("where", {Type(boolean, {4, 1}), Type(u8, {3}), Type(i8, {})})),
            "i16[4, 3]");
}

TEST(InferTypes, ShapesThatDoNotBroadcast) {
  const std::string message =
      message_of<ShapeError>([] { infer("add", {Type(f32, {3, 4}), Type(f32, {7, 5, 4})}); });
  EXPECT_THAT(message,
              HasSubstr("add(a: f32[3, 4], b: f32[7, 5, 4]): shapes [3, 4] and [7, 5, 4] do not "
                        "broadcast: axis 1 is 3 in a and 5 in b; sizes must be equal or one of "
                        "them 1\n  at op_info_test.cpp:"));
}

TEST(InferTypes, ThirdInputThatDoesNotBroadcast) {
  EXPECT_THAT(message_of<ShapeError>(
                  [] { infer("where", {Type(boolean, {2}), Type(f32, {1}), Type(f32, {3})}); }),
              HasSubstr("axis 0 is 2 in condition with a and 3 in b"));
}

TEST(InferTypes, DTypeThatIsNotTaken) {
  EXPECT_THAT(
      message_of<DTypeError>([] { infer("matmul", {Type(f32, {3, 4}), Type(i64, {5, 2})}); }),
      HasSubstr("matmul(a: f32[3, 4], b: i64[5, 2]): b must be one of f64 f32 f16 bf16 but is i64; "
                "cast it with b.to(f32)"));
  EXPECT_THAT(
      message_of<DTypeError>([] { infer("matmul", {Type(f64, {3, 4}), Type(i64, {4, 2})}); }),
      HasSubstr("cast it with b.to(f64)"));
  EXPECT_THAT(
      message_of<DTypeError>([] { infer("where", {Type(f32, {}), Type(f32, {}), Type(f32, {})}); }),
      HasSubstr("condition must be bool but is f32; cast it with condition.to(bool)"));
}

TEST(InferTypes, WrongNumberOfInputs) {
  EXPECT_THAT(
      message_of<ValueError>([] { infer("matmul", {Type(f32, {3, 4})}); }),
      HasSubstr("matmul(a: f32[3, 4]): the operator takes 2 inputs (a, b) but was given 1"));
  EXPECT_THAT(message_of<ValueError>([] {
                infer("linear", {Type(f32, {}), Type(f32, {}), Type(f32, {}), Type(f32, {})});
              }),
              HasSubstr("takes 3 inputs (x, weight, bias?) but was given 4"));
  EXPECT_THAT(message_of<ValueError>([] { infer("tanh", {}); }),
              HasSubstr("tanh(): the operator takes 1 input (x) but was given 0"));
}

TEST(InferTypes, OptionalAndVariadicInputs) {
  EXPECT_NO_THROW(infer("linear", {Type(f32, {3}), Type(f32, {3})}));
  EXPECT_NO_THROW(infer("linear", {Type(f32, {3}), Type(f32, {3}), Type::none()}));
  EXPECT_THAT(message_of<ValueError>([] { infer("linear", {Type(f32, {3}), Type::none()}); }),
              HasSubstr("linear(x: f32[3], weight: none): weight is an undefined tensor, but the "
                        "operator needs it"));
  EXPECT_NO_THROW(infer("concat", {Type(f32, {3}), Type(f32, {3}), Type(f32, {3})}));
}

TEST(CallString, NamesAttributesAndVariadicInputs) {
  const Type x(f32, {3, 4});
  const SumAttrs attrs{.axes = {1}, .keepdim = true};
  EXPECT_EQ(call_string(op("sum"), std::span(&x, 1), &attrs),
            "sum(x: f32[3, 4], axes = [1], keepdim = true)");
  const Type two[] = {x, Type(i64, {})};
  EXPECT_EQ(call_string(op("concat"), two), "concat(tensors[0]: f32[3, 4], tensors[1]: i64[])");
}

TEST(PromoteInputs, NumbersYieldToTensorsOfTheirCategoryOrAHigherOne) {
  EXPECT_EQ(promoted("add", {typed(f16), number(2.5)}), f16);
  EXPECT_EQ(promoted("add", {Arg(3).tensor(), typed(u8)}), u8);
  EXPECT_EQ(promoted("add", {typed(f16), Arg(3).tensor()}), f16);
  EXPECT_EQ(promoted("add", {typed(i8), number(2.5)}), f32);
  EXPECT_EQ(promoted("add", {typed(boolean), Arg(3).tensor()}), i64);
  EXPECT_EQ(promoted("add", {typed(boolean), Arg(true).tensor()}), boolean);
  EXPECT_EQ(promoted("add", {typed(f16), typed(f64)}), f64);
}

TEST(PromoteInputs, NumbersAlone) {
  EXPECT_EQ(promoted("add", {Arg(3).tensor(), Arg(4).tensor()}), i64);
  EXPECT_EQ(promoted("add", {Arg(3).tensor(), number(4.5)}), f32);
}

TEST(PromoteInputs, AConditionTakesNoPart) {
  EXPECT_EQ(promoted("where", {typed(boolean), Arg(1).tensor(), typed(u8)}), u8);
}

TEST(ConvertNumber, KeepsTheValueAndTheMark) {
  const Tensor half = convert_number(number(2.5), f16);
  EXPECT_EQ(half.dtype(), f16);
  EXPECT_TRUE(half.impl()->is_number);
  EXPECT_EQ(to_float(*reinterpret_cast<Half*>(half.impl()->data)), 2.5f);
  EXPECT_EQ(*reinterpret_cast<std::int64_t*>(convert_number(number(-2.75), i64).impl()->data), -2);
  EXPECT_EQ(*reinterpret_cast<double*>(convert_number(Arg(true).tensor(), f64).impl()->data), 1.0);
}

}  // namespace
}  // namespace dyad::testing
