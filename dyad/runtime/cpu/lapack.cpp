#include "dyad/runtime/cpu/lapack.h"

#include <cblas.h>
#include <lapack.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/runtime/cpu/openblas_kernels.h"

// A computational routine of LAPACK that its C header leaves out.
extern "C" {
void slaed1_(const int* n, float* d, float* q, const int* ldq, int* indxq, float* rho,
             const int* cutpnt, float* work, int* iwork, int* info);
void dlaed1_(const int* n, double* d, double* q, const int* ldq, int* indxq, double* rho,
             const int* cutpnt, double* work, int* iwork, int* info);
}

namespace dyad::runtime::cpu::lapack {
namespace {

/// A size as LAPACK counts.
int sized(std::int64_t n) {
  if (n > std::numeric_limits<int>::max()) {
    throw MemoryError("a matrix with a side of " + std::to_string(n) +
                      " is too large for LAPACK, which counts in 32 bits");
  }
  return static_cast<int>(n);
}
/// A leading dimension, which is at least 1.
int lead(std::int64_t n) { return std::max(1, sized(n)); }

/// The length of work space that a query gave as a number of T.
template <class T>
int length(T answer) {
  // f32 cannot say every length: take the next larger number.
  const double exact = static_cast<double>(answer) * (1 + std::numeric_limits<T>::epsilon());
  return std::max(1, sized(static_cast<std::int64_t>(exact) + 1));
}

template <class T>
std::unique_ptr<T[]> room(std::int64_t count) {
  return std::make_unique_for_overwrite<T[]>(static_cast<std::size_t>(count));
}

/// Asks `call(work, lwork)` how long a work space it wants, and calls it with one.
template <class T, class Call>
void with_work(const Call& call) {
  T answer = 0;
  call(&answer, -1);
  const int lwork = length(answer);
  call(room<T>(lwork).get(), lwork);
}

/// What OpenBLAS calls a build with OpenMP's threads.
constexpr int kOpenMp = 2;
/// The threads that OpenBLAS may be given. A build of it with threads of its own, which Debian may
/// have put in the place of the one with OpenMP's, works on the caller's.
int allowed(int threads) {
  static const bool shares_ours = openblas_get_parallel() == kOpenMp;
  return shares_ours ? threads : 1;
}

template <class T>
inline constexpr bool is_double = std::is_same_v<T, double>;

}  // namespace

Threads::Threads(int threads) : team_(allowed(threads)) {
#ifdef _OPENMP
  const bool alone = openblas_get_parallel() != kOpenMp;
#else
  // Without OpenMP in the runtime nothing else keeps the library from a team of its own.
  const bool alone = true;
#endif
  thread_local bool told = false;
  if (alone && !std::exchange(told, true)) openblas_set_num_threads(1);
}

template <class T>
int potrf(Triangle triangle, std::int64_t n, T* a) {
  const char uplo = static_cast<char>(triangle);
  const int size = sized(n), lda = lead(n);
  int info = 0;
  if constexpr (is_double<T>) {
    LAPACK_dpotrf(&uplo, &size, a, &lda, &info);
  } else {
    LAPACK_spotrf(&uplo, &size, a, &lda, &info);
  }
  return info;
}

template <class T>
int getrf(std::int64_t m, std::int64_t n, T* a, int* pivots) {
  const int rows = sized(m), columns = sized(n), lda = lead(m);
  int info = 0;
  if constexpr (is_double<T>) {
    LAPACK_dgetrf(&rows, &columns, a, &lda, pivots, &info);
  } else {
    LAPACK_sgetrf(&rows, &columns, a, &lda, pivots, &info);
  }
  return info;
}

template <class T>
int getri(std::int64_t n, T* a, const int* pivots) {
  const int size = sized(n), lda = lead(n);
  int info = 0;
  with_work<T>([&](T* work, int lwork) {
    if constexpr (is_double<T>) {
      LAPACK_dgetri(&size, a, &lda, pivots, work, &lwork, &info);
    } else {
      LAPACK_sgetri(&size, a, &lda, pivots, work, &lwork, &info);
    }
  });
  return info;
}

template <class T>
void trsm_right(Triangle triangle, bool transpose, bool unit_diagonal, std::int64_t m,
                std::int64_t n, const T* t, std::int64_t ldt, T* b, std::int64_t ldb) {
  const auto uplo = triangle == Triangle::upper ? CblasUpper : CblasLower;
  const auto trans = transpose ? CblasTrans : CblasNoTrans;
  const auto diag = unit_diagonal ? CblasUnit : CblasNonUnit;
  if constexpr (is_double<T>) {
    cblas_dtrsm(CblasColMajor, CblasRight, uplo, trans, diag, sized(m), sized(n), 1.0, t, lead(ldt),
                b, lead(ldb));
  } else {
    cblas_strsm(CblasColMajor, CblasRight, uplo, trans, diag, sized(m), sized(n), 1.0f, t,
                lead(ldt), b, lead(ldb));
  }
}

template <class T>
void geqr2(std::int64_t m, std::int64_t n, T* a, std::int64_t lda, T* tau) {
  const int rows = sized(m), columns = sized(n), apart = lead(lda);
  const auto work = room<T>(std::max<std::int64_t>(n, 1));
  int info = 0;
  if constexpr (is_double<T>) {
    LAPACK_dgeqr2(&rows, &columns, a, &apart, tau, work.get(), &info);
  } else {
    LAPACK_sgeqr2(&rows, &columns, a, &apart, tau, work.get(), &info);
  }
}

template <class T>
void gebrd(std::int64_t m, std::int64_t n, T* a, T* d, T* e, T* tau_q, T* tau_p) {
  const int rows = sized(m), columns = sized(n), lda = lead(m);
  int info = 0;
  with_work<T>([&](T* work, int lwork) {
    if constexpr (is_double<T>) {
      LAPACK_dgebrd(&rows, &columns, a, &lda, d, e, tau_q, tau_p, work, &lwork, &info);
    } else {
      LAPACK_sgebrd(&rows, &columns, a, &lda, d, e, tau_q, tau_p, work, &lwork, &info);
    }
  });
}

template <class T>
int bdsdc(std::int64_t n, T* d, T* e, T* u, std::int64_t ldu, T* vt, std::int64_t ldvt) {
  const char uplo = 'U', vectors = 'I';
  const int size = sized(n), apart_u = lead(ldu), apart_vt = lead(ldvt);
  const auto work = room<T>((3 * n + 4) * n + 1);
  const auto integers = room<int>(8 * n + 1);
  T none = 0;
  int none_either = 0, info = 0;
  if constexpr (is_double<T>) {
    LAPACK_dbdsdc(&uplo, &vectors, &size, d, e, u, &apart_u, vt, &apart_vt, &none, &none_either,
                  work.get(), integers.get(), &info);
  } else {
    LAPACK_sbdsdc(&uplo, &vectors, &size, d, e, u, &apart_u, vt, &apart_vt, &none, &none_either,
                  work.get(), integers.get(), &info);
  }
  return info;
}

template <class T>
void sytrd(std::int64_t n, T* a, T* d, T* e, T* tau) {
  const char uplo = 'L';
  const int size = sized(n), lda = lead(n);
  int info = 0;
  with_work<T>([&](T* work, int lwork) {
    if constexpr (is_double<T>) {
      LAPACK_dsytrd(&uplo, &size, a, &lda, d, e, tau, work, &lwork, &info);
    } else {
      LAPACK_ssytrd(&uplo, &size, a, &lda, d, e, tau, work, &lwork, &info);
    }
  });
}

template <class T>
int stedc(std::int64_t n, T* d, T* e, T* z, std::int64_t ldz) {
  const char vectors = 'I';
  const int size = sized(n), leading = lead(ldz);
  const int lwork = sized(1 + (4 + n) * n), liwork = sized(3 + 5 * n);
  int info = 0;
  const auto work = room<T>(lwork);
  const auto integers = room<int>(liwork);
  if constexpr (is_double<T>) {
    LAPACK_dstedc(&vectors, &size, d, e, z, &leading, work.get(), &lwork, integers.get(), &liwork,
                  &info);
  } else {
    LAPACK_sstedc(&vectors, &size, d, e, z, &leading, work.get(), &lwork, integers.get(), &liwork,
                  &info);
  }
  return info;
}

template <class T>
int laed1(std::int64_t n, T* d, T* z, T tie, std::int64_t cut, int* order) {
  const int size = sized(n), ldz = lead(n), rows = sized(cut);
  int info = 0;
  const auto work = room<T>((4 + n) * n);
  const auto integers = room<int>(4 * n);
  // Both blocks lie in ascending order, counted from 1 in each.
  for (int i = 0; i < size; ++i) order[i] = (i < rows ? i : i - rows) + 1;
  if constexpr (is_double<T>) {
    dlaed1_(&size, d, z, &ldz, order, &tie, &rows, work.get(), integers.get(), &info);
  } else {
    slaed1_(&size, d, z, &ldz, order, &tie, &rows, work.get(), integers.get(), &info);
  }
  for (int i = 0; i < size; ++i) --order[i];
  return info;
}

template <class T>
int gesdd(char vectors, std::int64_t m, std::int64_t n, T* a, T* s, T* u, T* vt) {
  const int rows = sized(m), columns = sized(n), lda = lead(m);
  const std::int64_t k = std::min(m, n);
  const int ldu = lead(m), ldvt = lead(vectors == 'A' ? n : k);
  const auto integers = room<int>(8 * k);
  int info = 0;
  with_work<T>([&](T* work, int lwork) {
    if constexpr (is_double<T>) {
      LAPACK_dgesdd(&vectors, &rows, &columns, a, &lda, s, u, &ldu, vt, &ldvt, work, &lwork,
                    integers.get(), &info);
    } else {
      LAPACK_sgesdd(&vectors, &rows, &columns, a, &lda, s, u, &ldu, vt, &ldvt, work, &lwork,
                    integers.get(), &info);
    }
  });
  return info;
}

template <class T>
int syevd(bool vectors, std::int64_t n, T* a, T* w) {
  const char job = vectors ? 'V' : 'N', uplo = 'L';
  const int size = sized(n), lda = lead(n);
  (void)sized(2 * n * n + 6 * n + 1);  // what it will ask for
  int info = 0;
  const auto call = [&](T* work, int lwork, int* integers, int liwork) {
    if constexpr (is_double<T>) {
      LAPACK_dsyevd(&job, &uplo, &size, a, &lda, w, work, &lwork, integers, &liwork, &info);
    } else {
      LAPACK_ssyevd(&job, &uplo, &size, a, &lda, w, work, &lwork, integers, &liwork, &info);
    }
  };
  T answer = 0;
  int integers = 0;
  call(&answer, -1, &integers, -1);
  const int lwork = length(answer);
  call(room<T>(lwork).get(), lwork, room<int>(integers).get(), integers);
  return info;
}

template <class T>
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          T alpha, const T* a, std::int64_t lda, const T* b, std::int64_t ldb, T beta, T* c,
          std::int64_t ldc) {
  const auto ta = transpose_a ? CblasTrans : CblasNoTrans;
  const auto tb = transpose_b ? CblasTrans : CblasNoTrans;
  if constexpr (is_double<T>) {
    cblas_dgemm(CblasColMajor, ta, tb, sized(m), sized(n), sized(k), alpha, a, lead(lda), b,
                lead(ldb), beta, c, lead(ldc));
  } else {
    cblas_sgemm(CblasColMajor, ta, tb, sized(m), sized(n), sized(k), alpha, a, lead(lda), b,
                lead(ldb), beta, c, lead(ldc));
  }
}

