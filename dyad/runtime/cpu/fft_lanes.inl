// The transforms in vectors of kVectorBytes, included once for each instruction set in a namespace
// of its own. It uses no function of any header, so that no code for one CPU is taken for another.

template <class T>
struct VectorOf;
template <>
struct VectorOf<float> {
  using Type [[gnu::vector_size(kVectorBytes)]] = float;
};
template <>
struct VectorOf<double> {
  using Type [[gnu::vector_size(kVectorBytes)]] = double;
};
template <class T>
using Vector = typename VectorOf<T>::Type;
template <class T>
inline constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

/// One complex number in each lane.
template <class T>
struct Pair {
  Vector<T> re, im;
};

template <class T>
DYAD_INLINE Vector<T> load(const T* from) {
  Vector<T> v;
  __builtin_memcpy(&v, from, sizeof(v));
  return v;
}
template <class T>
DYAD_INLINE void store(T* to, const Vector<T>& v) {
  __builtin_memcpy(to, &v, sizeof(v));
}

/// Past the caches where `streams` and the place is fit for it.
template <class T>
DYAD_INLINE void store(T* to, const Vector<T>& v, bool streams) {
  if (streams && reinterpret_cast<std::uintptr_t>(to) % kVectorBytes == 0) {
    stream(reinterpret_cast<float*>(to), reinterpret_cast<const Floats&>(v));
  } else {
    store<T>(to, v);
  }
}

template <class T, std::size_t... I>
DYAD_INLINE Vector<T> low_halves(const Vector<T>& a, const Vector<T>& b,
                                 std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (I / 2 + (I % 2) * sizeof...(I))...);
}
template <class T, std::size_t... I>
DYAD_INLINE Vector<T> high_halves(const Vector<T>& a, const Vector<T>& b,
                                  std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (sizeof...(I) / 2 + I / 2 + (I % 2) * sizeof...(I))...);
}
template <class T, std::size_t... I>
DYAD_INLINE Vector<T> evens(const Vector<T>& a, const Vector<T>& b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (2 * I)...);
}
template <class T, std::size_t... I>
DYAD_INLINE Vector<T> odds(const Vector<T>& a, const Vector<T>& b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, (2 * I + 1)...);
}
template <class T>
using Indices = std::make_index_sequence<kLanes<T>>;
template <class T, std::size_t... I>
DYAD_INLINE Vector<T> reversed(const Vector<T>& a, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, a, (sizeof...(I) - 1 - I)...);
}

/// Rows become columns: each round puts rows i and i + half beside one another.
template <class T>
DYAD_INLINE void transpose(Vector<T>* rows) {
  constexpr int n = kLanes<T>;
#pragma GCC unroll 16
  for (int round = 1; round < n; round *= 2) {
    Vector<T> next[n];
#pragma GCC unroll 16
    for (int i = 0; i < n / 2; ++i) {
      next[2 * i] = low_halves<T>(rows[i], rows[i + n / 2], Indices<T>());
      next[2 * i + 1] = high_halves<T>(rows[i], rows[i + n / 2], Indices<T>());
    }
#pragma GCC unroll 16
    for (int i = 0; i < n; ++i) rows[i] = next[i];
  }
}

// Butterflies.

template <class T>
DYAD_INLINE Pair<T> plus(const Pair<T>& a, const Pair<T>& b) {
  return {a.re + b.re, a.im + b.im};
}
template <class T>
DYAD_INLINE Pair<T> minus(const Pair<T>& a, const Pair<T>& b) {
  return {a.re - b.re, a.im - b.im};
}
/// a - i b
template <class T>
DYAD_INLINE Pair<T> minus_turned(const Pair<T>& a, const Pair<T>& b) {
  return {a.re + b.im, a.im - b.re};
}
/// a + i b
template <class T>
DYAD_INLINE Pair<T> plus_turned(const Pair<T>& a, const Pair<T>& b) {
  return {a.re - b.im, a.im + b.re};
}
template <class T>
DYAD_INLINE Pair<T> times(const Pair<T>& a, T re, T im) {
  return {a.re * re - a.im * im, a.re * im + a.im * re};
}
template <class T>
DYAD_INLINE Pair<T> scaled(const Pair<T>& a, T factor) {
  return {a.re * factor, a.im * factor};
}

