#pragma once

namespace dyad::ops {

// Attributes of the updates of optimizers: pointwise operators that take the parameter p, its
// gradient g and what is kept for it, then numbers of the step (tensors of one element: learning
// rate, corrections), and give the new p and what is kept from now on. All are computed in the
// widest dtype of the operands and rounded to the dtype of what they replace. They have no
// gradient. In all of them g stands for g + decay * p.

/// `sgd_momentum_step(p, g, velocity, lr, decay, share)`: v = momentum * v + share * g, then
/// p -= lr * v, with nesterov p -= lr * (g + momentum * v). (`sgd_step`: p -= lr * g.)
struct MomentumAttrs {
  double momentum = 0.9;
  bool nesterov = false;
};

/// `adam_step(p, g, mean, square, size, scale, decay, keep)`:
/// m += (1 - beta1) * (g - m), v = beta2 * v + (1 - beta2) * g * g,
/// p = keep * p - size * m / (scale * sqrt(v) + eps). `adam_amsgrad_step` takes and gives the
/// largest v so far, which stands in the root for v.
/// `nadam_step(p, g, mean, square, size_g, size_m, scale, decay, keep)`: the same but
/// p = keep * p - (size_g * g + size_m * m) / (scale * sqrt(v) + eps).
/// `radam_step(p, g, mean, square, size, adaptive, decay, keep)`:
/// p = keep * p - size * m * adaptive / (sqrt(v) + eps), without the quotient where adaptive is 0.
/// `adamax_step(p, g, mean, largest, size, decay)`: u = max(beta2 * u, |g| + eps),
/// p -= size * m / u.
struct AdamAttrs {
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
};

/// `adagrad_step(p, g, sum, lr, decay)`: s += g * g, p -= lr * g / (sqrt(s) + eps).
struct AdagradAttrs {
  double eps = 1e-10;
};

/// `rmsprop_step(p, g, square, lr, decay)`: s = alpha * s + (1 - alpha) * g * g,
/// p -= lr * g / (sqrt(s) + eps). `rmsprop_centered_step` keeps the mean of g too, a += (1 - alpha)
/// * (g - a), and has s - a * a in the root; `rmsprop_momentum_step` and
/// `rmsprop_centered_momentum_step` keep b = momentum * b + the quotient, p -= lr * b.
struct RmsPropAttrs {
  double alpha = 0.99;
  double eps = 1e-8;
  double momentum = 0.9;
};

/// `adadelta_step(p, g, square, delta, lr, decay)`: s = rho * s + (1 - rho) * g * g,
/// u = sqrt(d + eps) / sqrt(s + eps) * g, d = rho * d + (1 - rho) * u * u, p -= lr * u.
struct AdadeltaAttrs {
  double rho = 0.9;
  double eps = 1e-6;
};

/// `lion_step(p, g, mean, lr, keep)`: p = keep * p - lr * sign(beta1 * m + (1 - beta1) * g),
/// m = beta2 * m + (1 - beta2) * g. (Its g is the gradient alone.)
struct LionAttrs {
  double beta1 = 0.9, beta2 = 0.99;
};

}  // namespace dyad::ops
