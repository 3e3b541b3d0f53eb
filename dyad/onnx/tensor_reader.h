#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dyad/core/storage.h"
#include "dyad/ir/type.h"
#include "dyad/onnx/proto_types.h"

namespace dyad::onnx {

/// The files beside a model that hold elements of its tensors, mapped into memory: pages come in
/// when touched.
class ExternalData {
 public:
  /// `folder` is that of the model. A model that is not a file has none.
  explicit ExternalData(std::optional<std::string> folder) : folder_(std::move(folder)) {}

  /// The bytes of `location`, relative to the folder. OnnxError for a path that leaves the folder;
  /// IoError for a file that is missing.
  [[nodiscard]] Ref<Storage> open(const std::string& location, const std::string& tensor, Loc loc);
  /// A tensor takes `bytes` of memory of its own for what it has in `file`. False when such tensors
  /// come to far more than the file holds: then they lie over one another.
  [[nodiscard]] bool count_copy(const Ref<Storage>& file, std::uint64_t bytes);

 private:
  std::optional<std::string> folder_;
  std::map<std::string, Ref<Storage>> files_;
  std::map<const Storage*, std::uint64_t> copied_;
};

/// A tensor of a model: from the message, or as pages of the external file. OnnxError for an
/// unknown dtype, sizes that overflow or are negative, and data of another length than they ask
/// for; nothing is allocated before the length has been checked.
[[nodiscard]] Tensor read_tensor(const pb::TensorProto& proto, ExternalData& external, Loc loc);
/// The tensor of a message whose bytes it takes over, when they are many and lie as elements do.
/// Otherwise an undefined one, and the message stays: read_tensor says what is wrong with it.
[[nodiscard]] Tensor take_tensor(pb::TensorProto& proto);
/// The same as read_tensor, dense, for a tensor of values and their positions; OnnxError for one
/// that would be of more than `most` bytes.
[[nodiscard]] Tensor read_sparse_tensor(const pb::SparseTensorProto& proto, ExternalData& external,
                                        std::size_t most, Loc loc);

/// The dtype of ONNX's number for it; OnnxError naming `what` when Dyad has none.
[[nodiscard]] DType read_dtype(std::int64_t number, const std::string& what, Loc loc);
/// The type of a value; named dimensions are symbols, dimensions without a name are
/// symbols `<value>_dim<i>`. Nothing when the model does not say (no dtype, or no rank).
[[nodiscard]] std::optional<Type> read_type(const pb::TypeProto& proto, const std::string& value,
                                            Loc loc);

}  // namespace dyad::onnx
