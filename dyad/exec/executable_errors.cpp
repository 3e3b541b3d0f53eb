#include "dyad/exec/executable_errors.h"

#include <string>

#include "dyad/core/evaluator.h"

namespace dyad::exec {
namespace {

template <class E>
void rethrow_as(const Error& error, Loc where, Loc declared) {
  if (dynamic_cast<const E*>(&error)) throw E(error.message(), where, declared);
}

template <class... Es>
void rethrow_first(const Error& error, Loc where, Loc declared) {
  (rethrow_as<Es>(error, where, declared), ...);
}

}  // namespace

void rethrow_at(const Error& error, Loc where, Loc declared) {
  if (error.declared()) declared = error.declared();  // a node further inside knows better
  rethrow_first<ShapeError, DTypeError, IndexError, ValueError, DeviceError, GraphError, GradError,
                AnomalyError, OnnxError, IoError, CancelledError, MemoryError, InternalError>(
      error, where, declared);
  throw Error(error.message(), where, declared);
}

void require_eager(std::string_view runner, Loc loc) {
  if (Evaluator::is_eager()) return;
  throw GraphError(std::string(runner) +
                       " runs on data; it cannot be a part of a function that is recorded, or of a "
                       "graph",
                   loc);
}

}  // namespace dyad::exec
