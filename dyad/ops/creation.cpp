#include "dyad/ops/creation.h"

#include <cmath>

#include "dyad/core/create.h"
#include "dyad/ir/literal.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/indexing.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

void require_size(const InferIn& in, Dim size, const std::string& what) {
  if (size.is_number() && size.number() < 0) {
    fail_value(in, what + " = " + to_string(size) + " is negative");
  }
}

struct Full {
  using Attrs = FullAttrs;
  static constexpr Schema schema{
      .name = "full", .inputs = {}, .outputs = kOut, .doc = "A new tensor filled with a number."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    for (int i = 0; i < attrs.shape.rank(); ++i) {
      require_size(in, attrs.shape[static_cast<std::size_t>(i)],
                   "size of axis " + std::to_string(i));
    }
    return {Type(attrs.dtype, attrs.shape)};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string value = e.scalar(attrs.value, attrs.dtype);
    e.output(0, attrs.shape.empty() ? value : e.node("Expand", {value, e.shape(attrs.shape)}));
  }
};

struct Arange {
  using Attrs = ArangeAttrs;
  static constexpr Schema schema{.name = "arange",
                                 .inputs = {},
                                 .outputs = kOut,
                                 .doc = "begin, begin + step, ... of count elements."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_size(in, attrs.count, "count");
    if (!contains(kNumber, attrs.dtype)) {
      fail_dtype(in, "dtype must be a number's, not " + std::string(name_of(attrs.dtype)));
    }
    return {Type(attrs.dtype, {attrs.count})};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const std::string begin = e.size(attrs.begin), step = e.size(attrs.step);
    const std::string end = e.size(Dim(attrs.begin) + attrs.count * attrs.step);
    e.output(0, e.node("Range", {begin, end, step}));
  }
};

struct SizeTensor {
  using Attrs = SizeAttrs;
  static constexpr Schema schema{
      .name = "size_tensor", .inputs = {}, .outputs = kIndexOut, .doc = "A size as an i64 scalar."};
  static Types infer(const InferIn&, const Attrs&) { return {Type(DType::i64, Shape())}; }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) { e.output(0, e.size(attrs.size)); }
};

}  // namespace

std::span<const OpInfo* const> creation_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Full>, &op_info<Arange>, &op_info<SizeTensor>};
  return kRows;
}

}  // namespace ops

Tensor full(Sizes shape, Number value, DType dtype, Loc loc) {
  if (!value.only_in(dtype)) {
    return apply<ops::Full>({.shape = std::move(shape), .value = value.floating(), .dtype = dtype},
                            loc);
  }
  // The attribute would round it: zeros that a scalar is added to.
  const LocScope scope(loc);
  const std::int64_t bits = value.integer();
  const Tensor scalar =
      dtype == DType::u64 ? tensor(static_cast<std::uint64_t>(bits), loc) : tensor(bits, loc);
  return zeros(std::move(shape), dtype, loc) + scalar;
}
Tensor zeros(Sizes shape, DType dtype, Loc loc) { return full(std::move(shape), 0, dtype, loc); }
Tensor ones(Sizes shape, DType dtype, Loc loc) { return full(std::move(shape), 1, dtype, loc); }
Tensor full_like(const Tensor& x, Number value, Loc loc) {
  return full(ops::sizes_of(x, loc), value, x.dtype(), loc);
}
Tensor zeros_like(const Tensor& x, Loc loc) { return full_like(x, 0, loc); }
Tensor ones_like(const Tensor& x, Loc loc) { return full_like(x, 1, loc); }

Tensor full_like(const Tensor& x, Number value, DType dtype, Loc loc) {
  return full(ops::sizes_of(x, loc), value, dtype, loc);
}
Tensor zeros_like(const Tensor& x, DType dtype, Loc loc) { return full_like(x, 0, dtype, loc); }
Tensor ones_like(const Tensor& x, DType dtype, Loc loc) { return full_like(x, 1, dtype, loc); }
Tensor empty_like(const Tensor& x, Loc loc) { return zeros_like(x, loc); }
Tensor empty_like(const Tensor& x, DType dtype, Loc loc) { return zeros_like(x, dtype, loc); }

Tensor arange(Dim count, DType dtype, Loc loc) {
  return apply<ops::Arange>({.count = count, .dtype = dtype}, loc);
}
Tensor arange(std::int64_t begin, std::int64_t end, std::int64_t step, DType dtype, Loc loc) {
  if (step == 0) throw ValueError("arange: step must not be 0", loc.user());
  // Unsigned: what lies between two i64 need not be an i64.
  const auto from = static_cast<std::uint64_t>(begin), to = static_cast<std::uint64_t>(end);
  const auto width = static_cast<std::uint64_t>(step);
  const bool is_empty = step > 0 ? end <= begin : end >= begin;
  const std::uint64_t last = is_empty   ? 0
                             : step > 0 ? (to - from - 1) / width
                                        : (from - to - 1) / (0 - width);
  const Dim count = is_empty ? Dim(0) : Dim(last) + 1;
  return apply<ops::Arange>({.count = count, .begin = begin, .step = step, .dtype = dtype}, loc);
}

Tensor ops::floating_range(double begin, double end, double step, DType dtype, Loc loc) {
  const double count = std::ceil((end - begin) / step);
  if (!std::isfinite(begin) || !std::isfinite(end) || !std::isfinite(step) || step == 0 ||
      !(count < std::exp2(62))) {
    throw ValueError("arange(begin = " + number_text(begin) + ", end = " + number_text(end) +
                         ", step = " + number_text(step) + "): " +
                         (step == 0 ? "step must not be 0"
                          : std::isfinite(begin) && std::isfinite(end) && std::isfinite(step)
                              ? "these are more elements than a tensor holds; take a larger step"
                              : "the three must be finite"),
                     loc.user());
  }
  const LocScope scope(loc);
  const Dim size = count > 0 ? Dim(static_cast<std::int64_t>(count)) : Dim(0);
  return to(arange(size, f64, loc) * step + begin, dtype, loc);
}

Tensor size_tensor(Dim size, Loc loc) { return apply<ops::SizeTensor>({.size = size}, loc); }

}  // namespace dyad
