#include "dyad/core/printing.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "dyad/core/element.h"
#include "dyad/core/tensor_impl.h"

namespace dyad {
namespace {

struct Case {
  DType dtype;
  Shape shape;
  std::vector<std::string> values;
  std::string expected;
};

std::vector<Case> numpy_cases() {
  std::ifstream in("tests/core/data/printing.txt");
  EXPECT_TRUE(in) << "tests run in the source folder";
  std::vector<Case> cases;
  std::string line;
  while (std::getline(in, line)) {
    Case made;
    std::istringstream dtype(line), shape(line.substr(line.find('|') + 1)),
        values(line.substr(line.rfind('|') + 1));
    std::string name;
    dtype >> name;
    made.dtype = parse_dtype(name);
    for (std::int64_t size = 0; shape >> size;) made.shape.push_back(size);
    for (std::string value; values >> value;) made.values.push_back(value);
    while (std::getline(in, line) && line != "----") made.expected += line + '\n';
    made.expected.resize(made.expected.find_last_not_of('\n') + 1);
    cases.push_back(std::move(made));
  }
  return cases;
}

Tensor tensor_of(const Case& made) {
  const Tensor tensor = make_empty(made.dtype, made.shape);
  const std::int64_t count = tensor.impl()->numel();
  const bool ramp = !made.values.empty() && made.values[0] == "ramp";
  const double divisor = ramp ? std::stod(made.values[2]) : 1;
  visit_dtype(made.dtype, [&]<class T>(std::type_identity<T>) {
    auto* data = reinterpret_cast<T*>(tensor.impl()->data);
    for (std::int64_t i = 0; i < count; ++i) {
      if (ramp) {
        data[i] = convert_element<T>(static_cast<double>(i) / divisor);
      } else if (const std::string& text = made.values[static_cast<std::size_t>(i)];
                 is_floating(made.dtype)) {
        data[i] = convert_element<T>(std::strtod(text.c_str(), nullptr));
      } else {
        data[i] = convert_element<T>(std::int64_t{std::strtoll(text.c_str(), nullptr, 10)});
      }
    }
  });
  return tensor;
}

TEST(Printing, IsThatOfNumPy) {
  const std::vector<Case> cases = numpy_cases();
  EXPECT_GT(cases.size(), 300u);
  for (const Case& made : cases) {
    EXPECT_EQ(to_string(tensor_of(made)), made.expected)
        << type_string(made.dtype, made.shape) << " "
        << (made.values.size() < 20 ? ::testing::PrintToString(made.values) : "");
  }
}

TEST(Printing, ViewsPrintInLogicalOrder) {
  Tensor x = make_empty(i32, {2, 3});
  for (int i = 0; i < 6; ++i) x.data<int>()[i] = i;
  EXPECT_EQ(to_string(make_view(x, {3, 2}, {1, 3}, 0)), "[[0 3]\n [1 4]\n [2 5]]");
  std::ostringstream out;
  out << make_view(x, {2}, {0}, 4);
  EXPECT_EQ(out.str(), "[4 4]");
}

TEST(Printing, BFloat16ShowsTheDigitsThatMatter) {
  Tensor x = make_empty(bf16, {3});
  const float values[] = {0.1f, 1.5f, 3.14f};
  for (int i = 0; i < 3; ++i) x.data<BFloat16>()[i] = to_bfloat16(values[i]);
  EXPECT_EQ(to_string(x), "[0.1  1.5  3.14]");
}

struct Named : Recorded {
  [[nodiscard]] std::string name() const override { return "loss"; }
};

TEST(Printing, WithoutElements) {
  EXPECT_EQ(to_string(Tensor()), "undefined");
  EXPECT_EQ(type_string(Tensor()), "undefined");
  Ref<TensorImpl> impl(new TensorImpl);
  impl->kind = TensorImpl::Kind::symbolic;
  impl->shape = {"batch", 3};
  const Tensor x(impl);
  EXPECT_EQ(to_string(x), "f32[batch, 3]");
  impl->recorded = Ref<Recorded>(new Named);
  EXPECT_EQ(to_string(x), "loss: f32[batch, 3]");
}

TEST(Printing, TypesAndSizes) {
  std::ostringstream out;
  const Shape shape{"batch", 3};
  out << f32 << " " << boolean << " " << shape << " " << shape[0] * 2 + 1 << " " << Shape();
  EXPECT_EQ(out.str(), "f32 bool [batch, 3] 2*batch + 1 []");
  out.str("");
  out << Ints{12, 4, 1} << " " << Strides() << " " << Device() << " "
      << Device{Device::Kind::cpu, 1};
  EXPECT_EQ(out.str(), "[12, 4, 1] [] cpu cpu:1");
}

}  // namespace
}  // namespace dyad
