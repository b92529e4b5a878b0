#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace baton::kernels {

// The types that elements of tensors have in memory.
enum class DType : uint8_t { kF32, kBF16, kF16 };

constexpr size_t SizeOf(DType dtype) { return dtype == DType::kF32 ? 4 : 2; }

// As in config.json: "float32", "bfloat16", "float16".
constexpr std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "float32";
    case DType::kBF16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
  }
  return "";
}

// The type of that Name; empty for any other text.
constexpr std::optional<DType> ParseDType(std::string_view name) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (name == Name(dtype)) return dtype;
  }
  return std::nullopt;
}

}  // namespace baton::kernels
