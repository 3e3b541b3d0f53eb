#include "dyad/onnx/inputs.h"

#include <fmt/format.h>

#include <algorithm>

#include "dyad/base/error.h"
#include "dyad/core/generator.h"
#include "dyad/core/tensor_impl.h"
#include "dyad/onnx/value_file.h"
#include "dyad/ops/elementary.h"
#include "dyad/ops/random.h"

namespace dyad::onnx {
namespace {

std::string described(const ValueInfo& input) {
  return fmt::format("\"{}\" ({})", input.name, input.text);
}

std::string name_of(Dim symbol) {
  std::string name = to_string(symbol);
  const bool quoted = name.size() > 1 && name.front() == '\'' && name.back() == '\'';
  return quoted ? name.substr(1, name.size() - 2) : name;
}

std::vector<Dim> symbols_of(const ValueInfo& input) {
  std::vector<Dim> symbols;
  if (!input.type || !input.type->is_tensor()) return symbols;
  for (const Dim size : input.type->shape()) collect_symbols(size, symbols);
  return symbols;
}

/// The default generator starts from a seed, and goes on afterwards where it was.
class Seeded {
 public:
  explicit Seeded(std::uint64_t seed) : before_(default_generator().state()) { manual_seed(seed); }
  ~Seeded() { default_generator().set_state(before_); }
  Seeded(const Seeded&) = delete;
  Seeded& operator=(const Seeded&) = delete;

 private:
  RandomKey before_;
};

class InputMaker {
 public:
  InputMaker(const Model& model, const InputOptions& options, Loc loc)
      : model_(model), options_(options), loc_(loc) {}

  Inputs make() {
    take_given();
    take_sizes();
    for (const auto& [name, value] : given_) check(*find(name), value);
    check_complete();
    for (const ValueInfo& input : model_.input_info()) name_sizes(input);
    Inputs made{.values = {}, .sizes = sizes_};
    const std::optional<Seeded> seeded =
        options_.seed ? std::optional<Seeded>(std::in_place, *options_.seed) : std::nullopt;
    for (const ValueInfo& input : model_.input_info()) {
      const auto found = given_.find(input.name);
      if (found != given_.end()) {
        made.values.push_back({input.name, found->second});
      } else if (input.kind != Type::Kind::optional) {
        made.values.push_back({input.name, draw(input)});
      }
    }
    return made;
  }

 private:
  template <class E = GraphError>
  [[noreturn]] void fail(const std::string& message) const {
    throw E(fmt::format("'{}': {}", model_.file(), message), loc_);
  }

  [[nodiscard]] const ValueInfo* find(const std::string& name) const {
    const auto found = std::ranges::find(model_.input_info(), name, &ValueInfo::name);
    return found == model_.input_info().end() ? nullptr : &*found;
  }

  void take_given() {
    const auto known = [&](const std::string& name) -> const ValueInfo& {
      const ValueInfo* input = find(name);
      if (input != nullptr && given_.contains(name)) {
        fail(fmt::format("input \"{}\" is given twice", name));
      }
      if (input != nullptr) return *input;
      std::string all;
      for (const ValueInfo& each : model_.input_info()) {
        all += (all.empty() ? "" : ", ") + described(each);
      }
      fail(fmt::format("there is no input \"{}\"; {}", name,
                       all.empty() ? "the model takes none" : "its inputs are " + all));
    };
    for (const NamedValue& value : options_.values) {
      given_[known(value.name).name] = value.value;
    }
    for (const auto& [name, path] : options_.files) {
      const ValueInfo& input = known(name);
      given_[name] = load_value(path, input.kind, loc_);
    }
  }

  void take_sizes() {
    const std::vector<std::string> names = size_names(model_.input_info());
    for (const auto& [name, number] : options_.sizes) {
      if (number < 0)
        fail<ShapeError>(fmt::format("size {} is {}; sizes are 0 or more", name, number));
      if (std::ranges::find(names, name) == names.end()) {
        fail(fmt::format("no input has a size with the name {}; {}", name,
                         names.empty() ? "all sizes of its inputs are numbers"
                                       : fmt::format("there are {}", fmt::join(names, ", "))));
      }
      bind(name, number, "asked for");
    }
  }

  void bind(const std::string& name, std::int64_t number, const std::string& by) {
    const auto known =
        std::ranges::find(sizes_, name, &std::pair<std::string, std::int64_t>::first);
    if (known == sizes_.end()) {
      sizes_.emplace_back(name, number);
      told_by_[name] = by;
    } else if (known->second != number) {
      fail<ShapeError>(fmt::format("size {} is {} as {}, but {} as {}", name, known->second,
                                   told_by_.at(name), number, by));
    }
  }

