#include "common/model/model_options.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/kv_shape.h"

namespace baton {

using kernels::DType;

namespace {

// `files` may be null.
DType ComputeDTypeOf(std::optional<DType> dtype, const ModelConfig& config,
                     const CheckpointFiles* files) {
  if (dtype.has_value()) return *dtype;
  const StoredTensor* embedding = files == nullptr ? nullptr : files->Find(kEmbeddingTensor);
  const bool fp32 = config.dtype.empty() ? embedding != nullptr && embedding->dtype == "F32"
                                         : kernels::ParseDType(config.dtype) == DType::kF32;
  return fp32 ? DType::kF32 : DType::kBF16;
}

}  // namespace

absl::Status ModelOptions::Check() const {
  if (block_size < 1 || block_size > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("--block-size ", block_size, "; expected 1 to 1024 tokens"));
  }
  if (tensor_parallel_size < 1 || tensor_parallel_size > kMaxTensorParallel) {
    return absl::InvalidArgumentError(absl::StrCat("--tensor-parallel-size ", tensor_parallel_size,
                                                   "; expected 1 to ", kMaxTensorParallel));
  }
  return absl::OkStatus();
}

int32_t LongestContext(int32_t max_model_len, const ModelConfig& config) {
  if (max_model_len == 0) return config.max_positions;
  return std::min(max_model_len, config.max_positions);
}

DType ResolveComputeDType(std::optional<DType> dtype, const ModelConfig& config,
                          const CheckpointFiles& files) {
  return ComputeDTypeOf(dtype, config, &files);
}

DType ResolveComputeDType(std::optional<DType> dtype, const ModelConfig& config,
                          const std::string& model) {
  const auto files = CheckpointFiles::Open(model);
  return ComputeDTypeOf(dtype, config, files.ok() ? files->get() : nullptr);
}

bool HeadsFit(const ModelConfig& config, DType kv_dtype) {
  return SizeOf(kv_dtype) > 1 || config.head_dim % kernels::KvLayout::kQuantizedDims == 0;
}

absl::StatusOr<DType> ResolveKvDType(std::optional<DType> dtype, DType compute,
                                     const ModelConfig& config, kernels::Device device) {
  if (dtype == DType::kF16 && compute != DType::kF16) {
    return absl::InvalidArgumentError(
        "--kv-dtype float16; expected auto, float32, bfloat16, int8 or fp8, or float16 with "
        "--dtype float16");
  }
  const DType resolved = dtype.value_or(compute);
  if (SizeOf(resolved) > 1) return resolved;
  const std::string name(kernels::Name(resolved));
  if (device == kernels::Device::kCuda && resolved == DType::kInt8) {
    return absl::InvalidArgumentError(
        "--kv-dtype int8 on device cuda; expected auto, float32, bfloat16, float16 or fp8 there; "
        "int8 wants workers with --device cpu");
  }
  if (resolved == DType::kFp8 && config.quantization && config.quantization->other_kv_scales) {
    return absl::InvalidArgumentError(
        "--kv-dtype fp8 for a checkpoint whose kv_cache_scheme has scales by head or of each step; "
        "expected static ones with the strategy \"tensor\", or none; use --kv-dtype auto");
  }
  if (!HeadsFit(config, resolved)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--kv-dtype ", name, " for a model with heads of ", config.head_dim,
                     "; expected heads of a multiple of ", kernels::KvLayout::kQuantizedDims,
                     "; use --kv-dtype auto"));
  }
  return resolved;
}

absl::Status CheckQuantizedOnce(const ModelConfig& config, kernels::Quantization quantization) {
  if (!config.quantization.has_value() || quantization == kernels::Quantization::kNone) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "--quantization ", std::string(Name(quantization)), " with a checkpoint whose weights are ",
      config.quantization->name(), " of ", MethodName(config.quantization->format),
      "; expected weights in float32, bfloat16 or float16: use --quantization none"));
}

absl::Status MakeCacheDir(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (!error && std::filesystem::is_directory(dir, error)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--load-cache ", dir, " is no directory and cannot be made: ", error.message(),
                   "; name one that can be written"));
}

}  // namespace baton
