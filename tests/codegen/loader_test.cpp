#include "dyad/codegen/loader.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>
#include <utility>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/codegen/compiler_plugin.h"
#include "support.h"

namespace dyad::codegen {
namespace {

#if defined(__x86_64__) && !defined(DYAD_PLAIN_LOOPS)

KernelRecipe recipe() {
  ScalarProgram p;
  p.set_loc(Loc::intern("/somewhere/model.cpp", 42, "forward"));
  p.output(exp(p.input(f32)));
  return pointwise_recipe("exponential", std::move(p), {f32}, {f32});
}

std::vector<std::byte> object() {
  return CompilerPlugin::instance().compile(functions_of(recipe()));
}

TEST(Loader, RunsWhatItLoaded) {
  const auto functions = functions_of(recipe());
  const auto loaded = LoadedObject::load(object());
  const auto row =
      reinterpret_cast<DyadRowFn>(const_cast<void*>(loaded->find(functions.at(0).key.hex())));
  ASSERT_NE(row, nullptr);
  EXPECT_EQ(loaded->find("nothing"), nullptr);
  float x[] = {0, 1}, y[2];
  char* data[] = {reinterpret_cast<char*>(x), reinterpret_cast<char*>(y)};
  const std::int64_t strides[] = {4, 4};
  row(nullptr, data, strides, 2, nullptr, 0);
  EXPECT_EQ(y[0], 1.0f);
  EXPECT_NEAR(y[1], 2.7182817f, 1e-6);
}

TEST(Loader, DamagedObjectsAreErrors) {
  const auto whole = object();
  const auto message = [](std::span<const std::byte> bytes) -> std::string {
    try {
      (void)LoadedObject::load(bytes);
    } catch (const IoError& e) {
      return e.message();
    }
    return {};
  };
  EXPECT_EQ(message(whole), "");
  EXPECT_EQ(message({}), "kernel object: ends too early");
  auto other = whole;
  other[0] = std::byte{0};
  EXPECT_EQ(message(other), "kernel object: is no relocatable x86-64 ELF file");
  for (std::size_t size = 1; size < whole.size(); size += 97)
    (void)message(std::span(whole).first(size));
  // The names of symbols in a section that has no bytes.
  Elf64_Ehdr header;
  std::memcpy(&header, whole.data(), sizeof header);
  for (int s = 0; s < header.e_shnum; ++s) {
    Elf64_Shdr section;
    const std::size_t at = header.e_shoff + static_cast<std::size_t>(s) * sizeof section;
    std::memcpy(&section, whole.data() + at, sizeof section);
    if (section.sh_type != SHT_STRTAB) continue;
    section.sh_type = SHT_NOBITS;
    section.sh_offset = std::uint64_t{1} << 40;
    auto damaged = whole;
    std::memcpy(damaged.data() + at, &section, sizeof section);
    EXPECT_EQ(message(damaged), "kernel object: has a section without bytes that are needed");
  }
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i) {  // loading may succeed or fail, but nothing else
    auto damaged = whole;
    for (int k = 0; k < 4; ++k)
      damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    (void)message(damaged);
  }
}

TEST(Loader, ObjectsHoldTheUsersLines) {
  const auto bytes = object();
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_NE(text.find("model.cpp"), std::string::npos);
  EXPECT_NE(text.find("forward"), std::string::npos);
  EXPECT_NE(text.find("exponential$"), std::string::npos);
}

/// The mappings of this process, and how many of them can be written and run.
std::pair<int, int> mappings() {
  std::ifstream maps("/proc/self/maps");
  std::pair<int, int> found = {0, 0};
  for (std::string line; std::getline(maps, line); ++found.first)
    found.second += line.find(" rwx") != std::string::npos;
  return found;
}

TEST(Loader, ManyObjectsAreFewMappings) {
  const auto bytes = object();
  const std::string key = functions_of(recipe()).at(0).key.hex();
  const int before = mappings().first;
  std::vector<std::shared_ptr<const LoadedObject>> all;
  for (int i = 0; i < 1000; ++i) all.push_back(LoadedObject::load(bytes));
  EXPECT_LT(mappings().first - before, 100);
  EXPECT_EQ(mappings().second, 0);
  // Every other one goes, the rest still run.
  for (std::size_t i = 0; i < all.size(); i += 2) all[i].reset();
  for (std::size_t i = 1; i < all.size(); i += 2) {
    const auto row = reinterpret_cast<DyadRowFn>(const_cast<void*>(all[i]->find(key)));
    float x[] = {0}, y[1];
    char* data[] = {reinterpret_cast<char*>(x), reinterpret_cast<char*>(y)};
    const std::int64_t strides[] = {4, 4};
    row(nullptr, data, strides, 1, nullptr, 0);
    ASSERT_EQ(y[0], 1.0f);
  }
  all.clear();
  EXPECT_LT(mappings().first - before, 20);
}

TEST(Loader, PerfMapNamesKernels) {
  setenv("DYAD_PERF_MAP", "1", 1);
  const auto loaded = LoadedObject::load(object());
  unsetenv("DYAD_PERF_MAP");
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  std::ifstream file(path);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  EXPECT_NE(text.find(" exponential$"), std::string::npos);
  std::remove(path.c_str());
}

#endif

}  // namespace
}  // namespace dyad::codegen
