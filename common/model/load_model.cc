#include "common/model/load_model.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/formats/safetensors.h"
#include "common/model/activations.h"
#include "common/model/fingerprint.h"
#include "common/model/host_limits.h"
#include "common/model/tensor_specs.h"
#include "common/model/warm_up.h"

namespace baton {

using kernels::DType;

absl::StatusOr<DType> ResolveComputeDType(const std::string& dtype, const ModelConfig& config,
                                          const CheckpointFiles& files) {
  if (dtype == "float32") return DType::kF32;
  if (dtype == "bfloat16") return DType::kBF16;
  if (dtype == "float16") return DType::kF16;
  if (dtype != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype ", dtype, "; expected auto, float32, bfloat16 or float16"));
  }
  if (!config.dtype.empty()) return config.dtype == "float32" ? DType::kF32 : DType::kBF16;
  const StoredTensor* embedding = files.Find("model.embed_tokens.weight");
  const bool fp32 = embedding != nullptr && embedding->dtype == "F32";
  return fp32 ? DType::kF32 : DType::kBF16;
}

absl::StatusOr<DType> ResolveKvDType(const std::string& dtype, DType compute) {
  if (dtype == "auto") return compute;
  if (dtype == "float32") return DType::kF32;
  if (dtype == "bfloat16") return DType::kBF16;
  if (dtype == "float16" && compute == DType::kF16) return DType::kF16;
  return absl::InvalidArgumentError(
      absl::StrCat("--kv-dtype ", dtype, "; expected auto, float32 or bfloat16",
                   dtype == "float16" ? ", or float16 with --dtype float16" : ""));
}

namespace {

// Refuses before the long part of a load, instead of dying in it.
absl::Status CheckMemory(const ModelConfig& config, const LocalShape& shape, DType dtype,
                         double kv_bytes, const StepLimits& limits,
                         const std::optional<kernels::DeviceMemorySize>& device) {
  const double weights = static_cast<double>(CountParameters(config)) * SizeOf(dtype);
  const double activations =
      static_cast<double>(PlanActivations(config, shape, dtype, limits).total());
  const double available =
      static_cast<double>(device.has_value() ? device->free_bytes : AvailableMemoryBytes());
  const double need = weights + kv_bytes + activations;
  if (need <= available) return absl::OkStatus();
  const auto megabytes = [](double bytes) { return absl::StrFormat("%.0f MB", bytes / 1e6); };
  return absl::ResourceExhaustedError(
      absl::StrCat("the model needs ", megabytes(need), " (weights ", megabytes(weights),
                   ", KV cache ", megabytes(kv_bytes), ", activations ", megabytes(activations),
                   "), the ", device.has_value() ? "GPU" : "machine", " has ", megabytes(available),
                   " available; lower --kv-cache-memory or --kv-cache-tokens, ",
                   "--max-num-batched-tokens or --max-num-seqs"));
}

class Stopwatch final {
 public:
  explicit Stopwatch(const base::Clock& clock) : clock_(clock), last_(clock.Now()) {}
  // Since the last lap.
  base::Duration Lap() {
    const base::Instant before = std::exchange(last_, clock_.Now());
    return last_ - before;
  }

 private:
  const base::Clock& clock_;
  base::Instant last_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(const std::string& model_dir,
                                                       const ModelOptions& options,
                                                       const LoadProgress& progress,
                                                       const base::Clock& clock) {
  Stopwatch watch(clock);
  if (options.block_size < 1 || options.block_size > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("--block-size ", options.block_size, "; expected 1 to 1024 tokens"));
  }
  auto model = std::make_unique<LoadedModel>();
  BATON_ASSIGN_OR_RETURN(model->config, LoadModelConfig(model_dir));
  BATON_ASSIGN_OR_RETURN(model->generation, LoadGenerationConfig(model_dir));
  BATON_ASSIGN_OR_RETURN(const auto files, CheckpointFiles::Open(model_dir));
  BATON_RETURN_IF_ERROR(CheckTensors(model->config, *files));

  BATON_ASSIGN_OR_RETURN(const DType dtype,
                         ResolveComputeDType(options.dtype, model->config, *files));
  BATON_ASSIGN_OR_RETURN(const DType kv_dtype, ResolveKvDType(options.kv_dtype, dtype));
  BATON_ASSIGN_OR_RETURN(const LocalShape shape, LocalShape::Of(model->config, 0, 1));
  const kernels::KvLayout layout = KvLayoutOf(model->config, shape, kv_dtype, options.block_size);
  BATON_ASSIGN_OR_RETURN(model->backend, kernels::MakeBackend({.device = options.device,
                                                               .isa = options.isa,
                                                               .compute_dtype = dtype,
                                                               .threads = options.threads}));
  BATON_ASSIGN_OR_RETURN(const auto device, model->backend->DeviceMemory());
  // The cache of a device gets what is left when everything else is there.
  const bool kv_takes_rest =
      device.has_value() && !options.kv.tokens.has_value() && !options.kv.memory_bytes.has_value();
  KvBudget budget = options.kv;
  if (kv_takes_rest) budget.memory_bytes = static_cast<int64_t>(layout.block_bytes());
  BATON_ASSIGN_OR_RETURN(int32_t num_blocks, BlocksFor(budget, layout));
  const double kv_bytes = static_cast<double>(layout.block_bytes()) * num_blocks;
  BATON_RETURN_IF_ERROR(CheckMemory(model->config, shape, dtype, kv_bytes, options.limits, device));
  model->times.checkpoint = watch.Lap();
  BATON_ASSIGN_OR_RETURN(ModelWeights weights,
                         LoadWeights(model->config, shape, *files, *model->backend, progress));
  model->weight_bytes = weights.bytes();
  model->times.weights = watch.Lap();
  // After the weights: it samples every tensor, and by now their pages are in memory.
  BATON_ASSIGN_OR_RETURN(model->fingerprint, ModelFingerprint(model_dir, *files, dtype));
  model->times.checkpoint += watch.Lap();
  BATON_ASSIGN_OR_RETURN(auto transformer,
                         Transformer::Create(model->config, shape, std::move(weights),
                                             model->backend.get(), options.limits));
  if (device.has_value()) BATON_RETURN_IF_ERROR(RunLargestStep(*transformer, layout));
  model->times.kernels = watch.Lap();
  if (kv_takes_rest) {
    BATON_ASSIGN_OR_RETURN(const auto left, model->backend->DeviceMemory());
    BATON_ASSIGN_OR_RETURN(budget.memory_bytes, DeviceKvBytes(*left, options.kv.device_share));
    BATON_ASSIGN_OR_RETURN(num_blocks, BlocksFor(budget, layout));
  }
  BATON_ASSIGN_OR_RETURN(KvArena arena, KvArena::Create(*model->backend, layout, num_blocks));
  model->arena = std::make_unique<KvArena>(std::move(arena));
  model->times.kv_cache = watch.Lap();
  if (device.has_value()) BATON_RETURN_IF_ERROR(RunDecodeSteps(*transformer, model->kv()));
  model->runner = std::make_unique<TransformerRunner>(std::move(transformer), model->kv());
  model->times.kernels += watch.Lap();
  return model;
}

}  // namespace baton
