#include "dyad/ops/positional.h"

#include <cmath>

#include "dyad/core/create.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/positional.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/indexing.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr ArgInfo kRotaryInputs[] = {
    {"x", kFloat}, {"cos", kFloat}, {"sin", kFloat}, {"position_ids", kIndex, /*optional=*/true}};
constexpr ArgInfo kCacheInputs[] = {
    {"cache", kEverything}, {"value", kEverything}, {"position", kIndex}};

Dim turned_width(const RotaryAttrs& attrs, Dim width) {
  return attrs.rotary_dim > 0 ? Dim(attrs.rotary_dim) : width;
}

struct RotaryEmbedding {
  using Attrs = RotaryAttrs;
  static constexpr Schema schema{.name = "rotary_embedding",
                                 .inputs = kRotaryInputs,
                                 .outputs = kOut,
                                 .doc = "Turns pairs of elements by the angle of their position."};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape &x = in[0].shape(), &cos = in[1].shape(), &sin = in[2].shape();
    for (std::size_t i = 1; i < 3; ++i) {
      if (in[i].dtype() == in[0].dtype()) continue;
      fail_dtype(in, "one dtype is needed, but x is " + std::string(name_of(in[0].dtype())) +
                         " and " + std::string(in.op.inputs[i].name) + " is " +
                         std::string(name_of(in[i].dtype())) + "; convert one with to()");
    }
    if (x.rank() != 4) {
      fail_shape(in, "x must be [batch, heads, length, width] but has " + std::to_string(x.rank()) +
                         " axes");
    }
    const Dim width = turned_width(attrs, x[3]);
    if (width.is_number() && (width.number() % 2 != 0 || attrs.rotary_dim < 0)) {
      fail_value(in, "the turned width, " + to_string(width) + ", must be even; see rotary_dim");
    }
    if (width.is_number() && x[3].is_number() && width > x[3]) {
      fail_value(
          in, "rotary_dim = " + to_string(width) + " exceeds the width of x, " + to_string(x[3]));
    }
    if (attrs.rotary_dim > 0 && !x[3].is_number()) {
      throw GraphError(call_string(in.op, in.inputs, in.attrs) +
                           ": a part of the width can be turned only where the width is a number, "
                           "but it is " +
                           to_string(x[3]),
                       in.loc.user());
    }
    const bool by_position = in.has(3);
    const auto equal = [](const Shape& a, const Shape& b) {
      bool same = a.rank() == b.rank();
      for (std::size_t i = 0; same && i < a.size(); ++i) same = a[i] == b[i];
      return same;
    };
    if (cos.rank() != (by_position ? 2 : 3) || !equal(cos, sin) || !(cos.back() * 2 == width)) {
      fail_shape(in, std::string("cos and sin must be ") +
                         (by_position ? "[positions, " : "[batch, length, ") +
                         to_string(width / 2) + "], but are " + to_string(cos) + " and " +
                         to_string(sin));
    }
    const Shape places{x[0], x[2]};
    const Shape given = by_position ? in[3].shape() : Shape{cos[0], cos[1]};
    if (!equal(given, places)) {
      fail_shape(in, std::string(by_position ? "position_ids" : "cos and sin") +
                         " must go with the batch and length of x, " + to_string(places) +
                         ", but have " + to_string(given));
    }
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs given, Loc) {
    return inputs_in_f32(given, [&](TensorRefs in) -> std::vector<Tensor> {
      const Tensor& x = *in[0];
      const bool by_position = in.size() > 3 && in[3]->defined();
      const auto table = [&](const Tensor& t) {
        return unsqueeze(by_position ? index_select_from_front(t, 0, *in[3]) : t, 1);
      };
      const Tensor cos = table(*in[1]), sin = table(*in[2]);
      const Shape sizes = sizes_of(x);
      const Dim width = turned_width(attrs, sizes[3]), half = width / 2;
      const Tensor a = attrs.interleaved ? slice(x, 3, 0, width, 2) : slice(x, 3, 0, half);
      const Tensor b = attrs.interleaved ? slice(x, 3, 1, width, 2) : slice(x, 3, half, width);
      const Tensor real = cos * a - sin * b, imaginary = sin * a + cos * b;
      std::vector<Tensor> parts{real, imaginary};
      if (attrs.interleaved) {
        parts = {reshape(stack({real, imaginary}, -1), {sizes[0], sizes[1], sizes[2], width})};
      }
      if (attrs.rotary_dim > 0) parts.push_back(slice(x, 3, width));
      return {parts.size() == 1 ? parts[0] : concat(parts, 3)};
    });
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const bool by_position = e.input_count() > 3 && !e.input(3).empty();
    if (e.opset() < 23 || e.input_type(0).dtype() == DType::f64) {
      return write_parts(e, attrs, by_position);
    }
    std::vector<std::string> inputs{e.input(0), e.input(1), e.input(2)};
    if (by_position) inputs.push_back(e.cast(e.input(3), DType::i64));
    e.output(0, e.node("RotaryEmbedding", inputs,
                       {{"interleaved", std::int64_t{attrs.interleaved}},
                        {"rotary_embedding_dim", attrs.rotary_dim}}));
  }

 private:
  static void write_parts(OnnxEmitter& e, const Attrs& attrs, bool by_position) {
    const Shape& x = e.input_type(0).shape();
    const Dim width = turned_width(attrs, x[3]), half = width / 2;
    const std::int64_t last[] = {3}, one[] = {1}, two[] = {2}, pair[] = {-1};
    const auto table = [&](int i) {
      const std::string t =
          by_position ? e.node("Gather", {e.input(i), e.input(3)}, {{"axis", std::int64_t{0}}})
                      : e.input(i);
      return e.node("Unsqueeze", {t, e.constant_i64(one)});
    };
    const auto part = [&](Dim begin, Dim end, bool alternate) {
      return e.node("Slice", {e.input(0), e.shape({begin}), e.shape({end}), e.constant_i64(last),
                              e.constant_i64(alternate ? two : one)});
    };
    const bool mixed = attrs.interleaved;
    const std::string cos = table(1), sin = table(2);
    const std::string a = part(0, mixed ? width : half, mixed);
    const std::string b = part(mixed ? Dim(1) : half, width, mixed);
    const auto mul = [&](const std::string& p, const std::string& q) {
      return e.node("Mul", {p, q});
    };
    std::string real = e.node("Sub", {mul(cos, a), mul(sin, b)});
    std::string imaginary = e.node("Add", {mul(sin, a), mul(cos, b)});
    std::vector<std::string> parts{real, imaginary};
    if (mixed) {
      const std::string axis = e.constant_i64(pair);
      const std::string pairs = e.node(
          "Concat", {e.node("Unsqueeze", {real, axis}), e.node("Unsqueeze", {imaginary, axis})},
          {{"axis", std::int64_t{-1}}});
      parts = {e.node("Reshape", {pairs, e.shape({x[0], x[1], x[2], width})})};
    }
    if (attrs.rotary_dim > 0) parts.push_back(part(width, x[3], false));
    e.output(0,
             parts.size() == 1 ? parts[0] : e.node("Concat", parts, {{"axis", std::int64_t{3}}}));
  }
};

