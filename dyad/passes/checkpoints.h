#pragma once

#include "dyad/passes/recompute.h"

namespace dyad::passes {

/// Over the memory limit: cuts what runs before the peak into segments, keeps what passes from one
/// to the next (T. Chen et al., "Training deep nets with sublinear memory cost", 2016), and
/// computes the rest of a segment again, products and convolutions too, when the first of its
/// values is needed after the peak. Of several numbers of segments the one that keeps most within
/// the limit, or else the one that takes least; `best` where that takes no more.
[[nodiscard]] Ref<GraphImpl> checkpoint(const Ref<GraphImpl>& graph, const Ref<GraphImpl>& best,
                                        const RecomputeOptions& options);

}  // namespace dyad::passes
