#include "dyad/ir/scalar_calls.h"

#include <utility>

namespace dyad::scalar {
namespace {

thread_local CallRecorder* innermost = nullptr;  // of CallRecorder

}  // namespace

CallRecorder::CallRecorder() noexcept : outer_(std::exchange(innermost, this)) {}
CallRecorder::~CallRecorder() { innermost = outer_; }
CallRecorder* CallRecorder::current() noexcept { return innermost; }

Scalar CallRecorder::call(std::string_view function, std::initializer_list<Scalar> args) {
  ScalarProgram& program = *args.begin()->program();
  std::vector<std::uint32_t> ids;
  for (const Scalar arg : args) ids.push_back(arg.id());
  for (const ElementaryCall& known : calls_) {
    if (known.function == function && known.args == ids) return program.at(known.result);
  }
  const Scalar result = program.input(args.begin()->type());
  calls_.push_back({function, std::move(ids), result.id()});
  return result;
}

std::optional<Scalar> recorded_call(std::string_view function, std::initializer_list<Scalar> args) {
  CallRecorder* const recorder = CallRecorder::current();
  if (recorder == nullptr) return {};
  return recorder->call(function, args);
}

}  // namespace dyad::scalar
