#include "dyad/ops/bits.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"

namespace dyad {
namespace ops {
namespace {

/// Bits of an element, as formats count them: those of i4 are 4, though it lies in a byte.
int width_of(DType dtype) {
  if (contains(kSmallInteger, dtype)) return small_int_width(dtype);
  return dtype == DType::f4e2m1 ? 4 : 8 * static_cast<int>(size_of(dtype));
}

constexpr DTypeSet kCastable = kPlain & ~kComplex;
constexpr ArgInfo kBitsIn[] = {{"x", kCastable}};

struct Bitcast {
  struct Attrs {
    DType dtype = DType::f32;
  };
  static constexpr Schema schema{
      .name = "bitcast",
      .inputs = kBitsIn,
      .outputs = kOut,
      .doc = "The bits of x read as another dtype of the same width, in the same memory."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const DType from = in[0].dtype();
    if (attrs.dtype == DType::boolean && from != DType::boolean) {
      fail_dtype(in, "bits that are neither 0 nor 1 are no bool; use ne(x, 0)");
    }
    if (!contains(kCastable, attrs.dtype) || width_of(from) != width_of(attrs.dtype)) {
      fail_dtype(in, "elements of " + std::string(name_of(from)) + " have " +
                         std::to_string(width_of(from)) + " bits and cannot be read as " +
                         std::string(name_of(attrs.dtype)) +
                         "; to() converts numbers instead of reading bits");
    }
    return {Type(attrs.dtype, in[0].shape())};
  }
  static ViewLayout view(const Attrs&, const Shape&, const Strides& strides, const Shape& out) {
    return {.shape = out, .strides = strides};
  }
  static Tensor write(const Attrs&, const Tensor& x, const Tensor& value, Loc loc) {
    return bitcast(value, x.dtype(), loc);
  }
};

}  // namespace

std::span<const OpInfo* const> bitcast_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<Bitcast>};
  return kRows;
}

}  // namespace ops

Tensor bitcast(const Tensor& x, DType dtype, Loc loc) {
  return apply<ops::Bitcast>({.dtype = dtype}, loc, x);
}

}  // namespace dyad
