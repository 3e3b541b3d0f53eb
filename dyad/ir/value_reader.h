#pragma once

#include <map>
#include <string>
#include <vector>

#include "dyad/base/error.h"
#include "dyad/ir/attrs.h"
#include "dyad/ir/graph.h"
#include "dyad/ir/op_info.h"
#include "dyad/ir/text_reader.h"
#include "dyad/ir/undecided.h"

namespace dyad {

/// Runs `f`; an error that is not about the text itself becomes one at that position.
template <class F>
auto at_position(const TextReader& in, std::size_t position, F&& f) {
  try {
    return f();
  } catch (const Undecided&) {
    in.fail_at(position, "the type depends on how sizes compare; write it after a colon");
  } catch (const InternalError&) {
    throw;
  } catch (const Error& error) {
    in.fail_at(position, error.message());
  }
}

/// Reads what text graphs say of values: types, sizes, attributes, elements of constants.
class ValueReader {
 public:
  /// `constants`: elements that a `#key` stands for beside those of the data section.
  ValueReader(TextReader& in, const NamedTensors& constants) : in_(in), constants_(constants) {}

  [[nodiscard]] Type type() { return type(0); }
  [[nodiscard]] DType dtype();
  [[nodiscard]] Dim size();
  [[nodiscard]] Shape shape();
  /// `{axes = [1], keepdim = true}`, or nothing for default values.
  [[nodiscard]] Ref<Attrs> attributes(const OpInfo& op);
  /// `2.5`, `[1, 2]` or `#key`, whose elements follow in the data section.
  [[nodiscard]] Tensor elements(const Type& type);
  void skip_elements();
  /// `f32[2] [1, 2]`, or `none`.
  [[nodiscard]] Tensor tensor();
  /// The data section, if it is there; then every `#key` must have its elements.
  void data_section();
  /// Bytes of a tensor of that type, whose sizes must be numbers.
  [[nodiscard]] std::int64_t byte_count(const Type& type, std::size_t position);

 private:
  struct Reference {
    Tensor tensor;
    std::size_t position;
  };

  Type type(int depth);
  void element(DType dtype, std::byte* to);

  TextReader& in_;
  const NamedTensors& constants_;
  std::map<std::string, std::vector<Reference>> references_;
};

}  // namespace dyad
