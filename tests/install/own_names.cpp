#include <dyad/dyad.h>

// A program takes in all names of Dyad, and has some of its own.
using namespace dyad;

struct Node {
  Tensor value;
  Node* left = nullptr;
  Node* right = nullptr;
};
struct Value {
  float number;
};
struct Graph2D {
  Node* root;
};
struct Step {
  Value reward;
};

Tensor sum_of(const Node* node) {
  if (node == nullptr) return zeros({});
  return node->value + sum_of(node->left) + sum_of(node->right);
}
float reward_of(const Step& step) { return step.reward.number; }
Tensor sum_of(const Graph2D& tree) { return sum_of(tree.root); }
