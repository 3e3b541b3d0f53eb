#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/ir/scalar_error.h"
#include "dyad/ir/scalar_math_detail.h"
#include "dyad/ir/scalar_quantile.h"

// The functions around the error function and the gamma function. f32 is computed in f64 and
// rounded once.
namespace dyad::scalar {
namespace {

using namespace detail;

/// A quotient of polynomials.
Scalar rational(Scalar x, std::initializer_list<double> over, std::initializer_list<double> under) {
  return polynomial(x, over) / polynomial(x, under);
}

/// pi times the distance of x from the nearest whole number.
Scalar pi_fraction(Scalar x) { return kPi * (x - rint(x)); }
Scalar is_whole(Scalar x) { return floor(x) == x; }

/// log(gamma(x)) for x > 0.
Scalar lgamma_positive(Scalar x) {
  // Below 8.5 by steps of 1 to [1.5, 2.5]: gamma(x) = product * gamma(2 + t).
  Scalar y = x, product = x.like(1.0);
  for (int step = 0; step < 6; ++step) {
    const Scalar above = y >= 2.5;
    y = select(above, y - 1.0, y);
    product = select(above, product * y, product);
  }
  const Scalar low = y < 0.5, middle = y < 1.5;
  const Scalar inverse = select(low, y * (y + 1.0), select(middle, y, 1.0));
  const Scalar t = select(low, y, select(middle, y - 1.0, y - 2.0));
  const Scalar near_two =
      t * polynomial(t, {0x1.b0ee6072093cep-2,   0x1.4a34cc4a60fa6p-2,   -0x1.13e001a55760ap-4,
                         0x1.51322ac7d848ap-6,   -0x1.e404fc218dbaep-8,  0x1.7add6eadb5317p-9,
                         -0x1.38ac5c2d48207p-10, 0x1.0b36af8779ca0p-11,  -0x1.d3fd4b679c1c4p-13,
                         0x1.a127afee53e7dp-14,  -0x1.78de9ab752b81p-15, 0x1.580e0afa55850p-16,
                         -0x1.3cb3be36ad88bp-17, 0x1.258f3057730fap-18,  -0x1.1276ebd557fb0p-19,
                         0x1.012012be3900ap-20,  -0x1.ce17528bcf460p-22, 0x1.b40adb09a1e12p-23,
                         -0x1.2009c1a550d0dp-23, 0x1.11fa5e7c86f7bp-24});
  const Scalar small = near_two + log(product) - log(inverse);
  // Stirling's series.
  const Scalar r = 1.0 / x;
  const Scalar series =
      r * polynomial(r * r, {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188,
                             -691.0 / 360360, 1.0 / 156, -3617.0 / 122400});
  constexpr double kHalfLogTwoPi = 0.91893853320467274178;
  const Scalar large = fma(x - 0.5, log(x) - 1.0, (kHalfLogTwoPi - 0.5) + series);
  return select(x < 8.5, small, large);
}

/// digamma(x) for x > 0.
Scalar digamma_positive(Scalar x) {
  // The sum of 1 / (x + k) below 10 as one fraction.
  Scalar over = x.like(1.0), under = x;
  for (int k = 1; k < 10; ++k) {
    over = fma(over, x + k, under);
    under = under * (x + k);
  }
  const Scalar low = x < 10.0, y = select(low, x + 10.0, x), r = 1.0 / y, z = r * r;
  const Scalar series = z * polynomial(z, {-1.0 / 12, 1.0 / 120, -1.0 / 252, 1.0 / 240, -1.0 / 132,
                                           691.0 / 32760, -1.0 / 12, 3617.0 / 8160});
  const Scalar value = log(y) + fma(r, -0.5, series);
  return select(low, value - over / under, value);
}

/// factor * x^n
Scalar power(Scalar x, int n, Scalar factor = 1.0) {
  for (int i = 0; i < n; ++i) factor = factor * x;
  return factor;
}

/// n! times the sum of 1 / (x + k)^(n + 1) over k >= 0, for x > 0: Hurwitz's zeta function by Euler
/// and Maclaurin's formula.
Scalar polygamma_size(int n, Scalar x) {
  const int steps = 10 + n;
  double factorial = 1;
  for (int i = 2; i <= n; ++i) factorial *= i;
  Scalar sum = 1.0 / power(x, n + 1);
  for (int k = 1; k < steps; ++k) sum = sum + 1.0 / power(x + k, n + 1);
  const Scalar y = x + steps, r = 1.0 / y, z = r * r;
  constexpr double kBernoulli[] = {1.0 / 6,  -1.0 / 30,     1.0 / 42, -1.0 / 30,
                                   5.0 / 66, -691.0 / 2730, 7.0 / 6,  -3617.0 / 510};
  // B_2k / (2k)! * (n + 1)...(n + 2k - 1)
  double coefficients[std::size(kBernoulli)];
  double rising = (n + 1) / 2.0;
  for (int k = 1; k <= static_cast<int>(std::size(kBernoulli)); ++k) {
    coefficients[k - 1] = kBernoulli[k - 1] * rising;
    rising *= (n + 2.0 * k) * (n + 2.0 * k + 1) / ((2.0 * k + 1) * (2.0 * k + 2));
  }
  Scalar tail = z.like(coefficients[std::size(kBernoulli) - 1]);
  for (std::size_t k = std::size(kBernoulli) - 1; k-- > 0;) tail = fma(tail, z, coefficients[k]);
  const Scalar rest = power(r, n, factorial) * (1.0 / n + r * fma(r, tail, 0.5));
  return fma(sum, factorial, rest);
}

/// pi^(n + 1) times a polynomial in c = cot(pi x): the n-th derivative of pi cot(pi x).
Scalar cotangent_derivative(int n, Scalar cotangent) {
  std::vector<double> p{0, 1};
  double scale = kPi;
  for (int i = 0; i < n; ++i) {  // d/dx p(c) = -pi (1 + c^2) p'(c)
    std::vector<double> next(p.size() + 1, 0.0);
    for (std::size_t k = 1; k < p.size(); ++k) {
      const double slope = static_cast<double>(k) * p[k];
      next[k - 1] -= slope;
      next[k + 1] -= slope;
    }
    p = std::move(next);
    scale *= kPi;
  }
  Scalar y = cotangent.like(p.back());
  for (std::size_t k = p.size() - 1; k-- > 0;) y = fma(y, cotangent, p[k]);
  return scale * y;
}

/// (1 + 2 a) exp(a^2) erfc(a) of a from 0 to 28.
Scalar scaled_erfc(Scalar size) {
  // (1 + 2 a) exp(a^2) erfc(a) as a polynomial in q = (a - 4) / (a + 4) (Shepherd and Laframboise,
  // 1981); what the division rounds away is put back.
  const Scalar over = size - 4.0, under = size + 4.0, quotient = over / under;
  const Scalar low =
      fma(-quotient, under, over + ((size - over) - 4.0)) - quotient * ((size - under) + 4.0);
  const Scalar q = quotient + low / under;
  return polynomial(q, {0x1.3ba5916e9fd7fp+0,   -0x1.1df1ad154a28fp-3,  0x1.f7f5df66fd6a7p-7,
                        0x1.16ecefcfa540ep-4,   -0x1.9ddb23c3e8874p-4,  0x1.7fee004e112c3p-4,
                        -0x1.0fb06dfe56142p-4,  0x1.3079edf6aa5a8p-5,   -0x1.096238828c1cbp-6,
                        0x1.49c6727af5d87p-8,   -0x1.8d4a9c3d62797p-11, -0x1.a1df1e2a70512p-13,
                        0x1.3be068698b9ccp-13,  -0x1.9959f4cc5a01cp-16, -0x1.788ca4d342b82p-17,
                        0x1.7f2d5af276b00p-18,  0x1.3b713b970cad2p-22,  -0x1.bb2bbabb02ec5p-21,
                        0x1.40eafd5947706p-24,  0x1.d8b4353ca5555p-24,  -0x1.353a87be1712dp-26,
                        -0x1.e432644b5660ap-27, 0x1.00cd8e2f991c3p-29,  0x1.5b62d008c2d94p-30});
}

/// scale times the normal quantile function at 0.5 + q, whose distance from 0 or 1, whichever is
/// nearer, is `tail` (Wichura, 1988, algorithm AS 241).
Scalar normal_quantile(Scalar q, Scalar tail, double scale) {
  const Scalar center =
      rational(fma(-q, q, 0.180625),
               {3.3871328727963666080e0, 1.3314166789178437745e+2, 1.9715909503065514427e+3,
                1.3731693765509461125e+4, 4.5921953931549871457e+4, 6.7265770927008700853e+4,
                3.3430575583588128105e+4, 2.5090809287301226727e+3},
               {1.0, 4.2313330701600911252e+1, 6.8718700749205790830e+2, 5.3941960214247511077e+3,
                2.1213794301586595867e+4, 3.9307895800092710610e+4, 2.8729085735721942674e+4,
                5.2264952788528545610e+3});
  const Scalar r = sqrt(-log(tail));
  const Scalar middle =
      rational(r - 1.6,
               {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
                3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
                2.27238449892691845833e-2, 7.74545014278341407640e-4},
               {1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1,
                1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4,
                1.05075007164441684324e-9});
  const Scalar far =
      rational(r - 5.0,
               {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
                2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                2.71155556874348757815e-5, 2.01033439929228813265e-7},
               {1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1,
                1.48753612908506148525e-2, 7.86869131145613259100e-4, 1.84631831751005468180e-5,
                1.42151175831644588870e-7, 2.04426310338993978564e-15});
  const Scalar outer = copysign(scale * select(r <= 5.0, middle, far), q);
  return select(abs(q) <= 0.425, q * (scale * center), outer);
}

}  // namespace

Scalar erfc(Scalar x) {
  require_floating(x, "erfc");
  const Scalar v = wide(x), size = min(v.like(28.0), abs(v)), p = scaled_erfc(size);
  const Scalar square = size * size, square_low = -fma(size, size, -square);
  const Scalar tail = p / fma(size, 2.0, 1.0) * exp_core(-square, &square_low);
  return narrow(select(v != v, v, select(v < 0.0, 2.0 - tail, tail)), x);
}

Scalar erfcx(Scalar x) {
  require_floating(x, "erfcx");
  const Scalar v = wide(x), size = abs(v), near = min(v.like(28.0), size);
  // Far away by the asymptotic series in 1 / (2 x^2).
  const Scalar over = 1.0 / size, r = over * over * 0.5;
  const Scalar series = polynomial(r, {1.0, -1.0, 3.0, -15.0, 105.0, -945.0, 10395.0});
  const Scalar far = series * (over * (1 / std::sqrt(kPi)));
  const Scalar tail = select(size < 28.0, scaled_erfc(near) / fma(near, 2.0, 1.0), far);
  const Scalar square = size * size, square_low = fma(size, size, -square);
  const Scalar left = 2.0 * exp_core(min(square, v.like(710.0)), &square_low) - tail;
  const Scalar bounded =
      select(square > 710.0, v.like(std::numeric_limits<double>::infinity()), left);
  return narrow(select(v != v, v, select(v < 0.0, bounded, tail)), x);
}

Scalar erfinv(Scalar x) {
  require_floating(x, "erfinv");
  const Scalar v = wide(x), size = abs(v);
  Scalar y = normal_quantile(0.5 * v, fma(size, -0.5, 0.5), 1 / std::numbers::sqrt2);
  y = select(size == 1.0, copysign(v.like(kInf), v), y);
  return narrow(select(size > 1.0, kNan, y), x);
}

Scalar ndtri(Scalar x) {
  require_floating(x, "ndtri");
  const Scalar p = wide(x), rest = 1.0 - p;
  const Scalar outside = (p < 0.0) | (p > 1.0);
  Scalar y = normal_quantile(p - 0.5, min(p, rest), 1.0);
  y = select(p == 0.0, -kInf, select(p == 1.0, kInf, y));
  return narrow(select(outside, kNan, y), x);
}

Scalar lgamma(Scalar x) {
  require_floating(x, "lgamma");
  const Scalar v = wide(x), size = abs(v);
  const Scalar positive = lgamma_positive(size);
  // gamma(x) gamma(-x) = -pi / (x sin(pi x))
  const Scalar sine = abs(sin_near(pi_fraction(v)));
  const Scalar reflected = log(kPi / (size * sine)) - positive;
  // Next to 0 both sides are -log|x|, and the product above underflows.
  Scalar y = select((v > 0.0) | (size < 0x1p-60), positive, reflected);
  y = select((v <= 0.0) & is_whole(v), kInf, y);
  return narrow(select(size == kInf, kInf, y), x);
}

Scalar digamma(Scalar x) {
  require_floating(x, "digamma");
  const Scalar v = wide(x), negative = v < 0.0;
  const Scalar positive = digamma_positive(select(negative, 1.0 - v, v));
  const Scalar reflected = positive - kPi / tan_near(pi_fraction(v));
  Scalar y = select(negative, reflected, positive);
  y = select(negative & is_whole(v), kNan, y);
  return narrow(select(v == 0.0, copysign(v.like(kInf), -v), y), x);
}

Scalar polygamma(int n, Scalar x) {
  if (n == 0) return digamma(x);
  if (n < 0 || n > 20) {
    throw ValueError("polygamma: the order must be from 0 to 20, not " + std::to_string(n));
  }
  require_floating(x, "polygamma");
  const Scalar v = wide(x), negative = v < 0.0;
  const Scalar size = polygamma_size(n, select(negative, 1.0 - v, v));
  // psi_n(x) = (-1)^n psi_n(1 - x) - (d/dx)^n pi cot(pi x); psi_n has the sign of (-1)^(n + 1).
  const Scalar other = cotangent_derivative(n, 1.0 / tan_near(pi_fraction(v)));
  Scalar y = select(negative, -size - other, n % 2 == 0 ? -size : size);
  const double pole = n % 2 == 0 ? kNan : kInf;  // from both sides
  return narrow(select(negative & is_whole(v), pole, y), x);
}

}  // namespace dyad::scalar
