#include <gtest/gtest.h>

#include "bad_calls.h"

namespace dyad::testing {
namespace {

TEST(Errors, OfEmbeddingsNameTheArgument) {
  expect_errors(
      {
          {Kind::shape,
           "embedding(weight: f32[3], index: i64[2]): weight must be [rows, width] but has 1 axes",
           CALL(embedding(I(2), F(3)))},
          {Kind::index,
           "embedding(weight: f32[3, 2], index: i64[2], padding_idx = 3): padding_idx = 3 is out "
           "of "
           "range for a table of 3 rows",
           CALL(embedding(I(2), F(3, 2), 3))},
          {Kind::shape,
           "embedding_bag(weight: f32[3, 2], index: i64[2], offsets: none, per_sample_weights: "
           "none): index must be [bags, n] without offsets, but has 1 axes",
           CALL(embedding_bag(I(2), F(3, 2)))},
          {Kind::value,
           "embedding_bag(weight: f32[3, 2], index: i64[2, 2], offsets: none, per_sample_weights: "
           "f32[2, 2]): "
           "per_sample_weights go with mode = \"sum\", not \"mean\"",
           CALL(embedding_bag(I(2, 2), F(3, 2), {}, {.per_sample_weights = F(2, 2)}))},
      },
      "embeddings_errors_test.cpp");
}

}  // namespace
}  // namespace dyad::testing
