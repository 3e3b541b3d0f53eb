#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "dyad/base/error.h"

namespace dyad::testing {

/// A file of the running test, removed when the object goes.
class TempFile {
 public:
  explicit TempFile(const std::string& name) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = ::testing::TempDir() + test->test_suite_name() + "." + test->name() + "." +
            std::to_string(::getpid()) + "." + name;
  }
  TempFile(const std::string& name, std::string_view bytes) : TempFile(name) { write(bytes); }
  ~TempFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TempFile(const TempFile&) = delete;
  TempFile& operator=(const TempFile&) = delete;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  void write(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  [[nodiscard]] std::string read() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

 private:
  std::string path_;
};

inline std::string bytes_of_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Every proper prefix of `bytes`, loaded by `load`, is an IoError that names the file.
template <class F>
void expect_every_truncation_fails(const std::string& bytes, const std::string& name, F&& load) {
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    const TempFile file(name, std::string_view(bytes).substr(0, length));
    try {
      load(file.path());
      ADD_FAILURE() << name << " cut to " << length << " of " << bytes.size()
                    << " bytes was accepted";
    } catch (const IoError& error) {
      EXPECT_NE(std::string_view(error.what()).find(file.path()), std::string_view::npos)
          << error.what();
    }
  }
}

}  // namespace dyad::testing
