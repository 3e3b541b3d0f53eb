#include "dyad/exec/executable_errors.h"

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

}  // namespace dyad::exec