namespace {

/// Sides up to which OpenBLAS computes without packing the operands, where it has kernels for that:
/// 1.2 to 1.4 times as fast as with.
constexpr std::int64_t kUnpacked = 96;

/// Whether a product should be computed by such blocks.
bool pays_in_blocks(std::int64_t m, std::int64_t n, std::int64_t k) {
  static const bool has_kernels = [] {
    const std::string_view core = openblas_kernels();
    return core == "SkylakeX" || core == "Cooperlake" || core == "SapphireRapids";
  }();
  constexpr std::int64_t kFew = 256;
  const auto [least, most] = std::minmax({m, n, k});
  return has_kernels && least >= kUnpacked / 3 && most > kUnpacked && most <= kFew;
}

}  // namespace

void gemm_rows(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
               const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
               bool accumulate, double* c, std::int64_t ldc) {
  const auto turn_a = transpose_a ? CblasTrans : CblasNoTrans;
  const auto turn_b = transpose_b ? CblasTrans : CblasNoTrans;
  if (!pays_in_blocks(m, n, k)) {
    cblas_dgemm(CblasRowMajor, turn_a, turn_b, sized(m), sized(n), sized(k), 1.0, a, lead(lda), b,
                lead(ldb), accumulate ? 1.0 : 0.0, c, lead(ldc));
    return;
  }
  // Rows of b that are a power of two apart would share a few sets of the cache.
  constexpr std::int64_t kApart = kUnpacked + 8;
  const auto copy = room<double>(kUnpacked * kApart);
  for (std::int64_t p = 0; p < k; p += kUnpacked) {
    const std::int64_t depth = std::min(kUnpacked, k - p);
    for (std::int64_t j = 0; j < n; j += kUnpacked) {
      const std::int64_t columns = std::min(kUnpacked, n - j);
      for (std::int64_t q = 0; q < depth; ++q) {
        double* const to = copy.get() + q * kApart;
        if (transpose_b) {
          for (std::int64_t r = 0; r < columns; ++r) to[r] = b[(j + r) * ldb + p + q];
        } else {
          std::copy_n(b + (p + q) * ldb + j, columns, to);
        }
      }
      for (std::int64_t i = 0; i < m; i += kUnpacked) {
        const std::int64_t rows = std::min(kUnpacked, m - i);
        cblas_dgemm(CblasRowMajor, turn_a, CblasNoTrans, sized(rows), sized(columns), sized(depth),
                    1.0, a + (transpose_a ? p * lda + i : i * lda + p), lead(lda), copy.get(),
                    static_cast<int>(kApart), accumulate || p > 0 ? 1.0 : 0.0, c + i * ldc + j,
                    lead(ldc));
      }
    }
  }
}

