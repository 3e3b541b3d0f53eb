#include "dyad/core/evaluator.h"

#include <algorithm>
#include <utility>

#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"

namespace dyad {
namespace {

Evaluator* default_evaluator = nullptr;              // owned by the exec layer, set before main
thread_local Evaluator* scoped_evaluator = nullptr;  // owned by Evaluator::Scope

}  // namespace

void Evaluator::host_access(const Tensor& tensor, Loc loc) {
  if (tensor.is_concrete()) return;
  throw GraphError("use of a symbolic value where data is needed: " + type_string(tensor) +
                       " is a value of a graph and has no elements until the graph runs; fetch it "
                       "with Session::run, or compute with operators instead of reading it",
                   loc);
}

std::span<const std::int64_t> Evaluator::values(const Shape& shape) {
  const auto known =
      std::ranges::find_if(told_, [&](const auto& one) { return one.first.same_as(shape); });
  if (known != told_.end()) return known->second;
  Ints values;
  for (const Dim size : shape) values.push_back(size.number());
  return told_.emplace_front(shape, std::move(values)).second;
}

void Evaluator::set_random_state(const RandomKey& state, Loc) { default_generator().put(state); }

std::int64_t HostState::value() const {
  Evaluator::current().note_host_state(Ref<HostState>(const_cast<HostState*>(this)));
  return value_;
}

Evaluator& Evaluator::current() {
  if (scoped_evaluator) return *scoped_evaluator;
  if (default_evaluator) return *default_evaluator;
  throw InternalError(
      "no evaluator is installed: this program is linked without the exec layer, which runs "
      "operators");
}

Evaluator& Evaluator::eager() noexcept { return *default_evaluator; }

bool Evaluator::is_eager() noexcept {
  return !scoped_evaluator || scoped_evaluator == default_evaluator;
}

void Evaluator::install_default(Evaluator& eager) noexcept { default_evaluator = &eager; }

Evaluator::Scope::Scope(Evaluator& evaluator) noexcept : previous_(scoped_evaluator) {
  scoped_evaluator = &evaluator;
}

Evaluator::Scope::~Scope() { scoped_evaluator = previous_; }

}  // namespace dyad
