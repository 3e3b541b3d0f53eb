#include "dyad/ops/attrs/ctc.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/runtime/cpu/cast.h"
#include "dyad/runtime/cpu/element.h"
#include "dyad/runtime/cpu/kernels.h"
#include "dyad/runtime/cpu/recurrent.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/cpu/vector_clones.h"
#include "dyad/runtime/cpu/vector_math.h"
#include "dyad/runtime/threads.h"

// Forward and backward variables in logarithms, one sample at a time: place p of 2 s + 1 is a blank
// where p is even, label p / 2 where it is odd.

namespace dyad::runtime::cpu {
namespace {

template <class T>
constexpr T kNone = -std::numeric_limits<T>::infinity();
/// Elements of kNone in front of and behind the places of a step.
constexpr std::int64_t kMargin = 2;

/// to[p] = log(e^a[p] + e^b[p] + e^(c[p] + allowed[p])) + by[p]; allowed is 0 or -inf.
template <class T>
[[gnu::always_inline]] inline void advance_of(T* to, const T* a, const T* b, const T* c,
                                              const T* allowed, const T* by, std::int64_t n) {
  for (std::int64_t p = 0; p < n; ++p) {
    const T third = c[p] + allowed[p];
    T top = a[p] > b[p] ? a[p] : b[p];
    top = third > top ? third : top;
    const T from = top == kNone<T> ? T{} : top;
    const T total = vector_math::exp(a[p] - from) + vector_math::exp(b[p] - from) +
                    vector_math::exp(third - from);
    to[p] = top + vector_math::log_1_to_3(total < 1 ? T(1) : total) + by[p];
  }
}
DYAD_VECTOR_CLONES void advance(float* to, const float* a, const float* b, const float* c,
                                const float* allowed, const float* by, std::int64_t n) {
  advance_of(to, a, b, c, allowed, by, n);
}
DYAD_VECTOR_CLONES void advance(double* to, const double* a, const double* b, const double* c,
                                const double* allowed, const double* by, std::int64_t n) {
  advance_of(to, a, b, c, allowed, by, n);
}

/// to[p] = exp(a[p] + b[p] + shift).
template <class T>
[[gnu::always_inline]] inline void joint_of(T* to, const T* a, const T* b, T shift,
                                            std::int64_t n) {
  for (std::int64_t p = 0; p < n; ++p) to[p] = vector_math::exp(a[p] + b[p] + shift);
}
DYAD_VECTOR_CLONES void joint(float* to, const float* a, const float* b, float shift,
                              std::int64_t n) {
  joint_of(to, a, b, shift, n);
}
DYAD_VECTOR_CLONES void joint(double* to, const double* a, const double* b, double shift,
                              std::int64_t n) {
  joint_of(to, a, b, shift, n);
}

/// The inputs from log_probs on, checked.
struct CtcProblem {
  CtcProblem(const OpCall& call, std::size_t first)
      : log_probs(dense_computed(call.inputs[first])),
        blank(call.attrs_as<ops::CtcAttrs>().blank),
        targets(index_values(call.inputs[first + 1])),
        input_lengths(index_values(call.inputs[first + 2])),
        target_lengths(index_values(call.inputs[first + 3])) {
    const auto sizes = log_probs.impl()->shape.numbers();
    steps = sizes[0];
    samples = sizes[1];
    classes = sizes[2];
    const Shape& given = call.inputs[first + 1].impl()->shape;
    const bool rows = given.rank() == 2;
    const std::int64_t room = rows ? given[1].number() : given[0].number();
    std::int64_t at = 0;
    for (std::int64_t i = 0; i < samples; ++i) {
      const std::int64_t length = target_length(i), left = rows ? room : room - at;
      if (length < 0 || length > left || input_length(i) < 0 || input_length(i) > steps) {
        throw ValueError("ctc_loss: sample " + std::to_string(i) + " has input length " +
                             std::to_string(input_length(i)) + " of " + std::to_string(steps) +
                             " steps and target length " + std::to_string(length) + " of " +
                             std::to_string(left) + " labels; a length must be from 0 to those",
                         call.loc);
      }
      begin.push_back(rows ? i * room : at);
      at += length;
      for (std::int64_t k = 0; k < length; ++k) {
        const std::int64_t label = label_at(i, k);
        if (label >= 0 && label < classes) continue;
        throw IndexError("ctc_loss: label " + std::to_string(label) + " of sample " +
                             std::to_string(i) + " is out of range for " + std::to_string(classes) +
                             " classes",
                         call.loc);
      }
    }
  }
  [[nodiscard]] std::int64_t input_length(std::int64_t i) const noexcept {
    return input_lengths[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::int64_t target_length(std::int64_t i) const noexcept {
    return target_lengths[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] std::int64_t label_at(std::int64_t i, std::int64_t k) const noexcept {
    return targets[static_cast<std::size_t>(begin[static_cast<std::size_t>(i)] + k)];
  }
  [[nodiscard]] std::int64_t grain() const noexcept {
    const auto labels = static_cast<double>(targets.size() + 1);
    const double flops = 150.0 * static_cast<double>(steps) * labels /
                         static_cast<double>(std::max<std::int64_t>(samples, 1));
    return grain_for({.flops = flops}, samples);
  }

  Tensor log_probs;
  std::int64_t blank, steps, samples, classes;
  std::vector<std::int64_t> targets, input_lengths, target_lengths, begin;
};

/// One sample's variables.
template <class T>
class Sample {
 public:
  Sample(const CtcProblem& problem, std::int64_t i)
      : p_(problem),
        sample_(i),
        steps_(problem.input_length(i)),
        places_(2 * problem.target_length(i) + 1),
        labels_(static_cast<std::size_t>(places_), problem.blank),
        by_(static_cast<std::size_t>(places_)),
        skip_into_(static_cast<std::size_t>(places_), kNone<T>),
        skip_out_(static_cast<std::size_t>(places_), kNone<T>) {
    for (std::int64_t p = 1; p < places_; p += 2) labels_[at(p)] = problem.label_at(i, p / 2);
    for (std::int64_t p = 3; p < places_; p += 2) {
      if (labels_[at(p)] == problem.blank || labels_[at(p)] == labels_[at(p - 2)]) continue;
      skip_into_[at(p)] = 0;
      skip_out_[at(p - 2)] = 0;
    }
  }

  /// Fills `rows`, one for each step if `keep`, else two in turn; gives the loss.
  T forward(bool keep) {
    const std::int64_t width = places_ + 2 * kMargin, count = keep ? steps_ + 1 : 2;
    rows_.assign(static_cast<std::size_t>(count * width), kNone<T>);
    T* before = row(0);
    before[0] = 0;  // as if a blank that costs nothing came first
    for (std::int64_t t = 0; t < steps_; ++t) {
      T* const next = row(keep ? t + 1 : (t + 1) % 2);
      read_step(t);
      advance(next, before, before - 1, before - 2, skip_into_.data(), by_.data(), places_);
      before = next;
    }
    const T last = before[places_ - 1], but_one = places_ > 1 ? before[places_ - 2] : kNone<T>;
    const T top = std::max(last, but_one);
    if (top == kNone<T>) return -kNone<T>;
    return -(top + std::log(std::exp(last - top) + std::exp(but_one - top)));
  }

  /// After forward(true): adds -scale * (probability of each class at each step) to `to`.
  void backward(T nll, T scale, T* to) {
    std::vector<T> rows(static_cast<std::size_t>(2 * (places_ + 2 * kMargin)), kNone<T>);
    std::vector<T> share(static_cast<std::size_t>(places_));
    const auto beta = [&](std::int64_t k) {
      return rows.data() + (k % 2) * (places_ + 2 * kMargin) + kMargin;
    };
    // Variables without their own step's probability: what is left to do from place p on.
    T* after = beta(0);
    after[places_ - 1] = 0;
    if (places_ > 1) after[places_ - 2] = 0;
    std::vector<T> weighted(rows.size() / 2, kNone<T>), none(share.size());
    for (std::int64_t t = steps_; t-- > 0;) {
      joint(share.data(), row(t + 1), after, nll, places_);
      T* const out = to + (t * p_.samples + sample_) * p_.classes;
      for (std::int64_t p = 0; p < places_; ++p) {
        out[labels_[at(p)]] -= scale * share[at(p)];
      }
      if (t == 0) break;
      read_step(t);
      T* const ahead = weighted.data() + kMargin;
      for (std::int64_t p = 0; p < places_; ++p) ahead[p] = after[p] + by_[at(p)];
      T* const next = beta(steps_ - t);
      advance(next, ahead, ahead + 1, ahead + 2, skip_out_.data(), none.data(), places_);
      after = next;
    }
  }

 private:
  static std::size_t at(std::int64_t p) { return static_cast<std::size_t>(p); }
  T* row(std::int64_t k) { return rows_.data() + k * (places_ + 2 * kMargin) + kMargin; }
  /// The labels' logarithms at a step.
  void read_step(std::int64_t t) {
    const T* from = elements_of<const T>(p_.log_probs) + (t * p_.samples + sample_) * p_.classes;
    for (std::int64_t p = 0; p < places_; ++p) by_[at(p)] = from[labels_[at(p)]];
  }

  const CtcProblem& p_;
  std::int64_t sample_, steps_, places_;
  std::vector<std::int64_t> labels_;
  std::vector<T> by_, skip_into_, skip_out_, rows_;
};

void ctc_nll(const OpCall& call) {
  const CtcProblem problem(call, 0);
  const ComputedOutput out(call.outputs[0]);
  with_computed(problem.log_probs.dtype(), [&]<class T>(T) {
    T* to = elements_of<T>(out.tensor());
    parallel_for(0, problem.samples, problem.grain(), [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t i = lo; i < hi; ++i) to[i] = Sample<T>(problem, i).forward(false);
    });
  });
  out.finish();
}

void ctc_nll_backward(const OpCall& call) {
  const CtcProblem problem(call, 1);
  const Tensor grad = dense_computed(call.inputs[0]);
  const ComputedOutput out(call.outputs[0]);
  with_computed(problem.log_probs.dtype(), [&]<class T>(T) {
    T* to = elements_of<T>(out.tensor());
    std::fill_n(to, out.tensor().impl()->numel(), T{});
    parallel_for(0, problem.samples, problem.grain(), [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t i = lo; i < hi; ++i) {
        Sample<T> sample(problem, i);
        const T nll = sample.forward(true);
        if (nll == -kNone<T>) continue;
        sample.backward(nll, elements_of<const T>(grad)[i], to);
      }
    });
  });
  out.finish();
}

}  // namespace

std::span<const NamedKernel> ctc_kernels() {
  static constexpr NamedKernel kernels[] = {{"ctc_nll", {ctc_nll}},
                                            {"ctc_nll_backward", {ctc_nll_backward}}};
  return kernels;
}

}  // namespace dyad::runtime::cpu
