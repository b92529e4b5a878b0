#include "common/model/model_options.h"

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/base/kv_shape.h"

namespace baton {

using kernels::DType;

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

absl::StatusOr<kernels::Quantization> ResolveQuantization(const std::string& name) {
  if (name == "none") return kernels::Quantization::kNone;
  if (name == "fp8") return kernels::Quantization::kFp8;
  return absl::InvalidArgumentError(
      absl::StrCat("--quantization ", name, "; expected none or fp8"));
}

absl::Status MakeCacheDir(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (std::filesystem::is_directory(dir)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--load-cache ", dir, " is no directory and cannot be made: ", error.message(),
                   "; name one that can be written"));
}

}  // namespace baton
