#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "dyad/nn/tensor_dict.h"
#include "dyad/nn/visitor.h"

namespace dyad::nn {

/// How load_state_dict treats names.
struct LoadStateOptions {
  bool strict = true;  ///< names that only one side has are errors
};

namespace detail {

/// What a walk over a model finds.
struct Found {
  TensorDict parameters;  ///< each tensor once, under its first name
  TensorDict buffers;
  TensorDict state;  ///< parameters and buffers under all their names, as members come
  std::vector<Mode> modes;
};

/// Collects what a model holds.
class Collector final : public Visitor {
 public:
  void on_parameter(const std::string& name, Parameter& parameter) override;
  void on_buffer(const std::string& name, Buffer& buffer) override;
  void on_mode(Mode& mode) override;
  Found found;
};

/// Replaces every tensor and mode by one of its own; what was shared inside the model stays shared.
class Cloner final : public Visitor {
 public:
  void on_parameter(const std::string& name, Parameter& parameter) override;
  void on_buffer(const std::string& name, Buffer& buffer) override;
  void on_mode(Mode& mode) override;

 private:
  Tensor copy_of(const Tensor& tensor);
  std::unordered_map<const TensorImpl*, Tensor> copies_;
};

/// Calls a function with every layer of one class.
template <class L, class F>
class LayerFinder final : public Visitor {
 public:
  explicit LayerFinder(F& found) : found_(found) {}
  void on_parameter(const std::string&, Parameter&) override {}
  void on_buffer(const std::string&, Buffer&) override {}
  void on_object(const std::type_info& type, void* layer) override {
    if (type == typeid(L)) found_(*static_cast<L*>(layer));
  }

 private:
  F& found_;
};

/// What a run of a model told of it: the result of the last operator that took a tensor, by tensor;
/// and of all operators together.
struct Observed {
  struct Result {
    std::string type;
    std::int64_t multiply_adds = 0;
  };
  std::unordered_map<const TensorImpl*, Result> by_tensor;
  std::int64_t multiply_adds = 0, bytes = 0;
};
/// Runs `call` in eval mode, without the tape, and tells what happened.
[[nodiscard]] Observed observe(const std::vector<Mode>& modes, const std::function<void()>& call);

/// Describes a model as a table.
class Summarizer final : public Visitor {
 public:
  void on_parameter(const std::string& name, Parameter& parameter) override;
  void on_buffer(const std::string& name, Buffer& buffer) override;
  void on_enter(const std::string& name, std::string_view type) override;
  void on_leave() override;
  [[nodiscard]] std::string table(std::string_view type, const Observed* observed = nullptr) const;