template <class T>
DYAD_INLINE void four(Pair<T>& a, Pair<T>& b, Pair<T>& c, Pair<T>& d) {
  const Pair<T> s0 = plus(a, c), s1 = minus(a, c), s2 = plus(b, d), s3 = minus(b, d);
  a = plus(s0, s2);
  b = minus_turned(s1, s3);
  c = minus(s0, s2);
  d = plus_turned(s1, s3);
}

template <class T, int R>
DYAD_INLINE void butterfly(Pair<T>* a) {
  if constexpr (R == 2) {
    const Pair<T> t = a[1];
    a[1] = minus(a[0], t);
    a[0] = plus(a[0], t);
  } else if constexpr (R == 3) {
    constexpr T sine = static_cast<T>(0.866025403784438646763723170752936183L);
    const Pair<T> sum = plus(a[1], a[2]), difference = scaled(minus(a[1], a[2]), sine);
    const Pair<T> middle = minus(a[0], scaled(sum, static_cast<T>(0.5)));
    a[0] = plus(a[0], sum);
    a[1] = minus_turned(middle, difference);
    a[2] = plus_turned(middle, difference);
  } else if constexpr (R == 4) {
    four(a[0], a[1], a[2], a[3]);
  } else if constexpr (R == 5) {
    constexpr T c1 = static_cast<T>(0.309016994374947424102293417182819059L);
    constexpr T c2 = static_cast<T>(-0.809016994374947424102293417182819059L);
    constexpr T s1 = static_cast<T>(0.951056516295153572116439333379382143L);
    constexpr T s2 = static_cast<T>(0.587785252292473129168705954639072769L);
    const Pair<T> p = plus(a[1], a[4]), q = plus(a[2], a[3]);
    const Pair<T> r = minus(a[1], a[4]), s = minus(a[2], a[3]);
    const Pair<T> m1 = plus(a[0], plus(scaled(p, c1), scaled(q, c2)));
    const Pair<T> m2 = plus(a[0], plus(scaled(p, c2), scaled(q, c1)));
    const Pair<T> n1 = plus(scaled(r, s1), scaled(s, s2));
    const Pair<T> n2 = minus(scaled(r, s2), scaled(s, s1));
    a[0] = plus(a[0], plus(p, q));
    a[1] = minus_turned(m1, n1);
    a[2] = minus_turned(m2, n2);
    a[3] = plus_turned(m2, n2);
    a[4] = plus_turned(m1, n1);
  } else {
    static_assert(R == 8);
    constexpr T half = static_cast<T>(0.707106781186547524400844362104849039L);
    four(a[0], a[2], a[4], a[6]);
    four(a[1], a[3], a[5], a[7]);
    const Pair<T> o1{(a[3].re + a[3].im) * half, (a[3].im - a[3].re) * half};
    const Pair<T> o3{(a[7].im - a[7].re) * half, (a[7].re + a[7].im) * -half};
    const Pair<T> e0 = a[0], e1 = a[2], e2 = a[4], e3 = a[6], o0 = a[1], o2 = a[5];
    a[0] = plus(e0, o0);
    a[1] = plus(e1, o1);
    a[2] = minus_turned(e2, o2);
    a[3] = plus(e3, o3);
    a[4] = minus(e0, o0);
    a[5] = minus(e1, o1);
    a[6] = plus_turned(e2, o2);
    a[7] = minus(e3, o3);
  }
}

template <class T, int R>
DYAD_INLINE void pass_of(const FftPass<T>& pass, const Pair<T>* in, Pair<T>* out) {
  const std::int64_t blocks = pass.blocks, stride = pass.stride, apart = blocks * stride;
  if (blocks == 1) {
    for (std::int64_t q = 0; q < stride; ++q) {
      Pair<T> a[R];
#pragma GCC unroll 16
      for (int k = 0; k < R; ++k) a[k] = in[q + apart * k];
      butterfly<T, R>(a);
#pragma GCC unroll 16
      for (int k = 0; k < R; ++k) out[q + stride * k] = a[k];
    }
    return;
  }
  for (std::int64_t p = 0; p < blocks; ++p) {
    const T* w = pass.twiddles + p * 2 * (R - 1);
    const Pair<T>* x = in + stride * p;
    Pair<T>* y = out + stride * R * p;
    for (std::int64_t q = 0; q < stride; ++q) {
      Pair<T> a[R];
#pragma GCC unroll 16
      for (int k = 0; k < R; ++k) a[k] = x[q + apart * k];
      butterfly<T, R>(a);
      y[q] = a[0];
#pragma GCC unroll 16
      for (int k = 1; k < R; ++k) y[q + stride * k] = times(a[k], w[2 * k - 2], w[2 * k - 1]);
    }
  }
}

