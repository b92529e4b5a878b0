#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/eos_probe.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/load_cache.h"
#include "common/model/packed/packed_file.h"
#include "common/model/quantize/kv_scales.h"
#include "kernels/backend.h"
#include "kernels/column_share.h"

namespace baton {

// How large the part of a model is that one rank of a tensor-parallel group holds. Query heads, KV
// heads, the MLP and the output projection are divided; embeddings and norms are whole on every
// rank. Where there are fewer KV heads than ranks, neighbouring ranks hold copies of the same one.
struct LocalShape {
  int32_t q_heads = 0;
  int32_t kv_heads = 0;
  int32_t ffn = 0;
  int32_t rank = 0;
  int32_t first_kv_head = 0;
  int32_t ranks = 1;

  // Whether ranks compute a share of the logits each. With fewer rows than kernels take at a time,
  // every rank computes all of them.
  bool divides_output(const ModelConfig& config) const;
  // The rows of the output projection, which are columns of the logits, that this rank holds.
  kernels::ColumnShare output_rows(const ModelConfig& config) const;

  // FAILED_PRECONDITION, naming the sizes that fit, when heads or ffn do not divide by `ranks`.
  static absl::StatusOr<LocalShape> Of(const ModelConfig& config, int32_t rank, int32_t ranks);
};

// The packed weights of one layer on one rank. Members are null where the model has no such weight.
struct LayerWeights {
  std::unique_ptr<kernels::Buffer> attention_norm;  // [hidden]
  std::unique_ptr<kernels::PackedWeight> qkv;       // [(q + 2 kv heads) * head_dim, hidden]
  std::unique_ptr<kernels::Buffer> qkv_bias;        // [(q + 2 kv heads) * head_dim]
  std::unique_ptr<kernels::Buffer> q_norm;          // [head_dim]
  std::unique_ptr<kernels::Buffer> k_norm;          // [head_dim]
  std::unique_ptr<kernels::PackedWeight> o;         // [hidden, q heads * head_dim]
  std::unique_ptr<kernels::Buffer> o_bias;          // [hidden], rank 0 only
  std::unique_ptr<kernels::Buffer> mlp_norm;        // [hidden]
  std::unique_ptr<kernels::PackedWeight> gate_up;   // [2 ffn, hidden], gate then up
  std::unique_ptr<kernels::Buffer> gate_up_bias;    // [2 ffn]
  std::unique_ptr<kernels::PackedWeight> down;      // [hidden, ffn]
  std::unique_ptr<kernels::Buffer> down_bias;       // [hidden], rank 0 only
  KvScales kv_scales;                               // of a KV cache of e4m3
};

// A probe as a backend multiplies by it.
struct ProbeWeights {
  int32_t layer = -1;                                 // -1 = the normed state behind the last one
  std::unique_ptr<kernels::PackedWeight> directions;  // [dims, hidden]
  std::unique_ptr<kernels::Buffer> biases;            // [dims], or null for zeros
  std::unique_ptr<kernels::Buffer> ones;  // [hidden], weights of a norm that has none; with `layer`
};

// INVALID_ARGUMENT for a probe that is not one, or of another hidden size or more layers than the
// model's.
absl::Status CheckProbeFits(const EosProbe& probe, const ModelConfig& config);
// Packs a probe that fits.
absl::StatusOr<ProbeWeights> PackProbe(const EosProbe& probe, kernels::Backend& backend);

// The packed weights of a model on one rank.
struct ModelWeights {
  // Where the weights lie that are mapped, before them so that it goes last; null for those that
  // have memory of their own.
  std::unique_ptr<const PackedFile> file;
  std::unique_ptr<kernels::Buffer> embedding;  // [vocab, hidden]; null: rows come from `output`
  std::vector<LayerWeights> layers;
  std::unique_ptr<kernels::Buffer> final_norm;    // [hidden]
  std::unique_ptr<kernels::PackedWeight> output;  // [output_rows, hidden]
  std::optional<ProbeWeights> probe;              // whole on every rank

  size_t bytes() const;
  size_t mapped_bytes() const;  // of the file, that other processes may share
  std::vector<const kernels::PackedWeight*> projections() const;
};

// Is told how many bytes of the checkpoint have been packed, and how many there are.
using LoadProgress = std::function<void(int64_t done, int64_t total)>;

// A directory of load caches and the key of this rank's file in it.
struct LoadCachePlace {
  std::string dir;
  LoadCacheKey key;
  // How long a worker prepares packed weights for all, and how long another one waits for that. Of
  // the ten minutes that a start may take, enough are left to pack weights of its own.
  base::Duration patience = std::chrono::minutes(4);
};

// Packs a checkpoint into the backend's layout. Pages of the files are given back as they are
// packed, so that a load needs little more memory than the packed weights. With `cache`, weights
// come from there if it holds them. If it does not, or turns out to be damaged, they come from the
// checkpoint, and the cache is written on the way. A backend that has packed_images() maps the
// weights of its cache, as LoadSharedWeights says. `progress` and `cache` may be null.
absl::StatusOr<ModelWeights> LoadWeights(const ModelConfig& config, const LocalShape& shape,
                                         const CheckpointFiles& files, kernels::Backend& backend,
                                         const LoadProgress& progress,
                                         const LoadCachePlace* cache = nullptr);

}  // namespace baton
