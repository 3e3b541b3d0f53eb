#include <algorithm>

#include "dyad/core/create.h"
#include "dyad/exec/control_flow.h"
#include "dyad/onnx/import_scores.h"
#include "dyad/ops/ops.h"

// What the support vector machines of ai.onnx.ml mean. Where the standard is silent (which class
// wins, which scores two classes have) they do what ONNX Runtime does.

namespace dyad::onnx {
namespace {

/// The kernel of x[n, features] with vectors [v, features]: [n, v].
Tensor kernel_of(NodeImport& n, const Tensor& x, const Tensor& vectors) {
  const Loc loc = n.loc();
  const std::vector<double> given = n.numbers("kernel_params");
  const double gamma = given.empty() ? 0 : given[0], coef0 = given.size() > 1 ? given[1] : 0,
               degree = given.size() > 2 ? given[2] : 0;
  const std::string kind = n.text("kernel_type", "LINEAR");
  if (kind == "RBF") {
    const Tensor apart = sub(unsqueeze(x, 1, loc), vectors, loc);
    return exp(mul(sum(mul(apart, apart, loc), {-1}, false, loc), -gamma, loc), loc);
  }
  Tensor dots = matmul(x, transpose(vectors, 0, 1, loc), loc);
  if (kind == "LINEAR") return dots;
  const Tensor shifted = add(mul(dots, gamma, loc), coef0, loc);
  if (kind == "POLY") return pow(shifted, degree, loc);
  if (kind != "SIGMOID") n.fail("its kernel_type is '" + kind + "'");
  return tanh(shifted, loc);
}

void svm_regressor(NodeImport& n) {
  const Tensor x = features(n);
  const Loc loc = n.loc();
  const std::int64_t supports = n.integer("n_supports", 0);
  const auto count = static_cast<std::int64_t>(n.numbers("coefficients").size());
  Tensor score;
  if (supports > 0) {
    const auto elements = static_cast<std::int64_t>(n.numbers("support_vectors").size());
    const Tensor vectors = listed_numbers(n, "support_vectors", {supports, elements / supports});
    score = matmul(kernel_of(n, x, vectors), listed_numbers(n, "coefficients", {supports, 1}), loc);
  } else {
    score = kernel_of(n, x, listed_numbers(n, "coefficients", {1, count}));
  }
  if (const std::vector<double> rho = n.numbers("rho"); !rho.empty()) {
    score = add(score, rho[0], loc);
  }
  if (n.flag("one_class")) score = where(gt(score, 0, loc), to(tensor(1.0f), f32), -1, loc);
  n.output(0, transformed(n, score, n.text("post_transform", "NONE")));
}

/// A classifier with a machine for each pair of classes.
class PairwiseClassifier {
 public:
  PairwiseClassifier(NodeImport& n, const Tensor& labels)
      : n_(n),
        labels_(labels),
        classes_(labels.numel().value()),
        pairs_(classes_ * (classes_ - 1) / 2),
        starts_(starts_of(n.integers("vectors_per_class", {}))) {
    if (classes_ < 2 || std::ssize(starts_) != classes_ + 1) {
      n.fail("it has support vectors of " + std::to_string(starts_.size() - 1) + " classes but " +
             std::to_string(classes_) + " labels");
    }
  }

  void build() {
    const Loc loc = n_.loc();
    const Tensor scores = pair_scores();
    n_.output(0, index_select(labels_, 0, argmax(votes(scores), -1, false, false, loc), loc));
    const std::string transform = n_.text("post_transform", "NONE");
    if (n_.has_attribute("prob_a")) {
      n_.output(1, transformed(n_, probabilities(scores), transform));
    } else if (classes_ > 2) {
      n_.output(1, transformed(n_, scores, transform));
    } else {
      n_.output(1, both_scores(scores, transform));
    }
  }

 private:
  static Ints starts_of(const Ints& counts) {
    Ints starts{0};
    for (const std::int64_t count : counts) starts.push_back(starts.back() + count);
    return starts;
  }

