#include "rows.h"

// Losses, pools, convolutions, norms, attention, images of other sizes, quantised numbers.

namespace dyad::testing {
namespace {

std::vector<Row> loss_rows() {
  const Rule two = floats() + alike();
  const Rule three = two + alike();
  const Rule classes = floats(2, 2) + wholes(1, 1);
  return {
      {DYAD_ROW(mse_loss(x, y, Reduction::none)), two},
      {DYAD_ROW(mse_loss(x, y, Reduction::sum)), two},
      {DYAD_ROW(l1_loss(x, y, Reduction::none)), two},
      {DYAD_ROW(smooth_l1_loss(x, y, a, Reduction::sum)), two + real({0, 0.5})},
      {DYAD_ROW(huber_loss(x, y, a, Reduction::none)), two + real({0.25, 2})},
      {DYAD_ROW(binary_cross_entropy(sigmoid(x), sigmoid(y))), two},
      {DYAD_ROW(binary_cross_entropy(sigmoid(x), sigmoid(y), above_zero(z))), two + beside()},
      {DYAD_ROW(binary_cross_entropy_with_logits(x, sigmoid(y), above_zero(z), above_zero(z),
                                                 Reduction::none)),
       two + beside()},
      {DYAD_ROW(kl_div(log_softmax(x, -1), log_softmax(y, -1), true, Reduction::batchmean)),
       floats(1) + alike()},
      {DYAD_ROW(poisson_nll_loss(x, above_zero(y), true, true)), two},
      {DYAD_ROW(poisson_nll_loss(above_zero(x), above_zero(y), false)), two},
      {DYAD_ROW(gaussian_nll_loss(x, y, above_zero(z), true)), two + beside()},
      {DYAD_ROW(hinge_loss(x, sign(y))), two},
      {DYAD_ROW(hinge_embedding_loss(x, sign(y), 0.5, Reduction::sum)), two},
      {DYAD_ROW(soft_margin_loss(x, sign(y), Reduction::none)), two},
      {DYAD_ROW(margin_ranking_loss(x, y, sign(z), 0.25)), three},
      {DYAD_ROW(multi_margin_loss(x, remainder(to(y, i64), size_tensor(x.size(1))))), classes},
      {DYAD_ROW(multi_margin_loss(x, remainder(to(y, i64), size_tensor(x.size(1))), 2, 0.5)),
       classes},
      {DYAD_ROW(multilabel_margin_loss(x, remainder(to(y, i64), 3) - 1)),
       floats(1, 2) + value(1, 2, is_whole)},
      {DYAD_ROW(multilabel_soft_margin_loss(x, sigmoid(y))), floats(1, 3) + alike()},
      {DYAD_ROW(pairwise_distance(x, y, a)), floats(1, 3) + alike() + real({1, 2, 3})},
      {DYAD_ROW(triplet_margin_loss(x, y, z, 0.5, 2, 1e-6, true)),
       floats(1, 3) + alike() + alike()},
      {DYAD_ROW(triplet_margin_with_distance_loss(x, y, z)), floats(1, 3) + alike() + alike()},
      {DYAD_ROW(cosine_similarity(x, y, i)), floats(1, 3) + beside() + axis()},
      {DYAD_ROW(cosine_embedding_loss(x, y, sign(select(z, -1, 0)), 0.25)),
       floats(1, 3) + alike() + alike()},
      {DYAD_ROW(cross_entropy(x, softmax(y, 1), {}, Reduction::mean, -100, a)),
       floats(2, 3) + alike() + real({0, 0.125})},
      {DYAD_ROW(cross_entropy(x, remainder(to(y, i64), size_tensor(x.size(1))), {}, Reduction::none,
                              0, 0.125)),
       classes},
      {DYAD_ROW(nll_loss(log_softmax(x, 1), remainder(to(y, i64), size_tensor(x.size(1))), {},
                         Reduction::mean, 1)),
       classes},
      {DYAD_ROW(ctc_loss(log_softmax(x, -1), full({2}, 1, i64), size_tensor(l), full({}, 2, i64),
                         {.zero_infinity = true})),
       wide_floats(2, 2) + size(0)},
  };
}

std::vector<Row> pool_rows() {
  const Rule line = floats(3, 3), image = floats(4, 4);
  const Rule window = image + whole(1, 3) + whole(1, 2);
  const auto boxed = [](const Rule& rule) { return rule + whole(1, 3) + whole(1, 2); };
  return {
      {DYAD_ROW(max_pool1d(x, i, j, 0, 1, true)), boxed(floats(2, 3))},
      {DYAD_ROW(max_pool1d(x, 3, i, 1)), line + whole(1, 2)},
      {DYAD_ROW(max_pool2d(x, i, j)), boxed(floats(3, 4))},
      {DYAD_ROW(max_pool2d(x, {2, 3}, i, {1, 1}, 1)), image + whole(1, 2)},
      {DYAD_ROW(max_pool2d(x, i, j, "same")), window},
      {DYAD_ROW(max_pool3d(x, i, j)), boxed(image)},
      {DYAD_ROW(avg_pool1d(x, i, j, 0, true, false)), boxed(floats(2, 3))},
      {DYAD_ROW(avg_pool2d(x, i, j)), boxed(floats(3, 4))},
      {DYAD_ROW(avg_pool2d(x, {2, 3}, i, 1, false, false)), image + whole(1, 2)},
      {DYAD_ROW(avg_pool2d(x, 2, i, 1, true, true, 3)), image + whole(1, 2)},
      {DYAD_ROW(avg_pool3d(x, i, j)), boxed(image)},
      {DYAD_ROW(lp_pool(x, a, i, j)), boxed(floats(3, 4)) + real({1, 2, 3})},
      {DYAD_ROW(lp_pool1d(x, 2, i, j)), boxed(floats(2, 3))},
      {DYAD_ROW(lp_pool2d(x, 2, i, j, true)), boxed(floats(3, 4))},
      {DYAD_ROW(lp_pool3d(x, 2, i, j)), boxed(image)},
      {DYAD_ROW(max_pool_with_indices(x, i, j)), boxed(floats(3, 4))},
      {DYAD_ROW(max_unpool(max_pool_with_indices(x, 1)[0], max_pool_with_indices(x, 1)[1], {l, m})),
       image + size(2) + size(3)},
      {DYAD_ROW(max_unpool1d(max_pool_with_indices(x, 2)[0], max_pool_with_indices(x, 2)[1], 2)),
       line},
      {DYAD_ROW(max_unpool2d(max_pool_with_indices(x, 2)[0], max_pool_with_indices(x, 2)[1], 2)),
       image},
      {DYAD_ROW(max_unpool3d(max_pool_with_indices(unsqueeze(x, 2), 1)[0],
                             max_pool_with_indices(unsqueeze(x, 2), 1)[1], 1)),
       image},
      {DYAD_ROW(adaptive_avg_pool(x, {i, j})), boxed(image)},
      {DYAD_ROW(adaptive_max_pool(x, {i, j})), boxed(image)},
      {DYAD_ROW(adaptive_avg_pool1d(x, i)), floats(2, 3) + whole(1, 3)},
      {DYAD_ROW(adaptive_avg_pool2d(x, i)), floats(3, 4) + whole(1, 3)},
      {DYAD_ROW(adaptive_avg_pool3d(x, i)), image + whole(1, 3)},
      {DYAD_ROW(adaptive_max_pool1d(x, i)), floats(2, 3) + whole(1, 3)},
      {DYAD_ROW(adaptive_max_pool2d(x, {i, j})), boxed(floats(3, 4))},
      {DYAD_ROW(adaptive_max_pool3d(x, i)), image + whole(1, 3)},
      {DYAD_ROW(adaptive_max_pool_with_indices(x, {i})), line + whole(1, 3)},
      {DYAD_ROW(global_avg_pool(x)), floats(3, 4)},
      {DYAD_ROW(global_max_pool(x)), floats(3, 4)},
      {DYAD_ROW(global_lp_pool(x, a)), floats(3, 4) + real({1, 2, 3})},
      {DYAD_ROW(im2col(x, i, j)), boxed(floats(3, 4))},
      {DYAD_ROW(im2col(x, 2, 1, 1, i)), floats(3, 4) + whole(1, 2)},
      {DYAD_ROW(col2im(im2col(x, 2), {l, m}, 2)), image + size(2) + size(3)},
      {DYAD_ROW(col2im(im2col(x, 2, 1, 1), {l}, 2, 1, 1)), line + size(2)},
  };
}

std::vector<Row> image_rows() {
  const Rule image = floats(4, 4);
  return {
      {DYAD_ROW(resize(x, {i, j})), floats(2, 2) + whole(1, 5) + whole(1, 5)},
      {DYAD_ROW(resize(x, {i, j}, {.mode = "linear"})), floats(2, 2) + whole(1, 5) + whole(1, 5)},
      {DYAD_ROW(resize(x, {i, j}, {.mode = "cubic", .coordinates = "align_corners"})),
       floats(2, 2) + whole(1, 5) + whole(1, 5)},
      {DYAD_ROW(resize(x, {i, j}, {.mode = "linear", .antialias = true})),
       floats(2, 2) + whole(1, 5) + whole(1, 5)},
      {DYAD_ROW(resize(x, {i}, {.coordinates = "asymmetric", .rounding = "floor", .axes = {-1}})),
       numbers(1, 3) + whole(1, 5)},
      {DYAD_ROW(resize_by(x, {a, b}, {.mode = "linear"})),
       floats(2, 2) + real({0.5, 2, 1.5}) + real({0.5, 2, 1.5})},
      {DYAD_ROW(interpolate(x, {.size = {i, j}, .mode = "bilinear"})),
       image + whole(1, 5) + whole(1, 5)},
      {DYAD_ROW(interpolate(x, {.size = {i, j}, .mode = "bicubic", .align_corners = true})),
       image + whole(1, 5) + whole(1, 5)},
      {DYAD_ROW(interpolate(x, {.scale_factor = {2}})), floats(3, 4)},
      {DYAD_ROW(interpolate(x, {.size = {i}, .mode = "linear"})), floats(3, 3) + whole(1, 5)},
      {DYAD_ROW(interpolate(x, {.size = {i, j}, .mode = "area"})),
       image + whole(1, 5) + whole(1, 5)},
      {DYAD_ROW(grid_sample(x, tanh(x.slice(1, 0, 1).transpose(1, 3).expand({l, m, n, 2})))),
       wide_floats(4, 4) + size(0) + size(3) + size(2)},
      {DYAD_ROW(grid_sample(x, tanh(x.slice(1, 0, 1).transpose(1, 3).expand({l, m, n, 2})),
                            "nearest", "border", true)),
       wide_floats(4, 4) + size(0) + size(3) + size(2)},
      {DYAD_ROW(grid_sample(x, tanh(x.slice(1, 0, 1).transpose(1, 3).expand({l, m, n, 2})) * 1.5,
                            "bicubic", "reflection")),
       wide_floats(4, 4) + size(0) + size(3) + size(2)},
      {DYAD_ROW(
           affine_grid(expand(reshape(x, {l, -1, 1}).slice(1, 0, 2), {l, 2, 3}), {l, 1, m, n})),
       wide_floats(2, 4) + size(0) + size(-2) + size(-1)},
      {DYAD_ROW(grid_sample(x, affine_grid(full({l, 2, 3}, a, x.dtype()), {l, 1, 2, 3}))),
       wide_floats(4, 4) + size(0) + real({0.25, 0.5})},
      {DYAD_ROW(roi_align(x, abs(tensor({0.0, 0.5, 2.0, 1.5})).to(x.dtype()).reshape({1, 4}),
                          zeros({1}, i64), 2, 2)),
       wide_floats(4, 4)},
      {DYAD_ROW(
           max_roi_pool(x, tensor({0.0, 0.0, 0.0, 1.0, 2.0}).to(x.dtype()).reshape({1, 5}), 2, 2)),
       wide_floats(4, 4)},
  };
}

std::vector<Row> layer_rows() {
  const Rule attended = floats(3, 4) + alike() + alike();
  return {
      {DYAD_ROW(conv1d(x, y, {}, 1, "same")), convolved(3)},
      {DYAD_ROW(conv1d(x, y, {}, i, 2, 2)), convolved(3) + whole(1, 2)},
      {DYAD_ROW(conv2d(x, y, {}, i, j)), convolved(4) + whole(1, 2) + whole(0, 2)},
      {DYAD_ROW(conv2d(x, y, sum(y, {1, 2, 3}), 1, "same")), convolved(4)},
      {DYAD_ROW(conv2d(x, slice(y, 1, 0, 1), {}, 1, 1, 1, 1)), convolved(4)},
      {DYAD_ROW(conv3d(unsqueeze(x, 2), unsqueeze(y, 2), {}, i)), convolved(4) + whole(1, 2)},
      {DYAD_ROW(conv_transpose1d(x, transpose(y, 0, 1), {}, i, j)),
       convolved(3) + whole(1, 2) + whole(0, 1)},
      {DYAD_ROW(conv_transpose2d(x, transpose(y, 0, 1), {}, i, j)),
       convolved(4) + whole(1, 2) + whole(0, 1)},
      {DYAD_ROW(conv_transpose3d(unsqueeze(x, 2), unsqueeze(transpose(y, 0, 1), 2), {}, i)),
       convolved(4) + whole(1, 2)},
      {DYAD_ROW(deform_conv2d(x, tanh(expand(mean(x, {1}, true), {l, 2, m, n})),
                              full({2, x.size(1), 1, 1}, 0.5, x.dtype()))),
       wide_floats(4, 4) + size(0) + size(2) + size(3)},
      {DYAD_ROW(layer_norm(x, y)), floats(2) + sized({-1})},
      {DYAD_ROW(layer_norm(x, y, y, 0.125)), floats(2) + sized({-1})},
      {DYAD_ROW(layer_norm(x, y)), floats(2) + sized({-2, -1})},
      {DYAD_ROW(rms_norm(x, y, 0.125)), floats(2) + sized({-1})},
      {DYAD_ROW(group_norm(x, i, sum(x, {0, 2}), sum(x, {0, 2}))), floats(3, 3) + whole(1, 2)},
      {DYAD_ROW(instance_norm(x, sum(x, {0, 2}), sum(x, {0, 2}))), floats(3, 3)},
      {DYAD_ROW(scaled_dot_product_attention(x, y, z, {.is_causal = true})), attended},
      {DYAD_ROW(scaled_dot_product_attention(x, y, z, {.scale = 0.5, .softcap = 2})), attended},
      {DYAD_ROW(
           scaled_dot_product_attention(x, y, z, {.mask = causal_mask(x.size(-2), x.size(-2))})),
       attended},
      {DYAD_ROW(scaled_dot_product_attention(x, y, z, {.dropout_p = 0.25})), attended},
      {DYAD_ROW(rotary_embedding(x, cos(angles(x)), sin(angles(x)))), floats(4, 4)},
      {DYAD_ROW(rotary_embedding(x, cos(angles(x)), sin(angles(x)), {}, {.interleaved = true})),
       floats(4, 4)},
  };
}

std::vector<Row> quantised_rows() {
  return {
      {DYAD_ROW(quantize_linear(x, a)), of_dtype(f32) + real({0.125, 0.5})},
      {DYAD_ROW(quantize_linear(x, a, full({}, i, i8))),
       of_dtype(f32) + real({0.125}) + whole(0, 3)},
      {DYAD_ROW(dequantize_linear(to(x, u8), a)), wholes() + real({0.125, 0.5})},
      {DYAD_ROW(dequantize_linear(quantize_linear(x, 0.125), above_zero(y))),
       of_dtype(f32) + of_dtype(f32, 0, 0)},
      {DYAD_ROW(dynamic_quantize_linear(concat({ravel(x), ones({1})}))), of_dtype(f32)},
      {DYAD_ROW(fake_quantize(x, a, i, 0, 15)), floats() + real({0.125, 0.5}) + whole(0, 3)},
      {DYAD_ROW(fake_quantize(x, above_zero(y), i, -8, 7)),
       of_dtype(f32) + of_dtype(f32, 0, 0) + whole(0, 3)},
      {DYAD_ROW(matmul_integer(to(x, i8), to(transpose(y, -1, -2), u8))), numbers(2, 3) + alike()},
      {DYAD_ROW(qlinear_matmul(quantised(x), quantised(transpose(x, -1, -2)), a, zeros({}, u8))),
       of_dtype(f32, 2, 3) + real({0.125, 0.5})},
      {DYAD_ROW(conv_integer(to(x, i8), to(x, i8))), numbers(4, 4)},
      {DYAD_ROW(qlinear_conv(quantised(x), quantised(x), a, zeros({}, u8))),
       of_dtype(f32, 4, 4) + real({0.125, 0.5})},
  };
}

std::vector<Row> decoding_rows() {
  return {
      {DYAD_ROW(ctc_greedy_decode(log_softmax(x, -1))), of_dtype(f32, 3, 3)},
      {DYAD_ROW(ctc_beam_search(log_softmax(x, -1), {}, {.width = 2})), of_dtype(f32, 3, 3)},
      {DYAD_ROW(non_max_suppression(stack({x, x * 0.5, x + 1, x * 0.5 + 1}, -1),
                                    unsqueeze(sigmoid(x), 1),
                                    {.max_per_class = 2, .iou_threshold = 0.5})),
       of_dtype(f32, 2, 2)},
  };
}

}  // namespace

void add_wide_layers(Instructions& list) {
  const Table library{.library = true};
  add_rows(list, loss_rows());
  add_rows(list, pool_rows());
  add_rows(list, image_rows(), library);
  add_rows(list, layer_rows(), library);
  add_rows(list, quantised_rows(), library);
  add_rows(list, decoding_rows(), {.library = true, .picks = true});
}

}  // namespace dyad::testing
