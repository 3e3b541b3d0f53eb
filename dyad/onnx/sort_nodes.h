#pragma once

#include <string>

#include "dyad/base/loc.h"
#include "dyad/onnx/proto_types.h"

namespace dyad::onnx {

/// Puts the nodes of every graph of a model, and of its functions, behind those whose results they
/// read: some writers do not. Nodes that stand so already keep their order. OnnxError that names
/// the nodes of a cycle; `file` is named in it.
void sort_nodes(pb::ModelProto& model, const std::string& file, Loc loc);

}  // namespace dyad::onnx
