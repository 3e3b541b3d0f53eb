#include "dyad/core/tensor.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <thread>

#include "dyad/base/error.h"
#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"
#include "tests/core/fake_evaluator.h"
#include "tests/shared/message_of.h"

namespace dyad {
namespace {

using dyad::testing::bare_message_of;

Tensor counting(DType dtype, const Shape& shape) {
  Tensor tensor = make_empty(dtype, shape);
  visit_element(dtype, [&]<class T>(std::type_identity<T>) {
    for (std::int64_t i = 0; i < tensor.impl()->numel(); ++i) {
      reinterpret_cast<T*>(tensor.impl()->data)[i] = convert_element<T>(i);
    }
  });
  return tensor;
}

// `x[0] = y` would change nothing: names alone are assigned to.
static_assert(std::movable<Tensor> && std::copyable<Tensor>);
static_assert(std::is_nothrow_copy_assignable_v<Tensor> &&
              std::is_nothrow_move_assignable_v<Tensor>);
static_assert(!std::is_assignable_v<Tensor, Tensor> &&
              !std::is_assignable_v<Tensor, const Tensor&>);

TEST(Tensor, Undefined) {
  const Tensor none;
  EXPECT_FALSE(none.defined());
  EXPECT_FALSE(none.is_concrete());
  EXPECT_FALSE(none.is_symbolic());
  EXPECT_FALSE(none.tracks_grad());
  EXPECT_EQ(bare_message_of<ValueError>([&] { (void)none.shape(); }),
            "shape() of an undefined tensor: a default-constructed Tensor holds nothing until one "
            "is assigned to it");
  EXPECT_THROW((void)none.dtype(), ValueError);
  EXPECT_THROW((void)none.rank(), ValueError);
  EXPECT_THROW((void)none.size(0), ValueError);
  EXPECT_THROW((void)none.numel(), ValueError);
  EXPECT_THROW((void)none.device(), ValueError);
  EXPECT_THROW((void)none.strides(), ValueError);
  EXPECT_THROW((void)none.raw_data(), ValueError);
  EXPECT_THROW((void)none.data<float>(), ValueError);
  EXPECT_THROW((void)none.item(), ValueError);
  EXPECT_THROW((void)none.to_vector<float>(), ValueError);
  EXPECT_THROW(none.backward(), ValueError);
  EXPECT_THROW((void)static_cast<bool>(none), ValueError);
}

TEST(Tensor, ConcreteAccessors) {
  const Tensor x = make_empty(f32, {2, 3});
  EXPECT_TRUE(x.is_concrete());
  EXPECT_EQ(x.dtype(), f32);
  EXPECT_EQ(x.rank(), 2);
  EXPECT_EQ(x.size(-1).number(), 3);
  EXPECT_EQ(x.numel().number(), 6);
  EXPECT_EQ(x.strides(), (Strides{3, 1}));
  EXPECT_TRUE(x.is_contiguous());
  EXPECT_EQ(x.device(), Device());
  EXPECT_EQ(x.raw_data(), x.data<float>());
  EXPECT_EQ(type_string(x), "f32[2, 3]");
  EXPECT_THROW((void)x.size(2), IndexError);
  EXPECT_EQ(bare_message_of<DTypeError>([&] { (void)x.data<double>(); }),
            "data<f64>() of f32[2, 3]: the type must be that of the elements; convert with to(f64) "
            "first");
  const Tensor copy = x;
  EXPECT_TRUE(copy.is_same(x));
  EXPECT_FALSE(make_empty(f32, {2, 3}).is_same(x));
}

TEST(Tensor, ErrorsCarryTheCallersLine) {
  try {
    (void)Tensor().raw_data();
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_EQ(to_string(error.where()), "tensor_test.cpp:" + std::to_string(__LINE__ - 3));
  }
}

TEST(Tensor, EmptyOnesOfBadTypes) {
  EXPECT_EQ(
      bare_message_of<GraphError>([] { (void)make_empty(f32, {2, "batch"}); }),
      "use of a symbolic value where data is needed: f32[2, batch] cannot be allocated because "
      "batch has no value; make it inside the graph with an operator");
  EXPECT_EQ(bare_message_of<ShapeError>([] { (void)make_empty(f32, {2, -1}); }),
            "there is no f32[2, -1]: a size is at least 0");
  EXPECT_EQ(to_strings(make_empty(DType::string, {2})), (std::vector<std::string>{"", ""}));
  const std::int64_t big = std::int64_t{1} << 31;
  EXPECT_THROW((void)make_empty(f32, {big, big}), ShapeError);
  EXPECT_THROW((void)make_empty(f64, {big, big / 2}), MemoryError);
  EXPECT_THROW((void)make_empty(f64, {std::int64_t{1} << 61}), MemoryError);
  EXPECT_EQ(make_empty(f64, {big, big, 0}).numel().number(), 0);
}

TEST(Tensor, ViewsShareStorage) {
  const Tensor x = counting(f32, {3, 4});
  const Tensor column = make_view(x, {3}, {4}, 1);
  EXPECT_EQ(column.to_vector<float>(), (std::vector<float>{1, 5, 9}));
  EXPECT_FALSE(column.is_contiguous());
  column.data<float>()[4] = 50;
  EXPECT_EQ(x.to_vector<float>()[5], 50);
  EXPECT_EQ(x.impl()->storage.get(), column.impl()->storage.get());
  const Tensor transposed = make_view(x, {4, 3}, {1, 4}, 0);
  EXPECT_EQ(transposed.to_vector<int>(), (std::vector<int>{0, 4, 8, 1, 50, 9, 2, 6, 10, 3, 7, 11}));
  const Tensor broadcast = make_view(x, {2, 4}, {0, 1}, 4);
  EXPECT_EQ(broadcast.to_vector<int>(), (std::vector<int>{4, 50, 6, 7, 4, 50, 6, 7}));
  const Tensor reversed = make_view(x, {4}, {-1}, 3);
  EXPECT_EQ(reversed.to_vector<int>(), (std::vector<int>{3, 2, 1, 0}));
}

TEST(Tensor, ChannelsLast) {
  const Tensor x = make_empty_strided(f32, {2, 3, 4, 5}, {60, 1, 15, 3});
  EXPECT_FALSE(x.is_contiguous());
  EXPECT_EQ(x.impl()->storage->bytes(), 120u * 4);
}

TEST(Tensor, ContiguityIgnoresAxesOfOne) {
  EXPECT_TRUE(is_contiguous({1, 3}, {99, 1}));
  EXPECT_TRUE(is_contiguous({3, 1}, {1, 77}));
  EXPECT_TRUE(is_contiguous({0, 3}, {5, 7}));
  EXPECT_TRUE(is_contiguous({}, {}));
  EXPECT_FALSE(is_contiguous({3, 2}, {1, 3}));
  EXPECT_FALSE(is_contiguous({3}, {0}));
}

TEST(Tensor, ToVectorConverts) {
  for (int i = 0; i < kDTypeCount - 1; ++i) {
    const auto dtype = static_cast<DType>(i);
    const Tensor x = counting(dtype, {2, 2});
    const bool is_bool = dtype == boolean;
    // i2 ends at 1, and a scale has powers of two only.
    if (dtype == i2 || dtype == f8e8m0) continue;
    EXPECT_EQ(x.to_vector<double>(),
              (std::vector<double>{0, 1, is_bool ? 1.0 : 2, is_bool ? 1.0 : 3}));
    EXPECT_EQ(x.to_vector<bool>(), (std::vector<bool>{false, true, true, true}));
    EXPECT_EQ(x.to_vector<std::uint8_t>()[3], is_bool ? 1 : 3);
    EXPECT_EQ(to_float(x.to_vector<Half>()[3]), is_bool ? 1 : 3);
    EXPECT_EQ(to_float(x.to_vector<BFloat16>()[3]), is_bool ? 1 : 3);
    EXPECT_EQ(x.to_vector<long long>()[2], is_bool ? 1 : 2);
  }
  EXPECT_TRUE(make_empty(f32, {0, 3}).to_vector<float>().empty());
}

TEST(Tensor, FloatsConvertToIntegersBySaturation) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(convert_element<std::int8_t>(300.7), 127);
  EXPECT_EQ(convert_element<std::int8_t>(-300.0f), -128);
  EXPECT_EQ(convert_element<std::uint8_t>(-1.0f), 0);
  EXPECT_EQ(convert_element<std::int32_t>(-2.9), -2);
  EXPECT_EQ(convert_element<std::int64_t>(inf), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(convert_element<std::int64_t>(-inf), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(convert_element<std::int32_t>(2147483647.0), 2147483647);
  EXPECT_EQ(convert_element<std::int16_t>(std::nan("")), 0);
  EXPECT_TRUE(convert_element<bool>(std::nan("")));
  EXPECT_EQ(convert_element<std::int8_t>(std::int32_t{300}), 44);
}

TEST(Tensor, ItemReadsThroughTheEvaluator) {
  FakeEvaluator evaluator;
  const Evaluator::Scope scope(evaluator);
  EXPECT_EQ(counting(f32, {1, 1}).item(), 0.0);
  Tensor x = make_empty(f32, {});
  *x.data<float>() = -2.75f;
  EXPECT_EQ(x.item<float>(), -2.75f);
  EXPECT_EQ(x.item<int>(), -2);
  EXPECT_TRUE(x.item<bool>());
  EXPECT_TRUE(static_cast<bool>(x));
  *x.data<float>() = 0.25f;
  EXPECT_TRUE(x.item<bool>());
  *x.data<float>() = 1e30f;
  EXPECT_THROW((void)x.item<int>(), ValueError);
  Tensor n = make_empty(i64, {1});
  *n.data<std::int64_t>() = (std::int64_t{1} << 53) + 1;
  EXPECT_EQ(n.item<std::int64_t>(), (std::int64_t{1} << 53) + 1);
  EXPECT_EQ(n.item<double>(), 0x1p53);
  Tensor flag = make_empty(boolean, {});
  *flag.data<bool>() = true;
  EXPECT_EQ(flag.item<int>(), 1);
  EXPECT_EQ(flag.item(), 1.0);
  EXPECT_EQ(bare_message_of<ShapeError>([] { (void)counting(f32, {2, 3}).item(); }),
            "item(f32[2, 3]): needs exactly one element, not 6; reduce it first, or read them all "
            "with to_vector()");
  EXPECT_THROW((void)static_cast<bool>(counting(f32, {0})), ShapeError);
}

TEST(Tensor, RecordingSeesSizesAndReads) {
  FakeEvaluator evaluator;
  const Evaluator::Scope scope(evaluator);
  const Tensor x = counting(f32, {3, 4});
  EXPECT_EQ(to_string(x.size(0)), "s0");
  EXPECT_EQ(to_string(x.numel()), "s0*s1");
  (void)x.raw_data();
  (void)x.to_vector<float>();
  EXPECT_EQ(evaluator.host_accesses, 2);
  EXPECT_EQ(Dim("s0").value(), 42);
  EXPECT_TRUE(Dim("s0") == Dim("s1"));
  EXPECT_FALSE(Dim("s0") < Dim("s1"));
  EXPECT_EQ(evaluator.guards, 3);
}

TEST(Tensor, BackwardReachesTheEvaluator) {
  FakeEvaluator evaluator;
  const Evaluator::Scope scope(evaluator);
  counting(f32, {}).backward({}, true);
  EXPECT_EQ(evaluator.backward_calls, 1);
}

TEST(Tensor, SymbolicValuesHaveNoData) {
  Ref<TensorImpl> impl(new TensorImpl);
  impl->kind = TensorImpl::Kind::symbolic;
  impl->shape = {"batch", 3};
  const Tensor x{std::move(impl)};
  FakeEvaluator evaluator;
  const Evaluator::Scope scope(evaluator);
  const std::string text =
      "use of a symbolic value where data is needed: f32[batch, 3] is a value of a graph and has "
      "no elements until the graph runs; fetch it with Session::run, or compute with operators "
      "instead of reading it";
  EXPECT_EQ(bare_message_of<GraphError>([&] { (void)x.data<float>(); }), text);
  EXPECT_EQ(bare_message_of<GraphError>([&] { (void)x.raw_data(); }), text);
  EXPECT_EQ(bare_message_of<GraphError>([&] { (void)x.to_vector<float>(); }), text);
  EXPECT_EQ(bare_message_of<GraphError>([&] { (void)x.strides(); }), text);
}

TEST(Tensor, ThreadsShareHandles) {
  const std::size_t before = memory_stats().in_use;
  {
    const Tensor x = counting(f32, {64});
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([x] {
        Tensor mine = x;
        for (int k = 0; k < 20000; ++k) {
          const Tensor view = make_view(x, {8}, {1}, k % 8);
          mine = k % 2 == 0 ? view : make_empty(f32, {k % 50});
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(x.impl()->use_count(), 1);
    EXPECT_EQ(x.impl()->storage->use_count(), 1);
  }
  EXPECT_EQ(memory_stats().in_use, before);
}

TEST(Evaluator, ScopesNestAndBelongToTheirThread) {
  FakeEvaluator outer, inner;
  EXPECT_TRUE(Evaluator::is_eager());
  const Evaluator::Scope scope(outer);
  EXPECT_FALSE(Evaluator::is_eager());
  {
    const Evaluator::Scope nested(inner);
    EXPECT_EQ(&Evaluator::current(), &inner);
  }
  EXPECT_EQ(&Evaluator::current(), &outer);
}

TEST(Arg, NumbersKeepTheirDigits) {
  const Arg x(0.1), n(std::int64_t{1} << 60), yes(true), f(0.1f);
  EXPECT_EQ(*x.tensor().data<double>(), 0.1);
  EXPECT_EQ(*f.tensor().data<double>(), static_cast<double>(0.1f));
  EXPECT_EQ(*n.tensor().data<std::int64_t>(), std::int64_t{1} << 60);
  EXPECT_TRUE(*yes.tensor().data<bool>());
  EXPECT_TRUE(x.tensor().impl()->is_number);
  EXPECT_EQ(x.loc().line(), static_cast<unsigned>(__LINE__ - 6));
  const Tensor t = make_empty(f32, {});
  const Arg tensor = t;
  EXPECT_TRUE(tensor.tensor().is_same(t));
  EXPECT_FALSE(tensor.tensor().impl()->is_number);
}

}  // namespace
}  // namespace dyad
