#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "dyad/core/create.h"
#include "dyad/onnx/import_scores.h"
#include "dyad/ops/ops.h"

// The tree ensembles of ai.onnx.ml. All trees are walked together: a place in each tree for each
// row of x, moved down by one comparison at a time, as often as the deepest tree has levels. A leaf
// stays where it is.

namespace dyad::onnx {
namespace {

enum Mode : std::int64_t { leq, lt, gte, gt_, eq_, neq, member };

/// Elements of a table with a row for each node, at most, in any case, and for each vote: a few
/// bytes may ask for any number.
constexpr std::int64_t kMostTable = std::int64_t{1} << 26, kTable = std::int64_t{1} << 20,
                       kTableOfVote = 512;

/// Nodes and leaves of all trees in one numbering.
struct Forest {
  std::vector<std::int64_t> feature, mode, if_true, if_false, roots;
  std::vector<double> split;
  std::vector<bool> missing_is_true;
  std::vector<std::vector<double>> members;  ///< of nodes with Mode::member
  std::vector<bool> is_leaf;

  std::int64_t add() {
    feature.push_back(0);
    mode.push_back(leq);
    const auto self = static_cast<std::int64_t>(if_true.size());
    if_true.push_back(self);
    if_false.push_back(self);
    split.push_back(0);
    missing_is_true.push_back(false);
    members.emplace_back();
    is_leaf.push_back(true);
    return self;
  }
  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(mode.size()); }
};

/// What a leaf gives to a target.
struct Vote {
  std::int64_t leaf, target;
  double weight;
};

/// How votes become scores, one for each target.
struct Scores {
  std::int64_t targets = 1;
  std::string aggregate = "SUM";
  std::vector<double> base;
};

/// The number of levels; refuses nodes that are their own descendants.
std::int64_t depth_of(NodeImport& n, const Forest& forest) {
  const auto size = static_cast<std::size_t>(forest.size());
  std::vector<std::int64_t> level(size, 0), parents(size, 0);
  const auto children = [&](std::size_t node) {
    return forest.is_leaf[node]
               ? std::vector<std::size_t>()
               : std::vector<std::size_t>{static_cast<std::size_t>(forest.if_true[node]),
                                          static_cast<std::size_t>(forest.if_false[node])};
  };
  for (std::size_t node = 0; node < size; ++node) {
    for (const std::size_t child : children(node)) ++parents[child];
  }
  std::vector<std::size_t> ready;
  for (std::size_t node = 0; node < size; ++node) {
    if (parents[node] == 0) ready.push_back(node);
  }
  std::size_t seen = 0;
  std::int64_t depth = 0;
  for (; seen < ready.size(); ++seen) {
    const std::size_t node = ready[seen];
    for (const std::size_t child : children(node)) {
      level[child] = std::max(level[child], level[node] + 1);
      depth = std::max(depth, level[child]);
      if (--parents[child] == 0) ready.push_back(child);
    }
  }
  if (seen != size) n.fail("a node of its trees is below itself");
  return depth;
}

class ForestImport {
 public:
  ForestImport(NodeImport& n, const Forest& forest) : n_(n), forest_(forest), loc_(n.loc()) {}

  /// Which leaf of each tree each row comes to: [rows, trees].
  Tensor leaves(const Tensor& x) {
    const auto trees = static_cast<std::int64_t>(forest_.roots.size());
    Tensor at = expand(unsqueeze(integers(forest_.roots), 0, loc_), {x.size(0, loc_), trees}, loc_);
    const Tensor feature = integers(forest_.feature), if_true = integers(forest_.if_true),
                 if_false = integers(forest_.if_false), mode = integers(forest_.mode);
    const Tensor split = floats(forest_.split, x.dtype());
    const Tensor missing = truths(forest_.missing_is_true);
    const bool some_missing =
        std::ranges::find(forest_.missing_is_true, true) != forest_.missing_is_true.end();
    const std::int64_t depth = depth_of(n_, forest_);
    for (std::int64_t level = 0; level < depth; ++level) {
      n_.importer().count_step();
      const Tensor value = gather(x, 1, taken(feature, at), loc_);
      Tensor goes = outcome(value, at, split, mode);
      if (some_missing) {
        goes = logical_or(goes, logical_and(isnan(value, loc_), taken(missing, at), loc_), loc_);
      }
      at = where(goes, taken(if_true, at), taken(if_false, at), loc_);
    }
    return at;
  }

