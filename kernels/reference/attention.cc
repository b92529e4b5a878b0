#include "kernels/reference/attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "kernels/attention_split.h"
#include "kernels/float_convert.h"
#include "kernels/kv_row.h"

namespace baton::kernels::reference {
namespace {

// Normalises one head of one token where `weight` says so, and rotates it to `position`.
void NormAndRotate(std::span<float> head, int32_t position, const RopeShape& rope,
                   const Buffer* weight, float eps) {
  const size_t half = head.size() / 2;
  if (weight != nullptr) {
    const float* scale = static_cast<const float*>(weight->data());
    double squares = 0;
    for (const float x : head) squares += static_cast<double>(x) * x;
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(head.size()) + eps);
    for (size_t i = 0; i < head.size(); ++i) {
      head[i] = static_cast<float>(head[i] * inverse * scale[i]);
    }
  }
  for (size_t i = 0; i < half; ++i) {
    const float angle = static_cast<float>(position) * rope.inv_freq[i];
    const float cosine = std::cos(angle) * rope.attention_factor;
    const float sine = std::sin(angle) * rope.attention_factor;
    const float low = head[i];
    const float high = head[i + half];
    head[i] = low * cosine - high * sine;
    head[i + half] = high * cosine + low * sine;
  }
}

void LoadHead(Matrix matrix, int64_t row, int64_t begin, std::span<float> head) {
  for (size_t i = 0; i < head.size(); ++i) {
    head[i] = LoadElement(matrix.row(row), matrix.dtype, begin + static_cast<int64_t>(i));
  }
}

void StoreHead(void* data, DType dtype, int64_t begin, std::span<const float> head) {
  for (size_t i = 0; i < head.size(); ++i) {
    StoreElement(data, dtype, begin + static_cast<int64_t>(i), head[i]);
  }
}

// K or V of one token of a sequence, as the cache has it.
void LoadKv(const StepLayout::Sequence& sequence, const PagedKv& kv, int layer, int plane,
            int kv_head, int32_t t, std::span<float> row) {
  const int32_t block = sequence.blocks[t / kv.layout.block_size];
  const size_t offset = kv.offset(layer, plane, kv_head, t % kv.layout.block_size);
  LoadKvRow(kv.layout.dtype, kv.block(block) + offset, row);
}

// Turns the scores of the tokens from `begin` on into weights that are rounded split by split.
void WeighRounded(int32_t begin, double highest, std::span<double> scores) {
  while (!scores.empty()) {
    const size_t left = kAttentionSplitTokens - begin % kAttentionSplitTokens;
    const std::span<double> split = scores.first(std::min(left, scores.size()));
    const double of_split = *std::max_element(split.begin(), split.end());
    for (double& score : split) {
      const auto weight = static_cast<float>(std::exp(score - of_split));
      score = FloatFromBf16(Bf16FromFloat(weight)) * std::exp(of_split - highest);
    }
    begin += static_cast<int32_t>(split.size());
    scores = scores.subspan(split.size());
  }
}

void AttendOne(const StepLayout::Sequence& sequence, const PagedKv& kv, int layer, int kv_head,
               const AttentionShape& shape, int32_t position, std::span<const float> query,
               bool in_pairs, std::span<double> out) {
  const int32_t begin =
      shape.sliding_window > 0 ? std::max(0, position - shape.sliding_window + 1) : 0;
  std::vector<float> row(static_cast<size_t>(shape.head_dim));
  std::vector<double> scores(position - begin + 1);
  for (int32_t t = begin; t <= position; ++t) {
    LoadKv(sequence, kv, layer, 0, kv_head, t, row);
    double dot = 0;
    for (int d = 0; d < shape.head_dim; ++d) dot += static_cast<double>(query[d]) * row[d];
    scores[t - begin] = dot * shape.scale * shape.k_scale;
  }
  const double highest = *std::max_element(scores.begin(), scores.end());
  if (in_pairs) {
    WeighRounded(begin, highest, scores);
  } else {
    for (double& score : scores) score = std::exp(score - highest);
  }
  const double total = std::accumulate(scores.begin(), scores.end(), 0.0);
  std::fill(out.begin(), out.end(), 0.0);
  for (int32_t t = begin; t <= position; ++t) {
    LoadKv(sequence, kv, layer, 1, kv_head, t, row);
    for (int d = 0; d < shape.head_dim; ++d) {
      const float value = in_pairs ? FloatFromBf16(Bf16FromFloat(row[d])) : row[d];
      out[d] += scores[t - begin] / total * value;
    }
  }
  for (double& value : out) value *= shape.v_scale;
}

}  // namespace

void RopeAndStoreKv(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, const RopeShape& rope, const QkNorm& norm) {
  const int dim = shape.head_dim;
  std::vector<float> head(dim);
  for (const StepLayout::Sequence& sequence : layout.sequences) {
    for (int32_t row = sequence.token_begin; row < sequence.token_begin + sequence.num_tokens;
         ++row) {
      const int32_t position = layout.positions[row];
      for (int h = 0; h < shape.q_heads; ++h) {
        LoadHead(qkv, row, int64_t{h} * dim, head);
        NormAndRotate(head, position, rope, norm.q, norm.eps);
        StoreHead(qkv.row(row), qkv.dtype, int64_t{h} * dim, head);
      }
      std::byte* block = kv.block(sequence.blocks[position / kv.layout.block_size]);
      const int in_block = position % kv.layout.block_size;
      for (int h = 0; h < shape.kv_heads; ++h) {
        LoadHead(qkv, row, int64_t{shape.q_heads + h} * dim, head);
        NormAndRotate(head, position, rope, norm.k, norm.eps);
        StoreKvRow(kv.layout.dtype, head, block + kv.offset(layer, 0, h, in_block), shape.k_scale);
        LoadHead(qkv, row, int64_t{shape.q_heads + shape.kv_heads + h} * dim, head);
        StoreKvRow(kv.layout.dtype, head, block + kv.offset(layer, 1, h, in_block), shape.v_scale);
      }
    }
  }
}

void PagedAttention(const StepLayout& layout, const PagedKv& kv, Matrix qkv, int layer,
                    const AttentionShape& shape, bool in_pairs, Matrix out) {
  const int group = shape.q_heads / shape.kv_heads;
  std::vector<float> query(shape.head_dim);
  std::vector<double> result(shape.head_dim);
  for (const StepLayout::Sequence& sequence : layout.sequences) {
    for (int32_t row = sequence.token_begin; row < sequence.token_begin + sequence.num_tokens;
         ++row) {
      for (int h = 0; h < shape.q_heads; ++h) {
        LoadHead(qkv, row, int64_t{h} * shape.head_dim, query);
        AttendOne(sequence, kv, layer, h / group, shape, layout.positions[row], query, in_pairs,
                  result);
        for (int d = 0; d < shape.head_dim; ++d) {
          StoreElement(out.row(row), out.dtype, int64_t{h} * shape.head_dim + d,
                       static_cast<float>(result[d]));
        }
      }
    }
  }
}

}  // namespace baton::kernels::reference
