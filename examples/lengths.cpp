// Sequences of different lengths: as they are in eager mode; padded into buckets, with masks, in a
// static graph; trained as they are by a compiled step, of which one recording serves all lengths.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "dyad/dyad.h"

using namespace dyad;

namespace {

constexpr std::int64_t kFeatures = 4, kHidden = 8;

/// Classifies a sequence by the hidden state after its last step.
struct Classifier {
  nn::GRUCell cell{kFeatures, kHidden};
  nn::Linear out{kHidden, 2};
};

struct Sample {
  Tensor steps;  ///< [length, features]
  std::int64_t label;
};

std::vector<Sample> make_samples() {
  std::vector<Sample> samples;
  for (const std::int64_t length : {3, 7, 5, 12, 9, 4, 16, 11}) {
    samples.push_back({normal({length, kFeatures}), length % 2});
  }
  return samples;
}

/// One sequence after the other, each as long as it is.
Tensor eager_loss(const Classifier& model, const std::vector<Sample>& samples) {
  std::vector<Tensor> logits;
  std::vector<std::int64_t> labels;
  for (const Sample& sample : samples) {
    Tensor hidden = zeros({1, kHidden});
    const std::int64_t length = sample.steps.size(0).value();
    for (std::int64_t t = 0; t < length; ++t)
      hidden = model.cell(sample.steps.slice(0, t, t + 1), hidden);
    logits.push_back(model.out(hidden));
    labels.push_back(sample.label);
  }
  return cross_entropy(concat(logits, 0), tensor(labels));
}

/// All sequences at once: at each step the mask keeps the hidden state of those that have ended.
Tensor padded_logits(const Classifier& model, const Tensor& steps, const Tensor& mask) {
  Tensor hidden = zeros({steps.size(1), kHidden});
  const std::int64_t length = steps.shape()[0].number();
  for (std::int64_t t = 0; t < length; ++t) {
    hidden = where(mask[t].unsqueeze(1) > 0.0f, model.cell(steps[t], hidden), hidden);
  }
  return model.out(hidden);
}

/// The summed loss of one bucket: samples of at most `length` steps, padded to it, through a static
/// graph.
double bucket_loss(const Classifier& model, const std::vector<Sample>& bucket,
                   std::int64_t length) {
  const auto count = static_cast<std::int64_t>(bucket.size());
  Tensor steps = zeros({length, count, kFeatures}), mask = zeros({length, count});
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    const Sample& sample = bucket[static_cast<std::size_t>(i)];
    const std::int64_t used = sample.steps.size(0).value();
    steps.select(1, i).slice(0, 0, used).copy_(sample.steps);
    mask.select(1, i).slice(0, 0, used).fill_(1);
    labels.push_back(sample.label);
  }
  Graph graph;
  Tensor loss = graph.define([&] {
    Tensor s = placeholder("steps", f32, {length, "batch", kFeatures});
    Tensor m = placeholder("mask", f32, {length, "batch"});
    Tensor y = placeholder("labels", i64, {"batch"});
    return cross_entropy(padded_logits(model, s, m), y);
  });
  Session session(graph);
  const Tensor mean =
      session.run({loss}, {{"steps", steps}, {"mask", mask}, {"labels", tensor(labels)}})[0];
  return mean.item() * static_cast<double>(count);
}

/// A step of training on one sequence, whose length only the tensor knows.
struct Trainer {
  Classifier model;
  optim::Adam optimizer{nn::parameters(model), {.lr = 0.05}};
  Tensor operator()(const Tensor& steps, const Tensor& label) {
    optimizer.zero_grad();
    const auto [hidden, all] = scan(
        [&](const Tensor& h, const Tensor& x) {
          const Tensor next = model.cell(x.unsqueeze(0), h);
          return std::pair(next, next);
        },
        zeros({1, kHidden}), steps);
    Tensor loss = cross_entropy(model.out(hidden), label);
    loss.backward();
    optimizer.step();
    return loss.detach();
  }
};

/// The mean loss of the last pass over the samples.
template <class Step>
double train(Step& step, const std::vector<Sample>& samples) {
  double mean = 0;
  for (int pass = 0; pass < 20; ++pass) {
    mean = 0;
    for (const Sample& sample : samples) {
      const Tensor loss = step(sample.steps, tensor(std::vector{sample.label}));
      mean += loss.item() / static_cast<double>(samples.size());
    }
  }
  return mean;
}

/// Whether a compiled step learns what an eager one does, to the last bit.
bool trains_as_eagerly(const std::vector<Sample>& samples) {
  manual_seed(5);
  Trainer eager;
  manual_seed(5);
  Trainer trainer;
  auto compiled =
      compile([&](const Tensor& steps, const Tensor& label) { return trainer(steps, label); });
  const double expected = train(eager, samples), reached = train(compiled, samples);
  std::printf("trained: loss %.8f eagerly, %.8f compiled, from %zu recordings of %zu lengths\n",
              expected, reached, compiled.explain().recordings.size(), samples.size());
  return expected == reached;
}

}  // namespace

int main() {
  manual_seed(3);
  const Classifier model;
  const std::vector<Sample> samples = make_samples();
  const double eager = eager_loss(model, samples).item();

  double total = 0;
  std::int64_t from = 0;
  for (const std::int64_t length : {4, 8, 16}) {
    std::vector<Sample> bucket;
    for (const Sample& sample : samples) {
      const std::int64_t used = sample.steps.size(0).value();
      if (used > from && used <= length) bucket.push_back(sample);
    }
    std::printf("bucket of length %2ld: %zu sequences\n", static_cast<long>(length), bucket.size());
    total += bucket_loss(model, bucket, length);
    from = length;
  }
  const double bucketed = total / static_cast<double>(samples.size());
  const double difference = std::abs(bucketed - eager) / eager;
  std::printf("mean loss: one by one %.8f, in buckets %.8f, relative difference %.1e\n", eager,
              bucketed, difference);
  return difference < 1e-6 && trains_as_eagerly(samples) ? EXIT_SUCCESS : EXIT_FAILURE;
}
