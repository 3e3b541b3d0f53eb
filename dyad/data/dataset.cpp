#include "dyad/data/dataset.h"

#include <fmt/format.h>

#include <cstring>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/data/packed.h"

namespace dyad::data {
namespace {

std::size_t bytes_of(const Tensor& x) {
  return static_cast<std::size_t>(x.impl()->numel()) * size_of(x.dtype());
}

Shape with_first(std::int64_t first, std::span<const Dim> rest) {
  Shape shape;
  shape.push_back(Dim(first));
  for (const Dim size : rest) shape.push_back(size);
  return shape;
}

}  // namespace

Tensor stack_samples(std::span<const Tensor> samples) {
  if (samples.empty()) throw ValueError("DataLoader: a batch needs at least one sample");
  const Tensor& first = samples[0];
  Tensor batch = make_empty(
      first.dtype(), with_first(static_cast<std::int64_t>(samples.size()), first.impl()->shape));
  auto* out = static_cast<std::byte*>(batch.raw_data());
  const std::size_t bytes = bytes_of(first);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Tensor sample = packed(samples[i]);
    if (sample.dtype() != first.dtype() || !sample.impl()->shape.same_as(first.impl()->shape)) {
      const std::string text = fmt::format(
          "DataLoader: samples of a batch must have one type: sample 0 is {}, sample {} is {}; pad "
          "them, or give the dataset a batch() that joins them",
          type_string(first), i, type_string(sample));
      if (sample.dtype() != first.dtype()) throw DTypeError(text);
      throw ShapeError(text);
    }
    if (bytes != 0) std::memcpy(out + i * bytes, sample.raw_data(), bytes);
  }
  return batch;
}

Tensor take_rows(const Tensor& x, std::span<const std::int64_t> indices) {
  const Shape& shape = x.impl()->shape;
  Tensor rows =
      make_empty(x.dtype(), with_first(static_cast<std::int64_t>(indices.size()),
                                       std::span<const Dim>(shape.data() + 1, shape.size() - 1)));
  const std::int64_t count = shape[0].number();
  if (count == 0 || indices.empty()) return rows;
  const std::size_t bytes = bytes_of(x) / static_cast<std::size_t>(count);
  const auto* from = static_cast<const std::byte*>(x.raw_data());
  auto* out = static_cast<std::byte*>(rows.raw_data());
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0 || indices[i] >= count) {
      throw IndexError(fmt::format("take_rows({}): index {} is out of range for {} rows",
                                   type_string(x), indices[i], count));
    }
    if (bytes != 0) {
      std::memcpy(out + i * bytes, from + static_cast<std::size_t>(indices[i]) * bytes, bytes);
    }
  }
  return rows;
}

namespace detail {

std::vector<Tensor> checked_columns(std::vector<Tensor> tensors, Loc loc) {
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Tensor& x = tensors[i];
    if (!x.defined() || !x.is_concrete() || x.rank() == 0) {
      throw ShapeError(fmt::format("TensorDataset: tensor {} must have data and at least one axis, "
                                   "found {}",
                                   i, x.defined() ? type_string(x) : "an undefined tensor"),
                       loc.user());
    }
    if (x.shape()[0].number() != tensors[0].shape()[0].number()) {
      throw ShapeError(fmt::format("TensorDataset: tensors must have as many rows as each other: "
                                   "tensor 0 is {}, tensor {} is {}",
                                   type_string(tensors[0]), i, type_string(x)),
                       loc.user());
    }
    x = packed(x, loc);
  }
  return tensors;
}

}  // namespace detail
}  // namespace dyad::data