  void check(const ValueInfo& input, const ModelValue& value) {
    if (input.kind == Type::Kind::sequence && !value.is_sequence()) {
      fail(fmt::format("input {} needs a sequence, as a message of ONNX, but is given {}",
                       described(input),
                       value.is_tensor() ? type_string(value.tensor()) : "nothing"));
    }
    if (!input.type || !input.type->is_tensor()) return;  // the importer checks the others
    if (!value.is_tensor()) {
      fail(fmt::format("input {} needs a tensor, but is given {}", described(input),
                       value.is_sequence() ? "a sequence" : "nothing"));
    }
    const Tensor& tensor = value.tensor();
    if (tensor.dtype() != input.type->dtype()) {
      fail<DTypeError>(fmt::format("input {} is given {}; it needs elements of {}",
                                   described(input), type_string(tensor),
                                   dyad::name_of(input.type->dtype())));
    }
    const Shape& wanted = input.type->shape();
    bool fits = tensor.rank() == wanted.rank();
    for (std::size_t i = 0; fits && i < wanted.size(); ++i) {
      fits = !wanted[i].is_number() || wanted[i].number() == tensor.shape()[i].number();
    }
    if (!fits) {
      fail<ShapeError>(fmt::format(
          "input {} is given {}; it needs {}", described(input), type_string(tensor),
          tensor.rank() == wanted.rank()
              ? "the sizes that are numbers"
              : fmt::format("{} {}", wanted.rank(), wanted.rank() == 1 ? "axis" : "axes")));
    }
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (wanted[i].is_number()) continue;
      bind(name_of(wanted[i]), tensor.shape()[i].number(),
           fmt::format("axis {} of input \"{}\"", i, input.name));
    }
  }

  void check_complete() const {
    if (options_.seed) return;
    std::string missing;
    int count = 0;
    for (const ValueInfo& input : model_.input_info()) {
      if (given_.contains(input.name) || input.kind == Type::Kind::optional) continue;
      missing += (missing.empty() ? "" : ", ") + described(input);
      ++count;
    }
    if (count == 0) return;
    fail(fmt::format("{} not given: {}; give a file for each, or a seed to draw them from",
                     count == 1 ? "an input is" : fmt::format("{} inputs are", count), missing));
  }

  /// Sizes that nothing tells are 1.
  void name_sizes(const ValueInfo& input) {
    for (const Dim size : symbols_of(input)) {
      const std::string name = name_of(size);
      if (!told_by_.contains(name)) bind(name, 1, "nothing else is said");
    }
  }

  ModelValue draw(const ValueInfo& input) const {
    if (!input.type || !input.type->is_tensor()) {
      fail(fmt::format(
          "input {} cannot be drawn at random: {}; give a file for it", described(input),
          input.kind == Type::Kind::sequence ? "a sequence may have any length"
                                             : "the model does not say all of its type"));
    }
    SymbolMap symbols;
    for (const Dim size : symbols_of(input)) {
      const std::string name = name_of(size);
      symbols.bind(
          size,
          std::ranges::find(sizes_, name, &std::pair<std::string, std::int64_t>::first)->second);
    }
    Shape shape;
    for (const Dim size : input.type->shape()) shape.push_back(evaluate(size, symbols));
    const DType dtype = input.type->dtype();
    if (dtype == DType::string) {
      fail(fmt::format("input {} cannot be drawn at random: it takes strings; give a file for it",
                       described(input)));
    }
    if (dtype == boolean) return {to(randint(0, 2, shape, i64, loc_), boolean, loc_)};
    if (is_floating(dtype) || is_complex(dtype)) {
      return {to(normal(shape, 0, 1, f32, loc_), dtype, loc_)};
    }
    const bool bytes = dtype == i8 || dtype == u8;
    const std::int64_t low = !input.rows && dtype == i8 ? -128 : 0;
    const std::int64_t high = input.rows ? std::max<std::int64_t>(*input.rows, 1)
                              : bytes    ? low + 256
                                         : 2;
    return {to(randint(low, high, shape, i64, loc_), dtype, loc_)};
  }

  const Model& model_;
  const InputOptions& options_;
  Loc loc_;
  std::map<std::string, ModelValue> given_;
  std::vector<std::pair<std::string, std::int64_t>> sizes_;
  std::map<std::string, std::string> told_by_;
};

}  // namespace

std::vector<std::string> size_names(const std::vector<ValueInfo>& inputs) {
  std::vector<std::string> names;
  for (const ValueInfo& input : inputs) {
    for (const Dim size : symbols_of(input)) {
      std::string name = name_of(size);
      if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
    }
  }
  return names;
}

Inputs make_inputs(const Model& model, const InputOptions& options, Loc loc) {
  return InputMaker(model, options, loc.user()).make();
}

}  // namespace dyad::onnx