  /// The votes of the leaves: [rows, targets].
  Tensor scores(const Tensor& leaves, const std::vector<Vote>& votes, const Scores& how,
                DType dtype) {
    const std::int64_t most =
        std::clamp(kTableOfVote * static_cast<std::int64_t>(votes.size()), kTable, kMostTable);
    if (how.targets < 1 || how.targets > most / std::max<std::int64_t>(forest_.size(), 1)) {
      n_.fail("it has " + std::to_string(how.targets) + " targets for " +
              std::to_string(forest_.size()) + " nodes; they must be at least 1, and at most " +
              std::to_string(most) + " for all nodes together");
    }
    std::vector<double> weights(static_cast<std::size_t>(forest_.size() * how.targets), 0);
    std::vector<bool> given(weights.size(), false);
    for (const Vote& vote : votes) {
      if (vote.target < 0 || vote.target >= how.targets) {
        n_.fail("a leaf votes for target " + std::to_string(vote.target) + " of " +
                std::to_string(how.targets));
      }
      const auto place = static_cast<std::size_t>(vote.leaf * how.targets + vote.target);
      weights[place] += vote.weight;
      given[place] = true;
    }
    const Shape shape{forest_.size(), how.targets};
    const Tensor table = reshape(floats(weights, dtype), shape, loc_);
    const Tensor votes_of = taken_rows(table, leaves);  // [rows, trees, targets]
    Tensor total;
    if (how.aggregate == "SUM" || how.aggregate == "AVERAGE") {
      total = sum(votes_of, {1}, false, loc_);
      if (how.aggregate == "AVERAGE") {
        total = div(total, static_cast<double>(forest_.roots.size()), loc_);
      }
    } else if (how.aggregate == "MIN" || how.aggregate == "MAX") {
      const bool least = how.aggregate == "MIN";
      const double none = std::numeric_limits<double>::infinity() * (least ? 1 : -1);
      const Tensor votes_there = taken_rows(reshape(truths(given), shape, loc_), leaves);
      const Tensor masked = where(votes_there, votes_of, none, loc_);
      const Tensor best = least ? min(masked, {1}, false, loc_) : max(masked, {1}, false, loc_);
      total = where(any(votes_there, {1}, false, loc_), best, 0, loc_);
    } else {
      n_.fail("its aggregate_function is '" + how.aggregate + "'");
    }
    if (how.base.empty()) return total;
    return add(total, floats(how.base, dtype), loc_);
  }

 private:
  Tensor integers(const std::vector<std::int64_t>& values) {
    return n_.importer().constant(tensor(values));
  }
  Tensor floats(const std::vector<double>& values, DType dtype) {
    return n_.importer().constant(to(tensor(values), dtype));
  }
  Tensor truths(const std::vector<bool>& values) {
    return n_.importer().constant(
        to(tensor(std::vector<std::int32_t>(values.begin(), values.end())), boolean));
  }
  /// table[at], for a table with one row for each node.
  Tensor taken(const Tensor& table, const Tensor& at) {
    return reshape(index_select(table, 0, reshape(at, {-1}, loc_), loc_),
                   {at.size(0, loc_), at.size(1, loc_)}, loc_);
  }
  Tensor taken_rows(const Tensor& table, const Tensor& at) {
    return reshape(index_select(table, 0, reshape(at, {-1}, loc_), loc_),
                   {at.size(0, loc_), at.size(1, loc_), table.size(1, loc_)}, loc_);
  }

