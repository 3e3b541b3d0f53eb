#include "dyad/data/digits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "dyad/base/error.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/data/idx.h"

namespace dyad::data {
namespace {

namespace fs = std::filesystem;

struct Files {
  std::string images, labels;
};

std::optional<Files> find_pair(const fs::path& folder, std::string_view prefix) {
  for (const char* extension : {".gz", ""}) {
    const fs::path images = folder / fmt::format("{}images-idx3-ubyte{}", prefix, extension);
    const fs::path labels = folder / fmt::format("{}labels-idx1-ubyte{}", prefix, extension);
    if (fs::exists(images) && fs::exists(labels)) return Files{images.string(), labels.string()};
  }
  return std::nullopt;
}

struct Set {
  Tensor images, labels;
};

Set read_set(const Files& files, float scale, Loc loc) {
  const Tensor pixels = load_idx(files.images, loc);
  const Tensor classes = load_idx(files.labels, loc);
  if (pixels.dtype() != u8 || pixels.rank() != 3) {
    throw IoError(fmt::format("'{}': expected images of u8[n, rows, columns], found {}",
                              files.images, type_string(pixels)),
                  loc.user());
  }
  if (classes.dtype() != u8 || classes.rank() != 1 ||
      classes.shape()[0].number() != pixels.shape()[0].number()) {
    throw IoError(fmt::format("'{}': expected labels of u8[{}], one for each image, found {}",
                              files.labels, pixels.shape()[0].number(), type_string(classes)),
                  loc.user());
  }
  const Shape& from = pixels.shape();
  Set set{make_empty(f32, {from[0], 1, from[1], from[2]}), make_empty(i64, {from[0]})};
  const auto* pixel = static_cast<const std::uint8_t*>(pixels.raw_data());
  std::transform(pixel, pixel + pixels.impl()->numel(), set.images.data<float>(),
                 [scale](std::uint8_t value) { return static_cast<float>(value) / scale; });
  const auto* label = static_cast<const std::uint8_t*>(classes.raw_data());
  const auto* end = label + classes.impl()->numel();
  if (const auto* bad = std::find_if(label, end, [](std::uint8_t c) { return c > 9; });
      bad != end) {
    throw IoError(fmt::format("'{}': expected digits 0 to 9, found {} for image {}", files.labels,
                              *bad, bad - label),
                  loc.user());
  }
  std::copy(label, end, set.labels.data<std::int64_t>());
  return set;
}

/// Rows begin to end as a view.
Tensor rows(const Tensor& x, std::int64_t begin, std::int64_t end) {
  Shape shape = x.shape();
  shape[0] = Dim(end - begin);
  return make_view(x, shape, x.strides(), begin * x.strides()[0]);
}

Digits divide(std::string name, const Set& set, std::int64_t train) {
  const std::int64_t count = set.images.shape()[0].number();
  train = std::min(train, count);
  return {std::move(name), rows(set.images, 0, train), rows(set.labels, 0, train),
          rows(set.images, train, count), rows(set.labels, train, count)};
}

std::optional<Digits> read_folder(const fs::path& folder, Loc loc) {
  constexpr float kDigitsScale = 16, kMnistScale = 255;
  if (const auto files = find_pair(folder, "")) {
    return divide("digits", read_set(*files, kDigitsScale, loc), 1400);
  }
  const auto test = find_pair(folder, "t10k-");
  if (!test) return std::nullopt;
  const auto train = find_pair(folder, "train-");
  Set held_back = read_set(*test, kMnistScale, loc);
  if (!train) return divide("MNIST", held_back, 8000);
  const Set set = read_set(*train, kMnistScale, loc);
  return Digits{"MNIST", set.images, set.labels, held_back.images, held_back.labels};
}

}  // namespace

Digits load_digits(const std::string& folder, Loc loc) {
  for (const fs::path& place :
       {fs::path(folder), fs::path(folder) / "digits", fs::path(folder) / "mnist"}) {
    if (auto digits = read_folder(place, loc)) return std::move(*digits);
  }
  throw IoError(fmt::format("no digits in '{}': expected images-idx3-ubyte.gz and "
                            "labels-idx1-ubyte.gz, or t10k-images-idx3-ubyte.gz and "
                            "t10k-labels-idx1-ubyte.gz, there or in digits/ or mnist/",
                            folder),
                loc.user());
}

std::string data_folder(const std::string& fallback) {
  const char* chosen = std::getenv("DYAD_DATA_DIR");
  return chosen && *chosen ? chosen : fallback;
}

}  // namespace dyad::data
