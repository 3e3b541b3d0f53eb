#ifdef _OPENMP

#include <omp.h>

#include <cstdlib>

#include "dyad/runtime/team.h"

// The pool is OpenMP's, because the library calls fork through it too: a second pool would spin
// beside it on the same cores.
namespace dyad::runtime::detail {

void run_on_team(TeamJob& job, int threads) {
#pragma omp parallel num_threads(threads)
  job.work(omp_get_thread_num());
}

int set_library_threads(int threads) noexcept {
  const int before = omp_get_max_threads();
  if (before != threads) omp_set_num_threads(threads);
  return before;
}

int environment_threads() noexcept {
  return std::getenv("OMP_NUM_THREADS") != nullptr ? omp_get_max_threads() : 0;
}

}  // namespace dyad::runtime::detail

#endif
