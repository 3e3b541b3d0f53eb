#include <gtest/gtest.h>

#include <fstream>

#include "dyad/base/error.h"
#include "dyad/base/log.h"
#include "dyad/codegen/compiler_plugin.h"
#include "support.h"

namespace dyad::codegen {
namespace {

std::vector<KernelFunction> some_functions() {
  ScalarProgram p;
  p.output(p.input(f32) + 1.0f);
  return functions_of(pointwise_recipe("increment", std::move(p), {f32}, {f32}));
}

class Warnings : public testing::Test {
 protected:
  void SetUp() override {
    set_log_sink([this](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) lines_.emplace_back(text);
    });
  }
  void TearDown() override { set_log_sink({}); }
  std::vector<std::string> lines_;
};

TEST_F(Warnings, AMissingPluginIsReportedOnce) {
  CompilerPlugin plugin({"/nowhere/a.so", "/nowhere/b.so"});
  EXPECT_TRUE(plugin.identity().empty());
  EXPECT_TRUE(plugin.compile(some_functions()).empty());
  EXPECT_TRUE(plugin.compile(some_functions()).empty());
  EXPECT_EQ(
      lines_,
      (std::vector<std::string>{
          "the compiler plug-in dyad_codegen_llvm.so was not found (DYAD_PLUGIN_PATH may name its "
          "folder); kernels are interpreted, which gives the same results slowly"}));
}

TEST_F(Warnings, AFileThatIsNoPluginIsReported) {
  const std::string path = testing::TempDir() + "not-a-plugin.so";
  std::ofstream(path) << "text";
  CompilerPlugin plugin({path});
  EXPECT_TRUE(plugin.compile(some_functions()).empty());
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_NE(lines_[0].find("the compiler plug-in cannot be opened: "), std::string::npos);
  std::remove(path.c_str());
}

#if defined(__x86_64__) && !defined(DYAD_PLAIN_LOOPS)
TEST(Plugin, CompilesForOtherLevelsAndReportsThoseItCannot) {
  auto& plugin = CompilerPlugin::instance();
  EXPECT_FALSE(plugin.compile(some_functions(), "x86-64-v3").empty());
  EXPECT_FALSE(plugin.compile(some_functions(), "x86-64-v4").empty());
  try {
    (void)plugin.compile(some_functions(), "x86-64");
    FAIL();
  } catch (const InternalError& e) {
    EXPECT_EQ(e.message(), "the compiler plug-in failed: needs a CPU with AVX2, FMA and F16C");
  }
}
#endif

}  // namespace
}  // namespace dyad::codegen