  /// [n, pairs]: above 0 for the first class of a pair. A support vector of one class has a
  /// coefficient against each other class.
  Tensor pair_scores() {
    const Loc loc = n_.loc();
    const std::int64_t count = starts_.back();
    const std::vector<double> coefficients = n_.numbers("coefficients");
    const auto elements = static_cast<std::int64_t>(n_.numbers("support_vectors").size());
    const bool ordered = std::ranges::is_sorted(starts_) && count > 0;
    if (!ordered || elements % count != 0 || std::ssize(coefficients) != (classes_ - 1) * count) {
      n_.fail("its support vectors, coefficients and vectors_per_class do not fit together");
    }
    const Tensor vectors = listed_numbers(n_, "support_vectors", {count, elements / count});
    std::vector<double> weights(static_cast<std::size_t>(count * pairs_));
    std::int64_t pair = 0;
    const auto take = [&](std::int64_t of, std::int64_t row) {
      const auto at = static_cast<std::size_t>(of);
      for (std::int64_t v = starts_[at]; v < starts_[at + 1]; ++v) {
        weights[static_cast<std::size_t>(v * pairs_ + pair)] =
            coefficients[static_cast<std::size_t>(row * count + v)];
      }
    };
    for (std::int64_t i = 0; i < classes_; ++i) {
      for (std::int64_t j = i + 1; j < classes_; ++j, ++pair) {
        take(i, j - 1);
        take(j, i);
      }
    }
    const Tensor by_pair = n_.importer().constant(to(tensor(weights, {count, pairs_}), f32));
    const Tensor sums = matmul(kernel_of(n_, features(n_), vectors), by_pair, loc);
    return add(sums, listed_numbers(n_, "rho", {pairs_}), loc);
  }

  /// How many pairs each class wins: [n, classes].
  Tensor votes(const Tensor& scores) {
    std::vector<float> first(static_cast<std::size_t>(pairs_ * classes_)), second = first;
    std::int64_t pair = 0;
    for (std::int64_t i = 0; i < classes_; ++i) {
      for (std::int64_t j = i + 1; j < classes_; ++j, ++pair) {
        first[static_cast<std::size_t>(pair * classes_ + i)] = 1;
        second[static_cast<std::size_t>(pair * classes_ + j)] = 1;
      }
    }
    const Loc loc = n_.loc();
    const Tensor won = to(gt(scores, 0, loc), f32, loc);
    const auto counted = [&](const Tensor& wins, const std::vector<float>& of) {
      return matmul(wins, n_.importer().constant(tensor(of, {pairs_, classes_})), loc);
    };
    return add(counted(won, first), counted(sub(1, won, loc), second), loc);
  }

  Tensor both_scores(const Tensor& score, const std::string& transform) {
    const Loc loc = n_.loc();
    if (transform == "PROBIT") {
      // That of 1 - s is that of s with the other sign. ONNX Runtime gives the first of both alone.
      const Tensor first = transformed(n_, score, transform);
      return concat({first, neg(first, loc)}, -1, loc);
    }
    if (transform == "NONE") return concat({neg(score, loc), score}, -1, loc);
    const Tensor second = transform == "LOGISTIC" ? sigmoid(score, loc) : score;
    return concat({sub(1, second, loc), second}, -1, loc);
  }

  /// Probabilities of pairs [n, classes, classes]: of the first class of two.
  Tensor of_pairs(const Tensor& scores) {
    const Loc loc = n_.loc();
    const Tensor line = add(mul(scores, listed_numbers(n_, "prob_a", {pairs_}), loc),
                            listed_numbers(n_, "prob_b", {pairs_}), loc);
    const Tensor won = clamp(sigmoid(neg(line, loc), loc), 1e-7, 1 - 1e-7, loc);
    const Tensor zero = zeros_like(select(won, 1, 0, loc), loc);
    std::vector<Tensor> all(static_cast<std::size_t>(classes_ * classes_), zero);
    std::int64_t pair = 0;
    for (std::int64_t i = 0; i < classes_; ++i) {
      for (std::int64_t j = i + 1; j < classes_; ++j, ++pair) {
        const Tensor p = select(won, 1, pair, loc);
        all[static_cast<std::size_t>(i * classes_ + j)] = p;
        all[static_cast<std::size_t>(j * classes_ + i)] = sub(1, p, loc);
      }
    }
    return reshape(stack(all, 1, loc), {-1, classes_, classes_}, loc);
  }

