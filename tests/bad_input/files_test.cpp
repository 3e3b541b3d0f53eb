// Files from outside, damaged in every place: each reader gives a value or an IoError that names
// the file, and takes no more memory than the file could need. Built with sanitizers, any access
// outside of a buffer and any arithmetic that overflows ends the program.

#include "tests/data/files.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>

#include "dyad/autograd/grad_mode.h"
#include "dyad/base/error.h"
#include "dyad/core/create.h"
#include "dyad/data/csv.h"
#include "dyad/data/data_loader.h"
#include "dyad/data/idx.h"
#include "dyad/data/npy.h"
#include "dyad/exec/compile.h"
#include "dyad/exec/graph.h"
#include "dyad/io/checkpoint.h"
#include "dyad/io/npy.h"
#include "dyad/io/program.h"
#include "dyad/io/safetensors.h"
#include "dyad/nn/nn.h"
#include "dyad/ops/ops.h"
#include "dyad/optim/optim.h"
#include "tests/bad_input/allocations.h"
#include "tests/bad_input/damage.h"
#include "tests/data/gzip.h"

namespace dyad {
namespace {

using dyad::testing::bytes_of_file;
using dyad::testing::for_each_damage;
using dyad::testing::for_each_number;
using dyad::testing::LargestAllocation;
using dyad::testing::TempFile;
using namespace std::string_literals;

// Files of a kB: deflate can hold 1032 times as much, and readers have buffers of their own.
constexpr std::size_t kMostMemory = 4u << 20;

/// Whether `read` of the file at a path gives a value; any error but an IoError that names the file
/// is a failure.
bool is_read(const std::string& path, const std::function<void(const std::string&)>& read) {
  try {
    read(path);
    return true;
  } catch (const IoError& error) {
    EXPECT_NE(std::string_view(error.what()).find(path), std::string_view::npos) << error.what();
    return false;
  }
}

/// What a reader makes of damaged files.
class Damaged {
 public:
  explicit Damaged(std::function<void(const std::string&)> read) : read_(std::move(read)) {}

  /// Any error but an IoError that names the file, and any large block of memory, is a failure.
  void operator()(const std::string& bytes, const std::string& damage) {
    if (::testing::Test::HasFailure()) return;
    SCOPED_TRACE(damage);
    // A file of its own each time: writing over one may wait for the disk.
    const TempFile file("damaged", bytes);
    const LargestAllocation largest;
    try {
      if (!is_read(file.path(), read_)) ++refused_;
    } catch (const std::exception& error) {
      ADD_FAILURE() << "another error: " << error.what();
    }
    EXPECT_LE(largest.bytes(), kMostMemory);
  }
  [[nodiscard]] std::size_t refused() const noexcept { return refused_; }

