#include "dyad/codegen/jit_dump.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "dyad/base/log.h"
#include "dyad/codegen/compiler_plugin.h"
#include "dyad/codegen/loader.h"
#include "support.h"

namespace dyad::codegen {
namespace {

namespace fs = std::filesystem;

/// One function of a dump.
struct Dumped {
  struct Line {
    std::uint64_t address;
    std::uint32_t line, discriminator;
    std::string file;
  };
  std::uint64_t time = 0, debug_address = 0;
  std::uint32_t process = 0, thread = 0;
  std::uint64_t mapped_at = 0, address = 0, number = 0;
  std::string name, code;
  std::vector<Line> lines;
};

/// Reads a whole dump; anything that does not follow the format is a failure of the test.
class DumpFile {
 public:
  explicit DumpFile(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    end_ = bytes_.size();
    EXPECT_EQ(number<std::uint32_t>(), 0x4A695444u);
    EXPECT_EQ(number<std::uint32_t>(), 1u);
    EXPECT_EQ(number<std::uint32_t>(), 40u);
    EXPECT_EQ(number<std::uint32_t>(), 62u);  // x86-64
    EXPECT_EQ(number<std::uint32_t>(), 0u);
    process = number<std::uint32_t>();
    std::uint64_t time = number<std::uint64_t>();
    EXPECT_EQ(number<std::uint64_t>(), 0u);
    Dumped next;
    while (at_ < bytes_.size() && !testing::Test::HasFailure()) {
      EXPECT_FALSE(closed) << "a record behind the last";
      const std::size_t start = at_;
      const auto kind = number<std::uint32_t>();
      end_ = start + number<std::uint32_t>();
      next.time = number<std::uint64_t>();
      EXPECT_GE(next.time, time);
      time = next.time;
      if (kind == 2) {
        EXPECT_TRUE(next.lines.empty()) << "two records of lines in turn";
        read_lines(next);
      } else if (kind == 0) {
        read_code(next);
        functions.push_back(std::exchange(next, {}));
      } else {
        EXPECT_EQ(kind, 3u);
        closed = true;
      }
      EXPECT_EQ(at_, end_);
      end_ = bytes_.size();
    }
    EXPECT_TRUE(next.lines.empty()) << "lines without code";
  }

  /// The last one at an address, which may have been used before.
  const Dumped* find(const void* address) const {
    const auto is_there = [&](const Dumped& f) {
      return f.address == reinterpret_cast<std::uint64_t>(address);
    };
    const auto last = std::find_if(functions.rbegin(), functions.rend(), is_there);
    return last != functions.rend() ? &*last : nullptr;
  }

  std::uint32_t process = 0;
  std::vector<Dumped> functions;
  bool closed = false;

 private:
  template <class T>
  T number() {
    T value = 0;
    if (end_ > bytes_.size() || at_ + sizeof value > end_) {
      ADD_FAILURE() << "ends too early";
      return value;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  std::string text() {
    const std::string found = bytes_.substr(at_, bytes_.find('\0', at_) - at_);
    at_ += found.size() + 1;
    return found;
  }

  void read_lines(Dumped& f) {
    f.debug_address = number<std::uint64_t>();
    const auto count = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < count && !testing::Test::HasFailure(); ++i) {
      const auto address = number<std::uint64_t>();
      const auto line = number<std::uint32_t>(), discriminator = number<std::uint32_t>();
      f.lines.push_back({address, line, discriminator, text()});
    }
  }

  void read_code(Dumped& f) {
    f.process = number<std::uint32_t>();
    f.thread = number<std::uint32_t>();
    f.mapped_at = number<std::uint64_t>();
    f.address = number<std::uint64_t>();
    const auto size = number<std::uint64_t>();
    f.number = number<std::uint64_t>();
    f.name = text();
    f.code = bytes_.substr(at_, size);
    EXPECT_EQ(f.code.size(), size);
    at_ += size;
  }

  std::string bytes_;
  std::size_t at_ = 0, end_ = 0;
};

/// A new folder, up to the end of this process; not of those that it forks.
struct FolderOfProcess {
  fs::path path = testing::TempDir() + "dyad-jit-dump-test" + std::to_string(getpid());
  pid_t process = getpid();

