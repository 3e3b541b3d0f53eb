#include "dyad/core/create.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "dyad/base/error.h"
#include "dyad/core/element.h"
#include "dyad/core/evaluator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/core/text.h"

namespace dyad {
namespace detail {
namespace {

/// Lets a recording know that the host fills this tensor.
Tensor made_by_host(Tensor tensor) {
  if (!Evaluator::is_eager()) Evaluator::current().note_literal(tensor);
  return tensor;
}

std::string position(const Ints& path) {
  std::string text;
  for (const std::int64_t i : path) text += "[" + std::to_string(i) + "]";
  return text;
}

/// What a row is, for a message.
std::string describe(const Literal& literal) {
  if (!literal.is_list()) return "a number";
  const std::size_t count = literal.items().size();
  return "a list of " + std::to_string(count);
}

/// Checks that all lists of one depth have the length that the first one has.
void check_rows(const Literal& literal, const Shape& shape, Ints& path, DType& dtype, bool& first,
                Loc loc) {
  const std::size_t depth = path.size();
  const bool fits = literal.is_list() ? depth < shape.size() &&
                                            literal.items().size() ==
                                                static_cast<std::size_t>(shape[depth].number())
                                      : depth == shape.size();
  if (!fits) {
    const std::string expected =
        depth == shape.size() ? "a number" : "a list of " + to_string(shape[depth]);
    throw ShapeError("tensor: the rows of a literal must be alike: element " + position(path) +
                         " is " + describe(literal) + " but element " +
                         position(Ints(path.size(), 0)) + " is " + expected,
                     loc.user());
  }
  if (!literal.is_list()) {
    dtype = first ? literal.dtype() : promote(dtype, literal.dtype());
    first = false;
    return;
  }
  path.push_back(0);
  for (const Literal& item : literal.items()) {
    check_rows(item, shape, path, dtype, first, loc);
    ++path.back();
  }
  path.pop_back();
}

template <class T>
void fill(const Literal& literal, T*& to) {
  if (literal.is_list()) {
    for (const Literal& item : literal.items()) fill(item, to);
  } else if (is_complex(literal.dtype())) {
    *to++ = convert_element<T>(std::complex(literal.floating(), literal.imaginary()));
  } else if (literal.dtype() == u64) {
    *to++ = convert_element<T>(static_cast<std::uint64_t>(literal.integer()));
  } else if (is_floating(literal.dtype()) || contains(kSmallFloat, literal.dtype())) {
    *to++ = convert_element<T>(literal.floating());
  } else {
    *to++ = convert_element<T>(literal.integer());
  }
}

void fill_strings(const Literal& literal, bool wanted, Text*& to, Loc loc) {
  if (literal.is_list()) {
    for (const Literal& item : literal.items()) fill_strings(item, wanted, to, loc);
    return;
  }
  if (!wanted || literal.dtype() != DType::string) {
    throw DTypeError(
        "tensor: numbers and strings have no conversion to one another; write one kind",
        loc.user());
  }
  *to++ = text_element(literal.text());
}

}  // namespace

Tensor tensor_to_fill(DType dtype, Shape shape, std::size_t count, Loc loc) {
  const auto total = static_cast<std::int64_t>(count);
  const LocScope scope(loc);
  Dim others = 1;
  Dim* rest = nullptr;
  for (Dim& size : shape) {
    if (size.same_as(-1) && !rest) {
      rest = &size;
    } else {
      others *= size;
    }
  }
  const std::string type = type_string(dtype, shape);
  if (rest && others.is_number() && others.number() > 0 && total % others.number() == 0) {
    *rest = total / others.number();
  } else if (rest && others.is_number() && others.number() == 0 && total == 0) {
    *rest = 0;
  }
  if (std::all_of(shape.begin(), shape.end(),
                  [](Dim size) { return size.is_number() && size.number() >= 0; }) &&
      shape.numel().number() != total) {
    throw ShapeError("tensor: " + std::to_string(total) + " elements do not fill " + type +
                         ", which has " + to_string(shape.numel()),
                     loc.user());
  }
  if (rest && rest->same_as(-1)) {
    throw ShapeError("tensor: " + std::to_string(total) + " elements do not fill " + type +
                         " with any size in place of -1",
                     loc.user());
  }
  return made_by_host(make_empty(dtype, shape));
}

void* elements_to_fill(const Tensor& tensor) noexcept { return tensor.impl()->data; }

Tensor tensor_of_literal(const Literal& literal, std::optional<DType> dtype, const Shape* shape,
                         Loc loc) {
  Shape found;
  std::size_t count = 1;
  for (const Literal* row = &literal; row->is_list();) {
    found.push_back(row->items().size());
    count *= row->items().size();
    if (row->items().empty()) break;
    row = row->items().data();
  }
  DType seen = DType::f32;
  bool first = true;
  Ints path;
  check_rows(literal, found, path, seen, first, loc);
  Tensor made = tensor_to_fill(dtype.value_or(seen), shape ? *shape : found, count, loc);
  if (made.dtype() == DType::string || seen == DType::string) {
    Text* to = reinterpret_cast<Text*>(made.impl()->data);
    fill_strings(literal, made.dtype() == DType::string, to, loc);
    return made;
  }
  visit_element(made.dtype(), [&]<class T>(std::type_identity<T>) {
    T* to = reinterpret_cast<T*>(made.impl()->data);
    fill(literal, to);
  });
  return made;
}

}  // namespace detail

Tensor from_blob(void* data, const Shape& shape, DType dtype, std::function<void()> deleter,
                 std::optional<Strides> strides, Loc loc) {
  const LocScope scope(loc);
  const std::string type = type_string(dtype, shape);
  if (dtype == DType::string) {
    throw DTypeError("from_blob: there is no " + type + ": strings have no plain data", loc.user());
  }
  for (const Dim size : shape) {
    if (size.is_symbolic() || size.number() < 0) {
      throw ShapeError("from_blob: " + type + " has the size " + to_string(size) +
                           ": memory has sizes that are numbers, at least 0",
                       loc.user());
    }
  }
  if (strides && strides->size() != shape.size()) {
    throw ShapeError("from_blob: " + std::to_string(strides->size()) + " strides for " + type +
                         ": one for each of its " + std::to_string(shape.size()) + " axes",
                     loc.user());
  }
  const bool is_empty = shape.numel().number() == 0;
  if (!data && !is_empty) {
    throw ValueError("from_blob: the pointer is null but " + type + " has elements", loc.user());
  }
  const std::size_t element = size_of(dtype);
  if (reinterpret_cast<std::uintptr_t>(data) % element != 0) {
    throw ValueError("from_blob: the pointer is no multiple of " + std::to_string(element) +
                         " bytes, the size of an element of " + type +
                         "; copy the bytes into aligned memory first",
                     loc.user());
  }
  const Strides steps = strides ? *strides : contiguous_strides(shape);
  // The memory spans from the element of lowest address to that of highest.
  Dim low = 0, high = 0;
  for (std::size_t i = 0; i < shape.size() && !is_empty; ++i) {
    (steps[i] < 0 ? low : high) += (shape[i] - 1) * Dim(steps[i]);
  }
  const auto bytes = is_empty ? 0 : static_cast<std::size_t>((high - low + 1).number()) * element;
  auto* begin = static_cast<std::byte*>(data) + low.number() * static_cast<std::int64_t>(element);
  Ref<TensorImpl> impl(new TensorImpl);
  impl->storage = Storage::adopt(begin, bytes, std::move(deleter));
  impl->data = static_cast<std::byte*>(data);
  impl->dtype = dtype;
  impl->shape = shape;
  impl->strides = steps;
  impl->contiguous = is_contiguous(shape, steps);
  return detail::made_by_host(Tensor(std::move(impl)));
}

Tensor empty(const Sizes& shape, DType dtype, Loc loc) {
  const LocScope scope(loc);
  return detail::made_by_host(make_empty(dtype, shape));
}

Tensor eye(std::int64_t rows, std::optional<std::int64_t> columns, DType dtype, Loc loc) {
  const std::int64_t width = columns.value_or(rows);
  Tensor made = empty({rows, width}, dtype, loc);
  visit_element(dtype, [&]<class T>(std::type_identity<T>) {
    T* data = reinterpret_cast<T*>(made.impl()->data);
    std::fill_n(data, rows * width, T());
    for (std::int64_t i = 0; i < std::min(rows, width); ++i) {
      data[i * width + i] = convert_element<T>(1);
    }
  });
  return made;
}

Tensor linspace(double first, double last, std::int64_t count, DType dtype, Loc loc) {
  if (count < 0) {
    throw ValueError(
        "linspace(count = " + std::to_string(count) + "): the count must be at least 0",
        loc.user());
  }
  Tensor made = empty({count}, dtype, loc);
  visit_element(dtype, [&]<class T>(std::type_identity<T>) {
    T* data = reinterpret_cast<T*>(made.impl()->data);
    const double step = count > 1 ? (last - first) / static_cast<double>(count - 1) : 0;
    for (std::int64_t i = 0; i < count; ++i) {
      const bool end = i > 0 && i == count - 1;
      data[i] = convert_element<T>(end ? last : first + static_cast<double>(i) * step);
    }
  });
  return made;
}

}  // namespace dyad
