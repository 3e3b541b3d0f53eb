#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "dyad/nn/visitor.h"

namespace dyad::nn {

/// A layer from one tensor to one tensor.
template <class T>
concept UnaryLayer = std::copy_constructible<T> && requires(const T& layer, const Tensor& x) {
  { layer(x) } -> std::convertible_to<Tensor>;
};

/// Any layer from one tensor to one tensor, its type erased. A copy copies the layer, which shares
/// its tensors.
class AnyLayer {
 public:
  // Asked first whether T is this class itself: its own constructors decide whether it is a layer.
  template <class T>
    requires(!std::same_as<T, AnyLayer>) && UnaryLayer<T>
  AnyLayer(T layer) : self_(std::make_unique<Model<T>>(std::move(layer))) {}
  AnyLayer(const AnyLayer& other) : self_(other.self_->copy()) {}
  AnyLayer(AnyLayer&&) noexcept = default;
  AnyLayer& operator=(const AnyLayer& other) { return *this = AnyLayer(other); }
  AnyLayer& operator=(AnyLayer&&) noexcept = default;

  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const {
    return self_->call(x, loc);
  }
  /// Shows the layer under `name`.
  void show(std::string_view name, Visitor& v) { self_->show(name, v); }

 private:
  struct Interface {
    virtual ~Interface() = default;
    [[nodiscard]] virtual std::unique_ptr<Interface> copy() const = 0;
    virtual Tensor call(const Tensor& x, Loc loc) const = 0;
    virtual void show(std::string_view name, Visitor& v) = 0;
  };
  template <class T>
  struct Model final : Interface {
    explicit Model(T layer) : layer(std::move(layer)) {}
    [[nodiscard]] std::unique_ptr<Interface> copy() const override {
      return std::make_unique<Model>(layer);
    }
    Tensor call(const Tensor& x, Loc loc) const override {
      if constexpr (requires { layer(x, loc); }) {
        return layer(x, loc);
      } else {
        return layer(x);
      }
    }
    void show(std::string_view name, Visitor& v) override { v(name, layer); }
    T layer;
  };
  std::unique_ptr<Interface> self_;
};

/// Layers one after the other, named "0", "1"...: `nn::Sequential(nn::Linear(784, 64), nn::ReLU(),
/// nn::Linear(64, 10))`. Functions without captures are layers too.
class Sequential {
 public:
  Sequential() = default;
  template <class... T>
    requires(sizeof...(T) > 0) &&
            (!(sizeof...(T) == 1 && (std::same_as<std::decay_t<T>, Sequential> && ...))) &&
            (UnaryLayer<std::decay_t<T>> && ...)
  explicit Sequential(T&&... layers) {
    (layers_.push_back(AnyLayer(std::decay_t<T>(std::forward<T>(layers)))), ...);
  }

  /// Adds a layer at the end.
  void add(AnyLayer layer) { layers_.push_back(std::move(layer)); }
  [[nodiscard]] std::size_t size() const noexcept { return layers_.size(); }

  Tensor operator()(const Tensor& x, Loc loc = std::source_location::current()) const;
  void visit(Visitor& v);

 private:
  std::vector<AnyLayer> layers_;
};

}  // namespace dyad::nn