  FolderOfProcess() { fs::create_directories(path); }
  ~FolderOfProcess() {
    if (getpid() == process) fs::remove_all(path);
  }
  FolderOfProcess(const FolderOfProcess&) = delete;
  FolderOfProcess& operator=(const FolderOfProcess&) = delete;
};

/// The folder is the same for all tests, because a process opens its file once.
class JitDumpTest : public testing::Test {
 protected:
  void SetUp() override { setenv("DYAD_PERF_JITDUMP", folder().c_str(), 1); }
  void TearDown() override { unsetenv("DYAD_PERF_JITDUMP"); }

  static std::string folder() {
    static const FolderOfProcess parent;
    return parent.path / "inner";
  }
  static std::string path_of(pid_t process) {
    return folder() + "/jit-" + std::to_string(process) + ".dump";
  }
};

TEST_F(JitDumpTest, ManyThreadsWriteWholeRecords) {
  ASSERT_TRUE(jit_dump_wanted());
  constexpr std::size_t kThreads = 8, kEach = 50;
  std::vector<std::string> codes(kThreads * kEach);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < kEach; ++i) {
        std::string& code = codes[t * kEach + i];
        code = std::string(1000 + 37 * i, static_cast<char>('a' + t));
        const auto bytes = std::as_bytes(std::span(code));
        const auto address = reinterpret_cast<std::uint64_t>(bytes.data());
        std::vector<SourceLine> lines;
        for (std::uint32_t l = 0; l < i % 3; ++l) {
          lines.push_back({address + l, l + 1, std::to_string(t) + ".cpp"});
        }
        add_to_jit_dump(bytes, std::to_string(t) + " " + std::to_string(i), lines);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const DumpFile dump(path_of(getpid()));
  std::set<std::uint64_t> numbers;
  std::set<std::uint32_t> writers;
  for (const Dumped& f : dump.functions) numbers.insert(f.number);
  EXPECT_EQ(numbers.size(), dump.functions.size());
  for (std::size_t t = 0; t < kThreads; ++t) {
    for (std::size_t i = 0; i < kEach; ++i) {
      const std::string& code = codes[t * kEach + i];
      const Dumped* f = dump.find(code.data());
      ASSERT_NE(f, nullptr);
      EXPECT_EQ(f->name, std::to_string(t) + " " + std::to_string(i));
      EXPECT_EQ(f->code, code);
      ASSERT_EQ(f->lines.size(), i % 3 == 0 ? 0 : i % 3 + 1);
      for (const Dumped::Line& line : f->lines) EXPECT_EQ(line.file, std::to_string(t) + ".cpp");
      writers.insert(f->thread);
    }
  }
  EXPECT_EQ(writers.size(), kThreads);
}

#if defined(__x86_64__) && !defined(DYAD_PLAIN_LOOPS)

constexpr const char* kModel = "/somewhere/model.cpp";
constexpr const char* kOther = "/elsewhere/other.cpp";

/// log(x) of a line of one file, times 3 of a line of another.
KernelRecipe two_lines() {
  ScalarProgram p;
  p.set_loc(Loc::intern(kModel, 42, "forward"));
  const Scalar first = log(p.input(f32));
  p.set_loc(Loc::intern(kOther, 7, "scaled"));
  p.output(first * 3.0);
  return pointwise_recipe("two_lines", std::move(p), {f32}, {f32});
}

KernelRecipe without_lines() {
  ScalarProgram p;
  p.output(p.input(f32) + 5.0);
  return pointwise_recipe("without_lines", std::move(p), {f32}, {f32});
}

std::vector<std::byte> object_of(const KernelRecipe& recipe) {
  return CompilerPlugin::instance().compile(functions_of(recipe));
}

const void* address_in(const LoadedObject& object, const KernelRecipe& recipe) {
  return object.find(functions_of(recipe).at(0).key.hex());
}

/// Runs `child` in a forked process, which leaves by `exit`; its id.
pid_t run_in_child(const std::function<bool()>& child) {
  static_cast<void>(std::fflush(nullptr));
  const pid_t id = fork();
  if (id == 0) std::exit(child() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(waitpid(id, &status, 0), id);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return id;
}

TEST_F(JitDumpTest, HoldsCodeAndLines) {
  const KernelRecipe recipe = two_lines();
  const auto loaded = LoadedObject::load(object_of(recipe));
  const DumpFile dump(path_of(getpid()));
  EXPECT_EQ(dump.process, static_cast<std::uint32_t>(getpid()));
  EXPECT_FALSE(dump.closed);
  const void* address = address_in(*loaded, recipe);
  const Dumped* f = dump.find(address);
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(f->process, static_cast<std::uint32_t>(getpid()));
  EXPECT_EQ(f->thread, static_cast<std::uint32_t>(gettid()));
  EXPECT_EQ(f->mapped_at, f->address);
  EXPECT_EQ(f->name, "two_lines$" + functions_of(recipe).at(0).key.hex());
  ASSERT_GT(f->code.size(), 100u);
  EXPECT_EQ(std::memcmp(f->code.data(), address, f->code.size()), 0);

  EXPECT_EQ(f->debug_address, f->address);
  ASSERT_GT(f->lines.size(), 2u);
  EXPECT_EQ(f->lines.front().address, f->address);
  EXPECT_EQ(f->lines.back().address, f->address + f->code.size());
  std::set<std::string> places;
  for (std::size_t i = 0; i < f->lines.size(); ++i) {
    const Dumped::Line& line = f->lines[i];
    EXPECT_EQ(line.discriminator, 0u);
    places.insert(line.file + ":" + std::to_string(line.line));
    if (i == 0) continue;
    const Dumped::Line& before = f->lines[i - 1];
    EXPECT_GT(line.address, before.address);
    // The last entry ends what the one before it says.
    EXPECT_EQ(line.file == before.file && line.line == before.line, i + 1 == f->lines.size());
  }
  EXPECT_TRUE(places.contains("/somewhere/model.cpp:42"));
  EXPECT_TRUE(places.contains("/elsewhere/other.cpp:7"));
  for (const std::string& place : places) {
    EXPECT_TRUE(place == "/somewhere/model.cpp:42" || place == "/elsewhere/other.cpp:7" ||
                place == "/somewhere/model.cpp:0" || place == "/elsewhere/other.cpp:0")
        << place;
  }
}

TEST_F(JitDumpTest, IsMappedToBeExecuted) {
  const auto loaded = LoadedObject::load(object_of(without_lines()));
  std::ifstream maps("/proc/self/maps");
  const std::string wanted = fs::canonical(path_of(getpid()));
  std::string line, found;
  while (std::getline(maps, line)) {
    if (line.find(wanted) != std::string::npos) found = line;
  }
  EXPECT_NE(found.find(" r-xp "), std::string::npos) << found;
}

TEST_F(JitDumpTest, CodeWithoutLinesHasItsName) {
  const KernelRecipe recipe = without_lines();
  const auto loaded = LoadedObject::load(object_of(recipe));
  const DumpFile dump(path_of(getpid()));
  const void* address = address_in(*loaded, recipe);
  const Dumped& f = dump.functions.back();
  EXPECT_EQ(f.address, reinterpret_cast<std::uint64_t>(address));
  EXPECT_EQ(f.name.substr(0, 14), "without_lines$");
  EXPECT_TRUE(f.lines.empty());
  EXPECT_EQ(std::memcmp(f.code.data(), address, f.code.size()), 0);
}

TEST_F(JitDumpTest, DamagedLinesAreLeftOut) {
  const KernelRecipe recipe = two_lines();
  std::vector<std::byte> object = object_of(recipe);
  Elf64_Ehdr header;
  std::memcpy(&header, object.data(), sizeof header);
  std::vector<Elf64_Shdr> sections(header.e_shnum);
  std::memcpy(sections.data(), object.data() + header.e_shoff,
              sections.size() * sizeof(Elf64_Shdr));
  int damaged = 0;
  for (const Elf64_Shdr& s : sections) {
    const char* name = reinterpret_cast<const char*>(object.data()) +
                       sections.at(header.e_shstrndx).sh_offset + s.sh_name;
    if (std::string(name) != ".debug_line") continue;
    object.at(s.sh_offset + 4) = std::byte{9};  // DWARF's version
    ++damaged;
  }
  ASSERT_EQ(damaged, 1);
  const auto loaded = LoadedObject::load(object);
  const Dumped f = DumpFile(path_of(getpid())).functions.back();
  EXPECT_EQ(f.address, reinterpret_cast<std::uint64_t>(address_in(*loaded, recipe)));
  EXPECT_TRUE(f.lines.empty());
}

TEST_F(JitDumpTest, AForkedProcessHasItsOwnFile) {
  const KernelRecipe recipe = two_lines();
  const std::vector<std::byte> object = object_of(recipe);
  const auto loaded = LoadedObject::load(object);
  const std::size_t before = DumpFile(path_of(getpid())).functions.size();
  const pid_t child = run_in_child([&] {
    const auto mine = LoadedObject::load(object);
    return address_in(*mine, recipe) != nullptr;
  });
  const DumpFile dump(path_of(child));
  EXPECT_EQ(dump.process, static_cast<std::uint32_t>(child));
  EXPECT_TRUE(dump.closed);
  ASSERT_EQ(dump.functions.size(), 1u);
  EXPECT_EQ(dump.functions[0].process, static_cast<std::uint32_t>(child));
  EXPECT_FALSE(dump.functions[0].lines.empty());
  const pid_t idle = run_in_child([] { return true; });
  EXPECT_FALSE(fs::exists(path_of(idle)));

  const auto again = LoadedObject::load(object);
  const DumpFile mine(path_of(getpid()));
  EXPECT_EQ(mine.functions.size(), before + 1);
  EXPECT_FALSE(mine.closed);
}

TEST_F(JitDumpTest, WithoutTheVariableThereIsNoFile) {
  unsetenv("DYAD_PERF_JITDUMP");
  const std::vector<std::byte> object = object_of(two_lines());
  const pid_t child = run_in_child([&] { return LoadedObject::load(object) != nullptr; });
  EXPECT_FALSE(fs::exists(path_of(child)));
  setenv("DYAD_PERF_JITDUMP", "", 1);
  const pid_t other = run_in_child([&] { return LoadedObject::load(object) != nullptr; });
  EXPECT_FALSE(fs::exists(path_of(other)));
}

TEST_F(JitDumpTest, AFileThatCannotBeWrittenIsReportedOnce) {
  const std::vector<std::byte> object = object_of(two_lines());
  const auto warnings = [&](const std::string& where) {
    std::vector<std::string> lines;
    set_log_sink([&](LogLevel level, std::string_view text) {
      if (level == LogLevel::warning) lines.emplace_back(text);
    });
    setenv("DYAD_PERF_JITDUMP", where.c_str(), 1);
    const auto first = LoadedObject::load(object), second = LoadedObject::load(object);
    set_log_sink({});
    return lines;
  };
  run_in_child([&] {
    const std::string file = folder() + "-file";
    std::ofstream(file) << "text";
    const auto lines = warnings(file + "/inner");
    fs::remove(file);
    return lines.size() == 1 &&
           lines[0] == "DYAD_PERF_JITDUMP: " + file + "/inner/jit-" + std::to_string(getpid()) +
                           ".dump: Not a directory; perf will not know all generated code";
  });
}

#endif

}  // namespace
}  // namespace dyad::codegen