struct CacheUpdate {
  using Attrs = CacheUpdateAttrs;
  static constexpr Schema schema{
      .name = "cache_update",
      .inputs = kCacheInputs,
      .outputs = kOut,
      .doc = "cache with value in the place of the part that begins at position along an axis.",
      .saved_inputs = kThird,
      .checks = kThird};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    const Shape &cache = in[0].shape(), &value = in[1].shape(), &position = in[2].shape();
    const int axis = checked_axis(in, attrs.axis, cache.rank());
    if (in[0].dtype() != in[1].dtype()) {
      fail_dtype(in, "one dtype is needed, but cache is " + std::string(name_of(in[0].dtype())) +
                         " and value is " + std::string(name_of(in[1].dtype())));
    }
    bool fits = cache.rank() == value.rank();
    for (int i = 0; fits && i < cache.rank(); ++i) {
      const auto at = static_cast<std::size_t>(i);
      fits = i == axis || cache[at] == value[at];
    }
    if (!fits) {
      fail_shape(in, "value must have the sizes of cache but along axis " + std::to_string(axis) +
                         "; cache is " + to_string(cache) + ", value " + to_string(value));
    }
    const Dim a = cache[static_cast<std::size_t>(axis)], b = value[static_cast<std::size_t>(axis)];
    if (a.is_number() && b.is_number() && b > a) {
      fail_shape(in, "value has " + to_string(b) + " elements along axis " + std::to_string(axis) +
                         ", cache only " + to_string(a));
    }
    const bool each = position.rank() == 1 && axis != 0 && position[0] == cache[0];
    if (position.rank() != 0 && !each) {
      fail_shape(in, "position must be a scalar" +
                         (axis == 0 ? std::string() : " or [" + to_string(cache[0]) + "]") +
                         ", but is " + to_string(position));
    }
    return {in[0]};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const Shape& value = g.input_shape(1);
    const Tensor position = g.input(2);
    if (g.needs(0)) {
      g.set(0, cache_update(g.grad(), zeros(value, g.grad().dtype()), position, attrs.axis));
    }
    if (!g.needs(1)) return;
    const int rank = value.rank(), axis = from_front(attrs.axis, rank);
    Shape along(value.size(), 1), first(value.size(), 1);
    along[static_cast<std::size_t>(axis)] = -1;
    if (position.rank() == 1) first[0] = -1;
    const Tensor steps = reshape(arange(value[static_cast<std::size_t>(axis)]), along);
    const Tensor index = reshape(to(position, i64), first) + steps;
    g.set(1, gather(g.grad(), axis, dyad::expand(index, value)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs& attrs) {
    const Shape& value = e.input_type(1).shape();
    const int rank = value.rank(), axis = from_front(attrs.axis, rank);
    Shape along(value.size(), 1), first(value.size(), 1);
    along[static_cast<std::size_t>(axis)] = -1;
    if (e.input_type(2).rank() == 1) first[0] = -1;
    const auto number = [&](double n) { return e.scalar(n, DType::i64); };
    const std::string steps =
        e.node("Range", {number(0), e.size(value[static_cast<std::size_t>(axis)]), number(1)});
    const std::string begin = e.node("Reshape", {e.cast(e.input(2), DType::i64), e.shape(first)});
    const std::string index = e.node("Add", {begin, e.node("Reshape", {steps, e.shape(along)})});
    e.output(0, e.node("ScatterElements",
                       {e.input(0), e.node("Expand", {index, e.shape(value)}), e.input(1)},
                       {{"axis", std::int64_t{axis}}}));
  }
};

}  // namespace

