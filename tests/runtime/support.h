#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "dyad/core/tensor_impl.h"
#include "dyad/ir/op_info.h"
#include "dyad/runtime/op_kernel.h"
#include "dyad/runtime/threads.h"

namespace dyad::testing {

/// The address of element `index` of a concrete tensor.
[[nodiscard]] std::byte* address(const Tensor& t, std::span<const std::int64_t> index);
/// Element `index` as a double.
[[nodiscard]] double value_at(const Tensor& t, std::span<const std::int64_t> index);
void set_value(const Tensor& t, std::span<const std::int64_t> index, double value);
/// The value that an element of that dtype holds for `value`.
[[nodiscard]] double rounded(double value, DType dtype);
/// Calls `visit` with every index of a shape, row-major.
void for_each_index(std::span<const std::int64_t> sizes,
                    const std::function<void(std::span<const std::int64_t>)>& visit);
/// All elements, row-major, as doubles.
[[nodiscard]] std::vector<double> values(const Tensor& t);

/// How the elements of a test tensor lie: row-major, with the axes reversed, every second element
/// of a larger array, or [n, h, w, c].
enum class Lie { dense, reversed, spread, channels_last };
[[nodiscard]] Tensor make(DType dtype, std::initializer_list<std::int64_t> sizes,
                          Lie lie = Lie::dense);
/// The same with whole multiples of 1/8 in [-2, 2], a function of `seed`: exact in every floating
/// dtype, and -2..2 for integers.
[[nodiscard]] Tensor random(DType dtype, std::initializer_list<std::int64_t> sizes, unsigned seed,
                            Lie lie = Lie::dense);
/// The same with sines of whole numbers from `first` + 1 on, whose sums depend on their order.
[[nodiscard]] Tensor waves(DType dtype, std::initializer_list<std::int64_t> sizes, int first,
                           Lie lie = Lie::dense);
/// Whole numbers from low to high - 1.
[[nodiscard]] Tensor random_indices(DType dtype, std::initializer_list<std::int64_t> sizes,
                                    std::int64_t low, std::int64_t high, unsigned seed);

/// Runs the kernel of the operator of that name into a new tensor of the layout that it asks for.
[[nodiscard]] Tensor run_kernel(std::string_view name, const void* attrs,
                                std::vector<Tensor> inputs, DType dtype,
                                std::initializer_list<std::int64_t> sizes);

/// Runs it into the given outputs and returns them.
std::vector<Tensor> run_kernel(std::string_view name, const void* attrs, std::vector<Tensor> inputs,
                               std::vector<Tensor> outputs);

/// Elements bit by bit alike.
[[nodiscard]] bool same_bits(const Tensor& a, const Tensor& b);

/// Sets the number of threads while it lives.
class Threads {
 public:
  explicit Threads(int n) : before_(get_num_threads()) { set_num_threads(n); }
  ~Threads() { set_num_threads(before_); }
  Threads(const Threads&) = delete;
  Threads& operator=(const Threads&) = delete;

 private:
  int before_;
};

}  // namespace dyad::testing