  /// What the comparison of each node says of its value.
  Tensor outcome(const Tensor& value, const Tensor& at, const Tensor& split, const Tensor& mode) {
    std::set<std::int64_t> modes;
    for (std::size_t i = 0; i < forest_.mode.size(); ++i) {
      if (!forest_.is_leaf[i]) modes.insert(forest_.mode[i]);
    }
    const Tensor bound = taken(split, at);
    Tensor result;
    for (const std::int64_t m : modes) {
      const Tensor here = m == member ? is_member(value, at) : compared(m, value, bound);
      result = result.defined() ? where(eq(taken(mode, at), m, loc_), here, result, loc_) : here;
    }
    return result;
  }
  Tensor compared(std::int64_t mode, const Tensor& value, const Tensor& bound) const {
    switch (mode) {
      case leq:
        return le(value, bound, loc_);
      case lt:
        return dyad::lt(value, bound, loc_);
      case gte:
        return ge(value, bound, loc_);
      case gt_:
        return gt(value, bound, loc_);
      case eq_:
        return eq(value, bound, loc_);
      default:
        return ne(value, bound, loc_);
    }
  }
  Tensor is_member(const Tensor& value, const Tensor& at) {
    std::size_t most = 1;
    for (const auto& set : forest_.members) most = std::max(most, set.size());
    if (static_cast<std::int64_t>(most) > kMostTable / forest_.size()) {
      n_.fail("its largest set has " + std::to_string(most) + " members for " +
              std::to_string(forest_.size()) + " nodes, too many for one table");
    }
    std::vector<double> table;
    for (const auto& set : forest_.members) {
      for (std::size_t i = 0; i < most; ++i) {
        table.push_back(i < set.size() ? set[i] : std::numeric_limits<double>::quiet_NaN());
      }
    }
    const Tensor sets = reshape(floats(table, value.dtype()),
                                {forest_.size(), static_cast<std::int64_t>(most)}, loc_);
    return any(eq(unsqueeze(value, -1, loc_), taken_rows(sets, at), loc_), {-1}, false, loc_);
  }

  NodeImport& n_;
  const Forest& forest_;
  Loc loc_;
};

/// x as the trees compare it.
Tensor compared_features(NodeImport& n) {
  const Tensor x = n.input(0);
  return x.dtype() == f64 ? x : to(x, f32, n.loc());
}

std::vector<double> tensor_numbers(NodeImport& n, std::string_view name) {
  const Tensor given = n.tensor(name);
  return given.defined() ? given.to_vector<double>(n.loc()) : std::vector<double>();
}

/// `name` as floats, or `name_as_tensor`.
std::vector<double> numbers_or_tensor(NodeImport& n, const std::string& name) {
  if (!n.has_attribute(name)) return tensor_numbers(n, name + "_as_tensor");
  const pb::AttributeProto* found = n.attribute(name);
  return {found->floats().begin(), found->floats().end()};  // as the trees were trained with
}

void require_length(NodeImport& n, std::string_view name, std::size_t found, std::size_t wanted) {
  if (found == wanted) return;
  n.fail("its " + std::string(name) + " are " + std::to_string(found) + ", not " +
         std::to_string(wanted));
}

// --- version 5 -----------------------------------------------------------------------------------

void tree_ensemble(NodeImport& n) {
  const Ints features_of = n.integers("nodes_featureids", {});
  const Ints if_true = n.integers("nodes_truenodeids", {}),
             true_leafs = n.integers("nodes_trueleafs", {});
  const Ints if_false = n.integers("nodes_falsenodeids", {}),
             false_leafs = n.integers("nodes_falseleafs", {});
  const Ints targets = n.integers("leaf_targetids", {});
  const Ints missing = n.integers("nodes_missing_value_tracks_true", Ints(features_of.size(), 0));
  const std::vector<double> modes = tensor_numbers(n, "nodes_modes"),
                            splits = tensor_numbers(n, "nodes_splits"),
                            weights = tensor_numbers(n, "leaf_weights"),
                            members = tensor_numbers(n, "membership_values");
  const std::size_t nodes = features_of.size();
  require_length(n, "nodes_truenodeids", if_true.size(), nodes);
  require_length(n, "nodes_falsenodeids", if_false.size(), nodes);
  require_length(n, "nodes_trueleafs", true_leafs.size(), nodes);
  require_length(n, "nodes_falseleafs", false_leafs.size(), nodes);
  require_length(n, "nodes_modes", modes.size(), nodes);
  require_length(n, "nodes_splits", splits.size(), nodes);
  require_length(n, "nodes_missing_value_tracks_true", missing.size(), nodes);
  require_length(n, "leaf_weights", weights.size(), targets.size());

  Forest forest;
  for (std::size_t i = 0; i < nodes + targets.size(); ++i) static_cast<void>(forest.add());
  const auto child = [&](std::int64_t id, bool leaf) {
    const std::size_t limit = leaf ? targets.size() : nodes;
    if (id < 0 || id >= static_cast<std::int64_t>(limit)) {
      n.fail("a node names " + std::string(leaf ? "leaf " : "node ") + std::to_string(id) + " of " +
             std::to_string(limit));
    }
    return leaf ? id + static_cast<std::int64_t>(nodes) : id;
  };
  std::size_t next_member = 0;
  for (std::size_t i = 0; i < nodes; ++i) {
    forest.is_leaf[i] = false;
    forest.feature[i] = features_of[i];
    forest.mode[i] = static_cast<std::int64_t>(modes[i]);
    if (forest.mode[i] < leq || forest.mode[i] > member) n.fail("a node has an unknown mode");
    forest.split[i] = splits[i];
    forest.missing_is_true[i] = missing[i] != 0;
    forest.if_true[i] = child(if_true[i], true_leafs[i] != 0);
    forest.if_false[i] = child(if_false[i], false_leafs[i] != 0);
    if (forest.mode[i] != member) continue;
    for (; next_member < members.size() && !std::isnan(members[next_member]); ++next_member) {
      forest.members[i].push_back(members[next_member]);
    }
    ++next_member;
  }
  for (const std::int64_t root : n.integers("tree_roots", {}))
    forest.roots.push_back(child(root, false));

  std::vector<Vote> votes;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    votes.push_back({static_cast<std::int64_t>(nodes + i), targets[i], weights[i]});
  }
  constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  const std::int64_t aggregate = n.integer("aggregate_function", 1),
                     transform = n.integer("post_transform", 0);
  if (aggregate < 0 || aggregate > 3 || transform < 0 || transform > 4) {
    n.fail("its aggregate_function or its post_transform is none that ONNX has");
  }
  const Tensor x = compared_features(n);
  ForestImport trees(n, forest);
  const Tensor scores = trees.scores(
      trees.leaves(x), votes,
      {.targets = n.integer("n_targets", 1), .aggregate = kAggregates[aggregate], .base = {}},
      x.dtype());
  n.output(0, transformed(n, scores, kTransforms[transform]));
}

