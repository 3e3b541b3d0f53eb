// Programs made at random do the same eagerly, as static graphs and compiled, whatever the
// configuration; ./dev fuzz-compile makes more of them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "campaign.h"
#include "dyad/ops/ops.h"
#include "generate.h"
#include "instructions.h"
#include "print.h"
#include "shrink.h"
#include "soak.h"

namespace dyad::testing {
namespace {

using ::testing::HasSubstr;

constexpr const char* kFolder = "tests/random_programs";
constexpr int kBlocks = 20;
constexpr int kBlocksWithState = 2, kBlocksWithLayers = 3, kWideBlocks = 3;

struct Block {
  std::uint64_t first;  ///< seed
  int number;
};

class RandomPrograms : public ::testing::TestWithParam<Block> {};

TEST_P(RandomPrograms, DoTheSameInEveryMode) {
  const auto [first, number] = GetParam();
  Campaign campaign;
  for (std::uint64_t seed = first; seed < first + kBlock; ++seed) {
    campaign.run(seed);
    if (campaign.findings.empty()) continue;
    FAIL() << explain(seed, campaign.findings.back().second);
  }
  // Most of them say something about every mode.
  EXPECT_GT(campaign.statements, 300);
  if (!is_stateful(first)) {
    EXPECT_GT(campaign.ran_statically, 30);
  }
  EXPECT_LT(campaign.failed, 20);
  const DigestFile kept = digest_file(kFolder, first);
  ASSERT_EQ(instructions_of_digests(kept.path), instructions_of(first))
      << "there are other operators than when the digests were kept, so other programs: ./dev "
         "fuzz-compile --write";
  EXPECT_EQ(campaign.digest, read_digests(kept.path).at(static_cast<std::size_t>(number)))
      << "programs " << first << " to " << first + kBlock - 1
      << " do something else than they did; if that is meant: ./dev fuzz-compile --write";
}

std::vector<Block> blocks(std::uint64_t first, int count) {
  std::vector<Block> made;
  for (int i = 0; i < count; ++i)
    made.push_back({first + static_cast<std::uint64_t>(i) * kBlock, i});
  return made;
}

std::string number_of(const ::testing::TestParamInfo<Block>& info) {
  return std::to_string(info.param.number);
}

INSTANTIATE_TEST_SUITE_P(Blocks, RandomPrograms, ::testing::ValuesIn(blocks(0, kBlocks)),
                         number_of);
INSTANTIATE_TEST_SUITE_P(WithState, RandomPrograms,
                         ::testing::ValuesIn(blocks(kFirstStateful, kBlocksWithState)), number_of);
INSTANTIATE_TEST_SUITE_P(WithLayers, RandomPrograms,
                         ::testing::ValuesIn(blocks(kFirstLayered, kBlocksWithLayers)), number_of);
INSTANTIATE_TEST_SUITE_P(Wide, RandomPrograms, ::testing::ValuesIn(blocks(kFirstWide, kWideBlocks)),
                         number_of);

/// Seeds of all kinds, one after the other.
std::uint64_t seed_of_some_kind(std::uint64_t i) {
  const std::uint64_t firsts[] = {0, kFirstWide, kFirstLayered, kFirstStateful};
  return firsts[i % 4] + i;
}

const Instruction& instruction(const std::string& name) {
  for (const Instruction& one : instructions()) {
    if (one.name == name) return one;
  }
  throw std::runtime_error("no instruction " + name);
}

TEST(ProgramGenerator, MakesTheSameProgramFromASeedAndEveryKindOfStatement) {
  setenv("DYAD_KERNELS", "interpreter", 0);
  std::set<Form> forms;
  std::set<std::string> names;
  const std::function<void(const Body&)> look = [&](const Body& body) {
    for (const Statement& statement : body.statements) {
      forms.insert(statement.op->form);
      names.insert(statement.op->name);
      for (const Body& inner : statement.bodies) look(inner);
    }
  };
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const std::uint64_t seed = seed_of_some_kind(i);
    const Program program = generate(seed);
    look(program.body);
    if (i >= 40) continue;
    EXPECT_EQ(to_cpp(program, {}, ""), to_cpp(generate(seed), {}, "")) << seed;
  }
  EXPECT_EQ(forms.size(), 8u);
  EXPECT_GT(names.size(), 120u);
}

TEST(ProgramShrinker, KeepsOnlyWhatTheFailureNeeds) {
  setenv("DYAD_KERNELS", "interpreter", 0);
  // A program "fails" when it has a sum of a product, whatever stands around them.
  const auto fails = [](const Program& program) {
    bool product = false;
    for (const Statement& statement : program.body.statements) {
      product = product || statement.op->name == "times";
      if (product && statement.op->name == "sum") return true;
    }
    return false;
  };
  int shrunk = 0;
  for (std::uint64_t seed = 0; shrunk < 3; ++seed) {
    const Program program = generate(seed);
    if (!fails(program) || program.body.statements.size() < 8) continue;
    ++shrunk;
    const Program least = shrink(program, fails);
    EXPECT_EQ(least.body.statements.size(), 2u) << to_cpp(least, {}, "");
    EXPECT_EQ(least.calls.size(), 1u);
    EXPECT_EQ(least.body.results.size(), 1u);
    EXPECT_EQ(least.gradients, Gradients::none);
  }
}

TEST(ProgramShrinker, AFindingIsExplainedByItsSmallestProgram) {
  setenv("DYAD_KERNELS", "interpreter", 0);
  // An operator that is not what it was while it was recorded.
  static int runs = 0;
  const Instruction unsteady{
      "unsteady", "unsteady($0)", 1,
      [](const Frame& f) { return std::vector<Tensor>{++runs % 2 == 0 ? f[0] : f[0] + f[0]}; },
      nullptr};
  Program program;
  program.inputs = {{.shape = {3, 4}}, {.shape = {4}}};
  program.values = 5;
  Statement before, wrong, after;
  before.op = &instruction("plus");
  before.in = {0, 1};
  before.out = {2};
  wrong.op = &unsteady;
  wrong.in = {2};
  wrong.out = {3};
  after.op = &instruction("tanh");
  after.in = {3};
  after.out = {4};
  program.body.statements = {before, wrong, after};
  program.body.results = {4};
  program.calls = {{{}, 1}, {{}, 2}, {{}, 3}};
  const auto fails = [](const Program& one) {
    runs = 0;
    return check(one).finding.mode == "compiled";
  };
  ASSERT_TRUE(fails(program));
  const Program least = shrink(program, fails);
  ASSERT_EQ(least.body.statements.size(), 1u);
  EXPECT_EQ(least.body.statements[0].op, &unsteady);
  EXPECT_LT(least.inputs[0].shape.size(), 2u);
  EXPECT_THAT(to_cpp(least, {}, "what differs"), HasSubstr("= unsteady(v0);"));
}

TEST(ProgramText, IsCppThatCompiles) {
  // Every instruction once, with what a program may have around them.
  setenv("DYAD_KERNELS", "interpreter", 0);
  std::set<std::string> missing;
  for (const Instruction& one : instructions()) missing.insert(one.name);
  std::string all;
  for (std::uint64_t i = 0; i < 16000 && !missing.empty(); ++i) {
    const std::uint64_t seed = seed_of_some_kind(i);
    const Program program = generate(seed);
    bool adds = false;
    const std::function<void(const Body&)> look = [&](const Body& body) {
      for (const Statement& statement : body.statements) {
        adds = missing.erase(statement.op->name) > 0 || adds;
        for (const Body& inner : statement.bodies) look(inner);
      }
    };
    look(program.body);
    if (!adds) continue;
    std::string text = to_cpp(program, draw_configuration(seed).options, "seed");
    text.replace(text.find("using namespace dyad;"), 0,
                 "namespace program_" + std::to_string(seed) + " {\n");
    all += text + "}\n";
  }
  EXPECT_TRUE(missing.empty()) << *missing.begin() << " and " << missing.size() - 1
                               << " more are never drawn";
  const std::string path = ::testing::TempDir() + "random_programs.cpp";
  std::ofstream(path) << all;
  const std::string command =
      std::string(DYAD_CXX) + " -std=c++20 -fsyntax-only -I. " + path + " 2>" + path + ".log";
  EXPECT_EQ(std::system(command.c_str()), 0) << [&] {
    std::ifstream log(path + ".log");
    return std::string(std::istreambuf_iterator<char>(log), {}).substr(0, 3000);
  }();
}

TEST(ProgramDigests, AreReadAndWritten) {
  for (const std::uint64_t seed : {std::uint64_t{0}, kFirstStateful, kFirstLayered, kFirstWide}) {
    const DigestFile file = digest_file(::testing::TempDir(), seed + 700);
    EXPECT_EQ(file.first, seed);
    write_digests(file, {1, 0xABCDEF0123456789u});
    EXPECT_EQ(read_digests(file.path), (std::vector<std::uint64_t>{1, 0xABCDEF0123456789u}));
    EXPECT_EQ(instructions_of_digests(file.path), instructions_of(seed));
    EXPECT_THROW(read_digests(file.path + ".not"), std::runtime_error);
  }
  EXPECT_GE(read_digests(digest_file(kFolder, 0).path).size(), static_cast<std::size_t>(kBlocks));
  EXPECT_LT(instructions_of(0), instructions_of(kFirstStateful));
  EXPECT_LT(instructions_of(0), instructions_of(kFirstLayered));
  EXPECT_LT(instructions_of(kFirstLayered), instructions_of(kFirstWide));
}

TEST(CompiledSoak, MemoryIsFlatAndRecordingsAreBounded) {
  setenv("DYAD_KERNELS", "interpreter", 0);
  const Soak found = soak(3000, [](const std::string&) {});
  EXPECT_TRUE(found.equal);
  EXPECT_LT(found.recordings, 20);
  EXPECT_LT(found.recorded, 150);
#if !DYAD_PLAIN_LOOPS
  EXPECT_LT(found.late_mb, found.early_mb + 8);  // the first steps make the plans that are kept
#endif
}

}  // namespace
}  // namespace dyad::testing