/// A prime factor by its sums: of points k and radix - k together.
template <class T>
void pass_of_prime(const FftPass<T>& pass, const Pair<T>* in, Pair<T>* out) {
  const std::int64_t radix = pass.radix, half = radix / 2;
  const std::int64_t blocks = pass.blocks, stride = pass.stride, apart = blocks * stride;
  Pair<T> sums[kFftLargestRadix / 2 + 1], differences[kFftLargestRadix / 2 + 1];
  for (std::int64_t p = 0; p < blocks; ++p) {
    const T* w = pass.twiddles + p * 2 * (radix - 1);
    for (std::int64_t q = 0; q < stride; ++q) {
      const Pair<T>* x = in + stride * p + q;
      Pair<T>* y = out + stride * radix * p + q;
      Pair<T> first = x[0];
      for (std::int64_t j = 1; j <= half; ++j) {
        sums[j] = plus(x[apart * j], x[apart * (radix - j)]);
        differences[j] = minus(x[apart * j], x[apart * (radix - j)]);
        first = plus(first, sums[j]);
      }
      y[0] = first;
      for (std::int64_t k = 1; k <= half; ++k) {
        Pair<T> even = x[0], odd = scaled(differences[1], -pass.roots[2 * k + 1]);
        std::int64_t at = 0;
        for (std::int64_t j = 1; j <= half; ++j) {
          at += k;
          if (at >= radix) at -= radix;
          even = plus(even, scaled(sums[j], pass.roots[2 * at]));
          if (j > 1) odd = minus(odd, scaled(differences[j], pass.roots[2 * at + 1]));
        }
        Pair<T> a = minus_turned(even, odd), b = plus_turned(even, odd);
        if (blocks > 1) {
          const std::int64_t other = radix - k;
          a = times(a, w[2 * k - 2], w[2 * k - 1]);
          b = times(b, w[2 * other - 2], w[2 * other - 1]);
        }
        y[stride * k] = a;
        y[stride * (radix - k)] = b;
      }
    }
  }
}

/// Runs passes begin..end-1 on what lies in `a`; both buffers are used, and the one with the result
/// is returned.
template <class T>
Pair<T>* run_passes(const LanesPlan<T>& plan, int begin, int end, Pair<T>* a, Pair<T>* b) {
  for (int i = begin; i < end; ++i) {
    const FftPass<T>& pass = plan.passes[i];
    switch (pass.radix) {
      case 2:
        pass_of<T, 2>(pass, a, b);
        break;
      case 3:
        pass_of<T, 3>(pass, a, b);
        break;
      case 4:
        pass_of<T, 4>(pass, a, b);
        break;
      case 5:
        pass_of<T, 5>(pass, a, b);
        break;
      case 8:
        pass_of<T, 8>(pass, a, b);
        break;
      default:
        pass_of_prime<T>(pass, a, b);
    }
    Pair<T>* const result = b;
    b = a;
    a = result;
  }
  return a;
}

template <class T>
Pair<T>* transform(const LanesPlan<T>& plan, Pair<T>* a, Pair<T>* b) {
  if (plan.inner == nullptr) return run_passes(plan, 0, plan.count, a, b);
  const LanesPlan<T>& inner = *plan.inner;
  for (std::int64_t k = 0; k < plan.n; ++k) {
    a[k] = times(a[k], plan.chirp[2 * k], plan.chirp[2 * k + 1]);
  }
  for (std::int64_t k = plan.n; k < inner.n; ++k) a[k] = Pair<T>{};
  Pair<T>* spectrum = run_passes(inner, 0, inner.count, a, b);
  // The way back is the way there with the parts exchanged before and after.
  for (std::int64_t k = 0; k < inner.n; ++k) {
    const Pair<T> z = times(spectrum[k], plan.filter[2 * k], plan.filter[2 * k + 1]);
    spectrum[k] = {z.im, z.re};
  }
  Pair<T>* result = run_passes(inner, 0, inner.count, spectrum, spectrum == a ? b : a);
  for (std::int64_t k = 0; k < plan.n; ++k) {
    result[k] = times({result[k].im, result[k].re}, plan.chirp[2 * k], plan.chirp[2 * k + 1]);
  }
  return result;
}