// --- versions 1 and 3 ----------------------------------------------------------------------------

/// Nodes by tree and number, as the older operators name them.
struct NamedForest {
  Forest forest;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> place;
};

NamedForest named_forest(NodeImport& n) {
  const Ints trees = n.integers("nodes_treeids", {}), ids = n.integers("nodes_nodeids", {});
  const Ints features_of = n.integers("nodes_featureids", {}),
             if_true = n.integers("nodes_truenodeids", {}),
             if_false = n.integers("nodes_falsenodeids", {});
  const std::vector<std::string> modes = n.texts("nodes_modes");
  const std::vector<double> values = numbers_or_tensor(n, "nodes_values");
  const std::size_t nodes = ids.size();
  const Ints missing = n.integers("nodes_missing_value_tracks_true", Ints(nodes, 0));
  require_length(n, "nodes_treeids", trees.size(), nodes);
  require_length(n, "nodes_featureids", features_of.size(), nodes);
  require_length(n, "nodes_truenodeids", if_true.size(), nodes);
  require_length(n, "nodes_falsenodeids", if_false.size(), nodes);
  require_length(n, "nodes_modes", modes.size(), nodes);
  require_length(n, "nodes_values", values.size(), nodes);
  require_length(n, "nodes_missing_value_tracks_true", missing.size(), nodes);
  NamedForest made;
  for (std::size_t i = 0; i < nodes; ++i) {
    if (!made.place.try_emplace({trees[i], ids[i]}, made.forest.add()).second) {
      n.fail("node " + std::to_string(ids[i]) + " of tree " + std::to_string(trees[i]) +
             " is there twice");
    }
  }
  static const std::map<std::string, Mode> kModes = {{"BRANCH_LEQ", leq}, {"BRANCH_LT", lt},
                                                     {"BRANCH_GTE", gte}, {"BRANCH_GT", gt_},
                                                     {"BRANCH_EQ", eq_},  {"BRANCH_NEQ", neq}};
  Forest& forest = made.forest;
  std::set<std::int64_t> below;
  for (std::size_t i = 0; i < nodes; ++i) {
    if (modes[i] == "LEAF") continue;
    const auto mode = kModes.find(modes[i]);
    if (mode == kModes.end()) n.fail("a node has the mode '" + modes[i] + "'");
    const auto child = [&](std::int64_t id) {
      const auto found = made.place.find({trees[i], id});
      if (found == made.place.end()) {
        n.fail("tree " + std::to_string(trees[i]) + " has no node " + std::to_string(id));
      }
      below.insert(found->second);
      return found->second;
    };
    forest.is_leaf[i] = false;
    forest.mode[i] = mode->second;
    forest.feature[i] = features_of[i];
    forest.split[i] = values[i];
    forest.missing_is_true[i] = missing[i] != 0;
    forest.if_true[i] = child(if_true[i]);
    forest.if_false[i] = child(if_false[i]);
  }
  for (std::int64_t i = 0; i < forest.size(); ++i) {
    if (!below.contains(i)) forest.roots.push_back(i);
  }
  if (forest.roots.empty()) n.fail("its trees have no root");
  return made;
}

