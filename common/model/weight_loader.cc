#include "common/model/weight_loader.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/tensor_specs.h"

namespace baton {

using kernels::Buffer;
using kernels::PackedWeight;

namespace {

constexpr size_t kItemsOfLayer = 12;
constexpr size_t kItemsOfEnds = 3;

}  // namespace

void PackingMaker::Finish(const WeightItem& item) {
  source_.Finish(item);
  if (progress_) progress_(source_.done(), source_.total());
}

absl::StatusOr<std::unique_ptr<PackedWeight>> PackingMaker::Matrix(const WeightItem& item,
                                                                   bool keep_precision) {
  BATON_ASSIGN_OR_RETURN(WeightData data, source_.Matrix(item));
  data.tensor.keep_precision = keep_precision;
  if (data.quantized.has_value()) {
    auto quantized = backend_.PackQuantized(*data.quantized, data.shard);
    if (!quantized.ok()) {
      return absl::Status(quantized.status().code(),
                          absl::StrCat(item.name, ": ", quantized.status().message()));
    }
    Finish(item);
    return quantized;
  }
  BATON_ASSIGN_OR_RETURN(auto packed, backend_.Pack(data.tensor, data.shard));
  Finish(item);
  return packed;
}

absl::StatusOr<std::unique_ptr<Buffer>> PackingMaker::Vector(const WeightItem& item) {
  BATON_ASSIGN_OR_RETURN(const kernels::HostTensor tensor, source_.Vector(item));
  BATON_ASSIGN_OR_RETURN(auto buffer, backend_.UploadVector(tensor));
  Finish(item);
  return buffer;
}

absl::StatusOr<std::unique_ptr<Buffer>> PackingMaker::Table(const WeightItem& item,
                                                            bool read_again) {
  BATON_ASSIGN_OR_RETURN(const WeightData table, source_.Matrix(item));
  BATON_ASSIGN_OR_RETURN(auto buffer, backend_.UploadTable(table.tensor));
  if (!read_again) Finish(item);
  return buffer;
}

absl::Status WeightLoader::LoadAttention(int32_t layer, LayerWeights& weights) {
  const int64_t q_size = int64_t{shape_.q_heads} * config_.head_dim;
  const int64_t kv_size = int64_t{shape_.kv_heads} * config_.head_dim;
  const int64_t q_begin = shape_.rank * q_size;
  const int64_t kv_begin = int64_t{shape_.first_kv_head} * config_.head_dim;
  const auto name = [layer](const std::string& suffix) { return LayerTensor(layer, suffix); };
  const auto qkv = [&](const std::string& kind, int64_t cols) {
    return WeightItem{.name = name("self_attn.qkv." + kind),
                      .ranges = {{name("self_attn.q_proj." + kind), q_begin, q_begin + q_size},
                                 {name("self_attn.k_proj." + kind), kv_begin, kv_begin + kv_size},
                                 {name("self_attn.v_proj." + kind), kv_begin, kv_begin + kv_size}},
                      .cols = cols};
  };
  BATON_ASSIGN_OR_RETURN(weights.attention_norm,
                         Vector(name("input_layernorm.weight"), config_.hidden));
  BATON_ASSIGN_OR_RETURN(weights.qkv, Matrix(qkv("weight", config_.hidden)));
  if (config_.qkv_bias) {
    BATON_ASSIGN_OR_RETURN(weights.qkv_bias, Vector(qkv("bias", 1)));
  }
  if (config_.qk_norm) {
    BATON_ASSIGN_OR_RETURN(weights.q_norm,
                           Vector(name("self_attn.q_norm.weight"), config_.head_dim));
    BATON_ASSIGN_OR_RETURN(weights.k_norm,
                           Vector(name("self_attn.k_norm.weight"), config_.head_dim));
  }
  const std::string output = name("self_attn.o_proj.weight");
  BATON_ASSIGN_OR_RETURN(weights.o, Matrix({.name = output,
                                            .ranges = {{output, 0, config_.hidden}},
                                            .cols = int64_t{config_.heads} * config_.head_dim,
                                            .col_begin = q_begin,
                                            .col_end = q_begin + q_size}));
  if (config_.o_bias && shape_.rank == 0) {
    BATON_ASSIGN_OR_RETURN(weights.o_bias, Vector(name("self_attn.o_proj.bias"), config_.hidden));
  }
  return absl::OkStatus();
}

absl::Status WeightLoader::LoadMlp(int32_t layer, LayerWeights& weights) {
  const int64_t begin = int64_t{shape_.rank} * shape_.ffn;
  const int64_t end = begin + shape_.ffn;
  const auto name = [layer](const std::string& suffix) { return LayerTensor(layer, suffix); };
  const auto gate_up = [&](const std::string& kind, int64_t cols) {
    return WeightItem{.name = name("mlp.gate_up." + kind),
                      .ranges = {{name("mlp.gate_proj." + kind), begin, end},
                                 {name("mlp.up_proj." + kind), begin, end}},
                      .cols = cols};
  };
  BATON_ASSIGN_OR_RETURN(weights.mlp_norm,
                         Vector(name("post_attention_layernorm.weight"), config_.hidden));
  BATON_ASSIGN_OR_RETURN(weights.gate_up, Matrix(gate_up("weight", config_.hidden)));
  const std::string down = name("mlp.down_proj.weight");
  BATON_ASSIGN_OR_RETURN(weights.down, Matrix({.name = down,
                                               .ranges = {{down, 0, config_.hidden}},
                                               .cols = config_.ffn,
                                               .col_begin = begin,
                                               .col_end = end}));
  if (!config_.mlp_bias) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(weights.gate_up_bias, Vector(gate_up("bias", 1)));
  if (shape_.rank == 0) {
    BATON_ASSIGN_OR_RETURN(weights.down_bias, Vector(name("mlp.down_proj.bias"), config_.hidden));
  }
  return absl::OkStatus();
}

absl::Status WeightLoader::LoadEnds(ModelWeights& weights) {
  const std::string output = config_.tied_embeddings ? kEmbeddingTensor : kOutputTensor;
  // Rows of the output projection serve as embeddings only where a rank has all of them.
  const bool divided = shape_.divides_output(config_);
  if (!config_.tied_embeddings || divided || !embeds_from_packed_) {
    const WeightItem item = {.name = kEmbeddingTensor,
                             .ranges = {{kEmbeddingTensor, 0, config_.vocab}},
                             .cols = config_.hidden};
    BATON_ASSIGN_OR_RETURN(weights.embedding,
                           maker_.Table(item, /*read_again=*/output == kEmbeddingTensor));
  }
  BATON_ASSIGN_OR_RETURN(weights.final_norm, Vector("model.norm.weight", config_.hidden));
  // A backend that quantizes by itself leaves the output projection as it is: logits decide the
  // token, and its rows may be embeddings.
  const kernels::ColumnShare rows = shape_.output_rows(config_);
  BATON_ASSIGN_OR_RETURN(weights.output, maker_.Matrix({.name = "output.weight",
                                                        .ranges = {{output, rows.begin, rows.end}},
                                                        .cols = config_.hidden,
                                                        .widened = true},
                                                       /*keep_precision=*/true));
  return absl::OkStatus();
}

absl::StatusOr<ModelWeights> WeightLoader::Load() {
  ModelWeights weights;
  weights.layers.resize(static_cast<size_t>(config_.layers));
  for (int32_t layer = 0; layer < config_.layers; ++layer) {
    LayerWeights& of_layer = weights.layers[static_cast<size_t>(layer)];
    BATON_RETURN_IF_ERROR(LoadAttention(layer, of_layer));
    BATON_RETURN_IF_ERROR(LoadMlp(layer, of_layer));
  }
  BATON_RETURN_IF_ERROR(LoadEnds(weights));
  return weights;
}

std::vector<const StoredTensor*> PackingOrder(const ModelConfig& config,
                                              const CheckpointFiles& files) {
  std::vector<const StoredTensor*> order;
  const auto add = [&](const std::string& name) {
    const std::vector<const StoredTensor*> parts = StoredPartsOf(config, files, name);
    order.insert(order.end(), parts.begin(), parts.end());
  };
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    for (const char* name :
         {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
          "self_attn.o_proj.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight",
          "mlp.down_proj.weight"}) {
      add(LayerTensor(layer, name));
    }
  }
  add(kEmbeddingTensor);
  if (!config.tied_embeddings) add(kOutputTensor);
  return order;
}

size_t MostItems(const ModelConfig& config) {
  return kItemsOfEnds + kItemsOfLayer * static_cast<size_t>(config.layers);
}

}  // namespace baton