// Between memory and lanes. `at` says where each lane's line begins, those beyond `count` as the
// first one.

template <class T>
DYAD_INLINE bool side_by_side(const std::int64_t* at, int count, std::int64_t apart) {
  if (count != kLanes<T>) return false;
  for (int lane = 1; lane < kLanes<T>; ++lane) {
    if (at[lane] != at[0] + lane * apart) return false;
  }
  return true;
}

/// n complex numbers of each line.
template <class T>
void load_pairs(const T* from, const std::int64_t* at, int count, FftLayout layout, std::int64_t n,
                bool exchange, Pair<T>* out) {
  constexpr int w = kLanes<T>;
  const auto put = [&](std::int64_t k, const Vector<T>& re, const Vector<T>& im)
                       DYAD_INLINE_LAMBDA {
                         out[k].re = exchange ? im : re;
                         out[k].im = exchange ? re : im;
                       };
  std::int64_t k = 0;
  if (layout.part == 1 && layout.along == 2) {
    for (; k + w / 2 <= n; k += w / 2) {
      Vector<T> rows[w];
#pragma GCC unroll 16
      for (int lane = 0; lane < w; ++lane) rows[lane] = load<T>(from + at[lane] + 2 * k);
      transpose<T>(rows);
#pragma GCC unroll 16
      for (int i = 0; i < w / 2; ++i) put(k + i, rows[2 * i], rows[2 * i + 1]);
    }
  } else if (layout.part == 1 && side_by_side<T>(at, count, 2)) {
    for (; k < n; ++k) {
      const T* x = from + at[0] + k * layout.along;
      const Vector<T> a = load<T>(x), b = load<T>(x + w);
      put(k, evens<T>(a, b, Indices<T>()), odds<T>(a, b, Indices<T>()));
    }
  } else if (side_by_side<T>(at, count, 1)) {
    for (; k < n; ++k) {
      const T* x = from + at[0] + k * layout.along;
      put(k, load<T>(x), load<T>(x + layout.part));
    }
  }
  for (; k < n; ++k) {
    T re[w], im[w];
    for (int lane = 0; lane < w; ++lane) {
      const T* x = from + at[lane] + k * layout.along;
      re[lane] = x[0];
      im[lane] = x[layout.part];
    }
    put(k, load<T>(re), load<T>(im));
  }
}

/// n real numbers of each line.
template <class T>
void load_reals(const T* from, const std::int64_t* at, int count, std::int64_t along,
                std::int64_t n, Pair<T>* out) {
  constexpr int w = kLanes<T>;
  std::int64_t k = 0;
  if (along == 1) {
    for (; k + w <= n; k += w) {
      Vector<T> rows[w];
#pragma GCC unroll 16
      for (int lane = 0; lane < w; ++lane) rows[lane] = load<T>(from + at[lane] + k);
      transpose<T>(rows);
#pragma GCC unroll 16
      for (int i = 0; i < w; ++i) out[k + i] = {rows[i], Vector<T>{}};
    }
  } else if (side_by_side<T>(at, count, 1)) {
    for (; k < n; ++k) out[k] = {load<T>(from + at[0] + k * along), Vector<T>{}};
  }
  for (; k < n; ++k) {
    T re[w];
    for (int lane = 0; lane < w; ++lane) re[lane] = from[at[lane] + k * along];
    out[k] = {load<T>(re), Vector<T>{}};
  }
}

