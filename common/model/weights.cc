#include "common/model/weights.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/kv_shape.h"
#include "common/base/status.h"
#include "common/model/tensor_specs.h"

namespace baton {
namespace {

using kernels::Buffer;
using kernels::HostTensor;
using kernels::PackedWeight;
using kernels::Shard;

// On the way from the disk while a tensor is packed: enough to keep a fast disk busy, little enough
// that the pages are still in memory when their turn comes.
constexpr int64_t kReadAheadBytes = int64_t{256} << 20;

// Rows [begin, end) of a tensor; a vector's elements count as rows.
struct RowRange {
  std::string name;
  int64_t begin = 0;
  int64_t end = 0;
};

class WeightLoader final {
 public:
  WeightLoader(const ModelConfig& config, const LocalShape& shape, const CheckpointFiles& files,
               kernels::Backend& backend, const LoadProgress& progress)
      : config_(config), shape_(shape), files_(files), backend_(backend), progress_(progress) {}

  absl::StatusOr<ModelWeights> Load();

 private:
  absl::Status LoadEnds(ModelWeights& weights);
  absl::Status LoadAttention(int32_t layer, LayerWeights& weights);
  absl::Status LoadMlp(int32_t layer, LayerWeights& weights);

  // The ranges below each other, dense: in place where that is possible, else in staging_.
  absl::StatusOr<HostTensor> Rows(const std::vector<RowRange>& ranges);
  absl::StatusOr<HostTensor> Whole(const std::string& name);
  absl::StatusOr<std::unique_ptr<PackedWeight>> Fused(const std::vector<RowRange>& ranges);
  absl::StatusOr<std::unique_ptr<PackedWeight>> Columns(const std::string& name, int64_t begin,
                                                        int64_t end);
  absl::StatusOr<std::unique_ptr<Buffer>> Vector(const std::vector<RowRange>& ranges);
  absl::StatusOr<std::unique_ptr<Buffer>> Vector(const std::string& name, int64_t length) {
    return Vector(std::vector<RowRange>{{name, 0, length}});
  }

  const StoredTensor& Find(const std::string& name) const;
  void Finish(const std::string& name);
  // The matrices of the model in the order in which Load packs them.
  std::vector<const StoredTensor*> PackingOrder() const;
  // Keeps kReadAheadBytes of what comes next on the way from the disk.
  void ReadAhead();

  const ModelConfig& config_;
  const LocalShape& shape_;
  const CheckpointFiles& files_;
  kernels::Backend& backend_;
  const LoadProgress& progress_;
  std::unique_ptr<std::byte[]> staging_;
  size_t staging_bytes_ = 0;
  int64_t done_ = 0;
  std::vector<const StoredTensor*> upcoming_;  // in packing order
  size_t next_ = 0;                            // of upcoming_, to be read ahead
  int64_t asked_ = 0;                          // bytes of upcoming_ before next_
};

const StoredTensor& WeightLoader::Find(const std::string& name) const {
  const StoredTensor* tensor = files_.Find(name);
  BATON_CHECK(tensor != nullptr) << name << " passed CheckTensors";
  return *tensor;
}

void WeightLoader::Finish(const std::string& name) {
  const StoredTensor& tensor = Find(name);
  CheckpointFiles::DropPages(tensor);
  done_ += static_cast<int64_t>(tensor.data.size());
  ReadAhead();
  if (progress_) progress_(done_, files_.data_bytes());
}

absl::StatusOr<HostTensor> WeightLoader::Rows(const std::vector<RowRange>& ranges) {
  const StoredTensor& first = Find(ranges.front().name);
  HostTensor tensor;
  BATON_ASSIGN_OR_RETURN(tensor.dtype, TensorDType(first));
  tensor.rows = 0;
  tensor.cols = first.shape.size() == 2 ? first.shape[1] : 1;
  for (const RowRange& range : ranges) {
    if (Find(range.name).dtype != first.dtype) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensors ", first.name, " of type ", first.dtype, " and ", range.name, " of type ",
          Find(range.name).dtype, " are used as one; expected one type for both"));
    }
    tensor.rows += range.end - range.begin;
  }
  const size_t row_bytes = tensor.cols * SizeOf(tensor.dtype);
  const std::byte* in_place = first.data.data() + ranges.front().begin * row_bytes;
  if (ranges.size() == 1 && reinterpret_cast<uintptr_t>(in_place) % SizeOf(tensor.dtype) == 0) {
    tensor.data = in_place;
    return tensor;
  }
  if (staging_bytes_ < tensor.rows * row_bytes) {
    staging_bytes_ = tensor.rows * row_bytes;
    staging_ = std::make_unique_for_overwrite<std::byte[]>(staging_bytes_);
  }
  std::byte* out = staging_.get();
  for (const RowRange& range : ranges) {
    const size_t bytes = (range.end - range.begin) * row_bytes;
    std::memcpy(out, Find(range.name).data.data() + range.begin * row_bytes, bytes);
    out += bytes;
  }
  tensor.data = staging_.get();
  return tensor;
}

