#include <cmath>
#include <numbers>

#include "dyad/core/create.h"
#include "dyad/core/text.h"
#include "dyad/onnx/import_scores.h"
#include "dyad/ops/ops.h"

// What the linear models of ai.onnx.ml mean, and what all classifiers
// do with their scores.

namespace dyad::onnx {

Tensor transformed(NodeImport& n, const Tensor& scores, const std::string& transform) {
  const Loc loc = n.loc();
  if (transform == "NONE") return scores;
  if (transform == "LOGISTIC") return sigmoid(scores, loc);
  if (transform == "SOFTMAX") return softmax(scores, -1, loc);
  if (transform == "SOFTMAX_ZERO") {
    // Scores of 0 take no part and stay 0.
    const Tensor zero = eq(scores, 0, loc);
    const Tensor largest = max(scores, {-1}, true, loc);
    const Tensor weight = where(zero, 0, exp(sub(scores, largest, loc), loc), loc);
    const Tensor total = sum(weight, {-1}, true, loc);
    return where(zero, 0, div(weight, total, loc), loc);
  }
  if (transform == "PROBIT") {
    return mul(erfinv(sub(mul(scores, 2, loc), 1, loc), loc), std::numbers::sqrt2, loc);
  }
  n.fail("its post_transform is '" + transform + "'");
}

Tensor class_labels(NodeImport& n, std::string_view integers, std::string_view texts) {
  if (n.has_attribute(texts)) return n.importer().constant(strings(n.texts(texts)));
  if (!n.has_attribute(integers)) return {};
  const Ints labels = n.integers(integers, {});
  return n.importer().constant(tensor(std::vector<std::int64_t>(labels.begin(), labels.end())));
}

void give_binary(NodeImport& n, const Tensor& score, const Tensor& labels, double threshold,
                 bool probabilities, const std::string& transform) {
  const Loc loc = n.loc();
  const Tensor chosen = squeeze(gt(score, threshold, loc), -1, loc);
  n.output(0, index_select(labels, 0, to(chosen, i64, loc), loc));
  if (transform == "PROBIT") {
    n.output(1, transformed(n, score, transform));
    return;
  }
  Tensor first = probabilities ? sub(1, score, loc) : neg(score, loc), second = score;
  if (transform == "LOGISTIC") {
    second = sigmoid(score, loc);
    first = sub(1, second, loc);
  }
  const Tensor both = concat({first, second}, -1, loc);
  n.output(1,
           transform == "LOGISTIC" || transform == "NONE" ? both : transformed(n, both, transform));
}

void give_largest(NodeImport& n, const Tensor& scores, const Tensor& labels,
                  const std::string& transform) {
  const Tensor at = argmax(scores, -1, false, false, n.loc());
  n.output(0, labels.defined() ? index_select(labels, 0, at, n.loc()) : at);
  n.output(1, transformed(n, scores, transform));
}

Tensor listed_numbers(NodeImport& n, std::string_view name, const Shape& shape) {
  const std::vector<double> values = n.numbers(name);
  std::int64_t wanted = 1;
  for (const Dim size : shape) wanted *= size.number();
  if (static_cast<std::int64_t>(values.size()) != wanted) {
    n.fail("its " + std::string(name) + " are " + std::to_string(values.size()) + ", not " +
           std::to_string(wanted));
  }
  return n.importer().constant(to(tensor(values, shape), f32));
}

Tensor features(NodeImport& n) {
  const Tensor x = to(n.input(0), f32, n.loc());
  return x.rank() == 1 ? unsqueeze(x, 0, n.loc()) : x;
}

namespace {

/// x times coefficients [targets, features], and intercepts.
Tensor linear_scores(NodeImport& n, std::int64_t targets) {
  const Tensor x = features(n);
  const auto count = static_cast<std::int64_t>(n.numbers("coefficients").size());
  if (targets < 1 || count % targets != 0) {
    n.fail("its " + std::to_string(count) + " coefficients do not fit " + std::to_string(targets) +
           " targets");
  }
  const Tensor weights = listed_numbers(n, "coefficients", {targets, count / targets});
  Tensor scores = matmul(x, transpose(weights, 0, 1, n.loc()), n.loc());
  if (!n.has_attribute("intercepts")) return scores;
  return add(scores, listed_numbers(n, "intercepts", {targets}), n.loc());
}

void linear_regressor(NodeImport& n) {
  n.output(0, transformed(n, linear_scores(n, n.integer("targets", 1)),
                          n.text("post_transform", "NONE")));
}

void linear_classifier(NodeImport& n) {
  const Tensor labels = class_labels(n, "classlabels_ints", "classlabels_strings");
  if (!labels.defined()) n.fail("it names no classes");
  const auto classes = labels.numel().value();
  const auto targets = n.has_attribute("intercepts")
                           ? static_cast<std::int64_t>(n.numbers("intercepts").size())
                           : classes;
  const Tensor scores = linear_scores(n, targets);
  const std::string transform = n.text("post_transform", "NONE");
  if (targets == 1 && classes == 2) {
    give_binary(n, scores, labels, 0, true, transform);
  } else if (targets == classes) {
    give_largest(n, scores, labels, transform);
  } else {
    n.fail("it has " + std::to_string(targets) + " scores for " + std::to_string(classes) +
           " classes");
  }
}

}  // namespace

std::span<const ModelRule> learned_rules() {
  static constexpr ModelRule kRules[] = {
      {"LinearRegressor", 1, linear_regressor, kMl},
      {"LinearClassifier", 1, linear_classifier, kMl},
  };
  return kRules;
}

}  // namespace dyad::onnx
