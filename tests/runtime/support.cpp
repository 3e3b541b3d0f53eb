#include "tests/runtime/support.h"

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include "dyad/core/element.h"
#include "dyad/runtime/layout.h"

namespace dyad::testing {

std::byte* address(const Tensor& t, std::span<const std::int64_t> index) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < index.size(); ++i) offset += index[i] * t.impl()->strides[i];
  return t.impl()->data + offset * static_cast<std::int64_t>(size_of(t.dtype()));
}

double value_at(const Tensor& t, std::span<const std::int64_t> index) {
  return visit_dtype(t.dtype(), [&]<class T>(std::type_identity<T>) {
    T element;
    std::memcpy(&element, address(t, index), sizeof element);
    return convert_element<double>(element);
  });
}

void set_value(const Tensor& t, std::span<const std::int64_t> index, double value) {
  visit_dtype(t.dtype(), [&]<class T>(std::type_identity<T>) {
    const T element = convert_element<T>(value);
    std::memcpy(address(t, index), &element, sizeof element);
  });
}

double rounded(double value, DType dtype) {
  const Tensor t = make(dtype, {});
  set_value(t, {}, value);
  return value_at(t, {});
}

void for_each_index(std::span<const std::int64_t> sizes,
                    const std::function<void(std::span<const std::int64_t>)>& visit) {
  for (const std::int64_t size : sizes) {
    if (size == 0) return;
  }
  std::vector<std::int64_t> index(sizes.size(), 0);
  for (;;) {
    visit(index);
    std::size_t axis = sizes.size();
    while (axis > 0 && ++index[axis - 1] == sizes[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

std::vector<double> values(const Tensor& t) {
  std::vector<double> result;
  for_each_index(t.shape().numbers(), [&](auto index) { result.push_back(value_at(t, index)); });
  return result;
}

Tensor make(DType dtype, std::initializer_list<std::int64_t> sizes, Lie lie) {
  const Shape shape(std::span<const std::int64_t>(sizes.begin(), sizes.size()));
  const std::size_t rank = shape.size();
  if (lie == Lie::dense) return make_empty(dtype, shape);
  if (lie == Lie::channels_last) {
    return make_empty_strided(dtype, shape, runtime::channels_last_strides(shape.numbers()));
  }
  if (lie == Lie::reversed) {
    Strides strides(rank, 0);
    std::int64_t step = 1;
    for (std::size_t i = 0; i < rank; ++i) {
      strides[i] = step;
      step *= std::max<std::int64_t>(1, shape[i].number());
    }
    return make_empty_strided(dtype, shape, strides);
  }
  Shape wide = shape;
  for (Dim& d : wide) d = d.number() * 2 + 1;
  const Tensor base = make_empty(dtype, wide);
  Strides strides = contiguous_strides(wide);
  std::int64_t offset = 0;
  for (std::int64_t& s : strides) {
    offset += s;
    s *= 2;
  }
  return make_view(base, shape, strides, offset);
}

Tensor waves(DType dtype, std::initializer_list<std::int64_t> sizes, int first, Lie lie) {
  const Tensor t = make(dtype, sizes, lie);
  for_each_index(t.shape().numbers(), [&](auto index) { set_value(t, index, std::sin(++first)); });
  return t;
}

Tensor random(DType dtype, std::initializer_list<std::int64_t> sizes, unsigned seed, Lie lie) {
  Tensor t = make(dtype, sizes, lie);
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int> eighths(-16, 16), whole(-2, 2), natural(0, 4), bit(0, 1);
  for_each_index(t.shape().numbers(), [&](auto index) {
    const double value = is_floating(dtype)        ? eighths(engine) / 8.0
                         : dtype == DType::boolean ? bit(engine)
                         : dtype == DType::u8      ? natural(engine)
                                                   : whole(engine);
    set_value(t, index, value);
  });
  return t;
}

Tensor random_indices(DType dtype, std::initializer_list<std::int64_t> sizes, std::int64_t low,
                      std::int64_t high, unsigned seed) {
  Tensor t = make(dtype, sizes);
  std::mt19937 engine(seed);
  std::uniform_int_distribution<std::int64_t> distribution(low, high - 1);
  for_each_index(t.shape().numbers(), [&](auto index) {
    set_value(t, index, static_cast<double>(distribution(engine)));
  });
  return t;
}

namespace {

/// A row with nothing but its name, kept as rows are: for ever.
const OpInfo& row_of(std::string_view name) {
  static std::map<std::string, OpInfo, std::less<>> rows;
  auto found = rows.find(name);
  if (found == rows.end()) {
    found = rows.emplace(std::string(name), OpInfo()).first;
    found->second.name = found->first;
  }
  return found->second;
}

}  // namespace

std::vector<Tensor> run_kernel(std::string_view name, const void* attrs, std::vector<Tensor> inputs,
                               std::vector<Tensor> outputs) {
  const OpInfo& op = row_of(name);
  const runtime::OpKernel* kernel = runtime::find_kernel(op);
  if (kernel == nullptr) throw std::runtime_error("no kernel named " + std::string(name));
  kernel->run({op, attrs, inputs, outputs, Loc()});
  return outputs;
}

Tensor run_kernel(std::string_view name, const void* attrs, std::vector<Tensor> inputs, DType dtype,
                  std::initializer_list<std::int64_t> sizes) {
  const runtime::OpKernel* kernel = runtime::find_kernel(row_of(name));
  const Shape shape(std::span<const std::int64_t>(sizes.begin(), sizes.size()));
  const Tensor out =
      kernel != nullptr && kernel->layout != nullptr
          ? make_empty_strided(dtype, shape, kernel->layout(row_of(name), attrs, inputs, shape, 0))
          : make_empty(dtype, shape);
  return run_kernel(name, attrs, std::move(inputs), std::vector<Tensor>{out})[0];
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !a.shape().same_as(b.shape())) return false;
  bool same = true;
  for_each_index(a.shape().numbers(), [&](auto index) {
    same = same && std::memcmp(address(a, index), address(b, index), size_of(a.dtype())) == 0;
  });
  return same;
}

}  // namespace dyad::testing
