#include "dyad/io/npy.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>

#include "dyad/core/create.h"
#include "dyad/core/tensor_impl.h"
#include "tests/data/files.h"
#include "tests/shared/message_of.h"
#include "values_of.h"

namespace dyad::io {
namespace {

using dyad::testing::bare_message_of;
using dyad::testing::bytes_of_file;
using dyad::testing::expect_every_truncation_fails;
using dyad::testing::message_of;
using dyad::testing::TempFile;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Written by NumPy 2.4: savez and savez_compressed.
constexpr const char* kStored = "tests/io/fixtures/stored.npz";
constexpr const char* kDeflated = "tests/io/fixtures/deflated.npz";

TEST(Npz, ReadsWhatNumPyStored) {
  const TensorDict file = load_npz(kStored);
  EXPECT_EQ(file.size(), 6u);
  EXPECT_THAT(values_of<float>(file.at("a")), ElementsAre(0, 0.25f, 0.5f, 0.75f, 1, 1.25f));
  EXPECT_THAT(values_of<std::int64_t>(file.at("b")), ElementsAre(-1, std::int64_t{1} << 40));
  EXPECT_EQ(type_string(file.at("c")), "bool[]");
  EXPECT_EQ(type_string(file.at("e")), "u8[0, 3]");
  EXPECT_EQ(to_float(file.at("h").data<Half>()[1]), -2);
  EXPECT_EQ(type_string(file.at("f")), "f32[2, 3]");
  EXPECT_THAT(file.at("f").strides(), ElementsAre(1, 2));
}

TEST(Npz, ReadsWhatNumPyDeflated) {
  const TensorDict file = load_npz(kDeflated);
  EXPECT_THAT(values_of<float>(file.at("a")), ElementsAre(0, 0.25f, 0.5f, 0.75f, 1, 1.25f));
  EXPECT_EQ(type_string(file.at("zeros")), "f64[100, 1000]");
}

TEST(Npz, ReadsBackWhatItWrote) {
  const TensorDict file = load_npz(kStored);
  const TempFile copy("copy.npz"), again("again.npz");
  save_npz(copy.path(), file);
  save_npz(again.path(), load_npz(copy.path()));
  EXPECT_EQ(copy.read(), again.read());
  EXPECT_THAT(values_of<float>(load_npz(copy.path()).at("f")),
              ElementsAre(0, 0.25f, 0.5f, 0.75f, 1, 1.25f));
}

TEST(Npz, NumPyReadsWhatItWrote) {
  const char* python = std::getenv("DYAD_PYTHON");
  if (!python) GTEST_SKIP() << "DYAD_PYTHON names no Python";
  const TempFile copy("copy.npz"), one("one.npy"), script("check.py");
  save_npz(copy.path(), load_npz(kStored));
  save_npy(one.path(), load_npz(kStored).at("f"));
  script.write(
      "import sys, numpy as np\n"
      "a, b = np.load(sys.argv[1]), np.load(sys.argv[2])\n"
      "assert sorted(a.files) == sorted(b.files), (a.files, b.files)\n"
      "for k in a.files:\n"
      "  assert a[k].dtype == b[k].dtype and np.array_equal(a[k], b[k]), k\n"
      "assert np.array_equal(np.load(sys.argv[3]), a['f'])\n");
  const std::string command = std::string(python) + " " + script.path() + " " + kStored + " " +
                              copy.path() + " " + one.path();
  EXPECT_EQ(std::system(command.c_str()), 0);
}

TEST(Npz, EveryTruncationIsAnError) {
  for (const char* fixture : {kStored, kDeflated}) {
    expect_every_truncation_fails(bytes_of_file(fixture), "cut.npz",
                                  [](const auto& path) { (void)load_npz(path); });
  }
}

TEST(Npz, EveryFlippedByteIsReadOrAnError) {
  for (const char* fixture : {kStored, kDeflated}) {
    const std::string bytes = bytes_of_file(fixture);
    for (std::size_t at = 0; at < bytes.size(); ++at) {
      std::string damaged = bytes;
      damaged[at] = static_cast<char>(~damaged[at]);
      const TempFile file("damaged.npz", damaged);
      try {
        (void)load_npz(file.path());
      } catch (const IoError& error) {
        EXPECT_THAT(error.what(), HasSubstr(file.path()));
      }
    }
  }
}

TEST(Npz, SaysWhatIsWrong) {
  std::string bytes = bytes_of_file(kStored);
  bytes[bytes.find("NUMPY") + 130] ^= 1;  // an element of the first member
  const TempFile damaged("damaged.npz", bytes);
  EXPECT_THAT(message_of<IoError>([&] { (void)load_npz(damaged.path()); }),
              HasSubstr(damaged.path() + ":a.npy': expected the checksum"));
  const TempFile text("text.npz", "this is no archive, only a line of text");
  EXPECT_THAT(message_of<IoError>([&] { (void)load_npz(text.path()); }),
              HasSubstr("expected the end record of a zip archive, found none"));
}

TEST(Npz, MembersThatShareTheirBytesAreAnError) {
  const TempFile file("bomb.npz");
  save_npz(file.path(), {{"a", make_empty(f32, {100})}});
  // The directory's one entry, "a.npy", nine times more under other names.
  const std::string whole = file.read();
  const std::size_t directory = whole.find("PK\x01\x02"), end = whole.find("PK\x05\x06");
  std::string bytes = whole.substr(0, end);
  for (char name = 'b'; name <= 'j'; ++name) {
    bytes += whole.substr(directory, end - directory);
    bytes[bytes.size() - 5] = name;
  }
  std::string record = whole.substr(end);
  record[8] = record[10] = 10;  // members
  record[12] = static_cast<char>((end - directory) * 10 & 255);
  record[13] = static_cast<char>((end - directory) * 10 >> 8);
  file.write(bytes + record);
  EXPECT_THAT(message_of<IoError>([&] { (void)load_npz(file.path()); }),
              HasSubstr("bytes beside the other members, found 528"));
}

TEST(Npy, ComplexNumbersStayWhatTheyAre) {
  for (const auto& [dtype, descr] : {std::pair(c64, "<c8"), {c128, "<c16"}}) {
    const Tensor x = make_empty(dtype, {2});
    const double parts[] = {1.5, -2, 0, 1e30};
    for (std::size_t i = 0; i < 4; ++i) {
      if (dtype == c64) {
        reinterpret_cast<float*>(x.impl()->data)[i] = static_cast<float>(parts[i]);
      } else {
        reinterpret_cast<double*>(x.impl()->data)[i] = parts[i];
      }
    }
    const TempFile file("x.npy");
    save_npy(file.path(), x);
    EXPECT_THAT(file.read(), HasSubstr(descr));
    const Tensor loaded = load_npy(file.path());
    EXPECT_EQ(type_string(loaded), type_string(x));
    EXPECT_EQ(to_string(loaded), to_string(x));
    const char* python = std::getenv("DYAD_PYTHON");
    if (!python) continue;
    const TempFile script("check.py",
                          "import sys, numpy as np\n"
                          "x = np.load(sys.argv[1])\n"
                          "assert x.dtype == sys.argv[2], x.dtype\n"
                          "assert x[0] == 1.5 - 2j and abs(x[1] / 1e30j - 1) < 1e-6, x\n");
    const std::string command =
        std::string(python) + " " + script.path() + " " + file.path() + " '" + descr + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
  }
}

TEST(Npy, DTypesThatTheFormatHasNotAreErrorsThatNameAWayOut) {
  const TempFile file("x.npy");
  const auto refused = [&](const Tensor& x) {
    return bare_message_of<DTypeError>([&] { save_npy(file.path(), x); });
  };
  EXPECT_EQ(refused(make_empty(bf16, {2})),
            "the npy format has no bf16, found bf16[2]; convert it with to(f32), or save as "
            "safetensors");
  EXPECT_EQ(refused(tensor({1, 2}, i4)),
            "the npy format has no i4, found i4[2]; convert it with to(i8)");
  EXPECT_EQ(refused(tensor({1, 2}, f4e2m1)),
            "the npy format has no f4e2m1, found f4e2m1[2]; convert it with to(f32)");
  EXPECT_EQ(refused(tensor("a")), "the npy format has no string, found string[]");
}

}  // namespace
}  // namespace dyad::io