template <class T>
void store_pairs(const Pair<T>* in, std::int64_t n, T scale, bool exchange, T* to,
                 const std::int64_t* at, int count, FftLayout layout, bool streams) {
  constexpr int w = kLanes<T>;
  const auto re = [&](std::int64_t k) DYAD_INLINE_LAMBDA -> Vector<T> {
    return (exchange ? in[k].im : in[k].re) * scale;
  };
  const auto im = [&](std::int64_t k) DYAD_INLINE_LAMBDA -> Vector<T> {
    return (exchange ? in[k].re : in[k].im) * scale;
  };
  std::int64_t k = 0;
  if (layout.part == 1 && layout.along == 2) {
    for (; k + w / 2 <= n; k += w / 2) {
      Vector<T> rows[w];
#pragma GCC unroll 16
      for (int i = 0; i < w / 2; ++i) {
        rows[2 * i] = re(k + i);
        rows[2 * i + 1] = im(k + i);
      }
      transpose<T>(rows);
      for (int lane = 0; lane < count; ++lane) store<T>(to + at[lane] + 2 * k, rows[lane], streams);
    }
  } else if (layout.part == 1 && side_by_side<T>(at, count, 2)) {
    for (; k < n; ++k) {
      T* y = to + at[0] + k * layout.along;
      const Vector<T> a = re(k), b = im(k);
      store<T>(y, low_halves<T>(a, b, Indices<T>()), streams);
      store<T>(y + w, high_halves<T>(a, b, Indices<T>()), streams);
    }
  } else if (side_by_side<T>(at, count, 1)) {
    for (; k < n; ++k) {
      T* y = to + at[0] + k * layout.along;
      store<T>(y, re(k));
      store<T>(y + layout.part, im(k));
    }
  }
  for (; k < n; ++k) {
    T a[w], b[w];
    store<T>(a, re(k));
    store<T>(b, im(k));
    for (int lane = 0; lane < count; ++lane) {
      T* y = to + at[lane] + k * layout.along;
      y[0] = a[lane];
      y[layout.part] = b[lane];
    }
  }
}

/// The imaginary parts of n numbers: the real ones after an exchange.
template <class T>
void store_imaginary(const Pair<T>* in, std::int64_t n, T scale, T* to, const std::int64_t* at,
                     int count, std::int64_t along) {
  constexpr int w = kLanes<T>;
  std::int64_t k = 0;
  if (along == 1) {
    for (; k + w <= n; k += w) {
      Vector<T> rows[w];
#pragma GCC unroll 16
      for (int i = 0; i < w; ++i) rows[i] = in[k + i].im * scale;
      transpose<T>(rows);
      for (int lane = 0; lane < count; ++lane) store<T>(to + at[lane] + k, rows[lane]);
    }
  } else if (side_by_side<T>(at, count, 1)) {
    for (; k < n; ++k) store<T>(to + at[0] + k * along, in[k].im * scale);
  }
  for (; k < n; ++k) {
    T a[w];
    store<T>(a, in[k].im * scale);
    for (int lane = 0; lane < count; ++lane) to[at[lane] + k * along] = a[lane];
  }
}

// The first pass out of memory and the last one into it, by tiles that stay in the first-level
// cache.

inline constexpr std::int64_t kTile = 16;

template <class T>
struct Source {
  const T* from;
  const std::int64_t* at;
  int count;
  FftLayout layout;
  bool exchange;
};
template <class T>
struct Target {
  T* to;
  const std::int64_t* at;
  int count;
  FftLayout layout;
  bool exchange;
  T scale;
  bool streams;
};

template <class T, int R>
void first_pass(const FftPass<T>& pass, const Source<T>& source, Pair<T>* out) {
  Pair<T> tile[R * kTile];
  for (std::int64_t p = 0; p < pass.blocks; p += kTile) {
    const std::int64_t n = pass.blocks - p < kTile ? pass.blocks - p : kTile;
    for (int k = 0; k < R; ++k) {
      load_pairs(source.from + (p + pass.blocks * k) * source.layout.along, source.at, source.count,
                 source.layout, n, source.exchange, tile + k * kTile);
    }
    for (std::int64_t i = 0; i < n; ++i) {
      const T* w = pass.twiddles + (p + i) * 2 * (R - 1);
      Pair<T>* y = out + (p + i) * R;
      Pair<T> a[R];
#pragma GCC unroll 16
      for (int k = 0; k < R; ++k) a[k] = tile[k * kTile + i];
      butterfly<T, R>(a);
      y[0] = a[0];
#pragma GCC unroll 16
      for (int k = 1; k < R; ++k) y[k] = times(a[k], w[2 * k - 2], w[2 * k - 1]);
    }
  }
}

