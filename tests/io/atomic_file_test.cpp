#include "dyad/io/atomic_file.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>

#include "tests/data/files.h"
#include "tests/shared/message_of.h"

namespace dyad::io {
namespace {

namespace fs = std::filesystem;
using dyad::testing::bytes_of_file;
using dyad::testing::message_of;
using ::testing::HasSubstr;

class AtomicFileTest : public ::testing::Test {
 protected:
  AtomicFileTest() {
    folder_ = fs::path(::testing::TempDir()) / ("atomic" + std::to_string(::getpid()));
    fs::create_directory(folder_);
  }
  ~AtomicFileTest() override { fs::remove_all(folder_); }

  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  fs::path folder_;
};

void save_text(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.write(text);
  file.commit();
}

TEST_F(AtomicFileTest, AppearsWhole) {
  const std::string large(1 << 20, 'x');
  save_text(path("a"), "short");
  EXPECT_EQ(bytes_of_file(path("a")), "short");
  AtomicFile file(path("a"));
  file.write("head");
  file.write(large);
  EXPECT_EQ(bytes_of_file(path("a")), "short");
  file.write("tail");
  EXPECT_EQ(file.offset(), large.size() + 8);
  file.commit();
  EXPECT_EQ(bytes_of_file(path("a")), "head" + large + "tail");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, LeavesNothingWithoutCommit) {
  save_text(path("a"), "old");
  {
    AtomicFile(path("a")).write("new");
  }
  EXPECT_EQ(bytes_of_file(path("a")), "old");
  EXPECT_EQ(files(), 1u);
}

TEST_F(AtomicFileTest, ACrashLeavesTheOldFile) {
  save_text(path("a"), "old");
  const pid_t child = ::fork();
  if (child == 0) {
    AtomicFile file(path("a"));
    file.write(std::string(1 << 20, 'n'));
    ::_exit(9);  // as a killed process: no destructor runs
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 9);
  EXPECT_EQ(bytes_of_file(path("a")), "old");
  // What the crash left behind does not stand in the way.
  save_text(path("a"), "new");
  EXPECT_EQ(bytes_of_file(path("a")), "new");
}

TEST_F(AtomicFileTest, KeepsLinksAndPermissions) {
  save_text(path("real"), "old");
  ::chmod(path("real").c_str(), 0640);
  fs::create_symlink("real", path("link"));
  save_text(path("link"), "new");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(bytes_of_file(path("real")), "new");
  struct stat info{};
  ::stat(path("real").c_str(), &info);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST_F(AtomicFileTest, FailuresNameTheFile) {
  EXPECT_THAT(message_of<IoError>([] { AtomicFile("/no/such/folder/a"); }),
              HasSubstr("'/no/such/folder/a': cannot be written: No such file or directory"));
  EXPECT_THAT(message_of<IoError>([&] { AtomicFile file(folder_.string()); }),
              HasSubstr("it is no regular file"));
}

TEST_F(AtomicFileTest, AFullDiskIsAnErrorThatLeavesTheOldFile) {
  save_text(path("a"), "old");
  ::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    // /dev/full cannot be a target: a limit on the size of files stands in for a full disk.
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      save_text(path("a"), std::string(1 << 20, 'n'));
      ::_exit(1);
    } catch (const IoError& error) {
      ::_exit(std::string(error.what()).find("cannot be written") != std::string::npos ? 0 : 2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(bytes_of_file(path("a")), "old");
  EXPECT_EQ(files(), 1u);
}

}  // namespace
}  // namespace dyad::io
