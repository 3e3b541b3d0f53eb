#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cases.h"
#include "dyad/base/error.h"
#include "dyad/exec/graph.h"
#include "dyad/onnx/export.h"
#include "dyad/onnx/load.h"
#include "dyad/onnx/unsupported.h"

// The reference cases written as ONNX models and read back: what leaves Dyad comes home.

namespace dyad::testing {
namespace {

class OnnxImport : public Interpreted {};

TEST_F(OnnxImport, ReadsWhatIsWritten) {
  std::set<std::string> read, unread;
  for (const Case& c : reference_cases()) {
    for (const int opset : {17, 23}) {
      std::string bytes;
      std::vector<Feed> feeds;
      try {
        Graph graph;
        std::vector<Tensor> inputs;
        for (std::size_t i = 0; i < c.inputs.size(); ++i) {
          const Tensor& x = c.inputs[i];
          inputs.emplace_back();
          if (!x.defined()) continue;
          inputs.back() = graph.placeholder("x" + std::to_string(i), x.dtype(), x.shape());
        }
        (void)graph.define([&] { return run(c, inputs); });
        bytes = onnx::to_bytes(graph, {.opset = opset});
      } catch (const OnnxError&) {
        continue;  // it has no ONNX form
      }
      try {
        const onnx::Model model = onnx::parse(bytes);
        for (std::size_t i = 0; i < c.inputs.size(); ++i) {
          const std::string name = "x" + std::to_string(i);
          if (c.inputs[i].defined() && std::ranges::count(model.inputs(), name) == 1) {
            feeds.emplace_back(name, c.inputs[i]);
          }
        }
        const std::vector<Tensor> results = model.run(feeds);
        Case close = c;  // written by other operators, a result has their rounding
        close.tolerance = std::max(c.tolerance, 256.0);
        close.floor = 1;
        for (std::size_t i = 0; i < results.size(); ++i) {
          EXPECT_EQ(difference(close, results[i], c.outputs[i]), "")
              << c.text << ", opset " << opset;
        }
        read.insert(c.name);
      } catch (const onnx::UnsupportedError&) {
        unread.insert(c.name);
      } catch (const Error& error) {
        ADD_FAILURE() << c.text << ", opset " << opset << ": " << error.what();
      }
    }
  }
  if (only_some_cases()) return;
  std::string list;
  for (const std::string& name : unread) list += " " + name;
  EXPECT_GE(read.size(), 60u) << "not read:" << list;
  RecordProperty("unread", list);
}

}  // namespace
}  // namespace dyad::testing