template <class T, int R>
void last_pass(const FftPass<T>& pass, const Pair<T>* in, const Target<T>& target) {
  Pair<T> tile[R * kTile];
  for (std::int64_t q = 0; q < pass.stride; q += kTile) {
    const std::int64_t n = pass.stride - q < kTile ? pass.stride - q : kTile;
    for (std::int64_t i = 0; i < n; ++i) {
      Pair<T> a[R];
#pragma GCC unroll 16
      for (int k = 0; k < R; ++k) a[k] = in[q + i + pass.stride * k];
      butterfly<T, R>(a);
#pragma GCC unroll 16
      for (int k = 0; k < R; ++k) tile[k * kTile + i] = a[k];
    }
    for (int k = 0; k < R; ++k) {
      store_pairs(tile + k * kTile, n, target.scale, target.exchange,
                  target.to + (q + pass.stride * k) * target.layout.along, target.at, target.count,
                  target.layout, target.streams);
    }
  }
}

/// Reads plan.n numbers and runs the first passes; returns how many.
template <class T>
int load_and_begin(const LanesPlan<T>& plan, const Source<T>& source, Pair<T>* out) {
  if (plan.count > 1) {
    switch (plan.passes[0].radix) {
      case 8:
        first_pass<T, 8>(plan.passes[0], source, out);
        return 1;
      case 4:
        first_pass<T, 4>(plan.passes[0], source, out);
        return 1;
      case 3:
        first_pass<T, 3>(plan.passes[0], source, out);
        return 1;
      case 5:
        first_pass<T, 5>(plan.passes[0], source, out);
        return 1;
      default:
        break;
    }
  }
  load_pairs(source.from, source.at, source.count, source.layout, plan.n, source.exchange, out);
  return 0;
}

/// Runs the passes from number `begin` on and writes plan.n numbers.
template <class T>
void end_and_store(const LanesPlan<T>& plan, int begin, Pair<T>* a, Pair<T>* b,
                   const Target<T>& target) {
  if (plan.count - begin > 0) {
    const FftPass<T>& last = plan.passes[plan.count - 1];
    const std::int64_t radix = last.radix;
    if (radix <= 5 || radix == 8) {
      const Pair<T>* in = run_passes(plan, begin, plan.count - 1, a, b);
      if (radix == 8) return last_pass<T, 8>(last, in, target);
      if (radix == 5) return last_pass<T, 5>(last, in, target);
      if (radix == 4) return last_pass<T, 4>(last, in, target);
      if (radix == 3) return last_pass<T, 3>(last, in, target);
      return last_pass<T, 2>(last, in, target);
    }
  }
  const Pair<T>* result =
      plan.inner ? transform(plan, a, b) : run_passes(plan, begin, plan.count, a, b);
  store_pairs(result, plan.n, target.scale, target.exchange, target.to, target.at, target.count,
              target.layout, target.streams);
}

// Real transforms of even size: x[2 j] + i x[2 j + 1] as one complex number.

/// Numbers k and h - k of the spectrum of n = 2 h real numbers out of those of h complex ones, in
/// lanes or, with `V` a number, one by one; c + i s: exp(-2 pi i k / n).
template <class V, class T>
DYAD_INLINE void untangle_two(V& a_re, V& a_im, V& b_re, V& b_im, const V& c, const V& s, T half) {
  const V even_re = (a_re + b_re) * half, even_im = (a_im - b_im) * half;
  const V odd_re = (a_im + b_im) * half, odd_im = (b_re - a_re) * half;
  const V re = odd_re * c - odd_im * s, im = odd_re * s + odd_im * c;
  a_re = even_re + re;
  a_im = even_im + im;
  b_re = even_re - re;
  b_im = im - even_im;
}

/// The spectrum of n = 2 h real numbers out of that of h complex ones; z[h] comes in.
template <class T>
void untangle(Pair<T>* z, std::int64_t h, const T* twiddles, T middle) {
  const Pair<T> first = z[0];
  z[0] = {first.re + first.im, Vector<T>{}};
  z[h] = {first.re - first.im, Vector<T>{}};
  const T half = static_cast<T>(0.5) * middle;
  for (std::int64_t k = 1; 2 * k <= h; ++k) {
    const Vector<T> c = Vector<T>{} + twiddles[2 * k], s = Vector<T>{} + twiddles[2 * k + 1];
    Pair<T> a = z[k], b = z[h - k];
    untangle_two(a.re, a.im, b.re, b.im, c, s, half);
    z[k] = a;
    z[h - k] = b;
  }
}