// NOLINTBEGIN(bugprone-macro-parentheses): arguments are types.
#define DYAD_FOR(T)                                                                        \
  template int potrf<T>(Triangle, std::int64_t, T*);                                       \
  template int getrf<T>(std::int64_t, std::int64_t, T*, int*);                             \
  template int getri<T>(std::int64_t, T*, const int*);                                     \
  template void trsm_right<T>(Triangle, bool, bool, std::int64_t, std::int64_t, const T*,  \
                              std::int64_t, T*, std::int64_t);                             \
  template void geqr2<T>(std::int64_t, std::int64_t, T*, std::int64_t, T*);                \
  template void gebrd<T>(std::int64_t, std::int64_t, T*, T*, T*, T*, T*);                  \
  template int bdsdc<T>(std::int64_t, T*, T*, T*, std::int64_t, T*, std::int64_t);         \
  template void sytrd<T>(std::int64_t, T*, T*, T*, T*);                                    \
  template int stedc<T>(std::int64_t, T*, T*, T*, std::int64_t);                           \
  template int laed1<T>(std::int64_t, T*, T*, T, std::int64_t, int*);                      \
  template int gesdd<T>(char, std::int64_t, std::int64_t, T*, T*, T*, T*);                 \
  template int syevd<T>(bool, std::int64_t, T*, T*);                                       \
  template void gemm<T>(bool, bool, std::int64_t, std::int64_t, std::int64_t, T, const T*, \
                        std::int64_t, const T*, std::int64_t, T, T*, std::int64_t);
DYAD_FOR(float)
DYAD_FOR(double)
#undef DYAD_FOR
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace dyad::runtime::cpu::lapack
