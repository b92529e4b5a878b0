#include "common/model/weights.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/kv_shape.h"

namespace baton {

using kernels::Buffer;
using kernels::PackedWeight;

namespace {

bool Divides(const ModelConfig& config, int32_t ranks) {
  const bool kv = config.kv_heads % ranks == 0 || ranks % config.kv_heads == 0;
  return kv && config.heads % ranks == 0 && config.ffn % ranks == 0;
}

}  // namespace

absl::StatusOr<LocalShape> LocalShape::Of(const ModelConfig& config, int32_t rank, int32_t ranks) {
  BATON_CHECK(ranks > 0 && rank >= 0 && rank < ranks) << rank << " of " << ranks;
  if (!Divides(config, ranks)) {
    std::string sizes;
    for (int32_t size = 1; size <= std::min(config.heads, kMaxTensorParallel); ++size) {
      if (Divides(config, size)) absl::StrAppend(&sizes, sizes.empty() ? "" : ", ", size);
    }
    return absl::FailedPreconditionError(
        absl::StrCat("the model's ", config.heads, " query heads, ", config.kv_heads,
                     " KV heads and MLP of ", config.ffn, " cannot be divided among ", ranks,
                     " ranks; expected --tensor-parallel-size ", sizes));
  }
  return LocalShape{.q_heads = config.heads / ranks,
                    .kv_heads = std::max(1, config.kv_heads / ranks),
                    .ffn = config.ffn / ranks,
                    .rank = rank,
                    .first_kv_head = static_cast<int32_t>(int64_t{rank} * config.kv_heads / ranks),
                    .ranks = ranks};
}

bool LocalShape::divides_output(const ModelConfig& config) const {
  return ranks > 1 && kernels::CanShareColumns(config.vocab, ranks);
}

kernels::ColumnShare LocalShape::output_rows(const ModelConfig& config) const {
  if (!divides_output(config)) return {.begin = 0, .end = config.vocab};
  return kernels::ShareOfColumns(config.vocab, rank, ranks);
}

size_t ModelWeights::bytes() const {
  size_t sum = 0;
  const auto add = [&sum](const std::unique_ptr<Buffer>& buffer) {
    if (buffer != nullptr) sum += buffer->size();
  };
  add(embedding);
  add(final_norm);
  for (const LayerWeights& layer : layers) {
    for (const auto* buffer :
         {&layer.attention_norm, &layer.qkv_bias, &layer.q_norm, &layer.k_norm, &layer.o_bias,
          &layer.mlp_norm, &layer.gate_up_bias, &layer.down_bias}) {
      add(*buffer);
    }
  }
  for (const PackedWeight* weight : projections()) sum += weight->bytes();
  return sum;
}

size_t ModelWeights::mapped_bytes() const {
  return file != nullptr ? static_cast<size_t>(file->bytes()) : 0;
}

std::vector<const PackedWeight*> ModelWeights::projections() const {
  std::vector<const PackedWeight*> all;
  for (const LayerWeights& layer : layers) {
    for (const auto* weight : {&layer.qkv, &layer.o, &layer.gate_up, &layer.down}) {
      all.push_back(weight->get());
    }
  }
  all.push_back(output.get());
  return all;
}

}  // namespace baton