/// The same of one line: numbers 1..h-1 of it from `z`, dense, to `to`.
template <class T>
void untangle_line(const T* z, std::int64_t h, const T* twiddles, T middle, T scale, T* to,
                   FftLayout layout) {
  constexpr int w = kLanes<T>;
  const T half = static_cast<T>(0.5) * middle;
  std::int64_t k = 1;
  if (layout.along == 2 && layout.part == 1) {
    // Vectors from both ends, until they would meet.
    for (; 2 * (k + w) <= h; k += w) {
      const std::int64_t last = h - k - w + 1;
      const Vector<T> a0 = load<T>(z + 2 * k), a1 = load<T>(z + 2 * k + w);
      const Vector<T> b0 = load<T>(z + 2 * last), b1 = load<T>(z + 2 * last + w);
      const Vector<T> w0 = load<T>(twiddles + 2 * k), w1 = load<T>(twiddles + 2 * k + w);
      Vector<T> a_re = evens<T>(a0, a1, Indices<T>()), a_im = odds<T>(a0, a1, Indices<T>());
      Vector<T> b_re = reversed<T>(evens<T>(b0, b1, Indices<T>()), Indices<T>());
      Vector<T> b_im = reversed<T>(odds<T>(b0, b1, Indices<T>()), Indices<T>());
      untangle_two(a_re, a_im, b_re, b_im, evens<T>(w0, w1, Indices<T>()),
                   odds<T>(w0, w1, Indices<T>()), half);
      a_re *= scale;
      a_im *= scale;
      b_re = reversed<T>(b_re * scale, Indices<T>());
      b_im = reversed<T>(b_im * scale, Indices<T>());
      store<T>(to + 2 * k, low_halves<T>(a_re, a_im, Indices<T>()));
      store<T>(to + 2 * k + w, high_halves<T>(a_re, a_im, Indices<T>()));
      store<T>(to + 2 * last, low_halves<T>(b_re, b_im, Indices<T>()));
      store<T>(to + 2 * last + w, high_halves<T>(b_re, b_im, Indices<T>()));
    }
  }
  for (; 2 * k <= h; ++k) {
    T a_re = z[2 * k], a_im = z[2 * k + 1], b_re = z[2 * (h - k)], b_im = z[2 * (h - k) + 1];
    untangle_two(a_re, a_im, b_re, b_im, twiddles[2 * k], twiddles[2 * k + 1], half);
    T *a = to + k * layout.along, *b = to + (h - k) * layout.along;
    a[0] = a_re * scale;
    a[layout.part] = a_im * scale;
    b[0] = b_re * scale;
    b[layout.part] = b_im * scale;
  }
}

/// The way back, without 1 / h, with the parts exchanged.
template <class T>
void tangle(Pair<T>* x, std::int64_t h, const T* twiddles, T middle) {
  const Vector<T> first = x[0].re, last = x[h].re;
  x[0] = {first - last, first + last};
  for (std::int64_t k = 1; 2 * k <= h; ++k) {
    const T c = twiddles[2 * k], s = twiddles[2 * k + 1];
    const Pair<T> a = x[k], b = x[h - k];
    const Pair<T> even{(a.re + b.re) * middle, (a.im - b.im) * middle};
    const Pair<T> odd{(a.re - b.re) * middle, (a.im + b.im) * middle};
    const Pair<T> turned = times(odd, c, -s);
    x[k] = {even.im + turned.re, even.re - turned.im};
    x[h - k] = {turned.re - even.im, even.re + turned.im};
  }
}

