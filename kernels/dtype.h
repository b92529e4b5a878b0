#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace baton::kernels {

// The types that elements have in memory. Activations are floats. The last two are of the KV cache,
// where paged_kv.h says what they stand for; projections may be kFp8, too (HostTensor).
enum class DType : uint8_t { kF32, kBF16, kF16, kInt8, kFp8 };

constexpr size_t SizeOf(DType dtype) {
  if (dtype == DType::kF32) return 4;
  return dtype == DType::kInt8 || dtype == DType::kFp8 ? 1 : 2;
}

// As in config.json: "float32", "bfloat16", "float16"; and "int8", "fp8".
constexpr std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kInt8:
      return "int8";
    case DType::kFp8:
      return "fp8";
  }
  return "";
}

// The type of tensors of that Name; empty for any other text.
constexpr std::optional<DType> ParseDType(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (name == Name(dtype)) return dtype;
  }
  return std::nullopt;
}

// Likewise of a KV cache.
constexpr std::optional<DType> ParseKvDType(std::string_view name) {
  for (const DType dtype : {DType::kInt8, DType::kFp8}) {
    if (name == Name(dtype)) return dtype;
  }
  return ParseDType(name);
}

}  // namespace baton::kernels
