#include "bench/ops.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <nlohmann/json.hpp>

#include "dyad/autograd/grad_mode.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/io/npy.h"
#include "dyad/ops/ops.h"
#include "dyad/runtime/threads.h"

namespace dyad::bench {
namespace {

using nlohmann::json;

/// The operator that is being measured.
class Loaded {
 public:
  json load(const json& request) {
    const std::string name = request.at("op");
    const auto& ops = benched_ops();
    const auto found =
        std::find_if(ops.begin(), ops.end(), [&](const BenchedOp& op) { return op.name == name; });
    if (found == ops.end()) throw ValueError("there is no operator '" + name + "'");
    op_ = &*found;
    set_num_threads(request.at("threads"));
    inputs_.clear();
    wanted_.clear();
    weight_ = io::load_npy(request.at("weight").get<std::string>());
    for (const json& path : request.at("inputs")) {
      inputs_.push_back(path.is_null() ? Tensor() : io::load_npy(path.get<std::string>()));
    }
    for (const json& index : request.at("wanted")) {
      wanted_.push_back(inputs_.at(index.get<std::size_t>()));
    }
    return json::object();
  }

  json run(const json& request) {
    const std::vector<Tensor> results = request.at("backward").get<bool>() ? backward() : forward();
    const std::string folder = request.at("folder");
    for (std::size_t i = 0; i < results.size(); ++i) {
      io::save_npy(folder + "/" + std::to_string(i) + ".npy", contiguous(results[i]));
    }
    return {{"outputs", results.size()}};
  }

  json time(const json& request) {
    const bool with_backward = request.at("backward");
    const int count = request.at("count");
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) (void)(with_backward ? backward() : forward());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    return {{"seconds", took.count()}};
  }

 private:
  std::vector<Tensor> forward() {
    const NoGrad scope;
    return op_->run(inputs_);
  }
  std::vector<Tensor> backward() {
    for (Tensor& x : wanted_) x.requires_grad();
    const std::vector<Tensor> outputs = op_->run(inputs_);
    return grad(std::span(outputs).first(1), wanted_, {.weights = {weight_}});
  }

  const BenchedOp* op_ = nullptr;
  std::vector<Tensor> inputs_, wanted_;
  Tensor weight_;
};

json list_ops() {
  json names = json::array();
  for (const BenchedOp& op : benched_ops()) names.push_back(op.name);
  return {{"ops", names}};
}

}  // namespace

void serve_ops() {
  Loaded loaded;
  for (std::string line; std::getline(std::cin, line);) {
    json answer;
    try {
      const json request = json::parse(line);
      const std::string what = request.at("do");
      if (what == "list") {
        answer = list_ops();
      } else if (what == "load") {
        answer = loaded.load(request);
      } else if (what == "run") {
        answer = loaded.run(request);
      } else if (what == "time") {
        answer = loaded.time(request);
      } else {
        throw ValueError("cannot do '" + what + "'");
      }
    } catch (const std::exception& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump() << std::endl;
  }
}

}  // namespace dyad::bench
