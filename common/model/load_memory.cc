#include "common/model/load_memory.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/model/tensor_specs.h"

namespace baton {
namespace {

std::string Megabytes(double bytes) { return absl::StrFormat("%.0f MB", bytes / 1e6); }

// Elements over all ranks: what they divide counts once, what each has whole as often as there are
// ranks.
double ParametersOfRanks(const ModelConfig& config, const LocalShape& shape, int32_t ranks) {
  const double hidden = config.hidden;
  const double ends = hidden * config.vocab * (config.tied_embeddings ? 1 : 2);
  const double copied_heads = double{1} * shape.kv_heads * ranks - config.kv_heads;
  const double copied_kv = 2 * hidden * config.head_dim * copied_heads * config.layers;
  return static_cast<double>(CountParameters(config)) + (ranks - 1) * ends + copied_kv;
}

// Elements of one rank's layers, which quantization makes smaller.
double ProjectionParameters(const ModelConfig& config, const LocalShape& shape) {
  const double hidden = config.hidden;
  const double heads = 2.0 * (shape.q_heads + shape.kv_heads) * config.head_dim;
  return config.layers * hidden * (heads + 3.0 * shape.ffn);
}

}  // namespace

MemoryNeed MemoryNeed::Of(const ModelConfig& config, const LocalShape& shape, int32_t ranks,
                          kernels::DType dtype, kernels::Quantization quantization,
                          const StepLimits& limits) {
  const double element = SizeOf(dtype);
  MemoryNeed need = {
      .weights = ParametersOfRanks(config, shape, ranks) * element,
      .activations =
          ranks * static_cast<double>(PlanActivations(config, shape, dtype, limits).total())};
  if (quantization == kernels::Quantization::kFp8) {
    need.weights -= ranks * ProjectionParameters(config, shape) * (element - 1);
  }
  return need;
}

absl::Status CheckMemory(const MemoryNeed& need, double kv_bytes, double available,
                         std::string_view owner) {
  const double sum = need.weights + kv_bytes + need.activations;
  if (sum <= available) return absl::OkStatus();
  const std::string advice =
      need.weights > available
          ? "the weights alone are too large: take a smaller model or dtype, or more memory"
          : "lower --kv-cache-memory or --kv-cache-tokens, --max-num-batched-tokens or "
            "--max-num-seqs";
  return absl::ResourceExhaustedError(absl::StrCat(
      "the model needs ", Megabytes(sum), " (weights ", Megabytes(need.weights), ", KV cache ",
      Megabytes(kv_bytes), ", activations ", Megabytes(need.activations), "), the ",
      std::string(owner), " has ", Megabytes(available), " available; ", advice));
}

}  // namespace baton