absl::StatusOr<HostTensor> WeightLoader::Whole(const std::string& name) {
  return Rows({{name, 0, Find(name).shape[0]}});
}

absl::StatusOr<std::unique_ptr<PackedWeight>> WeightLoader::Fused(
    const std::vector<RowRange>& ranges) {
  BATON_ASSIGN_OR_RETURN(const HostTensor tensor, Rows(ranges));
  BATON_ASSIGN_OR_RETURN(auto packed, backend_.Pack(tensor, Shard{}));
  for (const RowRange& range : ranges) Finish(range.name);
  return packed;
}

absl::StatusOr<std::unique_ptr<PackedWeight>> WeightLoader::Columns(const std::string& name,
                                                                    int64_t begin, int64_t end) {
  BATON_ASSIGN_OR_RETURN(const HostTensor tensor, Whole(name));
  BATON_ASSIGN_OR_RETURN(auto packed,
                         backend_.Pack(tensor, Shard{.in_begin = begin, .in_end = end}));
  Finish(name);
  return packed;
}

absl::StatusOr<std::unique_ptr<Buffer>> WeightLoader::Vector(const std::vector<RowRange>& ranges) {
  BATON_ASSIGN_OR_RETURN(HostTensor tensor, Rows(ranges));
  std::swap(tensor.rows, tensor.cols);
  BATON_ASSIGN_OR_RETURN(auto buffer, backend_.UploadVector(tensor));
  for (const RowRange& range : ranges) Finish(range.name);
  return buffer;
}

absl::Status WeightLoader::LoadAttention(int32_t layer, LayerWeights& weights) {
  const int64_t q_size = int64_t{shape_.q_heads} * config_.head_dim;
  const int64_t kv_size = int64_t{shape_.kv_heads} * config_.head_dim;
  const int64_t q_begin = shape_.rank * q_size;
  const int64_t kv_begin = int64_t{shape_.first_kv_head} * config_.head_dim;
  const auto name = [layer](const char* suffix) { return LayerTensor(layer, suffix); };
  const auto qkv = [&](const std::string& kind) {
    return std::vector<RowRange>{{name("self_attn.q_proj.") + kind, q_begin, q_begin + q_size},
                                 {name("self_attn.k_proj.") + kind, kv_begin, kv_begin + kv_size},
                                 {name("self_attn.v_proj.") + kind, kv_begin, kv_begin + kv_size}};
  };
  BATON_ASSIGN_OR_RETURN(weights.attention_norm,
                         Vector(name("input_layernorm.weight"), config_.hidden));
  BATON_ASSIGN_OR_RETURN(weights.qkv, Fused(qkv("weight")));
  if (config_.qkv_bias) {
    BATON_ASSIGN_OR_RETURN(weights.qkv_bias, Vector(qkv("bias")));
  }
  if (config_.qk_norm) {
    BATON_ASSIGN_OR_RETURN(weights.q_norm,
                           Vector(name("self_attn.q_norm.weight"), config_.head_dim));
    BATON_ASSIGN_OR_RETURN(weights.k_norm,
                           Vector(name("self_attn.k_norm.weight"), config_.head_dim));
  }
  BATON_ASSIGN_OR_RETURN(weights.o,
                         Columns(name("self_attn.o_proj.weight"), q_begin, q_begin + q_size));
  if (config_.o_bias && shape_.rank == 0) {
    BATON_ASSIGN_OR_RETURN(weights.o_bias, Vector(name("self_attn.o_proj.bias"), config_.hidden));
  }
  return absl::OkStatus();
}

