#include <gtest/gtest.h>

#include "dyad/ops/ops.h"
#include "function_cases.h"

namespace dyad::testing {
namespace {

PerAxis per_axis(const json& attrs, const char* name, std::int64_t otherwise) {
  if (!attrs.contains(name)) return otherwise;
  const json& value = attrs[name];
  if (value.is_number()) return value.get<std::int64_t>();
  Ints values;
  for (const json& v : value) values.push_back(v.get<std::int64_t>());
  return values;
}

Padding padding_of(const json& attrs) {
  if (!attrs.contains("padding")) return 0;
  const json& value = attrs["padding"];
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return value.get<std::int64_t>();
  Ints values;
  for (const json& v : value) values.push_back(v.get<std::int64_t>());
  return values;
}

Tensor third(const Tensors& in) { return in.size() > 2 ? in[2] : Tensor(); }

template <auto conv>
Tensors convolve(const json& a, const Tensors& in) {
  return {conv(in[0], in[1], third(in), per_axis(a, "stride", 1), padding_of(a),
               per_axis(a, "dilation", 1), 1, std::source_location::current())};
}

template <auto conv>
Tensors convolve_transposed(const json& a, const Tensors& in) {
  return {conv(in[0], in[1], third(in), per_axis(a, "stride", 1), padding_of(a),
               per_axis(a, "output_padding", 0), a["groups"].get<std::int64_t>(),
               per_axis(a, "dilation", 1), std::source_location::current())};
}

template <auto pool>
Tensors max_pool(const json& a, const Tensors& in) {
  return {pool(in[0], per_axis(a, "kernel", 1), per_axis(a, "stride", 0), padding_of(a),
               per_axis(a, "dilation", 1), false, std::source_location::current())};
}

template <auto pool>
Tensors avg_pool(const json& a, const Tensors& in) {
  return {pool(in[0], per_axis(a, "kernel", 1), per_axis(a, "stride", 0), padding_of(a), false,
               true, 0, 1, std::source_location::current())};
}

Tensors both(const std::array<Tensor, 2>& pair) { return {pair[0], pair[1]}; }

const FunctionCases kWindowCases{
    {"conv1d", convolve<conv1d>},
    {"conv2d", convolve<conv2d>},
    {"conv3d", convolve<conv3d>},
    {"conv_transpose1d", convolve_transposed<conv_transpose1d>},
    {"conv_transpose2d", convolve_transposed<conv_transpose2d>},
    {"conv_transpose3d", convolve_transposed<conv_transpose3d>},
    {"max_pool1d", max_pool<max_pool1d>},
    {"max_pool2d", max_pool<max_pool2d>},
    {"max_pool3d", max_pool<max_pool3d>},
    {"avg_pool1d", avg_pool<avg_pool1d>},
    {"avg_pool2d", avg_pool<avg_pool2d>},
    {"avg_pool3d", avg_pool<avg_pool3d>},
    {"max_pool_with_indices",
     [](const json& a, const Tensors& in) {
       return both(max_pool_with_indices(in[0], per_axis(a, "kernel", 1)));
     }},
    {"max_unpool2d",
     [](const json& a, const Tensors& in) -> Tensors {
       return {max_unpool(in[0], in[1], shape(a, "size"))};
     }},
    {"adaptive_avg_pool",
     [](const json& a, const Tensors& in) -> Tensors {
       return {adaptive_avg_pool(in[0], shape(a, "size"))};
     }},
    {"adaptive_max_pool",
     [](const json& a, const Tensors& in) -> Tensors {
       return {adaptive_max_pool(in[0], shape(a, "size"))};
     }},
    {"adaptive_max_pool_with_indices",
     [](const json& a, const Tensors& in) {
       return both(adaptive_max_pool_with_indices(in[0], shape(a, "size")));
     }},
    {"global_max_pool",
     [](const json&, const Tensors& in) -> Tensors { return {global_max_pool(in[0])}; }},
    {"lp_pool2d",
     [](const json& a, const Tensors& in) -> Tensors {
       return {lp_pool(in[0], a["p"].get<double>(), per_axis(a, "kernel", 1))};
     }},
};

}  // namespace
}  // namespace dyad::testing