  /// The probabilities of classes that agree best with those of pairs (Wu, Lin and Weng 2004,
  /// method 2, by LIBSVM's iteration; it ends so early that another one would give other numbers).
  Tensor probabilities(const Tensor& scores) {
    const Loc loc = n_.loc();
    const double enough = 0.005 / static_cast<double>(classes_);
    const Tensor r = of_pairs(scores);
    const Tensor own = sum(mul(r, r, loc), {1}, true, loc);
    const Tensor diagonal = eye(classes_, classes_, 0, f32, loc);
    const Tensor q = sub(mul(diagonal, own, loc), mul(r, transpose(r, 1, 2, loc), loc), loc);
    const Tensor even = full_like(select(r, 1, 0, loc), 1.0 / static_cast<double>(classes_), loc);
    const Tensor live = gt(slice(even, 1, 0, 1, 1, loc), 0, loc);
    const Tensor step = n_.importer().constant(tensor(std::int64_t{0}));
    const auto go_on = [&](std::span<const Tensor> state) {
      return std::vector<Tensor>{
          logical_and(lt(state[0], 100, loc), any(state[2], {}, false, loc), loc)};
    };
    const auto improve = [&](std::span<const Tensor> state) {
      const Tensor& before = state[1];
      Tensor p = before, qp = sum(mul(q, unsqueeze(p, 1, loc), loc), {-1}, false, loc);
      Tensor pqp = sum(mul(p, qp, loc), {-1}, true, loc);
      const Tensor error = max(abs(sub(qp, pqp, loc), loc), {-1}, true, loc);
      const Tensor still = logical_and(state[2], ge(error, enough, loc), loc);
      for (std::int64_t t = 0; t < classes_; ++t) {
        const Tensor row = select(q, 1, t, loc), at = slice(row, 1, t, t + 1, 1, loc);
        const Tensor q_t = slice(qp, 1, t, t + 1, 1, loc);
        const Tensor change = div(sub(pqp, q_t, loc), at, loc), scale = add(change, 1, loc);
        const Tensor more = mul(change, add(mul(change, at, loc), mul(q_t, 2, loc), loc), loc);
        pqp = div(add(pqp, more, loc), mul(scale, scale, loc), loc);
        qp = div(add(qp, mul(change, row, loc), loc), scale, loc);
        p = div(add(p, mul(change, select(diagonal, 0, t, loc), loc), loc), scale, loc);
      }
      return std::vector<Tensor>{add(state[0], 1, loc), where(still, p, before, loc), still};
    };
    const std::vector<Tensor> state{step, even, live};
    return n_.importer().record([&] { return exec::run_while(go_on, improve, state, loc); })[1];
  }

  NodeImport& n_;
  Tensor labels_;
  std::int64_t classes_, pairs_;
  Ints starts_;  ///< of the support vectors of each class, and their end
};

/// Without support vectors: a row of coefficients for each class.
void classify_linearly(NodeImport& n, const Tensor& labels) {
  const Loc loc = n.loc();
  const auto classes = labels.numel().value();
  const std::vector<double> all = n.numbers("coefficients"), rho = n.numbers("rho");
  const auto count = std::ssize(all);
  if (count == 0 || count % classes != 0 || rho.empty()) {
    n.fail("its coefficients do not fit its labels, or it has no rho");
  }
  const Tensor weights = listed_numbers(n, "coefficients", {classes, count / classes});
  const Tensor scores = add(matmul(features(n), transpose(weights, 0, 1, loc), loc), rho[0], loc);
  Tensor best = argmax(scores, -1, false, false, loc);
  if (classes == 2 && !n.has_attribute("prob_a")) {
    const bool positive = std::ranges::all_of(all, [](double c) { return c >= 0; });
    const Tensor largest = max(scores, {-1}, false, loc);
    best = where(positive ? ge(largest, 0.5, loc) : gt(largest, 0, loc), 1, best, loc);
  }
  n.output(0, index_select(labels, 0, best, loc));
  n.output(1, transformed(n, scores, n.text("post_transform", "NONE")));
}

void svm_classifier(NodeImport& n) {
  const Tensor labels = class_labels(n, "classlabels_ints", "classlabels_strings");
  if (!labels.defined()) n.fail("it names no classes");
  if (n.integers("vectors_per_class", {}).empty()) {
    classify_linearly(n, labels);
  } else {
    PairwiseClassifier(n, labels).build();
  }
}

}  // namespace

std::span<const ModelRule> svm_rules() {
  static constexpr ModelRule kRules[] = {
      {"SVMClassifier", 1, svm_classifier, kMl},
      {"SVMRegressor", 1, svm_regressor, kMl},
  };
  return kRules;
}

}  // namespace dyad::onnx
