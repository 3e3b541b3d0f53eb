#pragma once

#include <string>

#include "dyad/core/tensor.h"

namespace dyad::data {

/// Handwritten digits for training and for testing.
struct Digits {
  std::string name;                   ///< `digits` (8x8) or `MNIST` (28x28)
  Tensor train_images, train_labels;  ///< f32[n, 1, rows, columns] scaled to [0, 1], i64[n]
  Tensor test_images, test_labels;
};

/// Reads the digits in a folder, which holds images-idx3-ubyte.gz and labels-idx1-ubyte.gz (the
/// UCI digits: values 0 to 16, the first 1,400 train), or MNIST under its usual names, with or
/// without .gz; only MNIST's 10,000 test digits are there: the first 8,000 train. Subfolders
/// `digits` and `mnist` are looked into as well. IoError naming what was looked for.
[[nodiscard]] Digits load_digits(const std::string& folder,
                                 Loc loc = std::source_location::current());

/// The folder that the environment variable DYAD_DATA_DIR names, otherwise `fallback`.
[[nodiscard]] std::string data_folder(const std::string& fallback);

}  // namespace dyad::data