template <class T>
void block(const FftJob<T>& job, const T* from, const std::int64_t* from_at, T* to,
           const std::int64_t* to_at, int count, T* buffer) {
  const LanesPlan<T>& plan = *job.lanes;
  const std::int64_t n = job.n, h = n / 2;
  const bool even = n % 2 == 0;
  auto* a = reinterpret_cast<Pair<T>*>(buffer);
  auto* b = a + plan.capacity;
  if (job.kind == FftKind::complex) {
    const int begin = load_and_begin<T>(plan, {from, from_at, count, job.from, job.inverse}, a);
    end_and_store<T>(plan, begin, a, b, {to, to_at, count, job.to, job.inverse, job.scale, job.streams});
  } else if (job.kind == FftKind::half && even) {
    const FftLayout pairs{2 * job.from.along, job.from.along};
    const int begin = load_and_begin<T>(plan, {from, from_at, count, pairs, false}, a);
    Pair<T>* z = plan.inner ? transform(plan, a, b) : run_passes(plan, begin, plan.count, a, b);
    untangle(z, h, job.real_twiddles, job.middle);
    store_pairs(z, h + 1, job.scale, false, to, to_at, count, job.to, job.streams);
  } else if (job.kind == FftKind::half) {
    load_reals(from, from_at, count, job.from.along, n, a);
    Pair<T>* z = transform(plan, a, b);
    for (std::int64_t k = 1; k <= h; ++k) z[k] = scaled(z[k], job.middle);
    store_pairs(z, h + 1, job.scale, false, to, to_at, count, job.to, job.streams);
  } else if (even) {
    load_pairs(from, from_at, count, job.from, h + 1, false, a);
    tangle(a, h, job.real_twiddles, job.middle);
    const FftLayout pairs{2 * job.to.along, job.to.along};
    end_and_store<T>(plan, 0, a, b, {to, to_at, count, pairs, true, job.scale, job.streams});
  } else {
    load_pairs(from, from_at, count, job.from, h + 1, false, a);
    a[0] = {Vector<T>{}, a[0].re};
    for (std::int64_t k = 1; k <= h; ++k) {
      const Pair<T> z = scaled(a[k], job.middle);
      a[k] = {z.im, z.re};
      a[n - k] = {-z.im, z.re};
    }
    store_imaginary(transform(plan, a, b), n, job.scale, to, to_at, count, job.to.along);
  }
  if (job.streams) fence();
}

// One line as a matrix: element j = j1 * n2 + j2, result k = k1 + n1 * k2.

template <class T>
void columns(const FftMatrix<T>& plan, const T* from, FftLayout layout, bool exchange,
             std::int64_t begin, std::int64_t end, T* matrix, T* buffer) {
  constexpr int w = kLanes<T>;
  const LanesPlan<T>& lanes = *plan.columns;
  auto* a = reinterpret_cast<Pair<T>*>(buffer);
  auto* b = a + lanes.capacity;
  auto* rows = reinterpret_cast<Pair<T>*>(matrix);
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t left = plan.n2 - block * w;
    const int count = left < w ? static_cast<int>(left) : w;
    std::int64_t at[w];
    for (int lane = 0; lane < w; ++lane) {
      at[lane] = (block * w + (lane < count ? lane : 0)) * layout.along;
    }
    load_pairs(from, at, count, {plan.n2 * layout.along, layout.part}, plan.n1, exchange, a);
    Pair<T>* z = transform(lanes, a, b);
    const T* twiddle = plan.twiddles + block * plan.n1 * 2 * w;
    for (std::int64_t k = 0; k < plan.n1; k += w) {
      Vector<T> re[w], im[w];
#pragma GCC unroll 16
      for (int i = 0; i < w; ++i) {
        if (k + i >= plan.n1) {
          re[i] = im[i] = Vector<T>{};
          continue;
        }
        const Pair<T> x = z[k + i];
        const Vector<T> c = load<T>(twiddle + (k + i) * 2 * w);
        const Vector<T> s = load<T>(twiddle + (k + i) * 2 * w + w);
        re[i] = x.re * c - x.im * s;
        im[i] = x.re * s + x.im * c;
      }
      transpose<T>(re);
      transpose<T>(im);
      Pair<T>* out = rows + k / w * plan.n2 + block * w;
      for (int i = 0; i < count; ++i) out[i] = {re[i], im[i]};
    }
  }
}

template <class T>
void rows(const FftMatrix<T>& plan, T* matrix, std::int64_t begin, std::int64_t end, T* to,
          FftLayout layout, bool exchange, T scale, bool streams, T* buffer) {
  constexpr int w = kLanes<T>;
  const LanesPlan<T>& lanes = *plan.rows;
  auto* a = reinterpret_cast<Pair<T>*>(buffer);
  for (std::int64_t block = begin; block < end; ++block) {
    const std::int64_t left = plan.n1 - block * w;
    const int count = left < w ? static_cast<int>(left) : w;
    std::int64_t at[w];
    for (int lane = 0; lane < w; ++lane) at[lane] = (block * w + lane) * layout.along;
    auto* in = reinterpret_cast<Pair<T>*>(matrix) + block * plan.n2;
    store_pairs(transform(lanes, in, a), plan.n2, scale, exchange, to, at, count,
                {plan.n1 * layout.along, layout.part}, streams);
  }
  if (streams) fence();
}

template <class T>
constexpr FftCode<T> kCode{kLanes<T>, block<T>, columns<T>, rows<T>, untangle_line<T>};
