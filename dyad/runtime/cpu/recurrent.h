#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "dyad/core/storage.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/ops/attrs/recurrent.h"
#include "dyad/runtime/cpu/tensor_data.h"
#include "dyad/runtime/op_kernel.h"
#include "dyad/runtime/threads.h"

namespace dyad::runtime::cpu {

/// The inputs of a recurrent layer from x on: dense, f16 and bf16 widened to f32.
struct RecurrentLayer {
  RecurrentLayer(const OpCall& call, std::size_t first);

  enum class Cell { rnn, lstm, gru };
  const ops::RecurrentAttrs& attrs;
  Cell cell;
  std::vector<ops::Activation> f;
  Tensor x, weight_ih, weight_hh, bias_ih, bias_hh, h0, c0, peephole;
  std::vector<std::int64_t> lengths;  ///< of every sample
  std::int64_t steps, samples, width, hidden, gates;

  [[nodiscard]] bool active(std::int64_t t, std::int64_t n) const noexcept {
    return t < lengths[static_cast<std::size_t>(n)];
  }
  /// The step before step t of an active sample, -1 for its first.
  [[nodiscard]] std::int64_t previous(std::int64_t t, std::int64_t n) const noexcept {
    if (!attrs.reverse) return t - 1;
    return t + 1 < lengths[static_cast<std::size_t>(n)] ? t + 1 : -1;
  }
  /// The s-th step in the order of the computation.
  [[nodiscard]] std::int64_t step(std::int64_t s) const noexcept {
    return attrs.reverse ? steps - 1 - s : s;
  }
  /// A gru whose r multiplies weight_hh h + bias_hh.
  [[nodiscard]] bool resets_after() const noexcept {
    return cell == Cell::gru && attrs.linear_before_reset;
  }
  /// What lstm_rows.h computes in one pass.
  [[nodiscard]] bool is_usual_lstm() const noexcept;
  [[nodiscard]] std::int64_t gate_width() const noexcept { return gates * hidden; }
  [[nodiscard]] std::int64_t grain() const noexcept;

  /// Samples that one thread takes through all steps: threads that never wait for one another at a
  /// step repay reading all weights for a part of the samples.
  struct Part {
    std::int64_t number = 0, first = 0, end = 0;
    [[nodiscard]] std::int64_t samples() const noexcept { return end - first; }
  };
  /// In how many parts the samples go; 1 where threads rather share each step.
  [[nodiscard]] std::int64_t parts() const noexcept;
  /// Calls `run` with each of that many parts, on threads of their own.
  template <class Run>
  void each_part(std::int64_t count, Run&& run) const {
    parallel_for(0, count, 1, [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t i = lo; i < hi; ++i) {
        run(Part{i, samples * i / count, samples * (i + 1) / count});
      }
    });
  }
  /// Calls `run` with each sample of a part.
  template <class Run>
  void each_sample(const Part& part, Run&& run) const {
    parallel_for(part.first, part.end, grain(), [&](std::int64_t lo, std::int64_t hi) {
      for (std::int64_t i = lo; i < hi; ++i) run(i);
    });
  }
};

/// A state to begin with: a copy of `from`, or zeros.
template <class T>
[[nodiscard]] std::vector<T> state_of(const Tensor& from, std::int64_t count) {
  std::vector<T> state(static_cast<std::size_t>(count));
  if (from.defined()) std::copy_n(elements_of<const T>(from), count, state.begin());
  return state;
}

/// Uninitialised elements from the caching allocator: what a std::vector would clear first.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t count)
      : storage_(Storage::allocate(static_cast<std::size_t>(count) * sizeof(T))) {}
  [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(storage_->data()); }

 private:
  Ref<Storage> storage_;
};

void recurrent_backward(const OpCall& call);

}  // namespace dyad::runtime::cpu
