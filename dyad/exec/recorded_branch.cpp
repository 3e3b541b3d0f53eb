#include "dyad/exec/recorded_branch.h"

#include <utility>
#include <vector>

#include "dyad/autograd/tape.h"
#include "dyad/core/tensor_impl.h"

namespace dyad::exec {

RecordedBranch::RecordedBranch(const Tensor& pred, Loc loc)
    : recorder_(dynamic_cast<Recorder*>(&Evaluator::current())) {
  if (recorder_ && recorder_->open_loops_ == 0) recorder_ = nullptr;
  if (!recorder_) return;
  number_ = recorder_->loop_parts_.size();
  decisions_ = recorder_->path_.decisions.size();
  TracedPart& branch = recorder_->loop_parts_.emplace_back();
  branch.loc = loc;
  branch.pred = recorder_->value_of(pred, loc);
}

RecordedBranch::~RecordedBranch() {
  if (recorder_ && !is_over_) recorder_->loop_parts_.resize(number_);
}

void RecordedBranch::begin(bool then) {
  if (!recorder_) return;
  if (recorder_->path_.decisions.size() == decisions_) {
    // What is a constant of the recording decides nothing.
    recorder_->loop_parts_.pop_back();
    recorder_ = nullptr;
    return;
  }
  TracedPart& branch = recorder_->loop_parts_[number_];
  branch.then = then;
  branch.begin = static_cast<int>(recorder_->graph_->nodes().size());
  branch.guards_begin = recorder_->path_.guards.size();
  branch.tape_begin = autograd::latest_sequence();
}

void RecordedBranch::end(std::span<const Tensor> results) {
  if (!recorder_) return;
  std::vector<Value> values;
  for (const Tensor& result : results) {
    const bool is_plain = result.defined() && result.is_concrete() && !result.impl()->is_number &&
                          result.impl()->contiguous;
    if (!is_plain) return;
    values.push_back(recorder_->value_of(result, recorder_->loop_parts_[number_].loc));
  }
  TracedPart& branch = recorder_->loop_parts_[number_];
  branch.results = std::move(values);
  branch.end = static_cast<int>(recorder_->graph_->nodes().size());
  branch.guards_end = recorder_->path_.guards.size();
  branch.tape_end = autograd::latest_sequence();
  branch.last = recorder_->loop_parts_.size();
  is_over_ = true;
}

}  // namespace dyad::exec