 private:
  struct Row {
    std::string name, type;
    std::vector<std::string> tensors;
    std::vector<const TensorImpl*> members = {};
    std::int64_t parameters = 0;
    std::size_t depth = 0;
  };
  void add(const std::string& name, const Tensor& tensor, bool learned);
  std::vector<Row> rows_{Row{}};
  std::vector<std::size_t> open_{0};
  std::vector<std::string> prefixes_{""};  ///< of the names inside the open ones
  std::int64_t parameters_ = 0, frozen_ = 0, buffers_ = 0, bytes_ = 0;
  std::vector<const TensorImpl*> seen_;
};

/// A const model's tensors are handles: visitors that only read them leave the model as it is.
template <class M>
M& unlocked(const M& model) {
  return const_cast<M&>(model);
}

template <class M>
Found collect(const M& model) {
  Collector collector;
  nn::visit(unlocked(model), collector);
  return std::move(collector.found);
}

void load_state(const TensorDict& into, const TensorDict& from, const LoadStateOptions& options,
                Loc loc);
void set_modes(const std::vector<Mode>& modes, bool training);
std::vector<Tensor> tensors_of(const TensorDict& named);
std::int64_t count_of(const TensorDict& parameters, bool trainable);

}  // namespace detail

/// The parameters of a model with their names, in order of declaration, each once.
template <class M>
[[nodiscard]] TensorDict named_parameters(const M& model) {
  return detail::collect(model).parameters;
}
/// The parameters of a model, for an optimizer.
template <class M>
[[nodiscard]] std::vector<Tensor> parameters(const M& model) {
  return detail::tensors_of(detail::collect(model).parameters);
}
template <class M>
[[nodiscard]] TensorDict named_buffers(const M& model) {
  return detail::collect(model).buffers;
}

/// Parameters and buffers under all their names: what a file of weights holds. Shares the tensors.
template <class M>
[[nodiscard]] TensorDict state_dict(const M& model) {
  return detail::collect(model).state;
}
/// Overwrites the model's tensors in place. ValueError listing everything that does not fit
/// (missing and unexpected names, shapes, dtypes), before anything is written.
template <class M>
void load_state_dict(const M& model, const TensorDict& state, const LoadStateOptions& options = {},
                     Loc loc = std::source_location::current()) {
  detail::load_state(detail::collect(model).state, state, options, loc);
}

/// Sets the mode of all layers that behave differently when trained (Dropout, BatchNorm). New
/// layers are in training mode.
template <class M>
void train(const M& model, bool training = true) {
  detail::set_modes(detail::collect(model).modes, training);
}
template <class M>
void eval(const M& model) {
  train(model, false);
}

/// Forgets the gradients of all parameters.
template <class M>
void zero_grad(const M& model) {
  for (const auto& [name, parameter] : detail::collect(model).parameters) parameter.zero_grad();
}

/// A model with tensors and modes of its own. (A plain copy of a model shares its tensors and modes
/// with it, as copies of a Tensor do.)
template <class M>
[[nodiscard]] M clone(const M& model) {
  static_assert(std::is_copy_constructible_v<M>,
                "a model that holds a unique_ptr cannot be copied: make a new one and give it this "
                "one's state_dict");
  M copy(model);
  detail::Cloner cloner;
  nn::visit(copy, cloner);
  return copy;
}

/// A table of the layers: name, class, parameters and their number of elements; and the totals.
template <class M>
[[nodiscard]] std::string summary(const M& model) {
  detail::Summarizer summarizer;
  nn::visit(detail::unlocked(model), summarizer);
  return summarizer.table(detail::class_name<M>());
}

/// The same, after a run on `inputs` in eval mode, with what each layer gives, the multiply-adds of
/// its matrix products (those within recurrent layers and attention too) and convolutions, and the
/// bytes of all results. A layer's row shows the result of the operator that took its parameters
/// last.
template <class M, class... In>
  requires(sizeof...(In) > 0)
[[nodiscard]] std::string summary(const M& model, const In&... inputs) {
  const detail::Observed observed =
      detail::observe(detail::collect(model).modes, [&] { static_cast<void>(model(inputs...)); });
  detail::Summarizer summarizer;
  nn::visit(detail::unlocked(model), summarizer);
  return summarizer.table(detail::class_name<M>(), &observed);
}

/// Lets the parameters get gradients no longer (or again): an optimizer passes them over.
template <class M>
void freeze(const M& model, bool frozen = true) {
  for (auto [name, parameter] : detail::collect(model).parameters) parameter.requires_grad(!frozen);
}

/// How many numbers the model learns; with `trainable`, without frozen ones.
template <class M>
[[nodiscard]] std::int64_t num_parameters(const M& model, bool trainable = false) {
  return detail::count_of(detail::collect(model).parameters, trainable);
}

/// Calls `f` with every layer of class L inside the model, and the model itself if it is one:
/// `nn::apply<nn::Linear>(model, [](nn::Linear& layer) { nn::init::zeros_(layer.bias); })`.
template <class L, class M, class F>
void apply(const M& model, F&& f) {
  M& open = detail::unlocked(model);
  if constexpr (std::same_as<L, M>) f(open);
  detail::LayerFinder<L, std::remove_reference_t<F>> finder(f);
  nn::visit(open, finder);
}

}  // namespace dyad::nn
