#pragma once

#include <string>
#include <vector>

#include "dyad/base/loc.h"
#include "dyad/onnx/proto_types.h"

namespace dyad::onnx {

/// Makes `outputs`, values of the outermost graph by name, the results of a model, and takes out
/// what they do not need. OnnxError for a name that no node gives; `file` is named in it.
void cut_model(pb::ModelProto& model, const std::vector<std::string>& outputs,
               const std::string& file, Loc loc);

}  // namespace dyad::onnx