 private:
  std::function<void(const std::string&)> read_;
  std::size_t refused_ = 0;
};

void expect_damage_is_found(const std::string& bytes,
                            const std::function<void(const std::string&)>& read) {
  ASSERT_TRUE(is_read(TempFile("whole", bytes).path(), read)) << "not read when it is whole";
  Damaged check(read);
  for_each_damage(bytes, std::ref(check));
  EXPECT_GE(check.refused(), bytes.size()) << "not even every truncation was refused";
}

/// `bytes` hold, after `prefix` bytes of which the last `width` are the length of it, a header of
/// text: numbers in it are replaced, and the length is made to fit.
void expect_numbers_are_checked(const std::string& bytes, std::size_t prefix, std::size_t width,
                                const std::function<void(const std::string&)>& read) {
  std::size_t length = 0;
  for (std::size_t i = 0; i < width; ++i) {
    length |= std::size_t{static_cast<unsigned char>(bytes[prefix - width + i])} << (8 * i);
  }
  const std::string data = bytes.substr(prefix + length);
  Damaged check(read);
  for_each_number(bytes.substr(prefix, length), testing::kAbsurdNumbers,
                  [&](const std::string& header, const std::string& damage) {
                    std::string whole = bytes.substr(0, prefix - width);
                    for (std::size_t i = 0; i < width; ++i) {
                      whole += static_cast<char>(header.size() >> (8 * i));
                    }
                    check(whole + header + data, damage);
                  });
  EXPECT_GE(check.refused(), 10u);
}

const std::string kIdx =
    "\0\0\x0c\x02\0\0\0\x02\0\0\0\x02\0\0\0\x01\xff\xff\xff\xfe\0\0\0\x03\0\0\0\x04"s;

/// What `save` writes.
std::string written_by(const std::function<void(const std::string&)>& save) {
  const TempFile file("whole");
  save(file.path());
  return file.read();
}

TEST(DamagedFile, Idx) {
  const auto read = [](const std::string& path) { (void)data::load_idx(path); };
  expect_damage_is_found(kIdx, read);
  expect_damage_is_found(gzip(kIdx), read);
}

TEST(DamagedFile, Npy) {
  const auto read = [](const std::string& path) { (void)data::load_npy(path); };
  for (const Tensor& x : {ones({2, 3}), ones({0, 3, 2}, f64), zeros({5}, boolean)}) {
    const std::string whole = written_by([&](const std::string& path) { io::save_npy(path, x); });
    expect_damage_is_found(whole, read);
    expect_numbers_are_checked(whole, 10, 2, read);
  }
}

TEST(DamagedFile, Npz) {
  const auto read = [](const std::string& path) { (void)io::load_npz(path); };
  expect_damage_is_found(written_by([](const std::string& path) {
                           io::save_npz(path, {{"a", ones({3})}, {"b", zeros({2, 0}, i64)}});
                         }),
                         read);
  expect_damage_is_found(bytes_of_file("tests/io/fixtures/small_deflated.npz"), read);
}

TEST(DamagedFile, Csv) {
  // A damaged table is often another table.
  const std::string whole = "x,\"y\"\r\n1,2.5\r\n\"3\",-4e-1\r\n";
  const auto check = [](const std::string& damaged, const std::string& damage) {
    SCOPED_TRACE(damage);
    const TempFile file("damaged.csv", damaged);
    const LargestAllocation largest;
    for (const bool header : {true, false}) {
      for (const DType dtype : {f32, i64}) {
        (void)is_read(file.path(), [&](const std::string& path) {
          (void)data::load_csv(path, {.header = header, .dtype = dtype});
        });
      }
    }
    EXPECT_LE(largest.bytes(), kMostMemory);
  };
  for_each_damage(whole, check);
  for_each_number(whole, testing::kAbsurdNumbers, check);
}

TEST(DamagedFile, Safetensors) {
  const std::string whole = bytes_of_file("tests/io/fixtures/weights.safetensors");
  for (const bool map : {false, true}) {
    const auto read = [&](const std::string& path) {
      (void)io::load_safetensors(path, {.map = map});
    };
    expect_damage_is_found(whole, read);
    expect_numbers_are_checked(whole, 8, 8, read);
  }
}

TEST(DamagedFile, Checkpoint) {
  const nn::Linear layer(2, 1);
  optim::SGD optimizer(nn::parameters(layer), {.lr = 0.1, .momentum = 0.9});
  optim::Schedule schedule(optimizer, optim::cosine_decay(10, 0.1));
  data::DataLoader<1> loader(data::TensorDataset(ones({4, 2})), {.batch_size = 2, .shuffle = true});
  const auto whole = written_by([&](const std::string& path) {
    io::Checkpoint checkpoint = io::take_checkpoint(layer, optimizer);
    checkpoint.loader = loader.position();
    checkpoint.schedule = schedule.position();
    io::save_checkpoint(path, checkpoint);
  });
  const auto read = [&](const std::string& path) {
    const io::Checkpoint checkpoint = io::load_checkpoint(path, {.check = false});
    // What the file says may not fit the run: errors of their own, which name what differs.
    try {
      io::restore_checkpoint(checkpoint, layer, optimizer);
      schedule.set_position(checkpoint.schedule);
      schedule.step();
      loader.set_position(checkpoint.loader);
      for (int epoch = 0; epoch < 2; ++epoch) {
        for (const auto& [x] : loader) EXPECT_EQ(x.rank(), 2);
      }
    } catch (const ValueError&) {
    }
  };
  expect_damage_is_found(whole, read);
  expect_numbers_are_checked(whole, 8, 8, read);
}

/// Damage that the checksum would find is not looked for: what is behind it is tried.
void expect_numbers_of_a_program_are_checked(const std::string& whole, const Tensor& x) {
  expect_numbers_are_checked(whole, 8, 8, [&](const std::string& path) {
    const io::Program program = io::load(path, {.map = false, .check = false});
    // What can be read may still be another program, which refuses the input.
    try {
      program(x);
    } catch (const Error& error) {
      EXPECT_EQ(dynamic_cast<const InternalError*>(&error), nullptr) << error.what();
    }
  });
}

TEST(DamagedFile, ProgramOfAGraph) {
  const auto whole = written_by([](const std::string& path) {
    Graph g;
    g.define([] {
      const Tensor x = placeholder("x", f32, {"n", 2});
      return matmul(x, variable("w", ones({2, 3}))) + uniform({3});
    });
    io::save(path, g);
  });
  expect_damage_is_found(whole, [](const std::string& path) { (void)io::load(path); });
  expect_numbers_of_a_program_are_checked(whole, ones({4, 2}));
}

TEST(DamagedFile, ProgramOfAFunction) {
  Tensor w = ones({2}).requires_grad();
  const auto step = compile([&](const Tensor& x) {
    Tensor loss = sum(w * x);
    if (loss > 3.0f) loss = loss * 2.0f;
    loss.backward();
    const NoGrad no_tape;
    w.sub_(w.grad() * 0.1f);
    return loss.detach();
  });
  for (int rows : {3, 2, 4}) step(ones({rows, 2}));
  const auto whole = written_by([&](const std::string& path) { io::save(path, step); });
  expect_damage_is_found(whole, [](const std::string& path) { (void)io::load(path); });
  expect_numbers_of_a_program_are_checked(whole, ones({4, 2}));
}

}  // namespace
}  // namespace dyad
