#include <cmath>

#include "dyad/exec/control_flow.h"
#include "dyad/onnx/importer.h"
#include "dyad/ops/arithmetic.h"
#include "dyad/ops/creation.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/linalg.h"
#include "dyad/ops/norm.h"
#include "dyad/ops/views.h"

// LinearAttention, a recurrence that Dyad says as a scan, and FlexAttention, which has subgraphs.

namespace dyad::onnx {
namespace {

/// [b, t, heads * d] -> [t, b, heads, d]; the first axis is scanned.
Tensor steps_of(const Tensor& x, std::int64_t heads, Loc loc) {
  return permute(reshape(x, {x.size(0), x.size(1), heads, -1}, loc), {1, 0, 2, 3}, loc);
}

/// State S[b, heads, dk, dv]: decayed, then written to at the key, then read by the queries.
void linear_attention(NodeImport& n) {
  const std::string rule = n.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") n.fail("its update_rule is '" + rule + "'");
  const std::int64_t heads = n.integer("kv_num_heads", 0), q_heads = n.integer("q_num_heads", 0);
  if (heads < 1 || q_heads < heads || q_heads % heads != 0) {
    n.fail("q_num_heads must be a multiple of kv_num_heads, but they are " +
           std::to_string(q_heads) + " and " + std::to_string(heads));
  }
  if (gated && !n.has(4)) n.fail("its update_rule needs decay");
  if (delta && !n.has(5)) n.fail("its update_rule needs beta");
  const Loc loc = n.loc();
  const Tensor query = n.input(0), value = n.input(2);
  const DType exact = query.dtype() == f64 ? f64 : f32;
  const std::int64_t each = q_heads / heads;
  const auto wide = [&](const Tensor& x) { return to(x, exact, loc); };
  // Queries of the heads that share a state are its rows.
  std::vector<Tensor> xs{
      permute(reshape(query, {query.size(0), query.size(1), heads, each, -1}, loc), {1, 0, 2, 3, 4},
              loc),
      steps_of(n.input(1), heads, loc), steps_of(value, heads, loc)};
  if (gated) xs.push_back(steps_of(n.input(4), heads, loc));
  if (delta) xs.push_back(unsqueeze(permute(n.input(5), {1, 0, 2}, loc), -1, loc));
  const Dim keys = xs[1].size(3), values = xs[2].size(3);
  double scale = n.number("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(keys.value(loc)));
  const Tensor init =
      n.has(3) ? wide(n.input(3)) : zeros({query.size(0), heads, keys, values}, exact, loc);

  const auto step = [&](std::span<const Tensor> in) -> std::vector<Tensor> {
    Tensor state = in[0];
    const Tensor key = unsqueeze(wide(in[2]), -1, loc);  // [b, heads, dk, 1]
    Tensor write = wide(in[3]);                          // [b, heads, dv]
    if (gated) state = mul(state, unsqueeze(exp(wide(in[4]), loc), -1, loc), loc);
    if (delta) {
      const Tensor held = squeeze(matmul(transpose(state, 2, 3, loc), key, loc), -1, loc);
      write = mul(wide(in.back()), sub(write, held, loc), loc);
    }
    state = add(state, matmul(key, unsqueeze(write, -2, loc), loc), loc);
    const Tensor read = mul(matmul(wide(in[1]), state, loc), scale, loc);
    return {state, to(read, query.dtype(), loc)};
  };
  const std::vector<Tensor> results =
      n.importer().record([&] { return exec::run_scan(step, {&init, 1}, xs, loc); });
  // [t, b, heads, each, dv] -> [b, t, heads * each * dv]
  n.output(0, reshape(permute(results[1], {1, 0, 2, 3, 4}, loc),
                      {query.size(0), query.size(1), values * q_heads}, loc));
  n.output(1, to(results[0], n.has(3) ? n.input(3).dtype() : query.dtype(), loc));
}

/// Attention whose scores and probabilities go through subgraphs.
void flex_attention(NodeImport& n) {
  const Tensor q = n.input(0);
  const Loc loc = n.loc();
  if (q.rank() != 4) n.fail("its inputs must have 4 axes: batch, heads, sequence, head size");
  const DType exact = n.dtype("softmax_precision", q.dtype() == f64 ? f64 : f32);
  const Dim batch = q.size(0), heads = q.size(1), kv_heads = n.input(1).size(1);
  if (!heads.is_number() || !kv_heads.is_number() || kv_heads.number() < 1 ||
      heads.number() % kv_heads.number() != 0) {
    n.fail("its " + to_string(heads) + " heads of queries must be a multiple of its " +
           to_string(kv_heads) + " heads of keys");
  }
  // Query heads that share keys are an axis of their own.
  const std::int64_t each = heads.number() / kv_heads.number();
  const auto shared = [&](const Tensor& x) {
    if (each == 1) return to(x, exact, loc);
    const Tensor wide =
        expand(unsqueeze(x, 2, loc), {batch, kv_heads, each, x.size(2), x.size(3)}, loc);
    return to(reshape(wide, {batch, heads, x.size(2), x.size(3)}, loc), exact, loc);
  };
  const auto modified = [&](std::string_view name, const Tensor& x) {
    if (!n.has_attribute(name)) return x;
    const Imported input = imported(x);
    const std::vector<Imported> results = n.run(n.graph(name), {&input, 1});
    if (results.size() != 1 || !results[0].tensor.defined()) {
      n.fail("its subgraph " + std::string(name) + " must give one tensor");
    }
    return n.importer().operand(results[0]);
  };
  const Tensor keys = shared(n.input(1)), values = shared(n.input(2));
  double scale = n.number("scale", 0);
  if (!n.has_attribute("scale")) scale = 1 / std::sqrt(static_cast<double>(q.size(3).value(loc)));
  const Tensor scores = mul(matmul(to(q, exact, loc), transpose(keys, 2, 3, loc), loc), scale, loc);
  const Tensor probabilities = softmax(modified("score_mod", scores), -1, loc);
  n.output(0, to(matmul(modified("prob_mod", probabilities), values, loc), q.dtype(), loc));
}

}  // namespace

std::span<const ModelRule> recurrent_rules() {
  static constexpr ModelRule kRules[] = {
      {"FlexAttention", 1, flex_attention, "ai.onnx.preview"},
      {"LinearAttention", 27, linear_attention},
  };
  return kRules;
}

}  // namespace dyad::onnx
