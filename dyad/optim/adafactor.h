#pragma once

#include <optional>

#include "dyad/optim/elementwise.h"

namespace dyad::optim {

struct AdafactorOptions {
  double lr = 0.01;
  double beta2_decay = -0.8;        ///< the mean square forgets by 1 - step^beta2_decay
  std::optional<double> eps1 = {};  ///< least mean square; empty: the dtype's epsilon
  double eps2 = 0.001;              ///< least size of a parameter, by which steps are scaled
  double clip = 1;                  ///< largest root mean square of an update
  double weight_decay = 0;
  bool maximize = false;
};

/// Adafactor (Shazeer and Stern, 2018), as PyTorch has it: of the mean squares of a matrix only the
/// means of rows and columns are kept (the last two axes of more), steps are relative to the size
/// of the parameter, weight decay is apart from the gradient.
class Adafactor final : public detail::WithOptions<AdafactorOptions, Optimizer> {
 public:
  explicit Adafactor(Parameters parameters, const AdafactorOptions& options = {},
                     Loc loc = std::source_location::current())
      : Adafactor(std::vector<Group>{{std::move(parameters), options}}, loc) {}
  explicit Adafactor(const std::vector<Group>& groups, Loc loc = std::source_location::current());

 private:
  void check_options(const AdafactorOptions& o, Loc loc) const override;
  void keep(std::size_t group, Loc loc) override;
  void update(std::size_t index, const Tensor& gradient, Loc loc) override;
  [[nodiscard]] Tensor mean_square(std::size_t index, const Tensor& gradient, double eps);
  struct Kept {
    Tensor rows, columns, whole;  ///< the first two of a matrix, the last of a vector or number
  };
  std::vector<Kept> kept_;  // by parameter
};

}  // namespace dyad::optim
