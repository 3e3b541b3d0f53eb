#include <gtest/gtest.h>

#include <limits>

#include "bad_calls.h"
#include "cases.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

Tensor window(const json& attrs) {
  const auto name = attrs["name"].get<std::string>();
  const Dim size = integer(attrs, "size");
  const bool periodic = attrs["periodic"].get<bool>();
  const DType dtype = dtype_at(attrs, "dtype");
  if (name == "hann") return hann_window(size, periodic, dtype);
  if (name == "hamming") return hamming_window(size, periodic, 0.54, dtype);
  if (name == "blackman") return blackman_window(size, periodic, dtype);
  return bartlett_window(size, periodic, dtype);
}

const FunctionCases kCreationCases{
    {"tril fn", [](const json&, const Tensors& in) -> Tensors { return {tril(in[0])}; }},
    {"triu fn", [](const json&, const Tensors& in) -> Tensors { return {triu(in[0])}; }},
    {"diagonal fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {diagonal(in[0], integer(attrs, "offset"), integer(attrs, "axis1"),
                        integer(attrs, "axis2"))};
     }},
    {"diag_embed fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {diag_embed(in[0], integer(attrs, "offset"))};
     }},
    {"diag fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {diag(in[0], integer(attrs, "k"))};
     }},
    {"trace fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return {trace(in[0], integer(attrs, "offset"))};
     }},
    {"eye fn",
     [](const json& attrs, const Tensors&) -> Tensors {
       return {
           eye(Dim(integer(attrs, "rows")), Dim(integer(attrs, "columns")), integer(attrs, "k"))};
     }},
    {"vander fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       const std::int64_t columns = integer(attrs, "columns");
       const std::optional<Dim> given = columns < 0 ? std::nullopt : std::optional<Dim>(columns);
       return {vander(in[0], given, attrs["increasing"].get<bool>())};
     }},
    {"linspace fn",
     [](const json& attrs, const Tensors&) -> Tensors {
       return {linspace(number_of(attrs["first"]), number_of(attrs["last"]),
                        Dim(integer(attrs, "count")), dtype_at(attrs, "dtype"))};
     }},
    {"arange fn",
     [](const json& attrs, const Tensors&) -> Tensors {
       return {arange(number(attrs, "begin"), number(attrs, "end"), number(attrs, "step"),
                      dtype_at(attrs, "dtype"))};
     }},
    {"logspace fn",
     [](const json& attrs, const Tensors&) -> Tensors {
       return {logspace(-1, 2, 4, number_of(attrs["base"]), f64)};
     }},
    {"meshgrid fn",
     [](const json& attrs, const Tensors& in) -> Tensors {
       return meshgrid(in, attrs["indexing"].get<std::string>());
     }},
    {"window fn", [](const json& attrs, const Tensors&) -> Tensors { return {window(attrs)}; }},
    {"likes fn",
     [](const json&, const Tensors& in) -> Tensors {
       return {full_like(in[0], 2.5, f64), zeros_like(in[0], i8), ones_like(in[0], boolean),
               empty_like(in[0]), empty_like(in[0], i32)};
     }},
};

const std::vector<BadCall> kCreationCalls = {
    {Kind::shape, "tril: trilu(x: f32[3], upper = false): a matrix is needed, which has 2 axes",
     CALL(tril(F(3)))},
    {Kind::shape, "diagonal(x: f32[3]): a matrix is needed, which has 2 axes",
     CALL(diagonal(F(3)))},
    {Kind::value, "diagonal(x: f32[3, 4], axis1 = 1): axis 1 is named twice",
     CALL(diagonal(F(3, 4), 0, 1, -1))},
    {Kind::index, "diagonal(x: f32[3, 4], axis2 = 2): axis 2 is out of range for 2 axes (-2 to 1)",
     CALL(diagonal(F(3, 4), 0, 0, 2))},
    {Kind::shape,
     "diag(f32[2, 3, 4]): a vector or a matrix is needed; diag_embed() and diagonal() take axes "
     "before them",
     CALL(diag(F(2, 3, 4)))},
    {Kind::shape, "vander(f32[2, 3]): a vector is needed", CALL(vander(F(2, 3)))},
    {Kind::value, "tril_indices(rows = -1, columns = 2): sizes must be at least 0",
     CALL(tril_indices(-1, 2))},
    {Kind::value, "meshgrid(indexing = yx): indexing must be ij or xy",
     CALL(meshgrid({F(2)}, "yx"))},
    {Kind::shape, "meshgrid: vector 1 is f32[2, 2], but vectors or scalars are needed",
     CALL(meshgrid({F(2), F(2, 2)}))},
    {Kind::value, "linspace(count = -3): the count must be at least 0",
     CALL(linspace(0, 1, Dim(-3)))},
    {Kind::value, "arange(begin = 0.5, end = 2.0, step = 0.0): step must not be 0",
     CALL(arange(0.5, 2, 0))},
    {Kind::value, "arange(begin = 0.0, end = inf, step = 1.0): the three must be finite",
     CALL(arange(std::numeric_limits<double>::infinity()))},
    {Kind::value, "arange(begin = 0.0, end = 1.0, step = nan): the three must be finite",
     CALL(arange(0, 1, std::numeric_limits<double>::quiet_NaN()))},
    {Kind::value,
     "arange(begin = 0.0, end = 1e+30, step = 0.5): these are more elements than a tensor holds; "
     "take "
     "a larger step",
     CALL(arange(0, 1e30, 0.5))},
};

TEST(Errors, OfCreation) { expect_errors(kCreationCalls, "creation_functions_test.cpp"); }

TEST(Triangles, AsIndices) {
  const auto indices = [](const Tensor& x) { return x.to_vector<std::int64_t>(); };
  using Indices = std::vector<std::int64_t>;
  EXPECT_EQ(indices(tril_indices(3, 2)), (Indices{0, 1, 1, 2, 2, 0, 0, 1, 0, 1}));
  EXPECT_EQ(indices(triu_indices(2, 3, 1)), (Indices{0, 0, 1, 1, 2, 2}));
  EXPECT_EQ(indices(tril_indices(2, 3, -1)), (Indices{1, 0}));
  EXPECT_EQ(type_string(tril_indices(2, 2, -9)), "i64[2, 0]");
}

class Diagonals : public Interpreted {};

TEST_F(Diagonals, AreViewsThatCanBeWrittenThrough) {
  const Tensor x = zeros({3, 4});
  Tensor d = diagonal(x, 1);
  EXPECT_EQ(static_cast<const float*>(d.raw_data()), x.data<float>() + 1);
  d.fill_(2);
  EXPECT_EQ(x.to_vector<double>(), (std::vector<double>{0, 2, 0, 0, 0, 0, 2, 0, 0, 0, 0, 2}));
}

}  // namespace
}  // namespace dyad::testing
