// The kernels of a program that ran before come from the disk, without the compiler.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "dyad/autograd/grad_mode.h"
#include "dyad/codegen/kernel_provider.h"
#include "exec_for_tests.h"

#if defined(__x86_64__) && !defined(DYAD_PLAIN_LOOPS)

namespace dyad::exec {
namespace {

namespace fs = std::filesystem;

/// What a child tells: numbers by name.
using Told = std::map<std::string, std::string>;

bool maps_a_file_with(std::string_view name) {
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  return all.find(name) != std::string::npos;
}

// Run by the tests below, in processes of their own.
TEST(SecondProcessChild, DISABLED_Run) {
  manual_seed(1);
  Tensor w = normal({40, 30}).requires_grad();
  const auto step = compile(
      [&](const Tensor& x) {
        w.zero_grad();
        const Tensor loss = mean(square(tanh(matmul(x, w)) * 0.5f + sin(matmul(x, w))));
        loss.backward();
        const NoGrad no_tape;
        w.sub_(w.grad() * 0.25f);
        return loss;
      },
      CompileOptions{.recheck = false, .background = Background::never});
  Tensor loss;
  for (int i = 0; i < 3; ++i) loss = step(normal({20, 40}));
  EXPECT_EQ(step.explain().replays, 2);
  const auto counted = codegen::KernelProvider::instance().statistics();
  std::ofstream(std::getenv("DYAD_TOLD"))
      << "disk " << counted.disk << "\ncompiled " << counted.compiled << "\ncompiler "
      << maps_a_file_with("dyad_codegen_llvm") << "\nloss " << std::hexfloat << loss.item<float>()
      << "\n";
}

class SecondProcess : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) /
              (std::string("second_process.") + test->name() + std::to_string(::getpid()));
    fs::create_directories(folder_ / "cache");
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  Told run() const { return end(begin("told")); }

  struct Child {
    pid_t process;
    std::string told;
  };
  Child begin(const std::string& name) const {
    const std::string told = folder_ / name, cache = folder_ / "cache";
    std::string self = "/proc/self/exe", filter = "--gtest_filter=SecondProcessChild.DISABLED_Run",
                disabled = "--gtest_also_run_disabled_tests";
    char* const arguments[] = {self.data(), filter.data(), disabled.data(), nullptr};
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("DYAD_TOLD", told.c_str(), 1);
      ::setenv("DYAD_CACHE_DIR", cache.c_str(), 1);
      ::setenv("DYAD_CACHE", "1", 1);
      ::unsetenv("DYAD_KERNELS");
      for (const char* const of_this_process : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX"})
        ::unsetenv(of_this_process);
      ::execv(self.c_str(), arguments);
      ::_exit(1);
    }
    return {child, told};
  }
  static Told end(const Child& child) {
    int status = 0;
    EXPECT_EQ(::waitpid(child.process, &status, 0), child.process);
    EXPECT_EQ(status, 0);
    Told made;
    std::ifstream in(child.told);
    for (std::string name, value; in >> name >> value;) made[name] = value;
    return made;
  }

  fs::path folder_;
};

TEST_F(SecondProcess, FindsAllKernelsOnTheDiskAndOpensNoCompiler) {
  const Told first = run(), second = run();
  EXPECT_NE(first.at("compiled"), "0");
  EXPECT_EQ(first.at("disk"), "0");
  EXPECT_EQ(first.at("compiler"), "1");
  EXPECT_EQ(second.at("compiled"), "0");
  EXPECT_EQ(second.at("disk"), first.at("compiled"));
  EXPECT_EQ(second.at("compiler"), "0");
  EXPECT_EQ(second.at("loss"), first.at("loss"));
}

TEST_F(SecondProcess, SeveralAtOnceLeaveWhatOthersFind) {
  std::vector<Child> children;
  for (int i = 0; i < 4; ++i) children.push_back(begin("told" + std::to_string(i)));
  std::vector<Told> made;
  for (const Child& child : children) made.push_back(end(child));
  const Told after = run();
  EXPECT_EQ(after.at("compiled"), "0");
  EXPECT_EQ(after.at("compiler"), "0");
  for (const Told& told : made) {
    EXPECT_EQ(told.at("loss"), after.at("loss"));
    EXPECT_EQ(std::stoi(told.at("disk")) + std::stoi(told.at("compiled")),
              std::stoi(after.at("disk")));
  }
}

TEST_F(SecondProcess, CompilesAgainWhereFilesAreDamaged) {
  const Told first = run();
  for (const auto& entry : fs::recursive_directory_iterator(folder_ / "cache")) {
    if (!entry.is_regular_file()) continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(entry.file_size() / 2));
    file.write("damaged!", 8);
  }
  const Told second = run();
  EXPECT_EQ(second.at("disk"), "0");
  EXPECT_EQ(second.at("compiled"), first.at("compiled"));
  EXPECT_EQ(second.at("loss"), first.at("loss"));
}

}  // namespace
}  // namespace dyad::exec

#endif
