// A generated kernel in gdb and perf: both name the lines of the program that it computes.

#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "exec_for_tests.h"

#if defined(__x86_64__) && !defined(DYAD_PLAIN_LOOPS)

/// Where gdb stops before it looks into kernels.
extern "C" [[gnu::noinline]] void debuggers_test_is_compiled() { asm volatile(""); }

namespace dyad::exec {
namespace {

namespace fs = std::filesystem;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;

constexpr int kExpLine = __LINE__ + 6;

// Run by the tests below, in processes of their own.
TEST(DebuggersChild, DISABLED_Run) {
  const auto step = compile(
      [](const Tensor& x) {
        const Tensor scaled = exp(x) * 2.0f;
        return tanh(scaled) - x;
      },
      CompileOptions{.recheck = false, .background = Background::never});
  const Tensor x = normal({200, 1000});
  step(x);
  step(x);
  debuggers_test_is_compiled();
  for (int call = 0; call < 500; ++call) step(x);
  EXPECT_EQ(step.explain().recorded, 1);
}

class Debuggers : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("debuggers.") + test->name() + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  /// What a command of the shell says in the test's folder.
  [[nodiscard]] std::string run(const std::string& command) const {
    const std::string all = "cd '" + folder_.string() + "' && (" + command + ") 2>&1";
    FILE* const pipe = ::popen(all.c_str(), "r");
    if (pipe == nullptr) return {};
    std::string said;
    std::array<char, 4096> part{};
    while (const std::size_t count = std::fread(part.data(), 1, part.size(), pipe))
      said.append(part.data(), count);
    ::pclose(pipe);
    return said;
  }
  [[nodiscard]] bool has(const std::string& program) const {
    return run("command -v " + program + " && echo found").ends_with("found\n");
  }
  /// The child under a program, whose environment knows nothing of this process's shard.
  [[nodiscard]] static std::string child_in(const std::string& program) {
    return "env -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX -u DYAD_KERNELS DYAD_CACHE=0 " +
           program + " " + fs::read_symlink("/proc/self/exe").string() +
           " --gtest_filter=DebuggersChild.DISABLED_Run --gtest_also_run_disabled_tests";
  }

  fs::path folder_;
};

TEST_F(Debuggers, GdbStopsInAKernelAtALineOfTheProgram) {
  if (!has("gdb")) GTEST_SKIP() << "there is no gdb";
  const std::string line = "debuggers_test.cpp:" + std::to_string(kExpLine);
  const std::string said =
      run(child_in("gdb -q -batch -ex 'set startup-with-shell off' "
                   "-ex 'break debuggers_test_is_compiled' -ex run "
                   "-ex 'break " +
                   line + "' -ex continue -ex 'backtrace 3' -ex kill --args"));
  if (said.find("ptrace") != std::string::npos) GTEST_SKIP() << said;
  EXPECT_THAT(said, ContainsRegex("#0  exp_mul_tanh_sub .*/" + line));
}

TEST_F(Debuggers, PerfTellsTheLinesOfKernels) {
  const std::string recorded =
      run("DYAD_PERF_JITDUMP=kernels " + child_in("perf record -k mono -o perf.data"));
  if (recorded.find("[ perf record: Captured") == std::string::npos)
    GTEST_SKIP() << "perf records nothing here";
  const std::string said =
      run("perf inject --jit -i perf.data -o perf.jit.data; "
          "perf annotate -i perf.jit.data --stdio -l -d $(basename kernels/jitted-*.so)");
  EXPECT_THAT(said, ContainsRegex("[0-9] debuggers_test.cpp:" + std::to_string(kExpLine)));
  EXPECT_THAT(said, HasSubstr("<exp_mul_tanh_sub"));
}

}  // namespace
}  // namespace dyad::exec

#endif
