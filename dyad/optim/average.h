#pragma once

#include <optional>
#include <vector>

#include "dyad/optim/optimizer.h"

namespace dyad::optim {

struct WeightAverageOptions {
  /// average = decay * average + (1 - decay) * p; empty: the mean of all values averaged
  /// (stochastic weight averaging, Izmailov et al., 2018).
  std::optional<double> decay = 0.999;
  /// Smaller decays at first, (1 + n) / (10 + n) after n updates.
  bool warm_up = false;
};

/// Averages of parameters over the steps of training, which often generalise better than the last
/// ones. The first update takes the parameters as they are.
///
///     optim::WeightAverage average(nn::named_parameters(model));
///     ... optimizer.step(); average.update();
///     average.swap();  // evaluate or save the averaged model
///     average.swap();  // and go on training
class WeightAverage {
 public:
  explicit WeightAverage(const Parameters& parameters, const WeightAverageOptions& options = {},
                         Loc loc = std::source_location::current());

  /// Takes in the parameters as they are now; also inside compiled functions and, in Graph::define,
  /// after minimize().
  void update(Loc loc = std::source_location::current());
  /// Exchanges the parameters with their averages, in place.
  void swap(Loc loc = std::source_location::current());
  /// The averages by name. Shares the tensors.
  [[nodiscard]] const TensorDict& averages() const noexcept { return averages_; }

  /// `updates`, and `average.parameter` for each.
  [[nodiscard]] TensorDict state_dict() const;
  void load_state_dict(const TensorDict& state, Loc loc = std::source_location::current());

 private:
  WeightAverageOptions options_;
  std::vector<Tensor> parameters_;
  TensorDict averages_;
  Tensor updates_;  // f64[]
};

}  // namespace dyad::optim
