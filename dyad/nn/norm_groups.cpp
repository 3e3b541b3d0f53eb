#include "dyad/nn/norm_groups.h"

#include <fmt/format.h>

#include "dyad/base/error.h"
#include "dyad/nn/checks.h"
#include "dyad/nn/init.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/normalize.h"

namespace dyad::nn {
namespace {

void add_affine(Parameter& weight, Parameter& bias, std::int64_t channels, DType dtype, Loc loc) {
  weight = Parameter(init::full({channels}, 1, dtype, loc), loc);
  bias = Parameter(init::full({channels}, 0, dtype, loc), loc);
}

}  // namespace

GroupNorm::GroupNorm(std::int64_t groups, std::int64_t channels, const GroupNormOptions& options,
                     Loc loc)
    : groups(groups), eps(options.eps) {
  require_positive("GroupNorm", {{"groups", groups}, {"channels", channels}}, loc);
  if (channels % groups != 0) {
    throw ValueError(
        fmt::format("GroupNorm: groups must divide channels, found groups = {}, channels = {}",
                    groups, channels),
        loc.user());
  }
  if (options.affine) add_affine(weight, bias, channels, options.dtype, loc);
}

Tensor GroupNorm::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return group_norm(x, groups, weight, bias, eps, loc);
}

InstanceNorm::InstanceNorm(std::int64_t channels, const InstanceNormOptions& options, Loc loc)
    : eps(options.eps) {
  require_positive("InstanceNorm", {{"channels", channels}}, loc);
  if (options.affine) add_affine(weight, bias, channels, options.dtype, loc);
}

Tensor InstanceNorm::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return instance_norm(x, weight, bias, eps, loc);
}

RMSNorm::RMSNorm(std::int64_t size, double eps, DType dtype, Loc loc) : eps(eps) {
  require_positive("RMSNorm", {{"size", size}}, loc);
  weight = Parameter(init::full({size}, 1, dtype, loc), loc);
}

Tensor RMSNorm::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return rms_norm(x, weight, eps, loc);
}

Tensor LocalResponseNorm::operator()(const Tensor& x, Loc loc) const {
  const LocScope scope(loc);
  return local_response_norm(x, size, alpha, beta, k, loc);
}

}  // namespace dyad::nn
