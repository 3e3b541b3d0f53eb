#include "dyad/ops/random.h"

#include <numbers>

#include "dyad/core/generator.h"
#include "dyad/ir/scalar_math.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/attrs/random.h"
#include "dyad/ops/compare.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/op_support.h"
#include "dyad/ops/registry.h"
#include "dyad/ops/shapes.h"
#include "dyad/ops/special.h"
#include "dyad/ops/views.h"

namespace dyad {
namespace ops {
namespace {

constexpr DTypeSet kI64 = set_of(DType::i64);
constexpr ArgInfo kKeyParts[] = {{"seed", kI64}, {"offset", kI64}};
constexpr ArgInfo kXAndKey[] = {{"x", kFloat}, {"seed", kI64}, {"offset", kI64}};

void fail_to_export(OnnxEmitter& e) {
  e.fail(
      "it draws random numbers, which ONNX cannot repeat; call eval(model) before exporting, or "
      "make them an input");
}

void require_scalars(const InferIn& in, std::size_t first) {
  for (std::size_t i = first; i < first + 2; ++i) {
    if (in[i].rank() != 0) {
      fail_shape(in, std::string(in.op.inputs[i].name) + " must be a scalar");
    }
  }
}

struct RandomKey {
  using Attrs = RandomKeyAttrs;
  static constexpr Schema schema{
      .name = "random_key",
      .inputs = {},
      .outputs = kKeyParts,
      .doc = "A seed and an offset of the default generator, which moves on by count numbers.",
      .samples = {.differentiable = false},
      .effect = Effect::random};
  static Types infer(const InferIn&, const Attrs&) {
    return {Type(DType::i64, Shape()), Type(DType::i64, Shape())};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { fail_to_export(e); }
};

struct SeedGenerator {
  using Attrs = SeedGeneratorAttrs;
  static constexpr Schema schema{
      .name = "seed_generator",
      .inputs = {},
      .outputs = {},
      .doc = "Sets the default generator to a seed and an offset: manual_seed() while recorded.",
      .samples = {.differentiable = false},
      .effect = Effect::random};
  static Types infer(const InferIn&, const Attrs&) { return {}; }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { fail_to_export(e); }
};

Types infer_random(const InferIn& in, const UniformAttrs& attrs) {
  require_scalars(in, 0);
  if (!is_floating(attrs.dtype)) {
    fail_dtype(in, "dtype must be floating, not " + std::string(name_of(attrs.dtype)) +
                       "; randint() gives whole numbers");
  }
  return {Type(attrs.dtype, attrs.shape)};
}

struct Uniform {
  using Attrs = UniformAttrs;
  static constexpr Schema schema{
      .name = "uniform",
      .inputs = kKeyParts,
      .outputs = kOut,
      .doc = "Uniform in [0, 1): element i is a function of (seed, offset + i).",
      .samples = {.differentiable = false},
      .counted = true};
  static Scalar eval(const Attrs& attrs, Scalar seed, Scalar offset, Scalar number) {
    return scalar::uniform(seed, offset + number, attrs.dtype);
  }
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_random(in, attrs); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { fail_to_export(e); }
};

Tensor uniform_of(const Tensor& seed, const Tensor& offset, Shape shape, DType dtype,
                  Loc loc = std::source_location::current()) {
  return apply<Uniform>({.shape = std::move(shape), .dtype = dtype}, loc, seed, offset);
}

struct Normal {
  using Attrs = UniformAttrs;
  static constexpr Schema schema{
      .name = "normal",
      .inputs = kKeyParts,
      .outputs = kOut,
      .doc = "Standard normal numbers from twice as many uniform ones (Box and Muller, 1958).",
      .samples = {.differentiable = false}};
  static Types infer(const InferIn& in, const Attrs& attrs) { return infer_random(in, attrs); }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { fail_to_export(e); }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const DType exact = attrs.dtype == DType::f64 ? DType::f64 : DType::f32;
    const Tensor behind = *in[1] + size_tensor(attrs.shape.numel());
    const Tensor u = uniform_of(*in[0], *in[1], attrs.shape, exact);
    const Tensor v = uniform_of(*in[0], behind, attrs.shape, exact);
    // 1 - u is in (0, 1], so its logarithm is finite.
    const Tensor radius = sqrt(log(1 - u) * -2);
    return {to(radius * cos(v * (2 * std::numbers::pi)), attrs.dtype)};
  }
};

struct DropoutAttrs {
  double p = 0.5;
};

struct Dropout {
  using Attrs = DropoutAttrs;
  static constexpr Schema schema{
      .name = "dropout",
      .inputs = kXAndKey,
      .outputs = kOut,
      .doc = "Each element is 0 with the probability p, the others are scaled by 1 / (1 - p).",
      .saved_inputs = kSecond | kThird};
  static Types infer(const InferIn& in, const Attrs& attrs) {
    require_scalars(in, 1);
    if (!(attrs.p >= 0 && attrs.p <= 1)) fail_value(in, "p must be from 0 to 1");
    return {in[0]};
  }
  static std::vector<Tensor> expand(const Attrs& attrs, TensorRefs in, Loc) {
    const Tensor u = uniform_of(*in[1], *in[2], sizes_of(*in[0]), DType::f32);
    // All are 0 with p = 1, where none has a scale.
    const double scale = attrs.p == 1 ? 1 : 1 / (1 - attrs.p);
    return {where(u >= attrs.p, *in[0] * scale, 0)};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    g.set(0, apply<Dropout>(attrs, {}, g.grad(), g.input(1), g.input(2)));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { fail_to_export(e); }
};

constexpr ArgInfo kRateAndKey[] = {{"rate", kFloat}, {"seed", kI64}, {"offset", kI64}};

struct Poisson {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "poisson",
      .inputs = kRateAndKey,
      .outputs = kOut,
      .doc = "Poisson distributed: element i is a function of rate[i] and (seed, offset + i).",
      .checks = kFirst};
  static Types infer(const InferIn& in, const Attrs&) {
    require_scalars(in, 1);
    return {in[0]};
  }
  static void grad(Gradient&, const Attrs&) {}
  static void to_onnx(OnnxEmitter& e, const Attrs&) { fail_to_export(e); }
};

constexpr ArgInfo kConcentrationAndKey[] = {
    {"concentration", kFloat}, {"seed", kI64}, {"offset", kI64}};

/// The derivative by alpha of log(x) for a gamma distributed x whose distribution function stays as
/// it is (M. Figurnov, S. Mohamed and A. Mnih, "Implicit reparameterization gradients", 2018), by
/// PyTorch's approximations: Taylor's series for a small x, saddle points for a large alpha, and a
/// fit with an error of about 1e-3 between.
Tensor gamma_slope(const Tensor& alpha, const Tensor& x, const Tensor& log_x) {
  const Tensor small = x < 0.8, large = alpha > 8;
  // Where another form is taken, a number at which each one is defined.
  const Tensor near = where(small, x, 0.5), log_near = where(small, log_x, -0.7);
  Tensor term = ones_like(near), under = alpha, first = 1 / under, second = first / under;
  for (int i = 1; i <= 12; ++i) {
    term = term * near * (-1.0 / i);
    under = under + 1;
    first = first + term / under;
    second = second + term / square(under);
  }
  const Tensor taylor = exp(near) * (second - (log_near - digamma(alpha)) * first);

  const Tensor a = where(large, alpha, 9), y = where(logical_and(large, logical_not(small)), x, 18);
  const Tensor middle = logical_and(y >= a * 0.9, y <= a * 1.1);
  const Tensor centre =
      (1 + a * 24 * (1 + a * 12)) *
      (square(a) * 1440 + y * 6 * (53 - y * 120) - square(y) * 65 / a + a * (107 + y * 3600)) /
      (square(square(a)) * 1244160) / y;
  const Tensor z = where(middle, a * 2, y), gap = z - a, ratio = log(z / a);
  const Tensor bend = pow(gap - a * ratio, -1.5);
  const Tensor wide = neg(sqrt(a * 8)) / gap + where(gap < 0, neg(bend), bend);
  const Tensor slope = ratio * wide - sqrt(2 / a) * (a + z) / square(gap);
  const Tensor stirling = 1 + (1 + 1 / (a * 24)) / (a * 12);
  const Tensor saddle = where(middle, centre, neg(stirling) * slope / sqrt(a * 8));

  constexpr double kFit[3][8] = {{0.16009398, -0.094634809, 0.025146376, -0.0030648343, 1,
                                  0.32668115, 0.10406089, 0.0014179084},
                                 {0.53487893, 0.1298071, 0.065735949, -0.0015649758, 0.16639465,
                                  0.020070113, -0.0035938915, -0.00058392623},
                                 {0.040121004, -0.0065914022, -0.0026286047, -0.0013441777,
                                  0.017050642, -0.0021309326, 0.00085092367, -1.5247877e-07}};
  const Tensor u = where(small, 0, log_x) - log(alpha), v = log(alpha);
  const auto cubic = [&](int from) {
    Tensor sum;
    for (int i = from + 3; i >= from; --i) {
      const Tensor c = kFit[0][i] + u * (kFit[1][i] + u * kFit[2][i]);
      sum = sum.defined() ? c + v * sum : c;
    }
    return sum;
  };
  const Tensor fit = exp(cubic(0) / cubic(4)) / where(small, 1, x);
  return where(small, taylor, where(large, saddle, fit));
}

struct StandardGamma {
  using Attrs = StandardGammaAttrs;
  static constexpr Schema schema{
      .name = "standard_gamma",
      .inputs = kConcentrationAndKey,
      .outputs = kOut,
      .doc =
          "Gamma distributed with scale 1, or the logarithm: element i is a function of "
          "concentration[i] and (seed, offset + 16 i)."
          " Its gradient is that at a fixed value of the distribution function.",
      .saved_inputs = kFirst,
      .saved_outputs = kFirst,
      .checks = kFirst};
  static Types infer(const InferIn& in, const Attrs&) {
    require_scalars(in, 1);
    return {in[0]};
  }
  static void grad(Gradient& g, const Attrs& attrs) {
    const DType exact = g.grad().dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Tensor alpha = to(g.input(0), exact), drawn = to(g.output(), exact);
    const Tensor x = attrs.logarithm ? exp(drawn) : drawn;
    const Tensor slope = gamma_slope(alpha, x, attrs.logarithm ? drawn : log(x));
    // A draw of 0, whose logarithm is infinite, does not move.
    const Tensor moved = attrs.logarithm ? slope : where(x == 0, 0, x * slope);
    g.set(0, to(to(g.grad(), exact) * moved, g.grad().dtype()));
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { fail_to_export(e); }
};

constexpr ArgInfo kTrialsAndKey[] = {
    {"count", kFloat}, {"p", kFloat}, {"seed", kI64}, {"offset", kI64}};

struct Binomial {
  using Attrs = NoAttrs;
  static constexpr Schema schema{
      .name = "binomial",
      .inputs = kTrialsAndKey,
      .outputs = kOut,
      .doc =
          "Successes out of count[i] with the probability p[i]: a function of these and (seed, "
          "offset + i).",
      .checks = kFirst | kSecond};
  static Types infer(const InferIn& in, const Attrs&) {
    require_scalars(in, 2);
    if (in[0].dtype() != in[1].dtype() || !(in[0].shape() == in[1].shape())) {
      fail_shape(in, "count and p must be of one type, but are " + to_string(in[0]) + " and " +
                         to_string(in[1]));
    }
    return {in[0]};
  }
  static void to_onnx(OnnxEmitter& e, const Attrs&) { fail_to_export(e); }
};

}  // namespace

std::span<const OpInfo* const> random_rows() {
  static constexpr const OpInfo* kRows[] = {
      &op_info<RandomKey>, &op_info<SeedGenerator>, &op_info<Uniform>,       &op_info<Normal>,
      &op_info<Dropout>,   &op_info<Poisson>,       &op_info<StandardGamma>, &op_info<Binomial>};
  return kRows;
}

void seed_generator(Evaluator& by, const dyad::RandomKey& state, Loc loc) {
  const SeedGeneratorAttrs attrs{state.seed, state.offset};
  by.apply(op_info<SeedGenerator>, {}, &attrs, {}, loc);
}

Tensor gamma_numbers(const Tensor& concentration, bool logarithm, Loc loc) {
  const auto [seed, offset] = random_key(sizes_of(concentration, loc).numel() * kGammaTries, loc);
  return apply<StandardGamma>({.logarithm = logarithm}, loc, concentration, seed, offset);
}

Tensor dropout_by_key(const Tensor& x, double p, const Tensor& seed, const Tensor& offset,
                      Loc loc) {
  return apply<Dropout>({.p = p}, loc, x, seed, offset);
}

}  // namespace ops

std::array<Tensor, 2> random_key(Dim count, Loc loc) {
  std::vector<Tensor> key = apply_multi<ops::RandomKey>({.count = count}, loc, {}, 2);
  return {std::move(key[0]), std::move(key[1])};
}

Tensor uniform(Shape shape, double low, double high, DType dtype, Loc loc) {
  const LocScope scope(loc);
  const auto [seed, offset] = random_key(shape.numel(), loc);
  const Tensor u = ops::uniform_of(seed, offset, std::move(shape), dtype, loc);
  return low == 0 && high == 1 ? u : u * (high - low) + low;
}

Tensor normal(Shape shape, double mean, double std, DType dtype, Loc loc) {
  const LocScope scope(loc);
  const auto [seed, offset] = random_key(shape.numel() * 2, loc);
  const Tensor z =
      apply<ops::Normal>({.shape = std::move(shape), .dtype = dtype}, loc, seed, offset);
  return mean == 0 && std == 1 ? z : z * std + mean;
}

Tensor randint(std::int64_t low, std::int64_t high, Shape shape, DType dtype, Loc loc) {
  // As unsigned, so that no pair of bounds overflows.
  const std::uint64_t range = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (high <= low || range > std::uint64_t{1} << 53) {
    throw ValueError("randint(low = " + std::to_string(low) + ", high = " + std::to_string(high) +
                         "): high must be above low, by at most 2^53",
                     loc.user());
  }
  const LocScope scope(loc);
  const auto [seed, offset] = random_key(shape.numel(), loc);
  const Tensor u = ops::uniform_of(seed, offset, std::move(shape), f64, loc);
  return to(to(floor(u * static_cast<double>(range)), i64, loc) + low, dtype, loc);
}

Tensor poisson(const Tensor& rate, Loc loc) {
  const auto [seed, offset] = random_key(ops::sizes_of(rate, loc).numel(), loc);
  return apply<ops::Poisson>({}, loc, rate, seed, offset);
}

Tensor binomial(const Tensor& count, const Tensor& p, Loc loc) {
  const Tensor operands[] = {to(count, p.dtype(), loc), p};
  const std::vector<Tensor> both = broadcast_tensors(operands, loc);
  const auto [seed, offset] = random_key(ops::sizes_of(both[0], loc).numel(), loc);
  return apply<ops::Binomial>({}, loc, both[0], both[1], seed, offset);
}

Tensor dropout(const Tensor& x, double p, bool training, Loc loc) {
  if (!training || p == 0) return x;
  const auto [seed, offset] = random_key(ops::sizes_of(x, loc).numel(), loc);
  return apply<ops::Dropout>({.p = p}, loc, x, seed, offset);
}

}  // namespace dyad
