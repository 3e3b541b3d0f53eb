#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "checker.h"
#include "dyad/base/error.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "tests/shared/message_of.h"

// What docs/onnx.md shows does what it says.

namespace dyad::testing {
namespace {

std::string text_of(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

/// The first block of code in that language.
std::string block(const std::string& page, const std::string& language) {
  const std::string fence = "```" + language + "\n";
  const std::size_t begin = page.find(fence) + fence.size();
  return page.substr(begin, page.find("```\n", begin) - begin);
}

struct Cnn {
  nn::Conv2d conv{1, 4, 3};
  nn::BatchNorm norm{4};
  nn::Dropout dropout{0.5};
  nn::Linear out{4 * 13 * 13, 10};
  Tensor operator()(const Tensor& x) const {
    return out(dropout(flatten(max_pool2d(relu(norm(conv(x))), 2), 1)));
  }
};

TEST(Page, ThePythonProgramRunsOnTheFirstExamplesFile) {
  Cnn model;
  const std::string path = temporary("model.onnx");
  nn::eval(model);
  onnx::save(path, model, {{"image", f32, {"batch", 1, 28, 28}}});
  if (!check(ModelFile{.path = path, .cases = {}})) {
    GTEST_SKIP() << "needs the Python packages of tests/python/requirements.txt";
  }
  const std::string folder = std::filesystem::path(path).parent_path();
  std::ofstream(folder + "/check.py") << block(text_of("docs/onnx.md"), "python");
  const char* const python = std::getenv("DYAD_PYTHON");
  const int status = std::system(
      ("cd '" + folder + "' && " + (python ? python : "python3") + " check.py > printed.txt 2>&1")
          .c_str());
  const std::string printed = text_of(folder + "/printed.txt");
  EXPECT_EQ(status, 0) << printed;
  EXPECT_EQ(printed.find("(1, 10)\n(7, 10)\nConv page_test.cpp:"), 0u) << printed;
}

TEST(Page, TheErrorSaysWhatIsShown) {
  Cnn model;
  const std::string page = text_of("docs/onnx.md");
  const std::string text = message_of<OnnxError>(
      [&] { onnx::save(temporary("model.onnx"), model, {{"image", f32, {"batch", 1, 28, 28}}}); });
  // Lines differ: from the end of the place to the end of the line.
  std::istringstream lines(text);
  std::size_t compared = 0;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t reason = line.find("): ");
    if (reason == std::string::npos) continue;
    EXPECT_NE(page.find(line.substr(reason) + "\n"), std::string::npos) << line;
    ++compared;
  }
  EXPECT_EQ(compared, 3u) << text;
}

}  // namespace
}  // namespace dyad::testing
