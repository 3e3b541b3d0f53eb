#include "dyad/exec/autocast.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ir/op_info.h"
#include "dyad/ops/elementary.h"

namespace dyad {
namespace exec {
namespace {

enum class Policy : std::uint8_t { as_given, narrow, wide };

const std::unordered_set<std::string_view> kNarrow = {
    "matmul", "linear", "einsum", "conv", "conv_transpose", "scaled_dot_product_attention",
    "lstm",   "gru",    "rnn"};

const std::unordered_set<std::string_view> kWide = {
    // sums
    "sum", "mean", "prod", "logsumexp", "var", "std", "norm", "cumsum", "cumprod", "logcumsumexp",
    "linear_scan",
    // rows and normalisations
    "softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "batch_norm",
    "batch_norm_train", "local_response_norm", "normalize", "mean_variance_normalization",
    // losses
    "cross_entropy", "nll_loss", "mse_loss", "binary_cross_entropy", "ctc_nll",
    // sampling, transforms and decompositions
    "grid_sample", "affine_grid", "fft", "rfft", "irfft", "cholesky", "det", "slogdet", "cofactor",
    "eigh", "eigvalsh", "inverse", "lu", "lu_factors", "pinv", "qr", "solve", "triangular_solve",
    "svd", "svdvals"};

Policy policy_of(const OpInfo& op) {
  if (kNarrow.contains(op.name)) return Policy::narrow;
  return kWide.contains(op.name) ? Policy::wide : Policy::as_given;
}

/// A parameter as it was cast in this scope.
struct Kept {
  Tensor source, cast;
  DType dtype;
  std::int64_t stamp;
  std::uint64_t era;
  const Evaluator* evaluator;
  bool on_tape;
};
thread_local std::unordered_map<const TensorImpl*, Kept> kept_casts;

/// Whether a cast of it is worth keeping: a parameter, which is used again in the scope.
bool is_parameter(const Tensor& tensor) {
  return tensor.is_concrete() && tensor.tracks_grad() && tensor.is_leaf();
}

Tensor cast_to(const Tensor& tensor, DType dtype, Loc loc,
               const std::function<std::int64_t(const Tensor&)>& stamp) {
  if (!stamp || !is_parameter(tensor)) return cast(tensor, dtype, true, loc);
  Kept now{tensor, {}, dtype, stamp(tensor), autocast_era(), &Evaluator::current(), grad_enabled()};
  const auto found = kept_casts.find(tensor.impl());
  if (found != kept_casts.end()) {
    const Kept& kept = found->second;
    if (kept.dtype == now.dtype && kept.stamp == now.stamp && kept.era == now.era &&
        kept.evaluator == now.evaluator && kept.on_tape == now.on_tape) {
      return kept.cast;
    }
  }
  now.cast = cast(tensor, dtype, true, loc);
  return kept_casts.insert_or_assign(tensor.impl(), std::move(now)).first->second.cast;
}

}  // namespace

std::int64_t version_of(const Tensor& tensor) { return tensor.impl()->storage->version(); }

AutocastInputs::AutocastInputs(const OpInfo& op, TensorRefs inputs, Loc loc,
                               const std::function<std::int64_t(const Tensor&)>& stamp)
    : casts_(inputs.size()) {
  const Policy policy = policy_of(op);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Tensor* const input = inputs[i];
    refs_.push_back(input);
    if (policy == Policy::as_given || !input->defined() || input->impl()->is_number) continue;
    const DType from = input->dtype();
    const DType to = policy == Policy::narrow ? *dtype_ : DType::f32;
    const bool narrow = is_narrow(from);
    if (from == to || !(narrow || (policy == Policy::narrow && from == DType::f32))) continue;
    casts_[i] = cast_to(*input, to, loc, stamp);
    refs_.back() = &casts_[i];
  }
}

}  // namespace exec

Autocast::Autocast(DType dtype, bool enabled, Loc loc)
    : AutocastSwitch(enabled ? std::optional<DType>(dtype) : std::nullopt) {
  if (is_narrow(dtype)) return;
  throw DTypeError(fmt::format("Autocast: the dtype must be bf16 or f16, found {}", name_of(dtype)),
                   loc.user());
}

Autocast::~Autocast() {
  if (is_outermost()) exec::kept_casts.clear();
}

}  // namespace dyad