std::span<const OpInfo* const> positional_rows() {
  static constexpr const OpInfo* kRows[] = {&op_info<RotaryEmbedding>, &op_info<CacheUpdate>};
  return kRows;
}

}  // namespace ops

Tensor rotary_embedding(const Tensor& x, const Tensor& cos, const Tensor& sin,
                        const Tensor& position_ids, const RotaryArgs& args, Loc loc) {
  const LocScope scope(loc);
  Tensor places = position_ids;
  if (!places.defined() && cos.defined() && cos.rank() == 2 && x.defined() && x.rank() == 4) {
    places = expand(arange(x.size(2, loc), i64, loc), {x.size(0, loc), x.size(2, loc)}, loc);
  }
  return apply<ops::RotaryEmbedding>(
      {.interleaved = args.interleaved, .rotary_dim = args.rotary_dim}, loc, x, cos, sin, places);
}

Tensor cache_update(const Tensor& cache, const Tensor& value, const Tensor& position,
                    std::int64_t axis, Loc loc) {
  return apply<ops::CacheUpdate>({.axis = ops::normalized(axis, cache)}, loc, cache, value,
                                 position);
}

Tensor causal_mask(Dim length, Dim keys, Dim offset, Loc loc) {
  const LocScope scope(loc);
  const Tensor rows = unsqueeze(arange(length), 1);
  return ge(offset.same_as(0) ? rows : rows + ops::size_arg(offset, loc), arange(keys), loc);
}

Tensor length_mask(const Tensor& lengths, Dim length, Loc loc) {
  const LocScope scope(loc);
  return lt(arange(length), unsqueeze(to(lengths, i64), 1), loc);
}

Tensor alibi_bias(std::int64_t heads, Dim length, Dim keys, DType dtype, Loc loc) {
  const LocScope scope(loc);
  // Slopes of the next lower power of two, then every other one of the next higher.
  std::int64_t power = 1;
  while (power * 2 <= heads) power *= 2;
  std::vector<double> slopes;
  for (std::int64_t i = 0; i < heads; ++i) {
    const double place = i < power
                             ? static_cast<double>(i + 1) / static_cast<double>(power)
                             : (static_cast<double>(i - power) + 0.5) / static_cast<double>(power);
    slopes.push_back(std::exp2(-8 * place));
  }
  const Tensor distance = abs(unsqueeze(arange(length), 1) - arange(keys));
  const Tensor slope = to(tensor(slopes, {heads, 1, 1}), dtype);
  return mul(neg(slope), to(distance, dtype), loc);
}

}  // namespace dyad
