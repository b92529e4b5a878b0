#include "common/model/quantize/stored_weights.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/model/quantize/fp8_reader.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/quantize/quantized_reader.h"
#include "common/model/tensor_slices.h"
#include "common/model/tensor_specs.h"
#include "common/model/weight_source.h"

namespace baton {
namespace {

// Reads projections of one checkpoint, whatever they are stored in.
class ProjectionReader final {
 public:
  ProjectionReader(const ModelConfig& config, const CheckpointFiles& files)
      : fp8_(config.quantization->fp8()), integers_(config, files), floats_(config, files) {}

  absl::Status Read(const TensorSpec& spec) {
    const WeightItem item = {
        .name = spec.name, .ranges = {{spec.name, 0, spec.shape[0]}}, .cols = spec.shape[1]};
    if (!fp8_) {
      BATON_ASSIGN_OR_RETURN(tensor_, integers_.Read(item));
      return absl::OkStatus();
    }
    cols_ = item.cols;
    values_.resize(static_cast<size_t>(spec.elements()));
    return floats_.WriteValues(item, kernels::DType::kF32,
                               reinterpret_cast<std::byte*>(values_.data()));
  }
  // Of what was read last, the element in a row and a stored column, and the input that this is
  // for.
  float at(int64_t row, int64_t col) const {
    return fp8_ ? values_[static_cast<size_t>(row * cols_ + col)] : tensor_.at(row, col);
  }
  int64_t InputOf(int64_t col) const {
    return !fp8_ && tensor_.input_of != nullptr ? tensor_.input_of[col] : col;
  }

 private:
  const bool fp8_;
  QuantizedReader integers_;
  Fp8Reader floats_;
  kernels::QuantizedTensor tensor_;
  int64_t cols_ = 0;
  std::vector<float> values_;
};

absl::StatusOr<RoundedProjection> CompareProjection(const TensorSpec& spec,
                                                    ProjectionReader& rounded,
                                                    const StoredTensor& original) {
  const int64_t rows = spec.shape[0];
  const int64_t cols = spec.shape[1];
  BATON_RETURN_IF_ERROR(rounded.Read(spec));
  BATON_ASSIGN_OR_RETURN(const kernels::DType dtype, TensorDType(original));
  std::vector<float> row(static_cast<size_t>(cols));
  double errors = 0;
  double squares = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t begin = original.StoredRow(r) * cols;
    CopyToFloats(original.data.data() + begin * static_cast<int64_t>(SizeOf(dtype)), dtype, row);
    for (int64_t c = 0; c < cols; ++c) {
      const double weight = row[static_cast<size_t>(rounded.InputOf(c))];
      const double error = weight - rounded.at(r, c);
      errors += error * error;
      squares += weight * weight;
    }
  }
  return RoundedProjection{.name = spec.name,
                           .relative_error = squares > 0 ? std::sqrt(errors / squares) : 0};
}

// The layer of a tensor with a name as LayerTensor makes it.
std::optional<int32_t> LayerOf(std::string_view name) {
  constexpr std::string_view kLayers = "model.layers.";
  int32_t layer = 0;
  if (!name.starts_with(kLayers)) return std::nullopt;
  name.remove_prefix(kLayers.size());
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), layer);
  return error == std::errc() ? std::optional(layer) : std::nullopt;
}

}  // namespace

std::vector<StoredWeight> StoredWeights(const ModelConfig& config, const CheckpointFiles& files) {
  std::vector<StoredWeight> weights;
  for (const TensorSpec& spec : ExpectedTensors(config)) {
    const std::vector<const StoredTensor*> parts = StoredPartsOf(config, files, spec.name);
    if (parts.empty()) continue;
    const bool quantized = IsQuantized(config, files, spec.name) &&
                           config.quantization->format != QuantizationConfig::Format::kGguf;
    StoredWeight& weight = weights.emplace_back();
    weight.name = spec.name;
    weight.layer = LayerOf(spec.name);
    weight.kind = quantized ? config.quantization->KindOf(spec.name).name() : parts.front()->dtype;
    for (const StoredTensor* part : parts) weight.bytes += static_cast<int64_t>(part->data.size());
  }
  return weights;
}

std::map<std::string, StoredKind> StoredKinds(std::span<const StoredWeight> weights) {
  std::map<std::string, StoredKind> kinds;
  for (const StoredWeight& weight : weights) {
    StoredKind& kind = kinds[weight.kind];
    ++kind.weights;
    kind.bytes += weight.bytes;
  }
  return kinds;
}

absl::StatusOr<std::vector<RoundedProjection>> CompareProjections(const ModelConfig& config,
                                                                  const CheckpointFiles& files,
                                                                  const std::string& original_dir) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig original_config, LoadModelConfig(original_dir));
  if (original_config.quantization.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(original_dir, " is quantized itself; name the model that both come from"));
  }
  BATON_ASSIGN_OR_RETURN(const auto original, CheckpointFiles::Open(original_dir));
  // Its tensors are then those that the other model implies.
  BATON_RETURN_IF_ERROR(CheckTensors(original_config, *original));
  ProjectionReader reader(config, files);
  std::vector<RoundedProjection> compared;
  for (const TensorSpec& spec : ExpectedTensors(config)) {
    if (!IsQuantized(config, files, spec.name)) continue;
    const bool of_table = original_config.tied_embeddings && spec.name == kOutputTensor;
    const std::string stored = of_table ? kEmbeddingTensor : spec.name;
    const StoredTensor* tensor = original->Find(stored);
    if (tensor == nullptr || tensor->shape != spec.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(original_dir, " has no tensor ", stored, " of ", spec.shape[0], " x ",
                       spec.shape[1], "; name the model that the quantized one was made from"));
    }
    BATON_ASSIGN_OR_RETURN(RoundedProjection projection, CompareProjection(spec, reader, *tensor));
    compared.push_back(std::move(projection));
  }
  return compared;
}

}  // namespace baton
