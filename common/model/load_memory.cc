#include "common/model/load_memory.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/model/footprint.h"
#include "common/model/kv_arena.h"
#include "kernels/gpu_needs.h"

namespace baton {
namespace {

std::string Megabytes(double bytes) { return absl::StrFormat("%.0f MB", bytes / 1e6); }

// Elements of the projections of one rank's layers, which quantization makes smaller.
double ProjectionParameters(const ModelConfig& config, const LocalShape& shape) {
  const double hidden = config.hidden;
  const double heads = 2.0 * (shape.q_heads + shape.kv_heads) * config.head_dim;
  return config.layers * hidden * (heads + 3.0 * shape.ffn);
}

// Elements that one rank holds. Vectors are left out, except those of every model: they are few.
double ParametersOfRank(const ModelConfig& config, const LocalShape& shape) {
  const double hidden = config.hidden;
  const bool shares_table = config.tied_embeddings && !shape.divides_output(config);
  const double table = shares_table ? 0 : hidden * config.vocab;
  const double output = hidden * static_cast<double>(shape.output_rows(config).size());
  return ProjectionParameters(config, shape) + table + output + (2.0 * config.layers + 1) * hidden;
}

}  // namespace

MemoryNeed MemoryNeed::Of(const ModelConfig& config, const LocalShape& shape, int32_t ranks,
                          kernels::DType dtype, kernels::Quantization quantization,
                          const StepLimits& limits) {
  const double element = SizeOf(dtype);
  MemoryNeed need = {
      .weights = ranks * ParametersOfRank(config, shape) * element,
      .activations =
          ranks * static_cast<double>(PlanActivations(config, shape, dtype, limits).total())};
  const bool integers = config.quantization.has_value() && !config.quantization->fp8();
  if (integers) {
    need.weights -=
        ranks * ProjectionParameters(config, shape) * (element - BytesPerWeight(config, dtype));
    need.weights -= ranks * static_cast<double>(shape.output_rows(config).size()) * config.hidden *
                    (element - OutputBytesPerWeight(config, dtype));
  } else if (quantization == kernels::Quantization::kFp8) {
    need.weights -= ranks * ProjectionParameters(config, shape) * (element - 1);
  }
  return need;
}

double WideningBytes(const ModelConfig& config, const LocalShape& shape, kernels::DType dtype) {
  if (!config.quantization.has_value() || config.quantization->fp8()) return 0;
  const double qkv = (shape.q_heads + 2.0 * shape.kv_heads) * config.head_dim;
  const bool output =
      !config.tied_embeddings && config.quantization->output != QuantizationConfig::Output::kFloats;
  const double output_rows = output ? static_cast<double>(shape.output_rows(config).size()) : 0;
  const double rows = std::max({qkv, 2.0 * shape.ffn, output_rows});
  return static_cast<double>(SizeOf(dtype)) * config.hidden * rows;
}

double WiderScaleBytes(const ModelConfig& config, const LocalShape& shape) {
  if (!config.quantization.has_value()) return 0;
  const QuantizationConfig& q = *config.quantization;
  return ProjectionParameters(config, shape) * (q.gpu_bytes_per_weight - q.bytes_per_weight) +
         static_cast<double>(shape.output_rows(config).size()) * config.hidden *
             (q.gpu_output_bytes_per_weight - q.output_bytes_per_weight);
}

double BackendBytes(const ModelConfig& config, const StepLimits& limits) {
  return static_cast<double>(
      kernels::GpuBackendBytes(config.vocab, limits.max_samples, config.max_positions));
}

absl::Status CheckMemory(const MemoryNeed& need, double kv_bytes, double available,
                         std::string_view owner, bool cache_by_flag) {
  const double sum = need.weights + kv_bytes + need.activations + need.swap_space;
  if (sum <= available) return absl::OkStatus();
  const bool swaps = need.swap_space > 0;
  const std::string advice =
      need.weights > available
          ? "the weights alone are too large: take a smaller model or dtype, or more memory"
          : absl::StrCat("lower ", swaps ? "--swap-space, " : "",
                         cache_by_flag ? "--kv-cache-memory or --kv-cache-tokens, " : "",
                         "--max-num-batched-tokens or --max-num-seqs");
  return absl::ResourceExhaustedError(absl::StrCat(
      "the model needs ", Megabytes(sum), " (weights ", Megabytes(need.weights), ", KV cache ",
      Megabytes(kv_bytes), ", activations ", Megabytes(need.activations),
      swaps ? ", swap space " + Megabytes(need.swap_space) : "", "), the ", std::string(owner),
      " has ", Megabytes(available), " available; ", advice));
}

absl::Status CheckDeviceMemory(const MemoryNeed& need, const DeviceKvNeed& kv,
                               const kernels::DeviceMemorySize& device, double share) {
  const auto free = static_cast<double>(device.free_bytes);
  const bool takes_rest = kv.cache_blocks == 0;
  const double blocks = std::max(kv.cache_blocks, kv.step_blocks);
  BATON_RETURN_IF_ERROR(CheckMemory(need, blocks * kv.block_bytes, free, "GPU", !takes_rest));
  if (!takes_rest) return absl::OkStatus();
  // By what the cache is measured out of in the end, so that too little shows now.
  BATON_ASSIGN_OR_RETURN(const int64_t left, DeviceKvBytes(device, share));
  return CheckMemory(need, kv.block_bytes, static_cast<double>(left),
                     "part of the GPU that --gpu-memory-utilization leaves", !takes_rest);
}

}  // namespace baton