absl::Status WeightLoader::LoadMlp(int32_t layer, LayerWeights& weights) {
  const int64_t begin = int64_t{shape_.rank} * shape_.ffn;
  const int64_t end = begin + shape_.ffn;
  const auto name = [layer](const char* suffix) { return LayerTensor(layer, suffix); };
  BATON_ASSIGN_OR_RETURN(weights.mlp_norm,
                         Vector(name("post_attention_layernorm.weight"), config_.hidden));
  BATON_ASSIGN_OR_RETURN(weights.gate_up, Fused({{name("mlp.gate_proj.weight"), begin, end},
                                                 {name("mlp.up_proj.weight"), begin, end}}));
  BATON_ASSIGN_OR_RETURN(weights.down, Columns(name("mlp.down_proj.weight"), begin, end));
  if (!config_.mlp_bias) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(weights.gate_up_bias, Vector({{name("mlp.gate_proj.bias"), begin, end},
                                                       {name("mlp.up_proj.bias"), begin, end}}));
  if (shape_.rank == 0) {
    BATON_ASSIGN_OR_RETURN(weights.down_bias, Vector(name("mlp.down_proj.bias"), config_.hidden));
  }
  return absl::OkStatus();
}

absl::Status WeightLoader::LoadEnds(ModelWeights& weights) {
  const std::string embedding = "model.embed_tokens.weight";
  const std::string output = config_.tied_embeddings ? embedding : "lm_head.weight";
  if (!config_.tied_embeddings || !backend_.CanEmbedFromPacked()) {
    BATON_ASSIGN_OR_RETURN(const HostTensor table, Whole(embedding));
    BATON_ASSIGN_OR_RETURN(weights.embedding, backend_.UploadTable(table));
    if (output != embedding) Finish(embedding);
  }
  BATON_ASSIGN_OR_RETURN(weights.final_norm, Vector("model.norm.weight", config_.hidden));
  BATON_ASSIGN_OR_RETURN(weights.output, Fused({{output, 0, config_.vocab}}));
  return absl::OkStatus();
}

std::vector<const StoredTensor*> WeightLoader::PackingOrder() const {
  std::vector<const StoredTensor*> order;
  for (int32_t layer = 0; layer < config_.layers; ++layer) {
    for (const char* name :
         {"self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight",
          "self_attn.o_proj.weight", "mlp.gate_proj.weight", "mlp.up_proj.weight",
          "mlp.down_proj.weight"}) {
      order.push_back(&Find(LayerTensor(layer, name)));
    }
  }
  order.push_back(&Find("model.embed_tokens.weight"));
  if (!config_.tied_embeddings) order.push_back(&Find("lm_head.weight"));
  return order;
}

void WeightLoader::ReadAhead() {
  while (next_ < upcoming_.size() && asked_ < done_ + kReadAheadBytes) {
    CheckpointFiles::Prefetch(*upcoming_[next_]);
    asked_ += static_cast<int64_t>(upcoming_[next_]->data.size());
    ++next_;
  }
}

absl::StatusOr<ModelWeights> WeightLoader::Load() {
  ModelWeights weights;
  weights.layers.resize(config_.layers);
  upcoming_ = PackingOrder();
  ReadAhead();
  for (int32_t layer = 0; layer < config_.layers; ++layer) {
    BATON_RETURN_IF_ERROR(LoadAttention(layer, weights.layers[layer]));
    BATON_RETURN_IF_ERROR(LoadMlp(layer, weights.layers[layer]));
  }
  BATON_RETURN_IF_ERROR(LoadEnds(weights));
  if (progress_) progress_(files_.data_bytes(), files_.data_bytes());
  return weights;
}

}  // namespace

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
                    .first_kv_head = static_cast<int32_t>(int64_t{rank} * config.kv_heads / ranks)};
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

absl::StatusOr<ModelWeights> LoadWeights(const ModelConfig& config, const LocalShape& shape,
                                         const CheckpointFiles& files, kernels::Backend& backend,
                                         const LoadProgress& progress) {
  BATON_RETURN_IF_ERROR(CheckTensors(config, files));
  return WeightLoader(config, shape, files, backend, progress).Load();
}

}  // namespace baton
