#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/weight_source.h"
#include "common/model/weights.h"
#include "kernels/backend.h"

namespace baton {

// What makes the weights that a WeightLoader asks for. One that only passes them on, as to a file,
// returns null for each.
class WeightMaker {
 public:
  virtual ~WeightMaker() = default;
  // `keep_precision`: not quantized, though other matrices may be.
  virtual absl::StatusOr<std::unique_ptr<kernels::PackedWeight>> Matrix(const WeightItem& item,
                                                                        bool keep_precision) = 0;
  virtual absl::StatusOr<std::unique_ptr<kernels::Buffer>> Vector(const WeightItem& item) = 0;
  // An embedding table. `read_again`: its tensor is asked for once more, as a matrix.
  virtual absl::StatusOr<std::unique_ptr<kernels::Buffer>> Table(const WeightItem& item,
                                                                 bool read_again) = 0;
};

// Packs what a WeightSource has.
class PackingMaker final : public WeightMaker {
 public:
  // All outlive this. `progress` may be null.
  PackingMaker(WeightSource& source, kernels::Backend& backend, const LoadProgress& progress)
      : source_(source), backend_(backend), progress_(progress) {}

  absl::StatusOr<std::unique_ptr<kernels::PackedWeight>> Matrix(const WeightItem& item,
                                                                bool keep_precision) override;
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Vector(const WeightItem& item) override;
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Table(const WeightItem& item,
                                                         bool read_again) override;

 private:
  void Finish(const WeightItem& item);

  WeightSource& source_;
  kernels::Backend& backend_;
  const LoadProgress& progress_;
};

// Decides which items a rank has, and asks for them in a fixed order.
class WeightLoader final {
 public:
  // All outlive this. `embeds_from_packed`: as Backend::CanEmbedFromPacked.
  WeightLoader(const ModelConfig& config, const LocalShape& shape, bool embeds_from_packed,
               WeightMaker& maker)
      : config_(config), shape_(shape), embeds_from_packed_(embeds_from_packed), maker_(maker) {}

  absl::StatusOr<ModelWeights> Load();

 private:
  absl::Status LoadEnds(ModelWeights& weights);
  absl::Status LoadAttention(int32_t layer, LayerWeights& weights);
  absl::Status LoadMlp(int32_t layer, LayerWeights& weights);

  absl::StatusOr<std::unique_ptr<kernels::PackedWeight>> Matrix(const WeightItem& item) {
    return maker_.Matrix(item, /*keep_precision=*/false);
  }
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Vector(const WeightItem& item) {
    return maker_.Vector(item);
  }
  // A whole vector of the checkpoint.
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Vector(const std::string& name, int64_t length) {
    return Vector({.name = name, .ranges = {{name, 0, length}}});
  }

  const ModelConfig& config_;
  const LocalShape& shape_;
  const bool embeds_from_packed_;
  WeightMaker& maker_;
};

// The matrices of the model in the order in which a WeightLoader asks for them.
std::vector<const StoredTensor*> PackingOrder(const ModelConfig& config,
                                              const CheckpointFiles& files);
// At most as many items as a WeightLoader asks for.
size_t MostItems(const ModelConfig& config);

}  // namespace baton