/// `prefix`_treeids, _nodeids, _ids and _weights.
std::vector<Vote> votes_of(NodeImport& n, const NamedForest& forest, const std::string& prefix) {
  const Ints trees = n.integers(prefix + "_treeids", {}),
             nodes = n.integers(prefix + "_nodeids", {}), ids = n.integers(prefix + "_ids", {});
  const std::vector<double> weights = numbers_or_tensor(n, prefix + "_weights");
  require_length(n, prefix + "_nodeids", nodes.size(), ids.size());
  require_length(n, prefix + "_treeids", trees.size(), ids.size());
  require_length(n, prefix + "_weights", weights.size(), ids.size());
  std::vector<Vote> votes;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto found = forest.place.find({trees[i], nodes[i]});
    if (found == forest.place.end()) {
      n.fail("tree " + std::to_string(trees[i]) + " has no node " + std::to_string(nodes[i]));
    }
    votes.push_back({found->second, ids[i], weights[i]});
  }
  return votes;
}

void tree_regressor(NodeImport& n) {
  const NamedForest named = named_forest(n);
  const std::vector<Vote> votes = votes_of(n, named, "target");
  const Tensor x = compared_features(n);
  ForestImport trees(n, named.forest);
  const Tensor scores = trees.scores(trees.leaves(x), votes,
                                     {.targets = n.integer("n_targets", 1),
                                      .aggregate = n.text("aggregate_function", "SUM"),
                                      .base = numbers_or_tensor(n, "base_values")},
                                     x.dtype());
  n.output(0, to(transformed(n, scores, n.text("post_transform", "NONE")), f32, n.loc()));
}

void tree_classifier(NodeImport& n) {
  const NamedForest named = named_forest(n);
  std::vector<Vote> votes = votes_of(n, named, "class");
  const Tensor labels = class_labels(n, "classlabels_int64s", "classlabels_strings");
  if (!labels.defined()) n.fail("it names no classes");
  const std::int64_t classes = labels.numel().value();
  std::vector<double> base = numbers_or_tensor(n, "base_values");
  std::set<std::int64_t> voted;
  bool positive = true;
  for (const Vote& vote : votes) {
    voted.insert(vote.target);
    positive = positive && vote.weight >= 0;
  }
  const Tensor x = compared_features(n);
  const std::string transform = n.text("post_transform", "NONE");
  ForestImport trees(n, named.forest);
  const Tensor leaves = trees.leaves(x);
  if (classes == 2 && voted.size() == 1) {
    // Votes for one class of two are for the second one, whatever class they name.
    const bool both = voted.contains(1);
    for (Vote& vote : votes) vote.target = 0;
    if (base.size() > 1) base = {base[1]};
    const Tensor score =
        to(trees.scores(leaves, votes, {.targets = 1, .aggregate = "SUM", .base = base}, x.dtype()),
           f32, n.loc());
    give_binary(n, score, labels, positive ? 0.5 : 0, positive, transform);
    if (both) {
      // Named by its number it has a score, and the first class none.
      const Tensor none = zeros_like(score, n.loc());
      n.output(1, transformed(n, concat({none, score}, -1, n.loc()), transform));
    }
    return;
  }
  const Tensor scores = trees.scores(
      leaves, votes, {.targets = classes, .aggregate = "SUM", .base = base}, x.dtype());
  give_largest(n, to(scores, f32, n.loc()), labels, transform);
}

}  // namespace

std::span<const ModelRule> tree_rules() {
  static constexpr ModelRule kRules[] = {
      {"TreeEnsembleRegressor", 1, tree_regressor, kMl},
      {"TreeEnsembleClassifier", 1, tree_classifier, kMl},
      {"TreeEnsemble", 5, tree_ensemble, kMl},
  };
  return kRules;
}

}  // namespace dyad::onnx
