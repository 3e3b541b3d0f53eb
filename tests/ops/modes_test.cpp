#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "cases.h"
#include "dyad/autograd/gradients.h"
#include "dyad/base/error.h"
#include "dyad/core/evaluator.h"
#include "dyad/exec/session.h"
#include "dyad/ir/literal.h"
#include "dyad/ops/ops.h"

// The reference cases in a static graph: the same bits as in eager mode.

namespace dyad::testing {
namespace {

using Tensors = std::vector<Tensor>;

/// Same dtype, shape and bits (any NaN equals any other: no mode says which one it is).
std::string bits_differ(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !a.shape().same_as(b.shape())) {
    return type_string(a) + " in the graph, " + type_string(b) + " eagerly";
  }
  if (packed_elements(a) == packed_elements(b)) return {};
  const std::vector<double> x = elements(a), y = elements(b);
  for (std::size_t i = 0; i < x.size(); ++i) {
    if ((std::isnan(x[i]) && std::isnan(y[i])) ||
        (x[i] == y[i] && std::signbit(x[i]) == std::signbit(y[i]))) {
      continue;
    }
    return "element " + std::to_string(i) + " is " + number_text(x[i]) + " in the graph, " +
           number_text(y[i]) + " eagerly";
  }
  return {};
}

/// The gradient of a mask of numbers goes through the whole score matrix, whose sums a graph with
/// open sizes takes in another order.
bool may_round(const Case& c, bool symbolic) {
  return symbolic && (c.name == "attention_forward" || c.name == "scaled_dot_product_attention");
}

/// Whether elements agree up to rounding.
bool are_close(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = elements(a), y = elements(b);
  bool close = x.size() == y.size();
  for (std::size_t i = 0; close && i < x.size(); ++i) {
    close = std::abs(x[i] - y[i]) <= 1e-12 * std::max(1.0, std::abs(y[i]));
  }
  return close;
}

/// Sizes above 1 as symbols, equal ones as the same symbol.
Shape symbols_above_one(const Shape& shape) {
  Shape made;
  for (const Dim size : shape) {
    made.push_back(size.number() > 1 ? Dim::symbol("d" + std::to_string(size.number())) : size);
  }
  return made;
}

/// A graph of many cases, each fed through placeholders of its own.
struct CaseGraph {
  Graph graph;
  std::vector<Feed> feeds;

  Tensors placeholders(const Case& c, std::size_t number, bool symbolic) {
    Tensors made;
    for (std::size_t i = 0; i < c.inputs.size(); ++i) {
      const Tensor& input = c.inputs[i];
      if (!input.defined()) {
        made.emplace_back();
        continue;
      }
      const std::string name = "x" + std::to_string(number) + "_" + std::to_string(i);
      made.push_back(graph.placeholder(
          name, input.dtype(), symbolic ? symbols_above_one(input.shape()) : input.shape()));
      feeds.emplace_back(name, input);
    }
    return made;
  }
};

struct Fetch {
  const Case* of;
  std::size_t output;
};

void compare(CaseGraph& cases, const Tensors& fetches, const std::vector<Fetch>& from,
             const std::map<const Case*, Tensors>& eager, bool symbolic) {
  Session session(cases.graph);
  const Tensors results = session.run(fetches, cases.feeds);
  std::map<std::string, int> failures;
  for (std::size_t i = 0; i < results.size(); ++i) {
    const Case& c = *from[i].of;
    const Tensor& want = eager.at(&c)[from[i].output];
    if (may_round(c, symbolic) && are_close(results[i], want)) continue;
    const std::string error = bits_differ(results[i], want);
    if (!error.empty() && ++failures[c.name] <= 2) ADD_FAILURE() << c.text << ": " << error;
  }
}

class Modes : public Interpreted, public ::testing::WithParamInterface<bool> {};

TEST_P(Modes, ValuesAreTheSameBits) {
  const bool symbolic = GetParam();
  CaseGraph cases;
  Tensors fetches;
  std::vector<Fetch> from;
  std::map<const Case*, Tensors> eager;
  std::set<std::string> covered;
  std::size_t number = 0;
  for (const Case& c : reference_cases()) {
    Tensors outputs;
    try {
      const Tensors inputs = cases.placeholders(c, number++, symbolic);
      cases.graph.define([&] { outputs = run(c, inputs); });
    } catch (const GraphError&) {
      if (!symbolic) throw;
      continue;  // the attributes hold only for some sizes
    }
    eager[&c] = run(c, c.inputs);
    covered.insert(c.name);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      fetches.push_back(outputs[i]);
      from.push_back({&c, i});
    }
  }
  EXPECT_TRUE(only_some_cases() || covered.size() > 85);
  compare(cases, fetches, from, eager, symbolic);
}

Tensor weighted(const Tensors& outputs) {
  Tensor total;
  for (const Tensor& y : outputs) {
    if (!is_floating(y.dtype())) continue;
    const Tensor term = sum(y * y * 0.5 + y);
    total = total.defined() ? total + term : term;
  }
  return total;
}

TEST_P(Modes, GradientsAreTheSameBits) {
  const bool symbolic = GetParam();
  CaseGraph cases;
  Tensors fetches;
  std::vector<Fetch> from;
  std::map<const Case*, Tensors> eager;
  std::size_t number = 0;
  for (const Case& c : reference_cases()) {
    if (!c.grad) continue;
    Tensors inputs, wanted, grads;
    try {
      inputs = cases.placeholders(c, number++, symbolic);
      for (const Tensor& x : inputs) {
        if (x.defined() && is_floating(x.dtype())) wanted.push_back(x);
      }
      cases.graph.define([&] {
        const std::vector<Tensor> loss{weighted(run(c, inputs))};
        grads = grad(loss, wanted, {.allow_unused = true});
      });
    } catch (const GraphError&) {
      if (!symbolic) throw;
      continue;
    }
    Tensors leaves = c.inputs, marked;
    for (Tensor& x : leaves) {
      if (!x.defined() || !is_floating(x.dtype())) continue;
      x = clone(x);
      marked.push_back(x.requires_grad());
    }
    const std::vector<Tensor> loss{weighted(run(c, leaves))};
    eager[&c] = grad(loss, marked, {.allow_unused = true});
    for (std::size_t i = 0; i < grads.size(); ++i) {
      ASSERT_EQ(grads[i].defined(), eager[&c][i].defined()) << c.text;
      if (!grads[i].defined()) continue;
      fetches.push_back(grads[i]);
      from.push_back({&c, i});
    }
  }
  EXPECT_TRUE(only_some_cases() || eager.size() > (symbolic ? 100u : 200u));
  compare(cases, fetches, from, eager, symbolic);
}

INSTANTIATE_TEST_SUITE_P(Sizes, Modes, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Symbolic" : "Known");
});

}  // namespace
}  // namespace dyad::testing
